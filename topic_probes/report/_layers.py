"""Same-topic against cross-topic similarity over the layers of a model, trained beside untrained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _style as style
from ._frames import name_axes, require_columns, require_one_row_each

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

_CLASSES = (
    ("same_topic", "same topic", style.SAME_TOPIC_COLOUR),
    ("cross_topic", "cross topic", style.CROSS_TOPIC_COLOUR),
)
_LABELS = {
    "dot": "mean dot product",
    "cosine": "mean cosine",
    "centred_cosine": "mean cosine, mean vector removed",
}
# The first model stands out, those after it (the untrained twin) step back.
_LINES: tuple[dict[str, Any], ...] = (
    {"linestyle": "-", "marker": "o", "linewidth": 1.8},
    {"linestyle": (0, (4, 2)), "marker": "D", "linewidth": 1.2, "markerfacecolor": "white"},
    {"linestyle": (0, (1, 1.5)), "marker": "^", "linewidth": 1.2, "markerfacecolor": "white"},
    {"linestyle": (0, (6, 2, 1, 2)), "marker": "s", "linewidth": 1.2, "markerfacecolor": "white"},
)
_MARKERS_UP_TO = 40
_EMBEDDING_TICK = "embed"


def plot_layers(frame: DataFrame, ax: Axes | None = None, *, measure: str = "centred_cosine") -> Axes:
    """Draw how alike same-topic and cross-topic words are at each layer, with bands for intervals.

    Args:
        frame: columns ``layer``, ``measure``, ``pair_class`` and ``mean``, as of ``EmbeddingResult.to_frame`` with
            layers; optionally ``low`` and ``high``, the ends of the bands, and ``model`` (such as ``trained`` and
            ``untrained``; at most four). Layer -1, the stream before the first layer, is written ``embed``. Missing
            values leave a gap. Models stand in the order in which they first appear.
        ax: where to draw; a new figure if None.
        measure: ``dot``, ``cosine`` or ``centred_cosine``.

    Raises:
        TypeError: if ``frame`` is no table.
        ValueError: if a column is missing, a model has two rows for a layer and class, there are more than four
            models, or no row of the measure is left.
    """
    require_columns(frame, ("layer", "measure", "pair_class", "mean"))
    if measure not in set(frame["measure"]):
        there = ", ".join(map(repr, dict.fromkeys(frame["measure"]))) or "none"
        raise ValueError(f"measure must be one of those in the frame ({there}), got {measure!r}")
    frame = frame.loc[(frame["measure"] == measure) & frame["pair_class"].isin([name for name, _, _ in _CLASSES])]
    with_models, with_ends = "model" in frame.columns, {"low", "high"} <= set(frame.columns)
    require_one_row_each(frame, (*(["model"] if with_models else []), "layer", "pair_class"))
    models: list[Any] = list(dict.fromkeys(frame["model"])) if with_models else [None]
    if len(models) > len(_LINES):
        raise ValueError(f"frame must have at most {len(_LINES)} models, got {len(models)}: select some of them")

    numbers = frame["layer"].to_numpy(dtype=int)
    layers = np.arange(numbers.min(), numbers.max() + 1)
    ax = style.new_axes(float(np.clip(4.4 + 0.22 * len(layers), 5.2, 11)), 3.8) if ax is None else ax
    if measure != "dot":
        ax.axhline(0, color=style.FAINT_INK, linewidth=0.8, zorder=1)
    for model, line in zip(models, _LINES, strict=False):
        of_model = frame.loc[frame["model"] == model] if with_models else frame
        for pair_class, name, colour in _CLASSES:
            rows = of_model.loc[of_model["pair_class"] == pair_class]
            places = rows["layer"].to_numpy(dtype=int) - layers[0]

            def over_layers(column: str, rows: DataFrame = rows, places: np.ndarray = places) -> np.ndarray:
                values = np.full(len(layers), np.nan)
                values[places] = rows[column].to_numpy(dtype=float, na_value=np.nan)
                return values

            ax.plot(
                layers,
                over_layers("mean"),
                color=colour,
                label=name if model is None else f"{name}, {style.shortened(model)}",
                markersize=4 if len(layers) <= _MARKERS_UP_TO else 0,
                zorder=3,
                **line,
            )
            if with_ends:
                low, high = over_layers("low"), over_layers("high")
                ax.fill_between(layers, low, high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    _finish_layers(ax, layers, _LABELS.get(measure, measure), n_columns=len(models))
    return ax


def _finish_layers(ax: Axes, layers: np.ndarray, label: str, *, n_columns: int) -> None:
    import seaborn as sns

    ax.set_xlim(layers[0] - 0.4, layers[-1] + 0.4)
    ax.margins(y=0.06)
    ax.tick_params(labelsize=style.TICK_SIZE)
    ax.grid(False)
    ax.grid(axis="y", color="#E5E5E5", linewidth=0.8, zorder=0)
    ax.set_axisbelow(True)
    sns.despine(ax=ax)
    name_axes(ax, "after layer", label)
    # Above the axes: no line can run through it there.
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        ncols=n_columns,
        frameon=False,
        fontsize=style.TICK_SIZE,
        handlelength=2.6,
    )
    style.settle_layout(ax)
    # A number is about as wide as two lines of text are high; the name of layer -1 needs twice that to its neighbour.
    room = style.TICK_SIZE * 2.2 / 72 * style.cells_per_inch(ax, "x", len(layers))
    step = max(1, int(np.ceil(room)))
    has_embedding = layers[0] < 0
    shown = [int(layer) for layer in layers if layer % step == 0 and layer >= (1.5 * room - 1 if has_embedding else 0)]
    shown = [int(layers[0]), *shown] if has_embedding else shown
    ax.set_xticks(shown, [_EMBEDDING_TICK if layer < 0 else str(layer) for layer in shown])
