"""The pictures, judged by what was rendered: cells, colours, ticks, error bars, and what was left alone."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from topic_probes import report
from topic_probes.report import _style as style

# matplotlib's annotations know less than the rendered axes have, so what comes back is read without them.
plot_heads: Any = report.plot_heads
plot_classes: Any = report.plot_classes
plot_embedding_blocks: Any = report.plot_embedding_blocks
plot_attention_blocks: Any = report.plot_attention_blocks

WORDS = ["the", "band", "played", "while", "armies", "fought", "the", "war"]
TOPICS = [None, "music", "music", None, "war", "war", None, "war"]


@pytest.fixture(autouse=True)
def no_figure_is_left():
    """Each test starts and ends without open figures."""
    plt.close("all")
    yield
    plt.close("all")


def heads_frame(values):
    """Return the frame of a [layer, head] array of ratios."""
    layers, heads = np.indices(np.shape(values))
    ratios = np.ravel(values).astype(float)
    return pd.DataFrame({"layer": layers.ravel(), "head": heads.ravel(), "ratio": ratios, "difference": ratios - 1})


def classes_frame():
    """Return a frame of two models with intervals, and a class that is not drawn."""
    rows = [
        ("trained", "same_topic", 1.6, 1.5, 1.75),
        ("trained", "cross_topic", 1.1, 1.05, 1.2),
        ("trained", "same_token", 9.0, 8.0, 10.0),
        ("untrained", "same_topic", 1.01, 0.97, 1.04),
        ("untrained", "cross_topic", 0.99, 0.98, 1.0),
    ]
    return pd.DataFrame(rows, columns=["model", "pair_class", "mean", "low", "high"])


def square(cells, words):
    """Return a square table of words by words."""
    return pd.DataFrame(np.array(cells, dtype=float), index=list(words), columns=list(words))


def attention_frame(words=WORDS):
    """Return a causal attention table in units of uniform = 1, with a sink on the first word."""
    count = len(words)
    weights = np.tril(np.random.default_rng(0).random((count, count)) + 0.1)
    weights[:, 0] += 20
    weights *= (np.arange(count) + 1)[:, None] / weights.sum(axis=1, keepdims=True)
    weights[np.triu_indices(count, 1)] = np.nan
    return square(weights, words)


def draw_heads(ax=None):
    return plot_heads(heads_frame([[1, 2, np.nan], [0.5, 1, 1.5]]), ax=ax)


def draw_classes(ax=None):
    return plot_classes(classes_frame(), ax=ax)


def draw_embedding(ax=None):
    return plot_embedding_blocks(square(np.eye(8), "abcdefgh"), ["x", "y"] * 4, ax=ax)


def draw_attention(ax=None):
    return plot_attention_blocks(attention_frame(), TOPICS, ax=ax)


every_plot = pytest.mark.parametrize("draw", [draw_heads, draw_classes, draw_embedding, draw_attention])


def mesh_of(ax) -> Any:
    """Return the one heatmap on the axes."""
    (mesh,) = [collection for collection in ax.collections if isinstance(collection, QuadMesh)]
    return mesh


def colours_of(ax):
    """Return the rendered colours of the cells, [row, column, rgba]."""
    ax.figure.canvas.draw()
    mesh = mesh_of(ax)
    return mesh.get_facecolors().reshape(*mesh.get_array().shape, 4)


def texts(labels):
    return [label.get_text() for label in labels]


def is_grey(rgba):
    return np.allclose(rgba, to_rgba(style.MISSING_COLOUR), atol=1e-6)


def bar_of(ax):
    return mesh_of(ax).colorbar


@every_plot
def test_given_axes_are_drawn_on_and_returned(draw):
    """With ``ax`` no other figure is opened, and the same axes come back."""
    figure, ax = plt.subplots()
    assert draw(ax) is ax
    assert plt.get_fignums() == [figure.number]


@every_plot
def test_without_axes_one_new_figure_is_made(draw):
    """Without ``ax`` the picture has a figure of its own and spares the current one."""
    _, current = plt.subplots()
    assert draw().figure is not current.figure
    assert len(plt.get_fignums()) == 2
    assert not current.has_data()


@every_plot
def test_settings_are_left_alone(draw):
    """The caller's style is the same before and after."""
    before = dict(mpl.rcParams)
    draw()
    assert dict(mpl.rcParams) == before


