"""The demo's pictures, drawn from frames and written as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..probes import ProbeReport, word_attention, word_similarity
from ..report import plot_attention_blocks, plot_embedding_blocks, plot_topics, save_plot
from ..report._frames import surest_first
from ..topics import TopicLabels


def draw_pictures(
    folder: Path, report: ProbeReport, model: Any, tokenizer: Any, labels: TopicLabels, example: str
) -> None:
    """Write the pictures of one model to a folder: heads, distance, topics, embedding, one sentence."""
    heads, order = surest_first(report.attention.to_frame())
    layer, head = (int(heads[name].iloc[0]) for name in ("layer", "head"))
    save_plot(report.plot_heads(), folder / "heads.png")
    save_plot(report.plot_classes(), folder / "classes.png")
    save_plot(report.plot_forest(), folder / "forest.png")
    save_plot(report.plot_distance(), folder / "distance.png")
    matrix = report.attention.topic_matrix(layer, head)
    save_plot(plot_topics(matrix, names=labels.topic_names or None), folder / "topics.png")

    similarity, topics = word_similarity(model, labels, tokenizer)
    save_plot(plot_embedding_blocks(similarity, topics, label="centred cosine"), folder / "embedding_blocks.png")

    attention = word_attention(model, example, layer=layer, head=head, tokenizer=tokenizer)
    names = {word: labels.topic_names[found[0]] for word in attention.index if (found := labels.topics_of.get(word))}
    title = f"Layer {layer}, head {head}, first of those {order}"
    save_plot(plot_attention_blocks(attention, names, title=title), folder / "attention_blocks.png")
