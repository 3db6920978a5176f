"""What holds for corpora of any content, cut anywhere."""

from __future__ import annotations

import bz2
import gzip
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topic_probes._errors import CorpusError
from topic_probes.corpora import Corpus, Document, jsonl, wikipedia_dump

PACKERS = st.sampled_from([bytes, bz2.compress, gzip.compress])
TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8)


def read(constructor: Callable[[Path], Corpus], content: bytes) -> tuple[list[Document], CorpusError | None]:
    """Return the documents of a file with this content, and the error that ended it, if any."""
    documents: list[Document] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        try:
            documents.extend(constructor(path))
        except CorpusError as error:
            return documents, error
    return documents, None


@given(TEXTS, PACKERS, st.booleans())
def test_jsonl_gives_back_any_texts(texts, pack, ascii_only):
    """Whatever characters they hold: line separators of Unicode, controls, planes beyond the first."""
    lines = [json.dumps({"text": text}, ensure_ascii=ascii_only) for text in texts]
    documents, error = read(jsonl, pack("\n".join(lines).encode()))
    assert error is None
    assert [document.text for document in documents] == texts


@given(st.integers(0, 10_000), PACKERS)
def test_a_cut_jsonl_gives_a_prefix_of_its_documents(cut, pack):
    texts = [f"cat {number} " * number for number in range(30)]
    packed = pack("".join(json.dumps({"text": text}) + "\n" for text in texts).encode())
    documents, error = read(jsonl, packed[: cut % len(packed)])
    assert [document.text for document in documents] == texts[: len(documents)]
    if error is not None:
        assert "line " in str(error)


@given(st.integers(0, 10**6), PACKERS)
def test_a_cut_dump_gives_a_prefix_of_its_articles_and_an_error(cut, pack):
    """Every page that is complete before the cut comes out: exactly those, when the file is not packed."""
    texts = [f"cat {number}" for number in range(30)]
    pages = "".join(
        f"<page><title>T</title><ns>0</ns><id>{number}</id><revision><text>{escape(text)}</text></revision></page>"
        for number, text in enumerate(texts)
    )
    whole = f"<mediawiki>{pages}</mediawiki>".encode()
    packed = pack(whole)[: cut % len(pack(whole))]
    documents, error = read(wikipedia_dump, packed)
    assert [document.text for document in documents] == texts[: len(documents)]
    if pack is bytes:
        assert len(documents) == packed.count(b"</page>")
    if pack is not gzip.compress or len(packed) < len(pack(whole)) - 8:  # the rest of a gzip file is a checksum
        assert error is not None


@pytest.mark.parametrize("pack", [bz2.compress, gzip.compress])
def test_nothing_that_was_unpacked_is_lost_at_a_cut(pack):
    """As many documents as an unpacker fed byte by byte would show."""
    import zlib

    texts = [f"cat {number}" for number in range(3000)]
    content = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    packed = pack(content) + pack(content)
    packed = packed[: len(packed) * 3 // 4]
    documents, _ = read(jsonl, packed)
    shown = b""
    data = packed
    while data:
        unpacker = bz2.BZ2Decompressor() if pack is bz2.compress else zlib.decompressobj(31)
        for position in range(len(data)):
            shown += unpacker.decompress(data[position : position + 1])
            if unpacker.eof:
                data = data[position + 1 :]
                break
        else:
            data = b""
    assert len(documents) == shown.count(b"\n")
