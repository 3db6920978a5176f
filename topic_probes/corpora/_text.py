"""Corpora in text files: JSON lines, and plain files of one document each."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from .._errors import CorpusError
from ._document import Corpus, Document
from ._files import LONGEST_DOCUMENT, read_lines, require_file
from ._records import Fields, shown


def jsonl(
    path: str | os.PathLike,
    text_field: str = "text",
    title_field: str = "title",
    id_field: str = "id",
    limit: int | None = None,
) -> Corpus:
    """Return the documents of a file with one JSON object a line, plain or gzip or bzip2.

    The file is UTF-8, with or without byte order mark; blank lines are passed over. An object holds
    its text, or its token ids (a list of whole numbers), in ``text_field``; token ids may also stand
    in a field ``token_ids``. Title and id may be absent: the title is then empty, and the id is the
    number of the document, from 0.

    Args:
        path: the file.
        text_field: name of the field with the text.
        title_field: name of the field with the title; one that differs from "title" must exist.
        id_field: name of the field with the id; one that differs from "id" must exist.
        limit: read at most this many documents.

    Raises:
        FileNotFoundError: at once, if there is no such file.
        CorpusError: while reading, after the good documents, for a line that is no JSON object or
            lacks a field, a line of more than 32 MiB (before it is held), and where a compressed file is
            cut; the message names file and line.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pets.jsonl")
        ...     _ = path.write_text('{"text": "A cat."}' + chr(10) + '{"token_ids": [3, 1, 4]}')
        ...     [document.text or document.token_ids for document in jsonl(path)]
        ['A cat.', (3, 1, 4)]
    """
    source = require_file("path", path)
    fields = Fields(text_field, title_field, id_field)
    return Corpus(lambda: _read_jsonl(source, fields), name=source.name, limit=limit)


def _read_jsonl(path: Path, fields: Fields) -> Iterator[Document]:
    n_documents = 0
    for line_number, line in read_lines(path, LONGEST_DOCUMENT, "one document a line is expected"):
        where = f"{path}, line {line_number}"
        if not line.strip():
            continue
        try:
            record = json.loads(line.decode())
        except UnicodeDecodeError as error:
            raise CorpusError(f"{where} is not UTF-8 (byte {error.start} of the line): convert the file") from error
        except (ValueError, RecursionError) as error:
            raise CorpusError(f"{where} is not JSON ({error}): one JSON object a line is expected") from error
        if not isinstance(record, dict):
            raise CorpusError(f"{where} must be a JSON object with a field {fields.text!r}, got {shown(record)}")
        yield fields.document(record, n_documents, where=where)
        n_documents += 1


def text_files(paths: str | os.PathLike | Iterable[str | os.PathLike], limit: int | None = None) -> Corpus:
    """Return plain text files in UTF-8, one document each, in the order of their names.

    Each file comes once, however often it is named. A document's id is its path below the deepest
    folder that all files share, so it does not change when that folder moves; its title is the
    name without suffix.

    Args:
        paths: a file; a folder (every ``.txt`` file in it and below, hidden ones aside; links to folders
            are not followed); a pattern such as ``"notes/**/*.md"``; or a collection of these.
        limit: read at most this many documents.

    Raises:
        FileNotFoundError: at once, for a path or pattern with nothing behind it.
        CorpusError: at once, if ``paths`` is empty, or a folder has a link to a file outside of it; while
            reading, after the good documents, for a file that is not UTF-8 (the message names the byte) or
            has more than 32 MiB.

    Examples:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "dog.txt").write_text("A dog.")
        ...     _ = pathlib.Path(folder, "cat.txt").write_text("A cat.")
        ...     [(document.id, document.text) for document in text_files(folder)]
        [('cat.txt', 'A cat.'), ('dog.txt', 'A dog.')]
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files = {Path(os.path.abspath(file)) for path in given for file in _files_behind(path)}
    if not files:
        raise CorpusError("paths must name at least one file, got an empty collection")
    shared = os.path.commonpath([file.parent for file in files])
    by_id = {file.relative_to(shared).as_posix(): file for file in files}
    name = os.fspath(given[0]) if len(given) == 1 else shared
    return Corpus(lambda: _read_texts(by_id), name=name, limit=limit, n_documents=len(by_id))


def _files_behind(path: str | os.PathLike) -> list[str]:
    name = os.path.expanduser(path)
    if os.path.isdir(name):
        found = list(_texts_below(name))
        if not found:
            raise FileNotFoundError(f"paths: the folder {name} holds no .txt file; for others give a pattern, as *.md")
        return found
    if not os.path.exists(name) and glob.has_magic(name):
        found = [file for file in glob.glob(name, recursive=True) if os.path.isfile(file)]
        if not found:
            raise FileNotFoundError(f"paths: the pattern {name} fits no file")
        return found
    return [str(require_file("paths", name))]


def _texts_below(folder: str) -> Iterator[str]:
    """Yield the text files of a folder; what a stranger's folder links to elsewhere is not theirs to hand on."""
    inside = os.path.join(os.path.realpath(folder), "")
    for place, folders, names in os.walk(folder):  # does not follow links to folders, which may go in circles
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            file = os.path.join(place, name)
            if name.startswith(".") or not name.endswith(".txt") or not os.path.isfile(file):
                continue
            if not os.path.realpath(file).startswith(inside):
                raise CorpusError(
                    f"paths: {file} is a link to a file outside of the folder {folder}: name that file itself if it is "
                    "wanted, or remove the link"
                )
            yield file


def _read_texts(by_id: dict[str, Path]) -> Iterator[Document]:
    for label, path in sorted(by_id.items()):
        with path.open("rb") as file:
            content = file.read(LONGEST_DOCUMENT + 1)
        if len(content) > LONGEST_DOCUMENT:
            raise CorpusError(f"{path} must be at most {LONGEST_DOCUMENT:,} bytes long: split it, or leave it out")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(f"{path} is not UTF-8 (byte {error.start}): convert it, or leave it out") from error
        yield Document(id=label, title=path.stem, text=text.removeprefix("\ufeff").replace("\r\n", "\n"))
