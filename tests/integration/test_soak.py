"""Many short documents, some of them bad, some runs broken off: every document is counted exactly once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import soak_corpus
from topic_probes import TopicLabels, probe
from topic_probes._errors import CorpusError
from topic_probes.corpora import jsonl

N_MERGED = 200


@pytest.fixture(scope="module")
def encoder() -> tuple[Any, Any]:
    return soak_corpus.open_model()


def require_all_counted(result: Any, expected: soak_corpus.Expected, n_documents: int) -> None:
    tally = result.tally
    assert tally["n_documents"] + tally["n_skipped"] + tally["n_empty"] == n_documents
    assert {name: tally[name] for name in expected.tally} == expected.tally
    assert result.totals.n_rows.sum(axis=1).tolist() == [expected.tally["n_documents"]]


@pytest.mark.parametrize(
    ("n_documents", "n_breaks"),
    [(300, 2), pytest.param(10_000, 8, marks=pytest.mark.slow)],
)
def test_documents_in_are_documents_counted_and_skipped(
    encoder: tuple[Any, Any], tmp_path: Path, n_documents: int, n_breaks: int
) -> None:
    """By reason; and a run that was broken off and taken up again counts the same to the last bit."""
    path = tmp_path / "documents.jsonl"
    expected = soak_corpus.write_corpus(path, n_documents, seed=n_documents)
    assert min(expected.kinds[kind] for kind in soak_corpus.KINDS) > 0
    whole = soak_corpus.soak(*encoder, jsonl(path))
    require_all_counted(whole, expected, n_documents)
    breaks = sorted(random.Random(n_documents).sample(range(n_documents), n_breaks))
    broken, n_broken = soak_corpus.soak_broken(*encoder, path, tmp_path / "state", breaks, n_documents // 20)
    assert n_broken == n_breaks
    assert broken.tally == whole.tally
    for name, array in whole.totals.to_arrays().items():
        np.testing.assert_array_equal(broken.totals.to_arrays()[name], array, err_msg=name)


def test_results_of_stretches_merge_in_any_grouping(encoder: tuple[Any, Any], tmp_path: Path) -> None:
    """Stretches of random lengths, merged in random order and nesting: counts exactly, sums to rounding."""
    path = tmp_path / "documents.jsonl"
    expected = soak_corpus.write_corpus(path, N_MERGED, seed=2)
    lines = path.read_text().splitlines(keepends=True)
    numbers = random.Random(3)
    cuts = sorted(numbers.sample(range(20, N_MERGED - 20), 4))
    results = []
    for number, (start, stop) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        part = tmp_path / f"part {number}.jsonl"
        # The id is what groups documents, and by default it is the number of the line.
        numbered = ({**json.loads(line), "id": at} for at, line in enumerate(lines[start:stop], start))
        part.write_text("".join(json.dumps(record) + "\n" for record in numbered))
        results.append(soak_corpus.soak(*encoder, jsonl(part)))
    while len(results) > 1:
        one, other = (results.pop(numbers.randrange(len(results))) for _ in range(2))
        results.append(one.merge(other))
    whole = soak_corpus.soak(*encoder, jsonl(path))
    require_all_counted(results[0], expected, N_MERGED)
    merged, once = results[0].totals.to_arrays(), whole.totals.to_arrays()
    for name in once:
        # Batches are cut elsewhere, and rows of another length are padded to another width.
        np.testing.assert_allclose(merged[name], once[name], rtol=1e-9, atol=1e-12, err_msg=name)
    np.testing.assert_array_equal(merged["n_rows"], once["n_rows"])


@pytest.mark.parametrize("place", [0, 57, 199])
def test_what_is_an_error_and_not_a_count_says_which_document_it_was(
    encoder: tuple[Any, Any], tmp_path: Path, place: int
) -> None:
    """An id outside the vocabulary, and a line that is no document: no result is better than one without them."""
    path = tmp_path / "ids.jsonl"
    lines = [json.dumps({"token_ids": [5, 6, 7, 8]}) for _ in range(200)]
    lines[place] = json.dumps({"token_ids": [5, 10**6]})
    path.write_text("\n".join(lines))
    labels = TopicLabels.from_dict({5: 0, 6: 0, 7: 1, 8: 1})
    options = {"baseline": None, "n_permutations": 0, "progress": False, "layers": [0]}
    with pytest.raises(CorpusError, match=rf"document '{place}' has token id 1000000, outside"):
        probe(encoder[0], jsonl(path), labels, tokenizer=encoder[1], **options)
    lines[place] = '{"token_ids": [5, 6'
    path.write_text("\n".join(lines))
    with pytest.raises(CorpusError, match=f"line {place + 1} is not JSON"):
        probe(encoder[0], jsonl(path), labels, tokenizer=encoder[1], **options)
