"""Tables of an attention result beyond its heads: layers, distances, topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._axes import Site
from ._by_group import ByGroup, divide, layer_intervals
from ._intervals import N_RESAMPLES
from ._strata import DISTANCE_EDGES
from ._sums import AttentionSums

if TYPE_CHECKING:
    import pandas as pd


def site_columns(sites: tuple[Site, ...], which: np.ndarray) -> dict[str, Any]:
    """Return the columns that say where a row belongs: ``stack`` if there are several, and ``layer``."""
    layers = np.array([site.layer for site in sites])[which]
    stacks = np.array([site.stack for site in sites], dtype=object)
    return {**({"stack": stacks[which]} if any(stacks) else {}), "layer": layers}


def layer_frame(totals: AttentionSums, estimator: str, level: float, method: str, seed: int) -> pd.DataFrame:
    """Return one row per site: means over its heads, ratio and difference with intervals."""
    import pandas as pd

    by_group = ByGroup.of(totals, estimator)
    n_sites = len(totals.sites)
    same, cross = (means[0] for means in by_group.layer_means(np.ones((1, by_group.n_groups))))

    ratio, difference = (
        layer_intervals(by_group, measure, level, method, N_RESAMPLES, seed) for measure in ("ratio", "difference")
    )
    return pd.DataFrame(
        {
            **site_columns(totals.sites, np.arange(n_sites)),
            "same_topic": same,
            "cross_topic": cross,
            "difference": same - cross,
            "difference_low": difference.low,
            "difference_high": difference.high,
            "ratio": divide(same, cross),
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
        }
    )


def distance_frame(totals: AttentionSums) -> pd.DataFrame:
    """Return one row per site, head, pair class and bucket of distance that has pairs."""
    import pandas as pd

    n_buckets = len(DISTANCE_EDGES)
    counts = totals.curve.weights
    site, cell = np.nonzero(counts)
    n_heads = totals.curve.values.shape[1]
    means = totals.curve.values[site, :, cell] / counts[site, cell][:, None]
    site, cell = np.repeat(site, n_heads), np.repeat(cell, n_heads)
    bucket = cell % n_buckets
    farthest = np.append(DISTANCE_EDGES[1:] - 1, np.iinfo(np.int64).max)
    frame = pd.DataFrame(
        {
            **site_columns(totals.sites, site),
            "head": np.tile(np.arange(n_heads), len(means)),
            "pair_class": np.where(cell < n_buckets, "same_topic", "cross_topic").astype(object),
            "distance": DISTANCE_EDGES[bucket],
            "distance_high": farthest[bucket],
            "n_pairs": np.rint(counts[site, cell]).astype(np.int64),
            "mean": means.ravel(),
        }
    )
    order = [name for name in ("stack", "layer", "head", "pair_class", "distance") if name in frame]
    return frame.sort_values(order, ignore_index=True)


def topic_matrix(totals: AttentionSums, layer: int, head: int, stack: str) -> pd.DataFrame:
    """Return the means [topic, key_topic] of one head."""
    import pandas as pd

    _require_topics(totals)
    names = [(site.stack, site.layer) for site in totals.sites]
    n_heads = totals.topics.values.shape[1]
    if (stack, layer) not in names:
        known = sorted({found for found, _ in names})
        of = f" of stack {stack!r}" if stack else ""
        raise ValueError(
            f"layer {layer}{of} was not measured; layers: {sorted({number for _, number in names})}"
            + (f", stacks: {known}" if any(known) else "")
        )
    if not 0 <= head < n_heads:
        raise ValueError(f"head must be in [0, {n_heads}), got {head}")
    index = names.index((stack, layer))
    counts = totals.topics.weights[index]
    means = divide(totals.topics.values[index, head], counts)
    topics = pd.RangeIndex(len(means))
    return pd.DataFrame(means, index=topics.rename("query_topic"), columns=topics.rename("key_topic"))


def topic_frame(totals: AttentionSums) -> pd.DataFrame:
    """Return one row per site, head and topic that has pairs: attention to the same topic and to others."""
    import pandas as pd

    _require_topics(totals)
    values, weights = totals.topics.values, totals.topics.weights
    n_heads = values.shape[1]
    own, own_pairs = np.einsum("lhtt->lht", values), np.einsum("ltt->lt", weights)
    others = divide(values.sum(axis=3) - own, (weights.sum(axis=2) - own_pairs)[:, None])
    same = divide(own, own_pairs[:, None])
    site, topic = np.nonzero(own_pairs)
    rows = np.repeat(site, n_heads), np.tile(np.arange(n_heads), len(site)), np.repeat(topic, n_heads)
    frame = pd.DataFrame(
        {
            **site_columns(totals.sites, rows[0]),
            "head": rows[1],
            "topic": rows[2],
            "same_topic": same[rows],
            "other_topics": others[rows],
            "dominance": divide(same[rows], others[rows]),
            "n_pairs": np.rint(own_pairs[rows[0], rows[2]]).astype(np.int64),
        }
    )
    order = [name for name in ("stack", "layer", "head", "topic") if name in frame]
    return frame.sort_values(order, ignore_index=True)


def _require_topics(totals: AttentionSums) -> None:
    if totals.topics.values.shape[2] == 0:
        raise ValueError(
            "attention by topic was not kept in this run (topics x topics for every head is much for many topics): "
            "probe again with topic_matrices=True, or fewer layers"
        )