@every_plot
@pytest.mark.parametrize("name", ["dark_background", "ggplot", "seaborn-v0_8-whitegrid"])
def test_any_style_of_the_caller_is_survived(draw, name):
    """A grid or a dark background of the caller's style raises no warning when the picture is rendered."""
    with plt.style.context(name):
        draw().figure.canvas.draw()


@pytest.mark.parametrize("draw", [draw_heads, draw_embedding, draw_attention])
def test_heatmaps_have_no_grid(draw):
    """A caller's style with a grid puts no lines through the cells."""
    with plt.style.context("seaborn-v0_8-whitegrid"):
        ax = draw()
    assert not any(line.get_visible() for line in [*ax.get_xgridlines(), *ax.get_ygridlines()])


@every_plot
def test_the_picture_can_be_saved(draw, tmp_path):
    """Layout and fonts give no warning on the way to a file."""
    draw().figure.savefig(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("function", "table", "arguments"),
    [
        (plot_heads, heads_frame([[1, 2], [np.nan, 0.5]]), ()),
        (plot_classes, classes_frame(), ()),
        (plot_embedding_blocks, square(np.eye(8), "abcdefgh"), (list("xyxyxyxy"),)),
        (plot_attention_blocks, attention_frame(), (TOPICS,)),
    ],
)
def test_tables_are_not_written_to(function, table, arguments):
    """Tables over read-only arrays are drawn, and are the same afterwards."""
    blocks = {column: table.iloc[:, place].to_numpy().copy() for place, column in enumerate(table.columns)}
    if table.shape[0] == table.shape[1] and function in (plot_embedding_blocks, plot_attention_blocks):
        values = table.to_numpy().copy()
        values.flags.writeable = False
        frozen = pd.DataFrame(values, index=table.index, columns=table.columns, copy=False)
    else:
        for values in blocks.values():
            values.flags.writeable = False
        frozen = pd.DataFrame(blocks, copy=False)
    before = frozen.copy(deep=True)
    function(frozen, *arguments)
    pd.testing.assert_frame_equal(frozen, before)


def test_heads_are_layers_by_heads_with_layer_zero_at_the_bottom():
    """Cells carry log2 of the ratio; layer 0 is the lowest row and head 0 the leftmost column."""
    ax = plot_heads(heads_frame([[1, 2, 4], [0.5, 1, 1.5]]))
    np.testing.assert_allclose(mesh_of(ax).get_array(), np.log2([[1, 2, 4], [0.5, 1, 1.5]]))
    bottom, top = ax.get_ylim()
    left, right = ax.get_xlim()
    assert (bottom, top, left, right) == (0, 2, 0, 3)
    assert texts(ax.get_yticklabels()) == ["0", "1"]
    assert texts(ax.get_xticklabels()) == ["0", "1", "2"]


def test_head_rows_may_come_in_any_order():
    """A shuffled table gives the same picture, and a head without a row is grey."""
    frame = heads_frame([[1, 2], [0.5, 3]]).sample(frac=1, random_state=1)
    ax = plot_heads(frame[~((frame["layer"] == 0) & (frame["head"] == 1))])
    cells = mesh_of(ax).get_array()
    assert cells[1, 1] == pytest.approx(np.log2(3))
    assert is_grey(colours_of(ax)[0, 1])


def test_uniform_heads_are_white_and_the_scale_is_symmetric():
    """Ratio 1 is the middle of the colours, r and 1/r are equally far from it."""
    ax = plot_heads(heads_frame([[1, 2.5, 0.9], [1, 1.2, 0.7]]))
    low, high = mesh_of(ax).get_clim()
    assert low == -high
    assert high == pytest.approx(np.log2(3))
    # Near-white, all three channels alike.
    assert np.ptp(colours_of(ax)[0, 0, :3]) < 0.02
    assert colours_of(ax)[0, 0, :3].min() > 0.95


