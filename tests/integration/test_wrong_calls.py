"""Wrong calls get one sentence that says what came and what to do.

In a process of its own, without the suite's checker of annotations: users do not have it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import helpers

CALLS = [
    (
        "probe(model, DOCUMENTS, topics)",
        "TypeError",
        r"labels must be TopicLabels, got a TopicModel: .*label_words\(\)",
    ),
    ("attach(model, topics)", "TypeError", r"labels must be TopicLabels, got a TopicModel"),
    ("attach(model, {1: 0})", "TypeError", r"got a dict: pass TopicLabels.from_dict\(labels\)"),
    ("probe(model, DOCUMENTS, None)", "TypeError", r"labels must be TopicLabels, got a NoneType: make them by"),
    ("probe_embedding(model, {1: 0})", "TypeError", r"got a dict: pass TopicLabels.from_dict"),
    ("word_similarity(model, topics)", "TypeError", r"labels must be TopicLabels, got a TopicModel"),
    ("probe(model, DOCUMENTS, labels, tokenizer='bert')", "TypeError", r"AutoTokenizer.from_pretrained\('bert'\)"),
    ("attach(model, labels, 'bert')", "TypeError", r"tokenizer must be a transformers tokenizer, got 'bert'"),
    ("word_attention(model, 'a', layer=0, head=0, tokenizer='bert')", "TypeError", r"must be a transformers tokenizer"),
    ("probe(model, DOCUMENTS, labels, layers=1)", "TypeError", r"layers must be a list .*layers=\[0, 1\], got 1"),
    ("attach(model, labels, layers='01')", "TypeError", r"layers must be a list of whole numbers"),
    (
        "attach(model, labels, visibility='all')",
        "ValueError",
        r"visibility must be one of 'read', 'causal', 'bidirectio",
    ),
    ("word_attention(model, ['a'], layer=0, head=0)", "TypeError", r"text must be one string, got a list"),
    (
        "word_attention(model, 'a', layer=0, head=0, stack='both')",
        "ValueError",
        r"stack must be one of '', 'encoder', 'decoder', 'cross', got 'both'",
    ),
    (
        "probe_embedding(np.eye(50), labels, word_counts=['a'])",
        "TypeError",
        r"got a list: pass .*word_counts\(corpus\)",
    ),
    ("TopicLabels.from_dict([('cat', 1)])", "TypeError", r"topics_of must be a dictionary .*dict\(pairs\)"),
    ("TopicLabels.from_dict(None)", "TypeError", r"topics_of must be a dictionary .* got None"),
    ("report.plot_heads(attention)", "TypeError", r"frame must be a pandas DataFrame, .*: call its to_frame\(\)"),
    ("report.plot_heads({'layer': [0]})", "TypeError", r"got a dict: pass the to_frame\(\) of a result"),
    (
        "report.plot_embedding_blocks(np.eye(3), labels)",
        "TypeError",
        r"matrix must be a pandas DataFrame .* got a ndarray",
    ),
    ("report.plot_embedding_blocks(table, labels)", "TypeError", r"got a TopicLabels: topic_probes.word_similarity"),
    ("report.plot_attention_blocks(np.eye(3))", "TypeError", r"matrix must be a pandas DataFrame"),
    ("probe_embedding([[1.0, 2.0]], labels)", "TypeError", r"got a list: wrap rows of numbers by numpy.asarray"),
    ("probe_embedding(np.eye(50) * 1j, labels)", "TypeError", r"real numbers, got complex128: pass its real part"),
    ("probe_embedding(torch.eye(50) * 1j, labels)", "TypeError", r"real numbers, got torch.complex64"),
    ("word_similarity(model, labels, n_topics=0)", "ValueError", r"n_topics must be at least 1, got 0"),
    ("word_similarity(model, labels, words_per_topic=0)", "ValueError", r"words_per_topic must be at least 1"),
]

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
sys.path[:0] = [{repository!r}, {tests!r}]
import numpy as np, pandas as pd, torch
import helpers
from topic_probes import *
from topic_probes import report
DOCUMENTS = [[1, 2, 3, 4], [5, 6, 7]]
model = helpers.build({kind!r})
labels = TopicLabels.from_dict({{word: word % 3 for word in range(20)}})
topics = TopicModel.from_matrix(np.full((2, 3), 1 / 3), ["cat", "dog", "sun"])
attention = probe(model, DOCUMENTS, labels, progress=False, baseline=None).attention
table = pd.DataFrame(np.eye(3))
for call in json.load(sys.stdin):
    try:
        eval(call)
        print(json.dumps(["nothing", ""]), file=sys.stderr)
    except Exception as error:
        print(json.dumps([type(error).__name__, str(error)]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def answers(repository: Path) -> dict[str, Any]:
    script = SCRIPT.format(repository=str(repository), tests=str(repository / "tests"), kind=helpers.KINDS[0])
    calls = [call for call, _, _ in CALLS]
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(calls), capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("[")]
    assert len(lines) == len(calls), done.stderr
    return dict(zip(calls, map(json.loads, lines), strict=True))


@pytest.mark.parametrize(("call", "kind", "says"), CALLS, ids=[call for call, _, _ in CALLS])
def test_a_wrong_call_gets_one_sentence(answers: dict[str, Any], call: str, kind: str, says: str) -> None:
    found, message = answers[call]
    assert found == kind, message
    assert re.search(says, message), message
    assert "\n" not in message
