"""The dual of attention on a real model, from nothing to pictures: one head, all heads, all layers, and a corpus.

What Ren and Liu (2024) prove must hold in MiniLM-L6: attending is one gradient step, to rounding. What they leave to
measurement is measured: random features at the norms of a real head, how loose the bound is, and whether heads put
out more of what they read in words of the query's topic. Topics are fitted on three of four articles that come with
gensim, heads are chosen on every second of those, and measured on the fourth.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from .._folders import whole_folder
from .._validation import require_count
from ..corpora import Document, sample_wikipedia
from ..corpora._held_out import HELD_OUT_EVERY
from ..report import plot_bound, plot_contributions, plot_feature_errors, save_plot
from ..topics import TopicLabels, fit_lda
from ._folder import finish, written_by
from ._models import open_minilm
from ._run import _example, split_articles
from ._show import Screen

if TYPE_CHECKING:
    import pandas as pd

    from ..dual import HeadDual

_KIND = "topic-probes dual"
_MODEL = "MiniLM-L6"
_PASSAGE_TOKENS = 128
_EXACT, _STEP, _SLOPE = 1e-4, 1e-10, 0.15
"""Limits: of relative errors in float32, of the optimiser's step in float64, and of a slope's distance from -1/2."""
_UNTRAINED = 0.1
"""How far from 0 the difference of untrained weights may be: they are one random draw."""
_FEATURES, _SEEDS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096), 9
_SMALL, _REAL = "small norms", "this head's norms"
_READING: dict[str, Any] = {"max_length": 128, "long_documents": "truncate"}
_TOPIC_HEADS = 5
"""One in so many heads is called a topic head."""

_MEANING = """\
What this means. Each head, at each query, is one step of gradient descent on the tokens that it reads: the errors are \
rounding. A token's share is the part of the head's output that it makes, along the output's own direction; in units \
where all tokens alike have 1, tokens of the query's topic have more than others.
What it does not mean. The identity holds for random weights too, so it is no evidence that a head learns. Words of \
one topic stand nearer to each other, and heads look nearby: that is part of the difference. The bound holds, and is \
loose."""


@dataclass(frozen=True)
class DualOutcome:
    """What was found."""

    summary: dict[str, Any]
    """Plain JSON values: the head, the errors, the slopes, the bound, contributions by topic, the files."""
    doubts: tuple[str, ...]
    """Headline numbers that are not what they should be; empty when all is well."""


def run_dual(
    folder: Path,
    *,
    passage: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    n_topics: int = 40,
    articles: int | None = None,
    seed: int = 0,
    show: bool = True,
    run_toml: str | None = None,
) -> DualOutcome:
    """Take MiniLM's heads apart as duals, on a passage and over articles; write it to ``folder``, or nothing.

    The folder gets ``topics/``; of one head at one query ``contributions.csv`` and ``.png``, ``classes.csv`` and
    ``training.csv``; ``heads.csv`` (errors of all heads), ``trace.csv`` (the residual stream), ``random_features.csv``
    and ``.png``, ``bound.csv`` and ``.png``, ``by_topic.csv`` (all heads over the held-out articles), and
    ``summary.json``. It takes one to two minutes on two cores.

    Args:
        folder: a new or empty one, or one that this function wrote; that is replaced.
        passage: a text, of which 128 tokens are read; the stretch of a held-out article with most labelled words unless
            given. The query is its word with most other words of its topic; the last word where there is none.
        layer: of the head that is shown, with ``head``; unless given, the head whose output owes most to words of the
            query's topic, on the articles that the topics were fitted on.
        head: its number within the layer.
        n_topics: topics to fit.
        articles: read only so many of gensim's 106.
        seed: of topics, random features, simulations and untrained weights.
        show: print tables at the end.
        run_toml: the options of this run in TOML, written beside the results as ``run.toml``; None for no such file.

    Raises:
        TypeError, ValueError: if an argument is out of its range.
        FileExistsError: if ``folder`` holds something else.
        ModuleNotFoundError: if the package that carries the model is not installed.
    """
    require_dual_options(passage, layer, head, n_topics, articles, seed)
    screen = Screen(show)
    with whole_folder(folder, kind="an earlier dual", replaceable=written_by(_KIND)) as new:
        outcome, tables = _run(new, passage, layer, head, n_topics, articles, seed, screen, run_toml)
    for table in tables:
        screen.show(table)
    screen.show("\n" + _MEANING)
    screen.written(folder)
    return outcome


def require_dual_options(passage: Any, layer: Any, head: Any, n_topics: Any, articles: Any, seed: Any) -> None:
    """Raise TypeError or ValueError if an option of :func:`run_dual` is out of its range, or lacks its partner."""
    require_count("n_topics", n_topics, minimum=2)
    require_count("seed", seed, minimum=0)
    if articles is not None:
        require_count("articles", articles, minimum=2 * HELD_OUT_EVERY)
    if passage is not None and (not isinstance(passage, str) or not passage.strip()):
        raise ValueError(f"passage must be a text, or None for one of an article, got {passage!r}")
    if (layer is None) != (head is None):
        raise ValueError(f"layer and head must be given together, or neither, got layer={layer!r} and head={head!r}")


def _run(
    folder: Path,
    passage: str | None,
    layer: int | None,
    head: int | None,
    n_topics: int,
    articles: int | None,
    seed: int,
    screen: Screen,
    run_toml: str | None,
) -> tuple[DualOutcome, list[Table]]:
    from ..dual import attach_head, simulate_bound, trace
    from ..dual._heads import require_index

    started = time.monotonic()
    model, tokenizer = open_minilm()
    if layer is not None:
        require_index("layer", layer, int(model.cfg.n_layers))
        require_index("head", head, int(model.cfg.n_heads))
    documents = list(sample_wikipedia(limit=articles))
    others, held_out = split_articles(documents)
    screen.step(f"fitting {n_topics} topics on {len(others)} Wikipedia articles")
    topics = fit_lda(others, n_topics=n_topics, seed=seed)
    labels = topics.label_words()
    topics.save(folder / "topics")

    screen.step(f"contributions by topic in {_MODEL}, on {len(held_out)} held-out articles, trained and untrained")
    by_topic, chosen = _contributions(folder, model, tokenizer, others[::2], held_out, labels, seed)
    layer, head = chosen if layer is None or head is None else (layer, head)

    screen.step(f"layer {layer}, head {head} as its dual; then all heads, and the residual stream")
    text = _example(held_out, labels) if passage is None else passage
    ids = _ids(tokenizer, text)
    query = _query(ids, labels, tokenizer)
    dual = attach_head(model, ids, layer=layer, head=head, query=query, tokenizer=tokenizer)
    one = _show_one(folder, dual, labels)
    heads = _all_heads(model, ids, query)
    heads.to_csv(folder / "heads.csv", index=False)
    stream = trace(model, ids, tokenizer=tokenizer, linearised=True)
    stream.to_csv(folder / "trace.csv", index=False)

    screen.step("random features, and the bound in simulation")
    errors = feature_errors(dual, seed)
    errors.to_csv(folder / "random_features.csv", index=False)
    save_plot(plot_feature_errors(errors), folder / "random_features.png")
    bound = simulate_bound(seed=seed)
    frame = bound.to_frame()
    frame.to_csv(folder / "bound.csv", index=False)
    save_plot(plot_bound(frame), folder / "bound.png")

    summary: dict[str, Any] = {
        "kind": _KIND,
        "seed": seed,
        "model": _MODEL,
        "passage": text,
        "query": {"position": query, "token": tokenizer.convert_ids_to_tokens([ids[query]])[0]},
        **one,
        "all_heads": {
            "n_heads": len(heads),
            "largest_relative_error": heads["relative_error"].max(),
            "largest_unfolded": heads["unfolded"].max(),
            "largest_kernel_error": heads["kernel_error"].max(),
        },
        "stream": {
            "largest_relative_error": stream["relative_error_residual"].max(),
            "linearised": stream["relative_error_linearised"].tolist(),
        },
        "random_features": _feature_summary(errors),
        "bound": {
            "delta": bound.delta,
            "least_share_holding": frame["share_holding"].min(),
            "looseness": frame["looseness"].tolist(),
            "slope_of_bound": _slope(frame["n_demonstrations"], frame["allowed"]),
            "slope_of_gap": _slope(frame["n_demonstrations"], frame["largest_gap"]),
        },
        "by_topic": by_topic,
    }
    doubts = _doubts(summary)
    summary["doubts"] = doubts
    summary["seconds"] = round(time.monotonic() - started, 1)
    summary = finish(folder, summary, run_toml)
    tables = [_numbers_table(summary), _contributions_table(dual.classified(labels)), _by_topic_table(summary)]
    return DualOutcome(summary, tuple(doubts)), tables


def _contributions(
    folder: Path,
    model: Any,
    tokenizer: Any,
    others: Sequence[Document],
    held_out: Sequence[Document],
    labels: TopicLabels,
    seed: int,
) -> tuple[dict[str, Any], tuple[int, int]]:
    """Write ``by_topic.csv``; return headlines over the held-out articles, and the head to show.

    Topic heads (by attention) and the head to show (by contributions) are chosen on the other articles.
    """
    from ..dual import contributions_by_topic
    from ..probes._twin import untrained_twin

    reading = {**_READING, "tokenizer": tokenizer, "seed": seed}
    choosing = contributions_by_topic(model, others, labels, **reading).to_frame()
    measured = contributions_by_topic(model, held_out, labels, **reading)
    untrained = contributions_by_topic(untrained_twin(model, seed), held_out, labels, **reading)
    measured.to_frame().to_csv(folder / "by_topic.csv", index=False)
    ratio = choosing["attention_same_topic"] / choosing["attention_cross_topic"]
    ranked = choosing.assign(ratio=ratio).sort_values("ratio", ascending=False)[["layer", "head"]]
    sites = [(int(layer), int(head)) for layer, head in ranked.itertuples(index=False)]
    n_chosen = max(1, len(sites) // _TOPIC_HEADS)
    best = choosing.nlargest(1, "difference").iloc[0]
    found = {
        "n_documents": measured.tally["n_documents"],
        "trained": measured.headline(),
        "untrained": untrained.headline(),
        "topic_heads": measured.headline(heads=sites[:n_chosen]),
        "other_end": measured.headline(heads=sites[-n_chosen:]),
    }
    return found, (int(best["layer"]), int(best["head"]))


def _ids(tokenizer: Any, text: str) -> list[int]:
    from ..tokens._tokenizer import TokenizerView

    ids = [int(one) for one in TokenizerView(tokenizer).tokenize(text).token_ids]
    # A text that is cut keeps its last token, [SEP].
    return ids if len(ids) <= _PASSAGE_TOKENS else [*ids[: _PASSAGE_TOKENS - 1], ids[-1]]


def _query(ids: Sequence[int], labels: TopicLabels, tokenizer: Any) -> int:
    """Return the position of the word with most words of its topic, of the last word, or of the last token."""
    from .._axes import PAIR_CLASSES
    from ..probes._pairs import classify
    from ..tokens import DocumentReader

    window = DocumentReader(tokenizer, words="whole", of_words=labels.of_words).row("passage", np.array(ids))
    if not len(window.starts):
        return len(ids) - 1
    partners = (classify(window, labels).classes == PAIR_CLASSES.index("same_topic")).sum(axis=1)
    return int(window.starts[partners.argmax() if partners.any() else -1])


def _show_one(folder: Path, dual: HeadDual, labels: TopicLabels) -> dict[str, Any]:
    """Write what one head does at one query; return its headline numbers."""
    contributions, classes = dual.classified(labels), dual.by_topic(labels)
    contributions.to_csv(folder / "contributions.csv", index=False)
    classes.to_csv(folder / "classes.csv", index=False)
    word = dual.tokenizer.convert_ids_to_tokens([dual.token_ids[dual.query_position]])[0]
    shown = word.replace("$", r"\$")  # else it begins a formula
    title = f"Layer {dual.layer}, head {dual.head}: what each token contributes at '{shown}'"
    save_plot(plot_contributions(contributions, title=title), folder / "contributions.png")

    model = dual.dual.at(dual.query[None])
    trained = model.train(50)
    trained.to_frame().to_csv(folder / "training.csv", index=False)
    own = ~dual.is_demonstration
    output = dual.attention @ dual.values
    rest = float((dual.attention * (dual.values @ output))[own].sum() / output.square().sum())
    return {
        "head": {
            "layer": dual.layer,
            "head": dual.head,
            "relative_error": dual.relative_error,
            "unfolded": dual.unfolded,
            "shares_of_all_tokens": float(contributions["share"].to_numpy().sum()) + rest,
            "share_of_own_token": rest,
        },
        "optimiser": {
            "error_of_one_step": _relative(model.step(), model.W),
            "error_of_50_steps": _relative(trained.W, model.W),
            "largest_bend_of_the_loss": float(np.abs(np.diff(trained.losses, 2)).max() / np.ptp(trained.losses)),
        },
        "classes": classes.to_dict(orient="records"),
    }


def _relative(found: np.ndarray, real: np.ndarray) -> float:
    return float(np.linalg.norm(found - real) / np.linalg.norm(real))


def _all_heads(model: Any, ids: Sequence[int], query: int) -> pd.DataFrame:
    """Return the errors of every head's dual at one query, from one pass."""
    import pandas as pd
    import torch

    from ..dual._attach import head_dual
    from ..dual._heads import read_layers

    rows = []
    for layer, read in read_layers(model, torch.tensor([list(ids)])).items():
        for head in range(len(read.pattern)):
            dual = head_dual(read, head, query, None, token_ids=tuple(ids))
            names = ("relative_error", "kernel_error", "unfolded")
            rows.append({"layer": layer, "head": head, **{name: getattr(dual, name) for name in names}})
    return pd.DataFrame(rows)


