"""Data sets of Hugging Face, read as a stream; the one door to ``datasets``.

Rows are counted here, one by one: the position that a stream keeps of itself is not relied on.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from typing import Any

from .._errors import CorpusError
from .._validation import require_count
from ._document import Corpus, Document
from ._records import Fields

_SCRIPT_HINT = (
    "code of a data set is never run, and newer versions of datasets cannot; use a copy without script, "
    'for Wikipedia huggingface("wikimedia/wikipedia", "20231101.en")'
)
_SCRIPT_ERROR = re.compile(r"dataset scripts? |custom code|trust_remote_code", re.IGNORECASE)
_OLD_WIKIPEDIA = ("wikipedia", "legacy-datasets/wikipedia")


def huggingface(
    name: str,
    config: str | None = None,
    split: str = "train",
    limit: int | None = None,
    text_field: str = "text",
    title_field: str = "title",
    id_field: str = "id",
    **load_options: Any,
) -> Corpus:
    """Return a split of a Hugging Face data set, streamed: nothing is downloaded beyond what is read.

    Each row is one document, each exactly once in a pass. ``text_field`` may also name a column of
    token ids. Rows without id get their number, from 0.

    Args:
        name: the data set, or a builder such as "json" or "parquet" with ``data_files=`` (works offline).
        config: the configuration, such as "20231101.en".
        split: the split, one whole split by name.
        limit: read at most this many documents.
        text_field: name of the column with the text.
        title_field: name of the column with the title; one that differs from "title" must exist.
        id_field: name of the column with the id; one that differs from "id" must exist.
        **load_options: handed on to ``datasets.load_dataset``, as ``data_files``, ``revision``, ``token``.

    Raises:
        ValueError: for ``trust_remote_code``, for ``streaming``, for a data set that is a script, for pickles.
        TypeError: if ``split`` is not one name.
        CorpusError: at once, if the data set cannot be opened; while reading, after the rows that
            came, if a column is missing or the stream breaks; the message names the row.

    Examples:
        ``huggingface("wikimedia/wikipedia", "20231101.en", limit=1000)`` reads a thousand articles. Offline:

        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "pets.jsonl")
        ...     _ = path.write_text('{"text": "A cat."}' + chr(10) + '{"text": "A dog."}')
        ...     [(document.id, document.text) for document in huggingface("json", data_files=str(path))]
        [('0', 'A cat.'), ('1', 'A dog.')]
    """
    if limit is not None:
        require_count("limit", limit)
    if not isinstance(split, str):
        raise TypeError(f"split must be the name of one split, got {split!r}")
    if load_options.pop("trust_remote_code", None):
        raise ValueError(f"trust_remote_code must be left out: {_SCRIPT_HINT}")
    if "streaming" in load_options:
        raise ValueError("streaming must be left out: huggingface always streams")
    if name in _OLD_WIKIPEDIA and not os.path.isdir(name):
        raise ValueError(f"the data set {name!r} is a script: {_SCRIPT_HINT}")
    if name == "pandas":
        raise ValueError(
            "the builder 'pandas' reads pickles, which can run any code: write the table as parquet, csv or json"
        )
    rows = _open(name, config, split, load_options)
    fields = Fields(text_field, title_field, id_field)
    splits = rows.info.splits or {}
    n_rows = getattr(splits.get(split), "num_examples", None) or None
    return Corpus(lambda: _read(rows, fields, name), name=name, limit=limit, n_documents=n_rows)


def _open(name: str, config: str | None, split: str, options: dict[str, Any]) -> Any:
    import datasets

    if "trust_remote_code" in inspect.signature(datasets.load_dataset).parameters:
        options = {**options, "trust_remote_code": False}  # datasets 3 would ask the terminal
    try:
        return datasets.load_dataset(name, config, split=split, streaming=True, **options)
    except Exception as error:  # any of a dozen kinds, from files, network, parsers and the hub
        reason = _first_line(error)
        if _SCRIPT_ERROR.search(str(error)):
            raise ValueError(f"the data set {name!r} is a script: {_SCRIPT_HINT}") from error
        raise CorpusError(
            f"the data set {name!r} cannot be opened: {reason} (check name, config, split and network)"
        ) from error


def _read(rows: Any, fields: Fields, name: str) -> Iterator[Document]:
    stream = iter(rows)
    number = 0
    while True:
        try:
            row = next(stream)
        except StopIteration:
            return
        except Exception as error:
            raise CorpusError(
                f"the data set {name!r} cannot be read beyond row {number}: {_first_line(error)}"
            ) from error
        yield fields.document(row, number, where=f"row {number} of the data set {name!r}")
        number += 1


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
