"""Promises of documents in a file of word numbers."""

from __future__ import annotations

import bz2
import gzip
import tracemalloc
from pathlib import Path

import pytest

from topic_probes._errors import CorpusError
from topic_probes.corpora import lda, token_id_file


def read(path: Path) -> list[tuple[int, ...]]:
    return [document.token_ids for document in token_id_file(path)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "documents.txt"


@pytest.mark.parametrize(
    "content",
    [
        b"3 1 4 END\n1 5 END\n",
        b"3 1 4 END\n1 5 END",
        b"3 1 4\nEND\n1 5\nEND\n",
        b"3\t1  4 END \r\n\r\n 1 5\r\nEND\r\n",
        b"\xef\xbb\xbf3 1 4 END\n\n1 5\n\nEND",
        b"003 1 4 END\n1 5 END\n",
    ],
    ids=["same-line", "no-last-newline", "own-line", "windows", "byte-order-mark", "leading-zeros"],
)
def test_end_may_stand_on_its_line_or_on_the_next(file: Path, content: bytes):
    file.write_bytes(content)
    assert read(file) == [(3, 1, 4), (1, 5)]


def test_the_file_may_be_read_twice_and_cut(file: Path):
    file.write_text("1 END\n2 END\n3 END\n")
    corpus = token_id_file(file, limit=2)
    assert [(document.id, document.token_ids) for document in [*corpus, *corpus]] == [("0", (1,)), ("1", (2,))] * 2


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_the_file_may_be_compressed(file: Path, pack):
    file.write_bytes(pack(b"3 1 END\n"))
    assert read(file) == [(3, 1)]


def test_what_was_written_is_read(file: Path):
    """Lines longer than the pieces in which files are read."""
    corpus = lda(n_documents=20, lengths=(1, 4000), seed=1)
    file.write_text("".join(" ".join(map(str, document.token_ids)) + " END\n" for document in corpus))
    assert read(file) == [document.token_ids for document in corpus]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1 x END", "line 3 must hold whole numbers of at most 9 digits and then END, got 'x'"),
        ("1 -2 END", "line 3 must hold whole numbers of at most 9 digits and then END, got '-2'"),
        ("1 1_0 END", "line 3 must hold whole numbers of at most 9 digits and then END, got '1_0'"),
        ("1 2.0 END", "got '2.0'"),
        (f"1 {'9' * 5000} END", "got '99999"),
        ("1 \u00b2 END", "got '"),
        ("1 END 2 END", "line 3 must hold one document, got more after END"),
        ("END", "line 3 must hold at least one word number before END, got none"),
        ("1 2\n3 END", "line 3 must end with END, or END stand alone on the next line"),
        ("1 2\n3\nEND", "line 3 must end with END"),
        ("1 end\n3 END", "got 'end'"),
        ("1 2", "line 3: the file ends before END"),
    ],
)
def test_a_bad_line_is_named_after_the_good_ones(file: Path, bad: str, message: str):
    file.write_text(f"7 END\n\n{bad}\n", encoding="utf-8")
    documents = []
    with pytest.raises(CorpusError) as caught:
        documents.extend(token_id_file(file))
    assert [document.token_ids for document in documents] == [(7,)]
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(file))


def test_a_huge_line_is_refused_before_it_is_held(file: Path):
    """Forty megabytes of one line cost a small part of that."""
    file.write_bytes(gzip.compress(b"7 END\n" + b"1 " * 20_000_000, compresslevel=1))
    documents = []
    tracemalloc.start()
    try:
        with pytest.raises(CorpusError, match=r"line 2 must be at most 4,194,304 bytes long"):
            documents.extend(token_id_file(file))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(documents) == 1
    assert peak < 12e6


def test_a_cut_archive_hands_out_what_precedes_the_cut(file: Path):
    packed = gzip.compress(b"".join(b"%d %d END\n" % (k, k * k) for k in range(5000)))
    file.write_bytes(packed[: len(packed) // 2])
    documents = []
    with pytest.raises(CorpusError, match="ends too early"):
        documents.extend(token_id_file(file))
    assert documents
    assert [document.token_ids for document in documents] == [(k, k * k) for k in range(len(documents))]


def test_a_missing_file_is_named_at_once(file: Path):
    with pytest.raises(FileNotFoundError, match="path must be an existing file"):
        token_id_file(file)