def feature_errors(
    dual: HeadDual, seed: int = 0, *, n_features: Sequence[int] = _FEATURES, n_seeds: int = _SEEDS
) -> pd.DataFrame:
    """Return relative kernel errors of random features for a head's own keys and query, and for the same made short.

    Short ones keep their directions and have scores of at most 1/4.

    Args:
        dual: the head, from :func:`topic_probes.dual.attach_head`.
        seed: the first of the seeds.
        n_features: numbers of features to try, even.
        n_seeds: draws of each.

    Returns:
        Columns ``norms features n_features seed relative_kernel_error``.
    """
    import pandas as pd

    from ..dual import PositiveFeatures, TrigonometricFeatures, fit

    keys, query = dual.keys.numpy(), dual.query.numpy()[None]
    short = 0.5 / abs(dual.scale) ** 0.5
    lengths = np.linalg.norm(keys, axis=1, keepdims=True)
    tokens = {
        _SMALL: (short * keys / np.maximum(lengths, 1e-300), short * query / np.linalg.norm(query)),
        _REAL: (keys, query),
    }
    kinds: dict[str, Callable[[int, int], Any]] = {"trigonometric": TrigonometricFeatures, "positive": PositiveFeatures}
    rows = []
    for norms, (some_keys, queries) in tokens.items():
        for name, kind in kinds.items():
            for count in n_features:
                for number in range(seed, seed + n_seeds):
                    fitted = fit(some_keys, dual.values, slice(None), dual.scale, kind(count, number))
                    error = fitted.relative_kernel_error(queries)
                    rows.append((norms, name, count, number, error))
    return pd.DataFrame(rows, columns=["norms", "features", "n_features", "seed", "relative_kernel_error"])


