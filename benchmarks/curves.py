"""What ``probe`` costs against the length of documents, the number of heads, of topics and of permutations.

Small random encoders over random token ids. Beside ``probe``, in the same rounds, the forward pass that it watches (as
far as the last pattern, nothing counted), and ``probe`` of one document of eight tokens, which is what a call costs
whatever it reads. The least of some rounds is taken: what disturbs only adds. Exponents are fitted by least squares to
the logarithms, with their standard errors: of all of ``probe``, and of what is beyond the forward pass and a call. A
cost per document that does not grow flattens the lower end of a curve, so the exponent of its upper half is given too.

What theory gives: patterns have length^2 entries, and so have pairs of labelled words: 2. Each head is contracted for
itself: 1 (the plan of pairs is shared, so a little less). Topics enter by which pairs meet, and by tables of the
topics that a document has, at most as many as it has labelled words: about 0. Each permutation is one more column of a
matrix product: 1, once they outweigh the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _measuring import rounds
from _setup import run_uncounted

import topic_probes as tp
from topic_probes.probes._batches import Batch

N_LAYERS, D_HEAD, N_WORDS, LABELLED_SHARE = 2, 16, 2000, 0.15
ROUNDS, BATCH_SIZE = 3, 4
VALUES: dict[str, tuple[int, ...]] = {
    "length": (64, 128, 256, 512, 1024),
    "heads": (2, 4, 8, 16, 32),
    "topics": (5, 20, 80, 320),
    "permutations": (64, 256, 1024, 4096),
}
THEORY = {"length": 2.0, "heads": 1.0, "topics": 0.0, "permutations": 1.0}


@dataclass(frozen=True)
class Setting:
    """One point of a curve; every curve changes one number of the same setting."""

    length: int = 256
    heads: int = 8
    topics: int = 40
    permutations: int = 0
    documents: int = 24


def run(
    values: dict[str, tuple[int, ...]] = VALUES, n_rounds: int = ROUNDS, folder: Path | None = None
) -> dict[str, Any]:
    """Return exponents and the curves behind them; draw these into ``benchmarks/output``, or another folder."""
    found: dict[str, Any] = {}
    curves: dict[str, list[tuple[int, float, float, float]]] = {}
    for name, points in values.items():
        curves[name] = [(point, *cost(replace(Setting(), **{name: point}), n_rounds)) for point in points]
        x = [point for point, *_ in curves[name]]
        parts = {
            "total": [probe for _, probe, _, _ in curves[name]],
            "beyond": [probe - forward - call for _, probe, forward, call in curves[name]],
        }
        found[f"{name}_theory"] = THEORY[name]
        for part, y in parts.items():
            found[f"{name}_{part}"] = exponent(x, y)
            found[f"{name}_{part}_upper"] = exponent(x[len(x) // 2 - 1 :], y[len(x) // 2 - 1 :])
        found[f"{name}_value_probe_forward_call"] = [
            (point, *(round(part, 4) for part in parts)) for point, *parts in curves[name]
        ]
    draw(curves, folder or Path(__file__).resolve().parent / "output")
    return found


def cost(setting: Setting, n_rounds: int) -> tuple[float, float, float]:
    """Return seconds of ``probe``, of the forward pass it watches, and of a ``probe`` that reads next to nothing."""
    model = _model(setting.heads, setting.length)
    generator = np.random.default_rng(0)
    n_labelled = round(LABELLED_SHARE * N_WORDS)
    labels = tp.TopicLabels.from_dict({word + 1: word % setting.topics for word in range(n_labelled)})
    documents = [generator.integers(1, N_WORDS, setting.length).tolist() for _ in range(setting.documents)]
    least = [[1, 2, *range(3, 9)]]
    batches = [Batch((), rows, torch.ones_like(rows)) for rows in torch.tensor(documents).split(BATCH_SIZE)]

    def probe(corpus: list[list[int]]) -> object:
        return tp.probe(
            model, corpus, labels, batch_size=BATCH_SIZE, max_length=setting.length, baseline=None,
            n_permutations=setting.permutations, visibility="bidirectional", progress=False,
        )  # fmt: skip

    ways = {
        "probe": lambda: probe(documents),
        "forward": lambda: run_uncounted(model, batches),
        "call": lambda: probe(least),
    }
    found = rounds(ways, n_rounds)
    whole, forward, call = (min(one[name] for one in found) for name in ways)
    return whole, forward, call


def exponent(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Return the slope of log y against log x, and its standard error; NaN where y is not above 0 everywhere."""
    from scipy.stats import linregress

    if min(y) <= 0:  # a difference that is lost in the noise
        return float("nan"), float("nan")
    fitted: Any = linregress(np.log(x), np.log(y))
    return round(float(fitted.slope), 3), round(float(fitted.stderr), 3)


def _model(n_heads: int, length: int) -> Any:
    """Return a random BERT as a TransformerLens model."""
    from transformers import BertConfig, BertForMaskedLM

    from topic_probes.demo._models import _as_bridge, hooked_encoder

    options: dict[str, Any] = {"attn_implementation": "eager"}
    config = BertConfig(
        vocab_size=N_WORDS,
        hidden_size=n_heads * D_HEAD,
        num_hidden_layers=N_LAYERS,
        num_attention_heads=n_heads,
        intermediate_size=4 * n_heads * D_HEAD,
        max_position_embeddings=length,
        **options,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = BertForMaskedLM(config).eval()
    try:
        return _as_bridge(model, "random")
    except ImportError:  # transformer-lens 2.x
        return hooked_encoder(model, "random")


def draw(curves: dict[str, list[tuple[int, float, float, float]]], folder: Path) -> None:
    """Draw curves of (value, seconds of probe, of the forward pass, of a call) into ``curves.svg`` and ``.png``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(curves), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for ax, (name, curve) in zip(panels, curves.items(), strict=True):
        x, total, forward, call = np.array(curve).T
        beyond = total - forward - call
        ax.plot(x, total, "o-", label="probe")
        ax.plot(x, forward, "s--", label="forward pass alone")
        ax.plot(x, np.where(beyond > 0, beyond, np.nan), "^:", label="beyond it and a call")
        ax.set(xscale="log", yscale="log", xlabel=name, ylabel="seconds" if ax is panels[0] else "")
        ax.set_title(f"theory: {THEORY[name]:g}", fontsize="medium")
    panels[0].legend(frameon=False)
    folder.mkdir(exist_ok=True)
    for kind in ("svg", "png"):
        figure.savefig(folder / f"curves.{kind}", dpi=150)
