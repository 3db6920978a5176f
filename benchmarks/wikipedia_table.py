"""The table of docs/benchmarks.md: real models and their untrained twins on Wikipedia, by every estimator.

Topics are fitted on the articles inside gensim and on every other one of the articles that `_setup` names;
the models read the articles between these, cut off at 256 tokens. Ten minutes or so on two cores.
"""

from __future__ import annotations

import json
from typing import Any

from _setup import ARTICLES

import topic_probes as tp
from topic_probes.corpora import Document

MAX_TOKENS = 256


def run() -> dict[str, Any]:
    """Return one entry per model, weights and estimator: ratio, interval and number of topic heads."""
    from topic_probes.demo import open_minilm, open_smollm2

    if not ARTICLES.is_file():
        return {"skipped": f"needs {ARTICLES.name}: see TOPIC_PROBES_ARTICLES in benchmarks/README.md"}
    lines = ARTICLES.read_text(encoding="utf-8").splitlines()
    articles = [Document(id=f"article {number}", text=json.loads(line)["text"]) for number, line in enumerate(lines)]
    fitted_on = [*tp.corpora.sample_wikipedia(), *articles[::2]]
    topics = tp.fit_lda(fitted_on, n_topics=60, seed=0, progress=False)
    labels = topics.label_words()
    found: dict[str, Any] = {"labels": repr(labels)}
    for name, open_model in (("MiniLM-L6", open_minilm), ("SmolLM2-135M", open_smollm2)):
        model, tokenizer = open_model()
        report = tp.probe(
            model,
            articles[1::2],
            labels,
            tokenizer=tokenizer,
            long_documents="truncate",
            max_length=MAX_TOKENS,
            batch_size=8,
            progress=False,
        )
        found[f"{name}, documents"] = report.attention.n_documents
        for row in report.estimators_frame().to_dict("records"):
            found[f"{name}, {row['model']}, {row['estimator']}"] = (
                f"{row['same_topic']:.3f} against {row['cross_topic']:.3f}, ratio {row['ratio']:.3f} "
                f"[{row['ratio_low']:.3f}, {row['ratio_high']:.3f}], {row['n_topic_heads']} of {row['n_heads']} heads"
            )
        assert report.baseline is not None
        minus = (report.attention - report.baseline.attention).headline("distance_matched")
        found[f"{name}, trained minus untrained, distance_matched"] = (
            f"{minus['difference']:.3f} [{minus['difference_low']:.3f}, {minus['difference_high']:.3f}]"
        )
    return found