def _feature_summary(errors: pd.DataFrame) -> dict[str, Any]:
    medians: Any = errors.groupby(["norms", "features", "n_features"])["relative_kernel_error"].median()
    found: dict[str, Any] = {}
    for name in dict.fromkeys(errors["features"]):
        small, real = medians[_SMALL][name], medians[_REAL][name]
        found[name] = {
            "slope_at_small_norms": _slope(small.index, small),
            "error_at_real_norms": {str(count): float(error) for count, error in real.items()},
        }
    return found


def _slope(x: Any, y: Any) -> float:
    """Return the slope of a line through the logarithms."""
    return float(np.polyfit(np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float)), 1)[0])


def _doubts(summary: dict[str, Any]) -> list[str]:
    """Return what is wrong with the headline numbers; a NaN is wrong."""
    checks = [
        ("largest relative error of a head", summary["all_heads"]["largest_relative_error"], 0.0, _EXACT),
        ("relative error of the shown head", summary["head"]["relative_error"], 0.0, _EXACT),
        ("attention beside the kernel", summary["all_heads"]["largest_unfolded"], 0.0, _EXACT),
        ("relative error of the stream", summary["stream"]["largest_relative_error"], 0.0, _EXACT),
        ("sum of all shares", summary["head"]["shares_of_all_tokens"], 1 - _EXACT, 1 + _EXACT),
        ("error of the optimiser's step", summary["optimiser"]["error_of_one_step"], 0.0, _STEP),
        ("error of 50 small steps", summary["optimiser"]["error_of_50_steps"], 0.0, _STEP),
        ("share of simulations where the bound holds", summary["bound"]["least_share_holding"], 0.95, 1.0),
        ("slope of the bound", summary["bound"]["slope_of_bound"], -0.5 - _SLOPE, -0.5 + _SLOPE),
        ("slope of the gap", summary["bound"]["slope_of_gap"], -0.5 - _SLOPE, -0.5 + _SLOPE),
        ("untrained difference", summary["by_topic"]["untrained"]["difference"], -_UNTRAINED, _UNTRAINED),
    ]
    checks += [
        (f"slope of {name} features", found["slope_at_small_norms"], -0.5 - _SLOPE, -0.5 + _SLOPE)
        for name, found in summary["random_features"].items()
    ]
    doubts = [
        f"{name}: {value:.3g}, and should be from {low:.3g} to {high:.3g}"
        for name, value, low, high in checks
        if not low <= value <= high
    ]
    trained = summary["by_topic"]["trained"]
    if math.isnan(trained["difference_low"]):
        doubts.append(f"too few documents for an interval ({summary['by_topic']['n_documents']})")
    elif not trained["difference_low"] > 0:
        doubts.append(f"the trained difference {trained['difference']:.3f} is not clearly above 0")
    return doubts