def test_small_ratios_share_one_scale():
    """Down to noise the colours end at 2, so that an untrained twin looks as pale as it is."""
    ax = plot_heads(heads_frame([[1.01, 0.99]]))
    assert mesh_of(ax).get_clim() == (-1, 1)
    assert colours_of(ax)[..., :3].min() > 0.9


def test_the_colour_bar_of_heads_is_labelled_with_ratios():
    """Ticks stand at log2 of what they say."""
    bar = bar_of(plot_heads(heads_frame([[2, 0.5]])))
    assert texts(bar.ax.get_yticklabels()) == ["0.5", "0.67", "1", "1.5", "2"]
    np.testing.assert_allclose(bar.get_ticks(), np.log2([1 / 2, 1 / 1.5, 1, 1.5, 2]))


@pytest.mark.parametrize(
    ("ratios", "extend"), [([2, 0.5], "neither"), ([100, 1], "max"), ([0, 1], "min"), ([0, 99], "both")]
)
def test_heads_beyond_the_scale_are_said_to_be(ratios, extend):
    """A ratio of 0, or above 16, takes the end of the colours, and the colour bar has an arrow there."""
    ax = plot_heads(heads_frame([ratios]))
    assert bar_of(ax).extend == extend
    assert np.isfinite(mesh_of(ax).get_array()).all()


def test_heads_without_a_value_are_grey_and_said_to_be():
    """NaN is grey, not white, has no number, and the axis says what grey means."""
    ax = plot_heads(heads_frame([[1, np.nan]]))
    assert is_grey(colours_of(ax)[0, 1])
    assert not is_grey(colours_of(ax)[0, 0])
    assert "grey" in ax.get_xlabel()
    assert "grey" not in plot_heads(heads_frame([[1, 2]])).get_xlabel()


def test_a_model_without_any_value_is_all_grey():
    """No head with a value is no error."""
    ax = plot_heads(heads_frame([[np.nan, np.nan]]))
    assert is_grey(colours_of(ax)[0, 0])


def test_few_heads_are_annotated_and_many_are_not():
    """Numbers are written in up to 12 x 12 heads, one per head that has a value, to two digits."""
    assert texts(plot_heads(heads_frame([[1.234, np.nan], [2, 0.5]])).texts) == ["1.23", "2.00", "0.50"]
    assert len(plot_heads(heads_frame(np.ones((12, 12)))).texts) == 144
    assert not plot_heads(heads_frame(np.ones((13, 2)))).texts


def test_differences_are_drawn_around_zero():
    """``difference`` has a linear, symmetric scale that ends at a round number, and no -0.00."""
    frame = heads_frame([[1.34, 0.9999, 0.8]])
    ax = plot_heads(frame, value="difference")
    np.testing.assert_allclose(mesh_of(ax).get_array(), [[0.34, -0.0001, -0.2]])
    assert mesh_of(ax).get_clim() == pytest.approx((-0.4, 0.4))
    assert texts(ax.texts) == ["0.34", "0.00", "-0.20"]


@pytest.mark.parametrize(
    ("change", "value", "message"),
    [
        (lambda frame: frame.drop(columns="head"), "ratio", "it lacks head"),
        (lambda frame: pd.concat([frame, frame]), "ratio", "got several for layer 0, head 0"),
        (lambda frame: frame.iloc[:0], "ratio", "at least one row"),
        (lambda frame: frame.assign(ratio=-1.0), "ratio", "ratio must not be negative, got -1"),
        (lambda frame: frame, "p_value", "value must be one of"),
    ],
)
def test_tables_of_heads_that_cannot_be_drawn_are_refused(change, value, message):
    """One sentence says what is wrong, and no figure is opened."""
    with pytest.raises(ValueError, match=message):
        plot_heads(change(heads_frame([[1, 2]])), value=value)
    assert not plt.get_fignums()


