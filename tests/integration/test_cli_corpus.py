"""CORPUS on the command line: each form opens what it names."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import pytest

from topic_probes import corpora
from topic_probes.cli import _corpus
from topic_probes.cli._corpus import open_corpus

PAGE = """<mediawiki><page><title>Cat</title><ns>0</ns><id>1</id><revision><id>2</id><model>wikitext</model>
<text>A cat sleeps.</text></revision></page></mediawiki>"""


def texts(corpus: corpora.Corpus) -> list[str | None]:
    return [document.text for document in corpus]


def test_sample_is_gensims_articles() -> None:
    assert [document.title for document in open_corpus("sample", limit=2)] == [
        document.title for document in corpora.sample_wikipedia(limit=2)
    ]


def test_a_corpus_is_split_into_what_topics_and_what_models_read(tmp_path: Path) -> None:
    """Every document is in one part; the limit is of the part; two passes read the same."""
    path = tmp_path / "pets.jsonl"
    path.write_text("".join(json.dumps({"text": f"cat {number}"}) + "\n" for number in range(9)))
    test, train = (open_corpus(str(path), part=part) for part in ("test", "train"))
    assert texts(test) == texts(test) == ["cat 0", "cat 4", "cat 8"]
    assert sorted([*texts(test), *texts(train)]) == texts(open_corpus(str(path)))  # type: ignore[type-var]
    assert texts(open_corpus(str(path), part="train", limit=2)) == ["cat 1", "cat 2"]
    assert {test.name, train.name} == {"pets.jsonl, test", "pets.jsonl, train"}
    assert (open_corpus("sample", part="test").expected, open_corpus("sample", part="train").expected) == (27, 79)


@pytest.mark.parametrize("name", ["wiki.xml", "wiki.xml.bz2", "wiki.XML.gz"])
def test_a_dump_is_told_by_its_name(name: str, tmp_path: Path) -> None:
    pack = {"xml": bytes, "bz2": bz2.compress, "gz": gzip.compress}[name.rpartition(".")[2]]
    (tmp_path / name).write_bytes(pack(PAGE.encode()))
    assert texts(open_corpus(str(tmp_path / name))) == ["A cat sleeps."]


@pytest.mark.parametrize("name", ["pets.jsonl", "pets.ndjson", "pets.jsonl.gz"])
def test_json_lines_have_their_field(name: str, tmp_path: Path) -> None:
    content = "".join(json.dumps({"text": "no", "body": f"cat {number}"}) + "\n" for number in range(3)).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert texts(open_corpus(str(tmp_path / name), limit=2, text_field="body")) == ["cat 0", "cat 1"]


def test_a_text_is_a_document_and_so_is_each_of_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"text {name}")
    assert texts(open_corpus(str(tmp_path / "b.txt"))) == ["text b"]
    assert texts(open_corpus(str(tmp_path))) == ["text a", "text b"]
    assert texts(open_corpus(str(tmp_path), limit=1)) == ["text a"]


def test_a_path_may_begin_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a.txt").write_text("text a")
    assert texts(open_corpus("~/a.txt")) == ["text a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hf:imdb", ("imdb", None)),
        ("hf:wikimedia/wikipedia:20231101.en", ("wikimedia/wikipedia", "20231101.en")),
    ],
)
def test_a_data_set_has_a_name_and_perhaps_a_configuration(
    text: str, expected: tuple[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def huggingface(name: str, config: str | None, **options: object) -> corpora.Corpus:
        asked.append((name, config, options))
        return corpora.as_corpus(["A cat."])

    monkeypatch.setattr(_corpus, "huggingface", huggingface)
    open_corpus(text, limit=5, text_field="body", split="test")
    assert asked == [(*expected, {"split": "test", "limit": 5, "text_field": "body"})]


@pytest.mark.parametrize("name", ["pets.csv", "pets", "pets.txt.gz"])
def test_another_kind_of_file_is_refused_with_the_kinds_there_are(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("cat")
    with pytest.raises(ValueError, match=r"corpus must be a MediaWiki dump .* or hf:NAME\[:CONFIG\], got"):
        open_corpus(str(tmp_path / name))


def test_what_is_not_there_is_said_to_be_missing() -> None:
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        open_corpus("wikimedia/wikipedia")


def test_an_option_that_does_not_go_with_a_corpus_is_refused(tmp_path: Path) -> None:
    """Rather than passed over without a word."""
    (tmp_path / "a.txt").write_text("text a")
    with pytest.raises(ValueError, match="--text-field is of"):
        open_corpus(str(tmp_path / "a.txt"), text_field="body")
    with pytest.raises(ValueError, match="--split is of hf: corpora"):
        open_corpus("sample", split="test")
