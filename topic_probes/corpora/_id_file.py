"""Documents as numbers in a plain file: one document a line, word numbers separated by spaces, then ``END``.

This is the form in which the synthetic documents of Li et al. (2023) are passed on.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from .._errors import CorpusError
from ._document import Corpus, Document
from ._files import read_lines, require_file

_END = b"END"
_LONGEST_LINE = 1 << 22
"""Bytes of the longest line that is read: two million words at the most, some hundred megabytes while it is read."""
_MOST_DIGITS = 9
"""Word numbers below a billion; no vocabulary is larger, and a number of a million digits takes long to read."""


def token_id_file(path: str | os.PathLike, limit: int | None = None) -> Corpus:
    r"""Return the documents of a file of word numbers, plain or gzip or bzip2, streamed.

    A document is one line of whole numbers, separated by spaces or tabs, and the word ``END``, which stands at the end
    of that line or on the next line alone. Blank lines are passed over, and so are byte order mark and carriage
    returns. A document without numbers, numbers over several lines, and several documents on a line are refused.
    A document's id is its number, from 0. Numbers become ``token_ids`` as they are.

    Args:
        path: the file.
        limit: read at most this many documents.

    Raises:
        FileNotFoundError: at once, if there is no such file.
        CorpusError: while reading, after the good documents, for a line that is none of the above, a document whose
            ``END`` is missing, a line of more than 4 MiB (before it is held), and where a compressed file is cut;
            the message names file and line.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "documents.txt")
        ...     _ = path.write_text("3 1 4 END\n1 5\nEND\n")
        ...     [document.token_ids for document in token_id_file(path)]
        [(3, 1, 4), (1, 5)]
    """
    source = require_file("path", path)
    return Corpus(lambda: _read(source), name=source.name, limit=limit)


def _read(path: Path) -> Iterator[Document]:
    n_documents = 0
    waiting: tuple[int, tuple[int, ...]] | None = None  # a line of numbers whose END has not come yet
    for number, line in read_lines(path, _LONGEST_LINE, "one document a line is expected"):
        where = f"{path}, line {number}"
        words = line.split()
        if not words:
            continue
        if waiting is not None:
            if words != [_END]:
                raise CorpusError(f"{path}, line {waiting[0]} must end with END, or END stand alone on the next line")
            ids, waiting = waiting[1], None
        else:
            ids = _numbers(words[:-1] if words[-1] == _END else words, where)
            if words[-1] != _END:
                waiting = number, ids
                continue
        yield Document(id=str(n_documents), token_ids=ids)
        n_documents += 1
    if waiting is not None:
        raise CorpusError(f"{path}, line {waiting[0]}: the file ends before END: it is cut short, or END is missing")


def _numbers(words: list[bytes], where: str) -> tuple[int, ...]:
    if not words:
        raise CorpusError(f"{where} must hold at least one word number before END, got none: leave the line out")
    for word in words:
        if word == _END:
            raise CorpusError(f"{where} must hold one document, got more after END: begin a new line after each END")
        if not word.isdigit() or len(word) > _MOST_DIGITS:
            shown = word[:40].decode("ascii", "backslashreplace")
            raise CorpusError(
                f"{where} must hold whole numbers of at most {_MOST_DIGITS} digits and then END, got {shown!r}"
            )
    return tuple(map(int, words))