def test_bars_have_the_heights_of_the_means():
    """Two bars per model, same topic left of cross topic; other classes are not drawn."""
    ax = plot_classes(classes_frame())
    same, cross = ([bar.get_height() for bar in container] for container in ax.containers)
    assert (same, cross) == ([1.6, 1.01], [1.1, 0.99])
    lefts = [[bar.get_x() for bar in container] for container in ax.containers]
    assert lefts[0][0] < lefts[1][0] < lefts[0][1] < lefts[1][1]
    assert texts(ax.get_xticklabels()) == ["trained", "untrained"]
    assert texts(ax.get_legend().get_texts()) == ["same topic", "cross topic"]


def test_error_bars_end_at_low_and_high():
    """Each line spans its interval, in the middle of its bar."""
    ax = plot_classes(classes_frame())
    lines = [collection for collection in ax.collections if isinstance(collection, LineCollection)]
    ends = [segment[:, 1].tolist() for collection in lines for segment in collection.get_segments()]
    assert ends == [[1.5, 1.75], [0.97, 1.04], [1.05, 1.2], [0.98, 1.0]]
    places = [segment[0, 0] for collection in lines for segment in collection.get_segments()]
    middles = [bar.get_x() + bar.get_width() / 2 for container in ax.containers for bar in container]
    np.testing.assert_allclose(places, middles)


def test_without_intervals_there_are_no_error_bars():
    """``low`` and ``high`` are optional, and a NaN interval is no line."""
    frame = classes_frame()
    assert not plot_classes(frame.drop(columns=["low", "high"])).collections
    ax = plot_classes(frame.assign(low=np.nan))
    assert sum(len(collection.get_segments()) for collection in ax.collections) == 0


def test_the_reference_stands_at_uniform():
    """A line at 1 is drawn, is labelled, and can be left out."""
    (line,) = plot_classes(classes_frame()).lines
    assert list(line.get_ydata()) == [1, 1]
    assert not plot_classes(classes_frame(), reference=None).lines
    assert "uniform" not in texts(plot_classes(classes_frame(), reference=0.0).texts)


def test_an_empty_class_is_no_bar_of_height_zero():
    """A class that is NaN, or has no row, says that there are no pairs."""
    frame = classes_frame()
    frame.loc[frame["pair_class"].eq("cross_topic") & frame["model"].eq("trained"), "mean"] = np.nan
    frame = frame[~(frame["pair_class"].eq("same_topic") & frame["model"].eq("untrained"))]
    ax = plot_classes(frame)
    assert texts(ax.texts).count("no pairs") == 2
    ax.figure.canvas.draw()
    assert np.isnan([bar.get_height() for bar in ax.patches if isinstance(bar, Rectangle)]).sum() == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="mean"), "it lacks mean"),
        (lambda frame: pd.concat([frame, frame]), "got several for model trained, pair_class same_topic"),
        (lambda frame: frame[frame["pair_class"] == "same_token"], "at least one row"),
    ],
)
def test_tables_of_classes_that_cannot_be_drawn_are_refused(change, message):
    """Nothing is averaged here: two rows for one bar are an error."""
    with pytest.raises(ValueError, match=message):
        plot_classes(change(classes_frame()))
    assert not plt.get_fignums()


def test_words_are_sorted_by_topic():
    """Rows and columns go together, topics in the order of their first word, words within in order."""
    cells = np.arange(16.0).reshape(4, 4)
    ax = plot_embedding_blocks(square(cells + cells.T, "abcd"), ["x", "y", "x", "y"])
    expected = (cells + cells.T)[np.ix_([0, 2, 1, 3], [0, 2, 1, 3])]
    low, high = mesh_of(ax).get_clim()
    drawn = mesh_of(ax).get_array()
    off_diagonal = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(drawn[off_diagonal], np.clip(expected, low, high)[off_diagonal])
    assert texts(ax.get_yticklabels()) == texts(ax.get_xticklabels()) == ["x", "y"]
    assert list(ax.get_yticks()) == [1, 3]


def test_boundaries_stand_between_topics():
    """One line across and one down for each change of topic."""
    ax = plot_embedding_blocks(square(np.eye(5), "abcde"), list("xxyyz"))
    across = sorted(line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[1])
    down = sorted(line.get_xdata()[0] for line in ax.lines if line.get_xdata()[0] == line.get_xdata()[1])
    assert across == down == [2, 4]