def _numbers_table(summary: dict[str, Any]) -> Table:
    table = Table(title=f"{_MODEL}: attention as one gradient step", title_justify="left")
    table.add_column("what")
    table.add_column("number", justify="right")
    head, features, bound = summary["head"], summary["random_features"], summary["bound"]
    heads, limit = summary["all_heads"], max(_FEATURES)
    rows = [
        (f"largest relative error of {heads['n_heads']} heads' duals", f"{heads['largest_relative_error']:.1e}"),
        ("the residual stream, rebuilt from all duals", f"{summary['stream']['largest_relative_error']:.1e}"),
        ("one optimiser step against the closed form", f"{summary['optimiser']['error_of_one_step']:.1e}"),
        (f"shares of all tokens (layer {head['layer']}, head {head['head']})", f"{head['shares_of_all_tokens']:.6f}"),
    ]
    for name, found in features.items():
        error = found["error_at_real_norms"][str(limit)]
        said = "infinite" if error is None else f"{error:.2g}"
        rows.append((f"{limit} {name} features: error at this head's norms", said))
    rows.append(("bound: holds in", f"{bound['least_share_holding']:.1%} of simulations"))
    rows.append(("bound: allowed over largest gap", f"{bound['looseness'][-1]:.1f}"))
    for name, number in rows:
        table.add_row(name, number)
    return table


