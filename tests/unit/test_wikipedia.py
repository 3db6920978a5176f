"""Promises of Wikipedia dumps, on small dumps written here and on the one that gensim ships."""

from __future__ import annotations

import bz2
import gzip
import itertools
import tracemalloc
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from pathlib import Path
from xml.sax.saxutils import escape

import gensim
import pytest

from topic_probes._errors import CorpusError
from topic_probes.corpora import Corpus, Document, sample_wikipedia, wikipedia_dump

HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en">\n'
SAMPLE = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
TEST_DATA = Path(gensim.__file__).parent / "test" / "test_data"


def page(number: int, text: str = "A cat sat.", *, ns: str | None = "0", extra: str = "", title: str = "") -> str:
    namespace = "" if ns is None else f"<ns>{ns}</ns>"
    return (
        f"  <page>\n    <title>{escape(title or f'Page {number}')}</title>\n    {namespace}<id>{number}</id>\n{extra}"
        f"<revision><id>9{number}</id><contributor><username>U</username><id>5</id></contributor>"
        f"<model>wikitext</model><text>{escape(text)}</text></revision>\n  </page>\n"
    )


def dump(pages: Iterable[str], head: str = HEAD) -> bytes:
    return (head + "".join(pages) + "</mediawiki>\n").encode()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write(content: bytes, name: str = "dump.xml") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def good_and_error(corpus: Corpus) -> tuple[list[Document], str]:
    """Read a corpus that must end in CorpusError; return what came before, and the message."""
    documents = []
    with pytest.raises(CorpusError) as caught:
        documents.extend(corpus)  # list.extend keeps what came before the error
    return documents, str(caught.value)


def only_text(write: Callable[..., Path], wikitext: str) -> str | None:
    (document,) = wikipedia_dump(write(dump([page(1, wikitext)])))
    return document.text


# --- what counts as an article ---


@pytest.mark.parametrize("pack", [bytes, bz2.compress, gzip.compress])
def test_a_dump_is_read_plain_or_packed_whatever_its_name(write, pack):
    content = dump([page(12, "An <b>apple</b> & a pear.", title="Fruit & more"), page(25, "B")])
    assert list(wikipedia_dump(write(pack(content), "dump"))) == [
        Document("12", title="Fruit & more", text="An apple & a pear."),
        Document("25", title="Page 25", text="B"),
    ]


def test_a_dump_of_several_bzip2_streams_is_read_to_its_end(write):
    content = dump([page(1), page(2), page(3)])
    path = write(bz2.compress(content[:300]) + bz2.compress(content[300:]))
    assert [document.id for document in wikipedia_dump(path)] == ["1", "2", "3"]


@pytest.mark.parametrize(
    "other",
    [
        page(2, ns="1", title="Talk:Cat"),
        page(2, ns="14"),
        page(2, extra='<redirect title="Cat" />'),
        page(2, "#REDIRECT [[Cat]]"),
        page(2, "\n #redirect[[Cat]]"),
        page(2, "{{stub}}\n<!-- nothing -->"),
        page(2, ""),
        page(2).replace(">wikitext<", ">json<"),
    ],
)
def test_pages_that_are_no_articles_are_passed_over(write, other):
    """Other namespaces, redirects by element or by text in any case, other content, nothing left after cleaning."""
    path = write(dump([page(1), other, page(3)]))
    assert [document.id for document in wikipedia_dump(path)] == ["1", "3"]


def test_a_text_that_speaks_of_redirects_is_an_article(write):
    assert only_text(write, "Write #REDIRECT to redirect.") == "Write #REDIRECT to redirect."


@pytest.mark.parametrize("version", ["0.3", "0.5", "0.8", "0.10", "0.11", "1.0"])
def test_every_version_of_the_schema_is_read(write, version):
    path = write(dump([page(1)], HEAD.replace("0.11", version)))
    assert [document.id for document in wikipedia_dump(path)] == ["1"]


def test_a_prefix_of_the_xml_namespace_changes_nothing(write):
    content = dump([page(1), page(2, ns="1")]).decode()
    content = content.replace("</", "<-").replace("<", "<m:").replace("<m:-", "</m:").replace("xmlns=", "xmlns:m=")
    assert [document.id for document in wikipedia_dump(write(content.encode()))] == ["1"]