def test_a_word_with_itself_is_grey_and_a_topic_with_itself_is_not():
    """The diagonal of words would set the scale and says nothing; the diagonal of topics is the point."""
    matrix = square([[1, 0.1], [0.1, 1]], "ab")
    assert is_grey(colours_of(plot_embedding_blocks(matrix, ["x", "y"]))[0, 0])
    ax = plot_embedding_blocks(matrix, ["x", "y"], rows="topics")
    assert not is_grey(colours_of(ax)[0, 0])
    assert ax.get_title(loc="left") == "2 topics"


def test_words_without_a_topic_are_not_drawn():
    """None, NaN and a word that a mapping lacks are all unlabelled."""
    matrix = square(np.eye(4), "abcd")
    for topics in (["x", None, np.nan, "x"], {"a": "x", "d": "x"}, pd.Series(["x", pd.NA, None, "x"])):
        assert mesh_of(plot_embedding_blocks(matrix, topics)).get_array().shape == (2, 2)


def test_many_words_are_capped_evenly_and_the_title_says_so():
    """Each topic keeps its first words, the same number as far as it has them."""
    topics = ["big"] * 1000 + ["small"] * 3 + ["middle"] * 60
    ax = plot_embedding_blocks(square(np.eye(1063), range(1063)), topics, max_words=43)
    assert mesh_of(ax).get_array().shape == (43, 43)
    assert ax.get_title(loc="left") == "first 20 words of each topic: 43 of 1,063 words"
    assert list(ax.get_yticks()) == [10, 21.5, 33]


def test_more_topics_than_words_to_draw_are_capped_too():
    """The title says that not every topic is in the picture."""
    ax = plot_embedding_blocks(square(np.eye(9), range(9)), list(range(9)), max_words=4)
    assert mesh_of(ax).get_array().shape == (4, 4)
    assert ax.get_title(loc="left") == "first word of 4 topics: 4 of 9 words"


def test_similarities_around_zero_have_a_symmetric_scale():
    """When 0 lies within the values, it is the middle of the colours; else the scale follows the values."""
    random = np.random.default_rng(0)
    noise = random.normal(size=(40, 40))
    low, high = mesh_of(plot_embedding_blocks(square(noise, range(40)), [0, 1] * 20)).get_clim()
    assert low == -high
    low, high = mesh_of(plot_embedding_blocks(square(noise * 0.01 + 0.5, range(40)), [0, 1] * 20)).get_clim()
    assert 0.4 < low < 0.5 < high < 0.6


def test_names_of_thin_topics_do_not_overlap():
    """Of a hundred topics only as many names are shown as the axes have room for."""
    ax = plot_embedding_blocks(square(np.eye(300), range(300)), [f"topic {k // 3}" for k in range(300)])
    ax.figure.canvas.draw()
    for labels, low, high in ((ax.get_yticklabels(), "y0", "y1"), (ax.get_xticklabels(), "x0", "x1")):
        boxes = sorted((getattr(b, low), getattr(b, high)) for b in (label.get_window_extent() for label in labels))
        assert 10 < len(boxes) < 100
        assert all(first[1] <= second[0] + 1 for first, second in itertools.pairwise(boxes))


@pytest.mark.parametrize(
    ("shape", "topics", "message"),
    [
        ((2, 3), ["x", "y"], "matrix must be square, words by words, got 2 by 3"),
        ((2, 2), ["x"], "one entry per word of the matrix, got 1 for 2 words"),
        ((2, 2), [None, None], "at least one word of the matrix a topic"),
    ],
)
def test_matrices_of_words_that_cannot_be_drawn_are_refused(shape, topics, message):
    """One sentence says what is wrong, and no figure is opened."""
    with pytest.raises(ValueError, match=message):
        plot_embedding_blocks(pd.DataFrame(np.ones(shape)), topics)
    assert not plt.get_fignums()


