"""Promises of data sets from Hugging Face, read offline by the builders that `datasets` ships."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topic_probes._errors import CorpusError
from topic_probes.corpora import Document, as_corpus, huggingface, jsonl


@pytest.fixture
def data_files(tmp_path: Path) -> list[str]:
    """Three files of five rows."""
    paths = []
    for start in (0, 5, 10):
        path = tmp_path / f"{start}.jsonl"
        rows = [{"id": f"d{n}", "title": f"T{n}", "text": f"Cat {n}."} for n in range(start, start + 5)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths.append(str(path))
    return paths


def write_rows(tmp_path: Path, *rows: dict[str, object]) -> str:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_each_row_is_one_document_exactly_once_in_every_pass(data_files):
    corpus = huggingface("json", data_files=data_files)
    expected = [Document(f"d{n}", title=f"T{n}", text=f"Cat {n}.") for n in range(15)]
    assert list(corpus) == expected
    assert list(corpus) == expected


def test_two_passes_at_once_do_not_disturb_each_other(data_files):
    corpus = huggingface("json", data_files=data_files)
    assert all(left == right for left, right in zip(corpus, corpus, strict=True))
    next(iter(corpus))
    assert len(list(corpus)) == 15


def test_limit_and_split_are_kept(data_files):
    corpus = huggingface("json", split="test", limit=7, data_files={"train": data_files[0], "test": data_files[1:]})
    assert [document.id for document in corpus] == [f"d{n}" for n in range(5, 12)]
    assert corpus.expected == 7


def test_rows_without_id_are_numbered_and_other_columns_can_be_named(tmp_path):
    path = write_rows(tmp_path, {"body": "a", "name": "x"}, {"body": "b", "name": "y"})
    corpus = huggingface("json", data_files=path, text_field="body", title_field="name")
    assert list(corpus) == [Document("0", title="x", text="a"), Document("1", title="y", text="b")]


def test_a_column_of_token_ids_is_a_corpus_of_ids(tmp_path):
    path = write_rows(tmp_path, {"input_ids": [3, 1]}, {"input_ids": [4]})
    corpus = huggingface("json", data_files=path, text_field="input_ids")
    assert [document.token_ids for document in corpus] == [(3, 1), (4,)]


def test_a_missing_column_lists_the_columns_there_are(data_files):
    with pytest.raises(CorpusError, match=r"no field 'body' \(its fields: 'id', 'title', 'text'\).* text_field"):
        list(huggingface("json", data_files=data_files, text_field="body"))


def test_a_row_without_text_is_named_after_the_good_ones(tmp_path):
    documents = []
    with pytest.raises(CorpusError, match=r"row 1 of the data set 'json': field 'text' must hold a text.* got None"):
        documents.extend(huggingface("json", data_files=write_rows(tmp_path, {"text": "a"}, {"text": None})))
    assert [document.text for document in documents] == ["a"]


def test_a_broken_file_is_one_sentence_with_the_row(data_files, tmp_path):
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": \n')
    documents = []
    with pytest.raises(CorpusError, match="the data set 'json' cannot be read beyond row 5"):
        documents.extend(huggingface("json", data_files=[data_files[0], str(broken)]))
    assert len(documents) == 5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"split": "tset"}, "Bad split"),
        ({"data_files": "nothing.jsonl"}, "nothing.jsonl"),
        ({"name": "nobody/nothing"}, "nobody/nothing"),
    ],
)
def test_what_cannot_be_opened_is_one_sentence_at_once(data_files, options, reason):
    with pytest.raises(CorpusError, match="cannot be opened") as caught:
        huggingface(**{"name": "json", "data_files": data_files, **options})
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["wikipedia", "legacy-datasets/wikipedia"])
def test_the_old_name_of_wikipedia_gets_the_new_one(name):
    with pytest.raises(ValueError, match=r'huggingface\("wikimedia/wikipedia", "20231101.en"\)'):
        huggingface(name, "20220301.en")


def test_a_script_is_never_run(tmp_path, monkeypatch):
    """Neither is the terminal asked, as older versions of datasets do."""
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "script.py").write_text("open('was_run', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("the terminal was asked"))
    with pytest.raises(ValueError, match="is a script"):
        huggingface("script")
    assert not (tmp_path / "was_run").exists()


def test_trusting_remote_code_is_refused_and_distrust_is_accepted(data_files):
    with pytest.raises(ValueError, match="trust_remote_code must be left out"):
        huggingface("json", data_files=data_files, trust_remote_code=True)
    assert len(list(huggingface("json", data_files=data_files, trust_remote_code=False))) == 15


def test_streaming_cannot_be_switched_off(data_files):
    with pytest.raises(ValueError, match="always streams"):
        huggingface("json", data_files=data_files, streaming=False)


def test_real_articles_are_the_same_by_every_way(shared_data):
    path = shared_data / "wiki_a.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    expected = [Document(str(number), title=row["title"], text=row["text"]) for number, row in enumerate(rows)]
    assert len(expected) == 180
    assert list(jsonl(path)) == expected
    assert list(huggingface("json", data_files=str(path))) == expected
    assert [document.text for document in as_corpus([row["text"] for row in rows])] == [row["text"] for row in rows]
