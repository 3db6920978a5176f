"""What the benchmarks share: MiniLM, 200 Wikipedia passages, labels, and one clean line per result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import topic_probes as tp
from topic_probes.corpora import Document

ARTICLES = Path(__file__).resolve().parents[2] / "shared" / "data" / "wiki_a.jsonl"
N_PASSAGES, PASSAGE_CHARACTERS = 200, 900


def passages(n: int = N_PASSAGES) -> list[str]:
    """Return ``n`` passages of Wikipedia: of the articles beside the repository, or of those inside gensim."""
    if ARTICLES.is_file():
        texts = [json.loads(line)["text"] for line in ARTICLES.read_text(encoding="utf-8").splitlines()]
    else:
        texts = [document.text or "" for document in tp.corpora.sample_wikipedia()]
    starts = range(0, 10 * PASSAGE_CHARACTERS, PASSAGE_CHARACTERS)
    cut = (text[start : start + PASSAGE_CHARACTERS] for start in starts for text in texts)
    return [passage for passage in cut if len(passage) > PASSAGE_CHARACTERS // 3][:n]


def labels_for(texts: list[str]) -> Any:
    """Return labels from 40 topics fitted on the passages themselves: only their number and spread matter here."""
    documents = [Document(id=str(number), text=text) for number, text in enumerate(texts)]
    return tp.fit_lda(documents, n_topics=40, passes=5, progress=False).label_words(min_share=0.3)


def open_model() -> tuple[Any, Any]:
    """Return MiniLM as a TransformerLens model, and its tokenizer."""
    from topic_probes.demo._models import open_minilm

    return open_minilm()