def test_attention_has_words_as_ticks_in_the_colours_of_their_topics():
    """Queries go down and keys across, in reading order; a topic has one colour, in ticks and legend alike."""
    ax = plot_attention_blocks(attention_frame(), TOPICS)
    assert texts(ax.get_yticklabels()) == texts(ax.get_xticklabels()) == WORDS
    assert ax.get_ylim() == (8, 0)
    music, war = style.TOPIC_COLOURS[:2]
    faint = style.FAINT_INK
    for labels in (ax.get_yticklabels(), ax.get_xticklabels()):
        assert [label.get_color() for label in labels] == [faint, music, music, faint, war, war, faint, war]
    legend = ax.get_legend()
    assert texts(legend.get_texts()) == ["music", "war"]
    assert [handle.get_color() for handle in legend.legend_handles] == [music, war]


def test_without_topics_all_words_are_dark():
    """No topics, no legend."""
    ax = plot_attention_blocks(attention_frame())
    assert {label.get_color() for label in ax.get_yticklabels()} == {style.INK}
    assert ax.get_legend() is None


def test_keys_that_a_query_cannot_see_are_grey():
    """The future of a causal model is missing, not zero."""
    colours = colours_of(plot_attention_blocks(attention_frame()))
    assert is_grey(colours[0, 1])
    assert not is_grey(colours[1, 0])


def test_a_sink_does_not_wash_out_the_rest():
    """One column at 60 times uniform leaves the scale to the others, and the bar says where colours end."""
    cells = np.full((64, 64), 0.5)
    cells[:, 10:20] = 2.5
    cells[:, 0] = 60
    ax = plot_attention_blocks(square(cells, [f"w{k}" for k in range(64)]))
    assert mesh_of(ax).get_clim() == (0, 3)
    assert bar_of(ax).extend == "max"
    assert "colours end at 3" in bar_of(ax).ax.get_ylabel()


def test_long_documents_are_capped_and_the_title_says_so():
    """The first words are drawn, 64 unless told otherwise."""
    words = [f"w{k}" for k in range(100)]
    ax = plot_attention_blocks(attention_frame(words))
    assert mesh_of(ax).get_array().shape == (64, 64)
    assert "first 64 of 100 words" in ax.get_title(loc="left")
    ax = plot_attention_blocks(attention_frame(words), max_words=5)
    assert texts(ax.get_xticklabels()) == words[:5]


def test_the_title_of_attention_can_be_given_and_stands_above_the_legend():
    """The number of words is added to it, and it overlaps neither the legend nor the cells."""
    ax = plot_attention_blocks(attention_frame(), TOPICS, title="Layer 3, head 7")
    assert ax.get_title(loc="left") == "Layer 3, head 7 (8 words)"
    ax.figure.canvas.draw()
    title, legend, cells = (part.get_window_extent() for part in (ax._left_title, ax.get_legend(), ax))
    assert cells.y1 <= legend.y0 + 2
    assert legend.y1 <= title.y0 + 6


def test_attention_can_be_sorted_by_topic():
    """Rows, columns, ticks and colours move together; unlabelled words come last."""
    frame = attention_frame()
    ax = plot_attention_blocks(frame, TOPICS, by_topic=True)
    order = [1, 2, 4, 5, 7, 0, 3, 6]
    assert texts(ax.get_yticklabels()) == [WORDS[place] for place in order]
    expected = frame.to_numpy()[np.ix_(order, order)]
    drawn = mesh_of(ax).get_array()
    np.testing.assert_array_equal(np.ma.getmaskarray(drawn), np.isnan(expected))
    low, high = mesh_of(ax).get_clim()
    seen = ~np.isnan(expected)
    np.testing.assert_allclose(drawn[seen].data, np.clip(expected[seen], low, high))
    assert sorted({line.get_ydata()[0] for line in ax.lines if line.get_ydata()[0] == line.get_ydata()[1]}) == [2, 5]


def test_words_with_dollars_and_line_breaks_are_taken_literally():
    """A word is text, not mathematics."""
    ax = plot_attention_blocks(square(np.ones((2, 2)), ["$x_1$", "a\nb"]))
    ax.figure.canvas.draw()
    assert texts(ax.get_yticklabels()) == [r"\$x_1\$", "a b"]