def _contributions_table(contributions: pd.DataFrame) -> Table:
    table = Table(title="Tokens that contribute most to the shown head", title_justify="left")
    for name in ("token", "class", "attention", "share"):
        table.add_column(name, justify="left" if name in ("token", "class") else "right")
    for row in contributions.nlargest(8, "share").to_dict(orient="records"):
        shown = row["token"].replace("[", "\\[")  # rich reads brackets as markup
        table.add_row(shown, row["pair_class"].replace("_", " "), f"{row['attention']:.3f}", f"{row['share']:.3f}")
    return table


def _by_topic_table(summary: dict[str, Any]) -> Table:
    found = summary["by_topic"]
    table = Table(
        title=f"Share of the output per token, over {found['n_documents']} held-out articles (all alike = 1)",
        title_justify="left",
    )
    for name in ("", "same topic", "cross topic", "difference", "95 %"):
        table.add_column(name, justify="right" if name else "left")
    names = {"trained": "trained", "topic_heads": "  topic heads", "other_end": "  other end", "untrained": "untrained"}
    for key, name in names.items():
        row = {column: math.nan if value is None else value for column, value in found[key].items()}
        table.add_row(
            name,
            f"{row['same_topic']:.2f}",
            f"{row['cross_topic']:.2f}",
            f"{row['difference']:.2f}",
            f"{row['difference_low']:.2f} to {row['difference_high']:.2f}",
        )
    return table
