"""What every reader promises of any bytes at all: documents or results that can be used, or one clear sentence.

A target takes bytes and returns, or raises what would be a fault. The same targets are driven by hypothesis
(tests/property/test_fuzz_readers.py), by atheris (tests/fuzz/run.py), and by inputs that were found before
(tests/fuzz/found, one file each, named TARGET-WHAT).
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from topic_probes import corpora
from topic_probes._errors import CorpusError
from topic_probes._folders import kind_of
from topic_probes.probes._resuming import read_state
from topic_probes.statistics import AttentionResult, EmbeddingResult
from topic_probes.topics import TopicModel
from topic_probes.toy import ToyRun

FOUND = Path(__file__).parent / "fuzz" / "found"


@functools.cache
def _place() -> Path:
    """One folder for all inputs of this process: making one for each takes longer than reading it."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def dump(data: bytes) -> None:
    """Any bytes as a Wikipedia dump."""
    _read(corpora.wikipedia_dump, data)


def jsonl(data: bytes) -> None:
    """Any bytes as JSON lines."""
    _read(corpora.jsonl, data)


def token_ids(data: bytes) -> None:
    """Any bytes as a file of word numbers."""
    _read(corpora.token_id_file, data)


def texts(data: bytes) -> None:
    """Any bytes as a plain text."""
    _read(corpora.text_files, data)


def _read(constructor: Callable[[Path], corpora.Corpus], data: bytes) -> None:
    path = _place() / "file"
    path.write_bytes(data)
    first, second = _pass(constructor(path)), _pass(constructor(path))
    assert first == second, "two passes differ"
    documents, message = first
    for document in documents:
        assert (document.text is None) != (document.token_ids is None)
        for text in (document.id, document.title, document.text or ""):
            text.encode()
        if document.token_ids is not None:
            np.asarray(document.token_ids, dtype=np.int64)
    if message is not None:
        _require_sentence(message)


def _pass(corpus: corpora.Corpus) -> tuple[list[corpora.Document], str | None]:
    documents: list[corpora.Document] = []
    try:
        documents.extend(corpus)
    except CorpusError as error:
        return documents, str(error)
    return documents, None


def _require_sentence(message: str) -> None:
    message.encode()
    assert message.isprintable(), f"the message cannot be shown: {message!r}"
    assert 20 < len(message) < 2000, f"the message is of an odd length: {message!r:.100}"


LOADERS: dict[str, Callable[[Path], Any]] = {
    "topic model": TopicModel.load,
    "attention result": AttentionResult.load,
    "embedding result": EmbeddingResult.load,
    "checkpoint": read_state,
    "toy run": ToyRun.load,
}


def saved(data: bytes) -> None:
    """Any bytes as a folder that was saved: a description, a zero byte, arrays."""
    description, _, arrays = data.partition(b"\0")
    folder = _place()
    (folder / "description.json").write_bytes(description)
    (folder / "arrays.safetensors").write_bytes(arrays)
    load = LOADERS.get(kind_of(folder) or "", TopicModel.load)
    try:
        loaded = load(folder)
    except ValueError as error:
        _require_sentence(str(error))
        return
    repr(loaded)
    load(folder)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "dump": dump,
    "jsonl": jsonl,
    "token_ids": token_ids,
    "texts": texts,
    "saved": saved,
}


def arrays_file(arrays: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """Return a safetensors file, written from its specification."""
    head, data = {}, b""
    for name, (dtype, shape, content) in arrays.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text + data


def _floats(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def _wholes(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


_TOPIC_MODEL = {
    "kind": "topic model",
    "format": 1,
    "vocabulary": ["cat", "dog"],
    "n_tokens": 3,
    "n_documents": None,
    "history": [{"pass": 1}],
    "options": {},
}
_EMBEDDING = {"kind": "embedding result", "format": 1, "matrix": "raw", "n_labelled": 2, "options": {}, "n_words": 2}
_STATE = {
    "kind": "checkpoint",
    "format": 1,
    "settings": {"layers": ["0"]},
    "n_documents": 0,
    "documents": "",
    "tally": {},
    "state": {"counters": {"trained": {"has_totals": False}}},
    "checksum": "",
}
_PAGE = b"<page><title>A</title><ns>0</ns><id>7</id><revision><model>wikitext</model><text>%s</text></revision></page>"

SEEDS: dict[str, list[bytes]] = {
    "dump": [
        b"<mediawiki>" + _PAGE % b"A [[cat|pet]] ''sat''.&lt;ref&gt;b&lt;/ref&gt;" + b"</mediawiki>",
        b'<?xml version="1.0" encoding="utf-8"?><mediawiki><siteinfo><namespaces><namespace key="1">Talk</namespace>'
        b"</namespaces></siteinfo>"
        + _PAGE % b"{{a|b}}\n== c ==\n* d &amp;#x41;"
        + b"<page><redirect/></page></mediawiki>",
        b"<mediawiki><!-- c --><?p i?><page><title><![CDATA[A]]></title></page></mediawiki>",
    ],
    "jsonl": [
        b'{"text": "A cat."}\n\n{"token_ids": [1, 2], "id": 3, "title": "b"}\n',
        b'\xef\xbb\xbf{"text": "\\ud83d\\ude00 \\ud800", "id": "x"}\r\n',
        b'{"text": [1.5]}',
        b'{"a": {"b": [null, true, 1e999]}}',
    ],
    "token_ids": [b"1 2 3 END\n4 5\nEND\n", b"\xef\xbb\xbf7 END\r\n\r\n08 END", b"END", b"1 END 2 END"],
    "texts": ["A caf\u00e9.\r\n".encode(), b"\xef\xbb\xbfcat", b"\xff"],
    "saved": [
        json.dumps(_TOPIC_MODEL).encode()
        + b"\0"
        + arrays_file(
            {
                "word_probabilities": ("F64", [2, 2], _floats(0.5, 0.5, 1.0, 0.0)),
                "prior": ("F64", [2], _floats(0.25, 0.75)),
                "word_counts": ("I64", [2], _wholes(2, 1)),
            }
        ),
        json.dumps(_EMBEDDING).encode()
        + b"\0"
        + arrays_file(
            {
                "mean": ("F64", [3, 2], _floats(*range(6))),
                "std": ("F64", [3, 2], _floats(*range(6))),
                "n_pairs": ("I64", [3, 2], _wholes(*range(6))),
                "n_without_direction": ("I64", [3], _wholes(0, 0, 0)),
                "topic_similarity": ("F64", [1, 1], _floats(1.0)),
            }
        ),
        json.dumps(_STATE).encode() + b"\0" + arrays_file({}),
    ],
}
"""Well-formed inputs, from which mutations start."""
