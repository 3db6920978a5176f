"""Wikipedia, from XML dumps and from the articles that gensim ships; the one door to ``gensim.corpora``.

A dump is read by expat as a stream of events. No tree is built, so memory holds one page, however
large the dump. What counts as an article: namespace 0, no redirect, wikitext, not empty after cleaning.

Dumps have no document type declaration, and a file that has one is refused before any of it is
read: entities are declared there, and a few lines of them can unfold to gigabytes. What MediaWiki never writes is
refused, too, before it is held: a field or a tag without end, elements as deep as a stack of memory, ever new names.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from xml.parsers import expat

from .._errors import CorpusError
from ._document import Corpus, Document
from ._files import DamagedStream, read_pieces, require_file

_SAMPLE = ("test", "test_data", "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2")
_N_SAMPLE = 106

_PAGE = "/mediawiki/page"
_FIELDS = {
    f"{_PAGE}/title": "title",
    f"{_PAGE}/ns": "ns",
    f"{_PAGE}/id": "id",
    f"{_PAGE}/revision/model": "model",
    f"{_PAGE}/revision/text": "text",
}
_REDIRECT = f"{_PAGE}/redirect"
_NAMESPACE = "/mediawiki/siteinfo/namespaces/namespace"

_LONGEST_FIELD = 1 << 24
"""Characters of the longest field; the texts of Wikipedia's pages have at most 2 MiB."""
_LONGEST_TAG = 1 << 20
"""Bytes of the longest tag or comment: expat holds one until its end."""
_DEEPEST, _MOST_NAMES, _MOST_NAMESPACES, _LONGEST_NAME = 64, 1000, 10_000, 255
"""Elements in each other (real ones: 5), different names of elements and attributes, which expat never forgets (about
50), namespaces outside of the articles' (about 30), and characters of a namespace's name (titles have 255)."""

_REDIRECT_TEXT = re.compile(r"\s*#redirect", re.IGNORECASE)
_QUOTES = re.compile(r"'{2,}")
_HEADING = re.compile(r"^[ \t]*=+[ \t]*(.*?)[ \t]*=+[ \t]*$", re.MULTILINE)
_LIST_MARK = re.compile(r"^[*#:;]+", re.MULTILINE)
_SWITCH = re.compile(r"__[A-Z]+__")


def sample_wikipedia(limit: int | None = None) -> Corpus:
    """Return the 106 articles of the English Wikipedia that gensim ships: offline, no download.

    The file is a small dump, complete and well-formed, of 206 pages. The rule of :func:`wikipedia_dump`
    leaves 106: 100 pages are redirects (one of them also outside namespace 0), and none of the others is
    empty after cleaning. A few are disambiguation pages, of some hundred characters. Ids, titles and
    texts are those of the English Wikipedia in 2016 (CC BY-SA 3.0), Anarchism to Algorithm.

    Args:
        limit: read at most this many documents.

    Raises:
        FileNotFoundError: if the installed gensim comes without its test data.
    """
    spec = importlib.util.find_spec("gensim")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("sample_wikipedia needs gensim, which is not installed: pip install gensim")
    path = Path(spec.origin).parent.joinpath(*_SAMPLE)
    if not path.exists():
        raise FileNotFoundError(
            "the installed gensim comes without its test data, where sample_wikipedia finds its articles: "
            "install the wheel from PyPI, or pass a dump to wikipedia_dump"
        )
    return Corpus(lambda: _read_dump(path), name="sample_wikipedia", limit=limit, n_documents=_N_SAMPLE)


def wikipedia_dump(path: str | os.PathLike, limit: int | None = None) -> Corpus:
    """Return the articles of a MediaWiki dump (``*-pages-articles*.xml``, plain, bzip2 or gzip), streamed.

    Memory is constant: one page at a time. Every version of the export schema is read. Pages outside
    namespace 0, redirects, pages that are not wikitext and pages with nothing left after cleaning are
    passed over; of several revisions the last counts. Mark-up is removed by
    ``gensim.corpora.wikicorpus.filter_wiki``, and then quote, heading and list marks, switches such as
    ``__TOC__`` and blank lines, so that a paragraph is a line. A document's id is its page id.

    Args:
        path: the dump.
        limit: read at most this many articles.

    Raises:
        FileNotFoundError: at once, if there is no such file.
        CorpusError: while reading: if the file is not a MediaWiki dump; or if it is cut short or
            damaged, after all good articles, with the number of pages read and the last of them.
            Inside a compressed file, bytes up to 4 KiB before wrong ones may be lost. A field of more than
            16 million characters, eight times what Wikipedia allows, is damage.
    """
    source = require_file("path", path)
    return Corpus(lambda: _read_dump(source), name=source.name, limit=limit)


class _NotADump(Exception):
    """The file is something else; the message is how one can tell."""


class _Excess(Exception):
    """The file has more of something than any dump; the message says of what."""