def test_old_dumps_tell_the_namespace_by_the_title(write):
    head = HEAD + (
        '<siteinfo><namespaces><namespace key="0" /><namespace key="1">Diskussion</namespace></namespaces></siteinfo>'
    )
    titles = ["Cat", "Diskussion:Cat", "2001: A Space Odyssey"]
    pages = [page(number, ns=None, title=title) for number, title in enumerate(titles)]
    assert [document.title for document in wikipedia_dump(write(dump(pages, head)))] == [titles[0], titles[2]]


def test_of_several_revisions_the_last_counts(write):
    content = dump([page(1, "new")]).replace(b"<revision>", b"<revision><text>old</text></revision><revision>")
    assert [document.text for document in wikipedia_dump(write(content))] == ["new"]


def test_limit_counts_articles_and_not_pages(write):
    path = write(dump([page(1, ns="1"), page(2), page(3), page(4)]))
    assert [document.id for document in wikipedia_dump(path, limit=2)] == ["2", "3"]


# --- cleaning ---


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("'''Cats''' are ''small'' [[Felidae|animals]] of [[Asia]].", "Cats are small animals of Asia."),
        ("== Early life ==\n\n\n\nText.\n===Deeper===\nMore.", "Early life\nText.\nDeeper\nMore."),
        ("a == b\n= not a heading", "a == b\n= not a heading"),
        ("* one\n** two\n# three\n; term\n: definition", "one\ntwo\nthree\nterm\ndefinition"),
        ("__NOTOC__\nText.{{cite|a={{b}}}}<ref>no</ref>", "Text."),
        ("five o'clock 'quoted'", "five o'clock 'quoted'"),
        ("fish&nbsp;&amp; chips", "fish\u00a0& chips"),
        ("a &#xD83D;&#xDE00; b &#xD800; c", "a \U0001f600 b \ufffd c"),
    ],
)
def test_mark_up_is_removed_and_text_stays(write, wikitext, expected):
    assert only_text(write, wikitext) == expected


# --- memory ---


def test_memory_does_not_grow_with_the_dump(write):
    """Twenty times the pages, the same peak: a kept element of each page would cost far more than the slack."""

    def peak(n_pages: int) -> int:
        path = write(dump(page(number, f"Cat {number}. ") for number in range(n_pages)), f"{n_pages}.xml")
        corpus = wikipedia_dump(path)
        next(iter(corpus))  # imports and caches
        tracemalloc.start()
        try:
            assert sum(1 for _ in corpus) == n_pages
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(1000) < peak(50) + 50_000


# --- what is wrong with a file ---


def test_a_dump_says_at_once_that_there_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path must be an existing file, got .*nothing\.xml"):
        wikipedia_dump(tmp_path / "nothing.xml")
    with pytest.raises(IsADirectoryError, match="path must be a file, got the folder"):
        wikipedia_dump(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"plain text", "it is not XML"),
        (b"\x00\xff\x00", "it is not XML"),
        (b"PK\x03\x04zip", "it is not XML"),
        (b"<mediawi", "it is not XML"),
        (b"<rss><page/></rss>", "its outermost element is <rss>"),
        (b"<html><body>404</body></html>", "its outermost element is <html>"),
        (b"<!DOCTYPE html><html></html>", "document type declaration"),
        (b'<?xml version="1.0" encoding="foo"?><mediawiki/>', "unknown encoding"),
        (b'<?xml version="1.0" encoding="gbk"?><mediawiki/>', "encoding"),
        (bz2.compress(b"plain text"), "it is not XML"),
        (gzip.compress(b"", mtime=0), "it is not XML"),
    ],
)
def test_another_file_is_no_dump(write, content, reason):
    documents, message = good_and_error(wikipedia_dump(write(content)))
    assert documents == []
    assert "dump.xml is not a MediaWiki dump: " in message
    assert reason in message


