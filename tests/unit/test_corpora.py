"""Promises of corpora in plain files and plain lists."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from topic_probes._errors import CorpusError
from topic_probes.corpora import Corpus, Document, as_corpus, jsonl, text_files, word_counts


def good_and_error(corpus: Corpus) -> tuple[list[Document], str]:
    """Read a corpus that must end in CorpusError; return what came before, and the message."""
    documents = []
    with pytest.raises(CorpusError) as caught:
        documents.extend(corpus)  # list.extend keeps what came before the error
    return documents, str(caught.value)


def texts(corpus: Corpus) -> list[str | None]:
    return [document.text for document in corpus]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


# --- documents and lists ---


@pytest.mark.parametrize("content", [{}, {"text": "a", "token_ids": (1,)}])
def test_a_document_has_either_text_or_token_ids(content):
    with pytest.raises(ValueError, match="either text or token_ids"):
        Document("7", **content)


def test_every_text_of_a_document_can_be_encoded():
    """Surrogate pairs become their character, lone ones the replacement character."""
    document = Document("\udc00", title="\ud83d\ude00", text="a \ud800 b")
    assert (document.id, document.title, document.text) == ("\ufffd", "\U0001f600", "a \ufffd b")


def test_strings_have_their_number_as_title_and_an_id_made_of_their_content():
    """The same text is the same document in every list, wherever it stands in it."""
    first, second = as_corpus(["a", "b"])
    assert [(first.title, first.text), (second.title, second.text)] == [("item 0", "a"), ("item 1", "b")]
    (again,) = as_corpus(["b"])
    assert again.id == second.id != first.id


def test_a_table_is_no_corpus():
    table = pd.DataFrame({"text": ["a"], "title": ["b"]})
    with pytest.raises(TypeError, match="pass one column"):
        as_corpus(table)


@pytest.mark.parametrize(
    "fields", [{"id": 7, "text": "a"}, {"id": "7", "text": b"a"}, {"id": "7", "token_ids": ("a",)}]
)
def test_a_document_refuses_fields_of_another_kind(fields):
    """By a sentence of its own: the checks of annotations, which only the suite has, are passed by."""
    document = object.__new__(Document)
    for name, value in {"title": "", "text": None, "token_ids": None, **fields}.items():
        object.__setattr__(document, name, value)
    with pytest.raises(TypeError, match="must be"):
        document.__post_init__()


@pytest.mark.parametrize("ids", [[3, 1], (3, 1), np.array([3, 1]), range(3, 0, -2)])
def test_any_sequence_of_whole_numbers_is_a_document_of_ids(ids):
    (document,) = as_corpus([ids])
    assert (document.title, document.token_ids) == ("item 0", (3, 1))
    assert all(type(token) is int for token in document.token_ids or ())


def test_documents_and_corpora_are_taken_as_they_are():
    corpus = as_corpus([Document("x", text="a")])
    assert as_corpus(corpus) is corpus
    assert list(corpus) == [Document("x", text="a")]


@pytest.mark.parametrize("item", [3, [1.5], [True], None, b"a", {"text": "a"}, ["a"]])
def test_an_item_of_another_kind_is_named_by_its_number(item):
    with pytest.raises(TypeError, match="document 1 of the corpus must be"):
        list(as_corpus(["a", item]))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("one string", "wrap it in a list"),
        (b"bytes", "wrap it in a list"),
        (iter(["a"]), "more than once"),
        (3, "more than once"),
        ({"a", "b"}, "in order"),
        ({"a": "b"}, "in order"),
    ],
)
def test_what_is_no_collection_of_documents_is_refused(wrong, reason):
    with pytest.raises(TypeError, match=reason):
        as_corpus(wrong)


# --- every corpus ---


def test_a_corpus_can_be_read_again_and_twice_at_once(write):
    path = write("a.jsonl", "".join(json.dumps({"text": str(number)}) + "\n" for number in range(5)))
    corpus = jsonl(path)
    assert texts(corpus) == texts(corpus) == list("01234")
    assert all(left == right for left, right in zip(corpus, corpus, strict=True))


def test_a_pass_that_was_left_does_not_shorten_the_next(write):
    corpus = jsonl(write("a.jsonl", '{"text": "a"}\n{"text": "b"}\n'))
    assert next(iter(corpus)).text == "a"
    assert texts(corpus) == ["a", "b"]


@pytest.mark.parametrize(("limit", "expected"), [(1, ["a"]), (2, ["a", "b"]), (9, ["a", "b"]), (None, ["a", "b"])])
def test_limit_is_the_largest_number_of_documents(write, limit, expected):
    assert texts(jsonl(write("a.jsonl", '{"text": "a"}\n{"text": "b"}\n'), limit=limit)) == expected
    folder = write("folder/1.txt", "a").parent
    write("folder/2.txt", "b")
    assert texts(text_files(folder, limit=limit)) == expected
    assert text_files(folder, limit=limit).expected == len(expected)


def test_what_comes_after_the_limit_is_not_read(write):
    assert texts(jsonl(write("a.jsonl", '{"text": "a"}\nbroken\n'), limit=1)) == ["a"]


@pytest.mark.parametrize("limit", [0, -1])
def test_limit_must_be_positive(write, limit):
    with pytest.raises(ValueError, match="limit must be at least 1"):
        jsonl(write("a.jsonl", ""), limit=limit)


def test_a_corpus_follows_its_file_when_the_working_directory_changes(write, monkeypatch):
    path = write("a.jsonl", '{"text": "a"}')
    write("sub/b.txt", "b")
    monkeypatch.chdir(path.parent)
    corpora = jsonl("a.jsonl"), text_files("sub/b.txt"), text_files("sub"), text_files("*/*.txt")
    monkeypatch.chdir("/")
    assert [texts(corpus) for corpus in corpora] == [["a"], ["b"], ["b"], ["b"]]


def test_equal_ids_are_kept_and_counted_one_by_one(write):
    corpus = jsonl(write("a.jsonl", '{"id": 1, "text": "a"}\n{"id": 1, "text": "b"}\n'))
    assert [(document.id, document.text) for document in corpus] == [("1", "a"), ("1", "b")]


# --- jsonl ---


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_jsonl_reads_plain_and_packed_files_whatever_their_name(write, pack, newline):
    """A byte order mark, blank lines, other line separators inside a text and a missing last newline do no harm."""
    lines = ["", '{"id": "x", "title": "Cats", "text": "A\u2028cat\u0085é."}', "  ", '{"text": "A dog."}']
    path = write("documents", pack(b"\xef\xbb\xbf" + newline.join(lines).encode()))
    assert list(jsonl(path)) == [
        Document("x", title="Cats", text="A\u2028cat\u0085é."),
        Document("1", text="A dog."),
    ]


def test_jsonl_reads_lines_longer_than_a_piece(write):
    expected = ["a" * 50_000, "b", "c" * 9_000]
    path = write("a.jsonl", "\n".join(json.dumps({"text": text}) for text in expected))
    assert texts(jsonl(path)) == expected


def test_jsonl_takes_other_field_names(write):
    path = write("a.jsonl", '{"body": "a", "name": "t", "key": 7}\n{"body": "b", "name": "u", "key": 0}')
    corpus = jsonl(path, text_field="body", title_field="name", id_field="key")
    assert list(corpus) == [Document("7", title="t", text="a"), Document("0", title="u", text="b")]


@pytest.mark.parametrize("line", ['{"token_ids": [3, 1]}', '{"text": [3, 1]}'])
def test_jsonl_takes_token_ids(write, line):
    assert list(jsonl(write("a.jsonl", line))) == [Document("0", token_ids=(3, 1))]


def test_jsonl_counts_documents_for_a_missing_id_from_zero(write):
    corpus = jsonl(write("a.jsonl", '{"text": "a", "id": null}\n\n{"text": "b", "id": "x"}\n{"text": "c"}\n'))
    assert [document.id for document in corpus] == ["0", "x", "2"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "b"', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'["b"]', "must be a JSON object"),
        (b'{"text": "\xff"}', r"is not UTF-8 \(byte 10 of the line\)"),
        (b'{"body": "b", "n": 1}', r"has no field 'text' \(its fields: 'body', 'n'\): .* text_field"),
        (b"{}", r"has no field 'text' \(its fields: none\)"),
        (b'{"text": null}', "'text' must hold a text or a list of token ids, got None"),
        (b'{"text": [1.5]}', "'text' must hold a text or a list of token ids"),
        (b'{"token_ids": "b"}', None),
        (b'{"text": "b", "id": {}}', "'id' must hold a text or a whole number"),
    ],
)
def test_jsonl_names_file_and_line_of_a_bad_line_after_the_good_ones(write, line, reason):
    path = write("a.jsonl", b'{"text": "a"}\n\n' + line + b'\n{"text": "c"}\n')
    if reason is None:  # a text in the field token_ids is a text
        assert texts(jsonl(path)) == ["a", "b", "c"]
        return
    documents, message = good_and_error(jsonl(path))
    assert [document.text for document in documents] == ["a"]
    assert message.startswith(f"{path}, line 3")
    assert re.search(reason, message)


@pytest.mark.parametrize("argument", ["title_field", "id_field"])
def test_a_field_name_that_was_chosen_must_exist(write, argument):
    corpus = jsonl(write("a.jsonl", '{"text": "a"}'), **{argument: "url"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(CorpusError, match=f"no field 'url'.* with {argument}"):
        list(corpus)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_jsonl_yields_the_whole_lines_of_a_cut_file_first(write, pack):
    line = b'{"text": "%d"}\n'
    first, second = (pack(b"".join(line % number for number in range(start, start + 500))) for start in (0, 500))
    path = write("a.jsonl.gz", first + second[: len(second) // 2])
    documents, message = good_and_error(jsonl(path))
    assert [document.text for document in documents] == [str(number) for number in range(len(documents))]
    assert len(documents) >= 500
    assert f"line {len(documents) + 1}: the compressed stream ends too early" in message


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_the_size_of_the_pieces_that_are_read_changes_nothing(write, monkeypatch, pack, size):
    monkeypatch.setattr("topic_probes.corpora._files._PIECE", size)
    monkeypatch.setattr("topic_probes.corpora._files._PACKED", size)
    halves = b'\xef\xbb\xbf{"text": "caf\xc3\xa9"}\n{"te', b'xt": "b"}\n'
    assert texts(jsonl(write("a.gz", b"".join(pack(half) for half in halves)))) == ["caf\u00e9", "b"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_damaged_second_stream_does_not_end_a_file_silently(write, pack):
    """A file may be several packed streams; what is no stream after a whole one is an error, not the end."""
    line = b'{"text": "a"}\n'
    assert texts(jsonl(write("good.gz", pack(line) + pack(line)))) == ["a", "a"]
    documents, message = good_and_error(jsonl(write("bad.gz", pack(line) + b"XX" + pack(line))))
    assert [document.text for document in documents] == ["a"]
    assert "line 2: the compressed stream is corrupt" in message


def test_an_empty_jsonl_is_an_empty_corpus(write):
    assert list(jsonl(write("a.jsonl", ""))) == []


def test_jsonl_says_at_once_that_there_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"path must be an existing file, got .*nothing\.jsonl"):
        jsonl(tmp_path / "nothing.jsonl")
    with pytest.raises(IsADirectoryError, match="path must be a file, got the folder"):
        jsonl(tmp_path)


# --- text files ---


@pytest.fixture
def folder(write) -> Path:
    for name in ("b.txt", "a.txt", "sub/c.txt", "note.md", ".hidden.txt", "[1].txt"):
        write("folder/" + name, name)
    return write("folder/empty.txt", "").parent


def test_a_folder_gives_its_text_files_in_order(folder):
    documents = list(text_files(folder))
    assert [document.id for document in documents] == ["[1].txt", "a.txt", "b.txt", "empty.txt", "sub/c.txt"]
    assert [document.title for document in documents] == ["[1]", "a", "b", "empty", "c"]
    assert [document.text for document in documents] == ["[1].txt", "a.txt", "b.txt", "", "sub/c.txt"]


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(write):
    assert texts(text_files(write("[ab]*/1.txt", "a").parent)) == ["a"]


def test_order_and_repetition_of_paths_change_nothing(folder):
    paths = [folder / "b.txt", str(folder / "note.md"), folder / "sub", folder / "b.txt"]
    corpora = [text_files(order) for order in itertools.permutations(paths)]
    assert {tuple(document.id for document in corpus) for corpus in corpora} == {("b.txt", "note.md", "sub/c.txt")}


def test_patterns_single_files_and_iterators_are_taken(folder):
    assert texts(text_files(f"{folder}/*.md")) == ["note.md"]
    assert texts(text_files(f"{folder}/**/c.*")) == ["sub/c.txt"]
    assert texts(text_files(folder / "[1].txt")) == ["[1].txt"]
    corpus = text_files(folder.glob("[ab].txt"))
    assert texts(corpus) == texts(corpus) == ["a.txt", "b.txt"]


def test_byte_order_mark_and_windows_lines_are_undone(write):
    assert texts(text_files(write("a.txt", b"\xef\xbb\xbfone\r\ntwo"))) == ["one\ntwo"]


@pytest.mark.parametrize("name", ["nothing.txt", "*.rst", "sub/deeper"])
def test_text_files_says_at_once_that_there_is_no_file(folder, name):
    (folder / "sub/deeper").mkdir()
    with pytest.raises(FileNotFoundError, match="paths"):
        text_files([folder / "a.txt", str(folder / name)])


def test_no_paths_at_all_are_refused():
    with pytest.raises(CorpusError, match="at least one file"):
        text_files([])


def test_a_file_that_is_not_utf8_is_named_with_the_byte_after_the_good_ones(folder):
    (folder / "b.txt").write_bytes("gr\u00fcn".encode("latin-1"))
    documents, message = good_and_error(text_files(folder))
    assert [document.id for document in documents] == ["[1].txt", "a.txt"]
    assert message.startswith(f"{folder / 'b.txt'} is not UTF-8 (byte 2)")


def test_the_home_folder_may_be_written_as_everywhere(
    write: Callable[[str, str | bytes], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write("pets.jsonl", '{"text": "a cat"}')
    write("pets/dog.txt", "a dog")
    assert texts(jsonl("~/pets.jsonl")) == ["a cat"]
    for paths in ("~/pets", "~/pets/*.txt", "~/pets/dog.txt"):
        assert texts(text_files(paths)) == ["a dog"]


def test_words_are_counted_as_far_as_a_limit_of_at_least_one() -> None:
    assert word_counts(["cat dog", "cat"], limit=1) == {"cat": 1, "dog": 1}
    with pytest.raises(ValueError, match="limit must be at least 1, got -1"):
        word_counts(["cat"], limit=-1)