class _PageReader:
    """Turns bytes of an export into pages (field name -> text), holding one page at a time."""

    def __init__(self) -> None:
        self.root_seen = False
        self._path = ""
        self._page: dict[str, str] = {}
        self._pages: list[dict[str, str]] = []
        self._pieces: list[str] | None = None
        self._length = 0  # of what is in the pieces
        self._depth = 0
        self._names: set[str] = set()
        self._n_bytes = 0  # since the end of the last tag, text or comment
        self._namespace_key = ""
        self._other_namespaces: set[str] = set()
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.EntityDeclHandler = self._doctype
        self._parser.DefaultHandlerExpand = self._anything

    def feed(self, piece: bytes, *, final: bool) -> None:
        """Read on; what goes wrong is raised, and the pages before it can still be taken."""
        self._n_bytes += len(piece)
        self._parser.Parse(piece, final)
        if self._n_bytes > _LONGEST_TAG:
            raise _Excess(f"it has a tag or comment of more than {_LONGEST_TAG:,} bytes")

    def take(self) -> list[dict[str, str]]:
        """Return the pages completed since the last call."""
        pages, self._pages = self._pages, []
        return pages

    def is_article(self, page: dict[str, str]) -> bool:
        """Whether a page is in namespace 0, is wikitext and is no redirect."""
        namespace = page.get("ns")
        if namespace is None:  # schemas before 0.6: only the title tells
            in_main = page.get("title", "").partition(":")[0] not in self._other_namespaces
        else:
            in_main = namespace.strip() == "0"
        is_redirect = "redirect" in page or _REDIRECT_TEXT.match(page.get("text", "")) is not None
        return in_main and not is_redirect and page.get("model", "wikitext") == "wikitext"

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._anything()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Excess(f"its elements stand in each other more than {_DEEPEST} deep")
        self._names.add(name)
        self._names.update(attributes)
        if len(self._names) > _MOST_NAMES:
            raise _Excess(f"its elements and attributes have more than {_MOST_NAMES:,} names")
        local = name.rpartition(":")[2]
        if not self.root_seen:
            if local != "mediawiki":
                raise _NotADump(f"its outermost element is <{name}>, not <mediawiki>")
            self.root_seen = True
        self._path += "/" + local
        if self._path == _PAGE:
            self._page = {}
        elif self._path == _REDIRECT:
            self._page["redirect"] = ""
        elif self._path == _NAMESPACE:
            self._namespace_key, self._pieces, self._length = attributes.get("key", ""), [], 0
        elif self._path in _FIELDS:
            self._pieces, self._length = [], 0

    def _characters(self, text: str) -> None:
        self._anything()
        if self._pieces is not None:
            self._length += len(text)
            if self._length > _LONGEST_FIELD:
                field = self._path.rpartition("/")[2]
                raise _Excess(f"it has a {field} of more than {_LONGEST_FIELD:,} characters")
            self._pieces.append(text)

    def _anything(self, *_: Any) -> None:
        self._n_bytes = 0

    def _end(self, name: str) -> None:
        self._anything()
        self._depth -= 1
        if self._path == _PAGE:
            self._pages.append(self._page)
            self._page = {}
        elif self._pieces is not None and (self._path in _FIELDS or self._path == _NAMESPACE):
            text = "".join(self._pieces)
            self._pieces = None
            if self._path in _FIELDS:
                self._page[_FIELDS[self._path]] = text
            elif self._namespace_key != "0":
                self._other_namespaces.add(text[:_LONGEST_NAME])
                if len(self._other_namespaces) > _MOST_NAMESPACES:
                    raise _Excess(f"it has more than {_MOST_NAMESPACES:,} namespaces")
        self._path = self._path[: self._path.rindex("/")]

    def _doctype(self, *_: Any) -> None:
        raise _NotADump("it has a document type declaration, which dumps never have")


def _read_dump(path: Path) -> Iterator[Document]:
    reader = _PageReader()
    n_pages, n_articles, last = 0, 0, None
    with closing(read_pieces(path)) as pieces:
        final = False
        while not final:
            failure: Exception | None = None
            try:
                piece = next(pieces, b"")
                final = not piece
                reader.feed(piece, final=final)
            except (_NotADump, _Excess, DamagedStream, expat.ExpatError, LookupError, ValueError) as error:
                failure = error  # the last two are expat's, for an encoding that it does not know
            for page in reader.take():
                n_pages, last = n_pages + 1, page
                if reader.is_article(page) and (text := _clean(page.get("text", ""))):
                    n_articles += 1
                    yield Document(id=page.get("id") or f"page {n_pages}", title=page.get("title", ""), text=text)
            if failure is not None:
                raise CorpusError(_explain(path, failure, reader, n_pages, n_articles, last)) from failure


def _explain(
    path: Path, failure: Exception, reader: _PageReader, n_pages: int, n_articles: int, last: dict[str, str] | None
) -> str:
    is_dump = reader.root_seen or isinstance(failure, DamagedStream)
    if isinstance(failure, _NotADump) or not is_dump:
        known = isinstance(failure, (_NotADump, _Excess))
        reason = str(failure) if known else f"it is not XML ({failure})"
        if path.stat().st_size == 0:
            reason = "it is empty"
        return f"{path} is not a MediaWiki dump: {reason}; give a file such as enwiki-latest-pages-articles.xml.bz2"
    if isinstance(failure, expat.ExpatError):
        ends = failure.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]
        reason = "the XML ends too early" if ends else f"the XML is broken ({failure})"
    else:
        reason = str(failure)
    if last is None:
        read = "before the first page was complete"
    else:
        read = (
            f"after {n_pages} pages with {n_articles} articles, "
            f"the last good page being {_short(last.get('title', ''))!r} (id {_short(last.get('id', 'unknown'))})"
        )
    return f"{path} is cut short or damaged: {reason}, {read}; fetch the file again, or go on with what was read"


def _short(text: str) -> str:
    """Return a field for a message: on one line, no longer than a title may be, nothing that steers a terminal."""
    text = " ".join(text[:_LONGEST_NAME].split())
    return "".join(character if character.isprintable() else "?" for character in text)


def _clean(text: str) -> str:
    """Return the plain text of an article in wikitext, a paragraph a line; "" if nothing is left."""
    from gensim.corpora.wikicorpus import filter_wiki

    text = filter_wiki(text)
    text = _SWITCH.sub("", _QUOTES.sub("", text))
    text = _LIST_MARK.sub("", _HEADING.sub(r"\1", text))
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)