@pytest.mark.parametrize(
    ("matrix", "options", "message"),
    [
        (pd.DataFrame(np.ones((2, 3))), {}, "square"),
        (pd.DataFrame(), {}, "at least one word"),
        (square([[1, -0.5], [1, 1]], "ab"), {}, "not negative, got -0.5"),
        (square(np.ones((2, 2)), "ab"), {"topics": ["x"]}, "got 1 for 2 words"),
        (square(np.ones((2, 2)), "ab"), {"by_topic": True}, "needs topics"),
        (square(np.ones((2, 2)), "ab"), {"max_words": 0}, "max_words must be at least 1"),
    ],
)
def test_attention_that_cannot_be_drawn_is_refused(matrix, options, message):
    """One sentence says what is wrong, and no figure is opened."""
    with pytest.raises(ValueError, match=message):
        plot_attention_blocks(matrix, **options)
    assert not plt.get_fignums()


# Heads of an encoder-decoder.


def stacked_heads(**maps):
    frames = [heads_frame(values).assign(stack=stack) for stack, values in maps.items()]
    return pd.concat(frames, ignore_index=True)


STACKED = {"encoder": [[1.0, 2.0]], "decoder": [[0.5, 1.0], [1.5, 1.0]], "cross": [[1.0, 1.0], [1.0, 6.0]]}


def test_each_stack_is_a_panel_of_its_own_and_one_colour_is_one_number():
    """The first one's axes come back; the encoder has a layer less; the scale is that of the largest ratio, 6."""
    first = plot_heads(stacked_heads(**STACKED))
    panels = [ax for ax in first.figure.axes if any(isinstance(found, QuadMesh) for found in ax.collections)]
    panels = [ax for ax in panels if ax.get_xlabel()]
    assert panels[0] is first
    assert len(plt.get_fignums()) == 1
    assert [ax.get_title(loc="left").split("\n")[0] for ax in panels] == ["Encoder", "Decoder", "Decoder to encoder"]
    for ax, values in zip(panels, STACKED.values(), strict=True):
        assert mesh_of(ax).get_array().shape == np.shape(values)
        np.testing.assert_allclose(mesh_of(ax).get_array(), np.log2(values))
        assert mesh_of(ax).get_clim() == (-3.0, 3.0)


@pytest.mark.parametrize("stack", STACKED)
def test_one_stack_can_be_chosen_and_drawn_on_given_axes(stack):
    """By its own scale, with its name above."""
    _, ax = plt.subplots()
    assert plot_heads(stacked_heads(**STACKED), ax=ax, stack=stack) is ax
    np.testing.assert_allclose(mesh_of(ax).get_array(), np.log2(STACKED[stack]))
    assert ax.get_title(loc="left").startswith({"cross": "Decoder to encoder"}.get(stack, stack.capitalize()))
    assert mesh_of(ax).get_clim()[1] == (3.0 if stack == "cross" else 1.0)


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (stacked_heads(**STACKED), {"ax": True}, r"one ax, got encoder, decoder, cross: pass stack=, or leave ax out"),
        (stacked_heads(**STACKED), {"stack": "both"}, "stack must be one of 'encoder', 'decoder', 'cross', got 'both'"),
        (stacked_heads(encoder=[[1.0]]), {"stack": "cross"}, "stack must be one of 'encoder', got 'cross'"),
        (heads_frame([[1.0]]), {"stack": "cross"}, "must be None for a frame without a column stack, got 'cross'"),
        (stacked_heads(middle=[[1.0]]), {}, "stack must be one of 'encoder', 'decoder', 'cross', got 'middle'"),
        (pd.concat([stacked_heads(cross=[[1.0]])] * 2), {}, "several for stack cross, layer 0, head 0: select one"),
    ],
)
def test_stacks_that_cannot_be_drawn_are_refused(frame, options, message):
    if "ax" in options:
        options = {"ax": plt.subplots()[1]}
    with pytest.raises(ValueError, match=message):
        plot_heads(frame, **options)