def test_entities_that_unfold_to_gigabytes_are_refused_before_they_do(write):
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<!DOCTYPE m [<!ENTITY e0 "cat">{levels}]><mediawiki><page><title>&e11;</title></page></mediawiki>'
    path = write(bomb.encode())
    tracemalloc.start()
    try:
        _, message = good_and_error(wikipedia_dump(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "document type declaration" in message
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[: content.index(b"Page 4") + 3], "the XML ends too early"),
        (lambda content: content.replace(b"Page 4", b"Pa\xffge"), "the XML is broken"),
        (lambda content: content.replace(b"Page 4", b"Pa\x00ge"), "the XML is broken"),
        (lambda content: content.replace(b"Page 4", b"&cat;"), "the XML is broken"),
        (lambda content: content.replace(b"Page 4</title>", b"Page 4"), "the XML is broken"),
    ],
)
def test_good_pages_come_before_the_damage_and_the_error_names_the_last(write, damage, reason):
    pages = [page(1), page(2, "#redirect [[Page 1]]"), page(3), page(4), page(5)]
    path = write(damage(dump(pages)))
    documents, message = good_and_error(wikipedia_dump(path))
    assert [document.id for document in documents] == ["1", "3"]
    assert str(path) in message
    assert reason in message
    assert "after 3 pages with 2 articles, the last good page being 'Page 3' (id 3)" in message


def test_a_dump_cut_in_its_first_page_says_so(write):
    _, message = good_and_error(wikipedia_dump(write(dump([page(1)])[:200])))
    assert "before the first page was complete" in message


@pytest.mark.parametrize("pack", [bz2.compress, gzip.compress])
@pytest.mark.parametrize("kind", ["cut", "corrupt"])
def test_a_damaged_packed_dump_gives_its_good_pages_first(write, pack, kind):
    """Two packed streams, the second damaged: all pages of the first come out."""
    pages = [page(number, f"Cat {number}.") for number in range(400)]
    first = pack((HEAD + "".join(pages[:200])).encode())
    second = bytearray(pack(("".join(pages[200:]) + "</mediawiki>").encode()))
    if kind == "cut":
        del second[len(second) // 2 :]
    else:
        second[12:60] = bytes(48)
    documents, message = good_and_error(wikipedia_dump(write(first + bytes(second))))
    assert [document.id for document in documents] == [str(number) for number in range(len(documents))]
    lost = 0 if kind == "cut" else 1 + 4096 // len(pages[0])  # one piece, where the decompressor drops it
    assert len(documents) >= 200 - lost
    assert ("ends too early" if kind == "cut" else "corrupt") in message
    assert f"(id {len(documents) - 1})" in message


def test_a_page_inside_the_limit_is_not_spoilt_by_later_damage(write):
    path = write(dump([page(1), page(2)])[:-100])
    assert [document.id for document in wikipedia_dump(path, limit=1)] == ["1"]


# --- what gensim ships ---


def test_the_sample_is_the_articles_of_gensims_dump_each_time():
    """The rule, applied by another parser to the whole tree: namespace 0 and no redirect."""
    tree = ElementTree.fromstring(bz2.decompress((TEST_DATA / SAMPLE).read_bytes()))
    ns = {"m": "http://www.mediawiki.org/xml/export-0.10/"}
    pages = tree.findall("m:page", ns)
    articles = [
        (found.findtext("m:id", None, ns), found.findtext("m:title", None, ns))
        for found in pages
        if found.findtext("m:ns", None, ns) == "0" and found.find("m:redirect", ns) is None
    ]
    corpus = sample_wikipedia()
    first = list(corpus)
    assert len(pages) == 206
    assert [(document.id, document.title) for document in first] == articles
    assert list(itertools.islice(corpus, 10)) == first[:10]
    assert len(first) == corpus.expected == 106
    assert sum(len(document.text or "") for document in first) > 2_900_000
    assert (first[0].text or "").startswith("Anarchism is a political philosophy that advocates self-governed")
    everything = "\n".join(document.text or "" for document in first)
    for mark in ("''", "==\n", "[[", "{{", "<ref", "\n\n"):
        assert mark not in everything


def test_the_sample_can_be_limited():
    corpus = sample_wikipedia(limit=3)
    assert [document.title for document in corpus] == ["Anarchism", "Autism", "Albedo"]
    assert corpus.expected == 3


def test_a_gensim_without_its_test_data_is_a_clear_error(monkeypatch, tmp_path):
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec)
    with pytest.raises(FileNotFoundError, match="without its test data"):
        sample_wikipedia()


def test_a_dump_in_utf16_is_read():
    documents = list(wikipedia_dump(TEST_DATA / "bgwiki-latest-pages-articles-shortened.xml.bz2"))
    assert [document.title for document in documents] == ["Григориански календар"]
