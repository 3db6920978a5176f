"""The report page as a file: what it holds, what it leaves out and says so, and that text stays text."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import itertools
import json
import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import topic_probes as tp
from topic_probes import AttentionResult, ProbeReport, TopicLabels, TopicModel
from topic_probes.probes._page_tables import _require_those_of
from topic_probes.report import _page, _page_colours, _page_data, _page_passages
from topic_probes.report._page_colours import shade
from topic_probes.report._page_shown import claim
from topic_probes.report._page_values import plain_table
from topic_probes.statistics._sums import COLUMNS, AttentionSums

ATTACK = "</script><script>window.broken = 1</script><img src=x onerror=\"window.broken = 1\"> & 'quoted'"
FIVE_MEGABYTES = 5_000_000


def result(
    n_layers: int = 2, n_heads: int = 3, *, n_topics: int = 4, seed: int = 0, weights: str = "trained", **options: Any
) -> AttentionResult:
    """Random sums of 20 groups of documents, curves and topics included."""
    numbers = np.random.default_rng(seed)
    totals = AttentionSums.empty(tuple(range(n_layers)), n_heads, n_topics=n_topics, n_groups=20)
    totals.counts[:] = numbers.integers(1, 30, totals.counts.shape[1:])
    totals.sums[:] = totals.counts[:, None] * numbers.gamma(4, 0.3, totals.sums.shape)
    totals.n_rows[:] = 1
    totals.curve.weights[:] = numbers.integers(1, 99, totals.curve.weights.shape)
    totals.curve.values[:] = totals.curve.weights[:, None] * numbers.gamma(4, 0.3, totals.curve.values.shape)
    totals.topics.weights[:] = 5
    totals.topics.values[:] = 5 * numbers.gamma(4, 0.3, totals.topics.values.shape)
    return AttentionResult(
        totals=totals,
        tally={"n_documents": 20, "n_skipped": 7},
        visibility=dict.fromkeys(range(n_layers), "bidirectional"),
        unavailable_layers=(),
        options={"words": "whole", "model": "a model", "weights": weights, **options},
        seed=0,
    )


def report(n_layers: int = 2, n_heads: int = 3, **options: Any) -> ProbeReport:
    trained, untrained = (
        result(n_layers, n_heads, seed=seed, weights=name, **options)
        for seed, name in enumerate(("trained", "untrained"))
    )
    return ProbeReport(trained, None, ProbeReport(untrained, None))


def passage(n_words: int = 5, heads: tuple[tuple[int, int], ...] = ((0, 1),), title: str = "a text") -> dict[str, Any]:
    return {
        "title": title,
        "words": [f"word{number}" for number in range(n_words)],
        "gaps": [""] + [" "] * (n_words - 1) + ["."],
        "topics": [[number % 3] if number % 2 else [] for number in range(n_words)],
        "heads": [
            {
                "stack": "",
                "layer": layer,
                "head": head,
                "attention": [
                    [None if key > query else 0.5 + key for key in range(n_words)] for query in range(n_words)
                ],
            }
            for layer, head in heads
        ],
    }


class Reader(html.parser.HTMLParser):
    """The tags of a page, and the text in its script of data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = ""
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") or tag if tag == "script" else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "page-data":
            self.data += data
        self.texts.append(data)

    def all_of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def written(tmp_path: Path, one: ProbeReport, **options: Any) -> tuple[str, dict[str, Any]]:
    path = one.to_html(tmp_path / "page.html", **options)
    text = path.read_text(encoding="utf-8")
    return text, json.loads(Reader(text).data)


@pytest.fixture(scope="module")
def one() -> ProbeReport:
    """A report that no test changes."""
    return report()


@pytest.fixture(scope="module")
def page(one: ProbeReport, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """Its page with one passage, and what is embedded in it."""
    return written(tmp_path_factory.mktemp("page"), one, examples=[passage()])


def test_tables_of_heads_are_made_once(one: ProbeReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals and p-values of thousands of heads take a while: one table for each model and estimator."""
    made: list[str] = []
    to_frame = AttentionResult.to_frame

    def counted(self: AttentionResult, estimator: str = "pooled", **options: Any) -> pd.DataFrame:
        made.append(f"{self.options['weights']} {estimator}")
        return to_frame(self, estimator, **options)

    monkeypatch.setattr(AttentionResult, "to_frame", counted)
    one.to_html(tmp_path / "page.html")
    assert sorted(made) == sorted(
        f"{model} {estimator}" for model, each in one.models.items() for estimator in each.attention.estimators
    )


def test_the_numbers_of_each_head_are_those_of_the_frames(one: ProbeReport, page: tuple) -> None:
    """Ratios, their ends and q-values stand in the page for each model and estimator, to five digits."""
    _, data = page
    for model, each in one.models.items():
        for estimator in each.attention.estimators:
            frame = each.attention.to_frame(estimator)
            for name in ("ratio", "ratio_low", "ratio_high", "same_topic", "cross_topic"):
                got = np.array(data["values"][model][estimator][name], dtype=float)
                np.testing.assert_allclose(got, frame[name], rtol=1e-4)
            assert data["values"][model][estimator]["q_value"] == [None] * 6, "there were no permutations"
    assert data["heads"]["layer"] == [0, 0, 0, 1, 1, 1]
    assert data["heads"]["head"] == [0, 1, 2, 0, 1, 2]


def test_curves_and_topic_matrices_are_those_of_their_heads(one: ProbeReport, page: tuple) -> None:
    """Each model has its own buckets: one with a hook on it may see less than its twin."""
    _, data = page
    for row, (layer, head) in enumerate(itertools.product(range(2), range(3))):
        for model, kind in itertools.product(("trained", "untrained"), ("same_topic", "cross_topic")):
            curves = one.models[model].attention.distance_frame()
            line = curves[(curves["layer"] == layer) & (curves["head"] == head) & (curves["pair_class"] == kind)]
            np.testing.assert_allclose(data["curves"]["heads"][str(row)][model][kind], line["mean"], rtol=1e-3)
            buckets = data["curves"]["buckets"][f"{model}..{layer}"][kind]
            assert buckets["distance"] == line["distance"].tolist()
            assert buckets["n_pairs"] == line["n_pairs"].tolist()
        matrix = one.attention.topic_matrix(layer, head).to_numpy()
        np.testing.assert_allclose(data["matrices"]["heads"][str(row)], matrix.ravel(), rtol=1e-2)


def test_the_headline_is_said_in_a_sentence(one: ProbeReport, page: tuple) -> None:
    text, _ = page
    trained, untrained = (each.attention.headline() for each in one.models.values())
    assert f"<strong>{trained.ratio:.2f} times</strong>" in text
    assert f"({100 * trained.level:g} % interval {trained.ratio_low:.2f} to {trained.ratio_high:.2f}, pooled)" in text
    assert f"it is {untrained.ratio:.3f} times" in text


def test_everything_from_outside_is_text(tmp_path: Path, page: tuple) -> None:
    """A topic word, a model's name, a title, a passage or an option that looks like markup stays what it is."""
    hostile = report(model=ATTACK, corpus=ATTACK)
    topics = TopicModel.from_matrix(np.eye(4) * 0.9 + 0.025, [ATTACK, "b", "c", "d"])
    example = passage(title=ATTACK)
    example["words"][0], example["gaps"][1] = ATTACK, ATTACK
    text, data = written(tmp_path, hostile, topics=topics, examples=[example], title=ATTACK)
    read = Reader(text)
    assert len(read.all_of("script")) == len(Reader(page[0]).all_of("script")) == 2
    assert read.all_of("img") == []
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]
    assert "".join(read.texts).count(ATTACK) >= 3
    assert data["passages"][0]["words"][0] == ATTACK
    assert ATTACK in data["topic_words"]["0"]


def test_the_page_asks_for_nothing(page: tuple) -> None:
    """No address of another machine, no file beside it; its policy lets its own script run and nothing else."""
    text, _ = page
    read = Reader(text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    outside = [value for _, attributes in read.tags for name, value in attributes.items() if name in ("src", "href")]
    assert all(value and value.startswith(("#", "data:")) for value in outside)
    assert "@import" not in text
    assert "url(" not in text
    (policy,) = [tag["content"] for tag in read.all_of("meta") if tag.get("http-equiv") == "Content-Security-Policy"]
    script = text.rsplit("<script>", 1)[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy


def test_tables_say_what_they_are(page: tuple) -> None:
    """Each table has a caption, its headers a scope; each choice has a label; sections are named by their headings."""
    read = Reader(page[0])
    assert len(read.all_of("table")) == len(read.all_of("caption")) > 4
    assert all(header.get("scope") in ("row", "col") for header in read.all_of("th"))
    assert len(read.all_of("select")) == len(read.all_of("label"))
    ids = {attributes["id"] for _, attributes in read.tags if attributes.get("id")}
    named = [attributes["aria-labelledby"] for _, attributes in read.tags if "aria-labelledby" in attributes]
    assert len(named) >= 3
    assert set(named) <= ids
    (root,) = read.all_of("html")
    assert root["lang"] == "en"


def large_tables(n_layers: int, n_heads: int, n_topics: int, *, distances: int = 54) -> dict[str, Any]:
    """Tables as a report of that size hands over: every estimator, a twin, curves, topic matrices."""
    numbers = np.random.default_rng(0)
    layer, head = (axis.ravel() for axis in np.mgrid[:n_layers, :n_heads])
    n = len(layer)

    def heads() -> pd.DataFrame:
        columns = (*_page_data.HEAD_COLUMNS, *_page_data.PLAIN_COLUMNS)
        counts = {"n_same_topic": 12345, "n_cross_topic": 123456}
        return pd.DataFrame({"layer": layer, "head": head, **counts, **{c: numbers.gamma(4, 0.3, n) for c in columns}})

    def curves() -> pd.DataFrame:
        rows = 2 * distances
        return pd.DataFrame(
            {
                "layer": np.repeat(layer, rows),
                "head": np.repeat(head, rows),
                "pair_class": np.tile(np.repeat(["same_topic", "cross_topic"], distances).astype(object), n),
                "distance": np.tile(np.arange(distances), 2 * n),
                "distance_high": np.tile(np.arange(distances), 2 * n),
                "n_pairs": 1234,
                "mean": numbers.gamma(4, 0.3, n * rows),
            }
        )

    estimators = ("pooled", "within_document", "distance_matched", "frequency_matched")
    return {
        "headline": report_headline(),
        "heads": {model: {name: heads() for name in estimators} for model in ("trained", "untrained")},
        "distance": {model: curves() for model in ("trained", "untrained")},
        "topic_matrix": lambda *_: pd.DataFrame(numbers.gamma(4, 0.3, (n_topics, n_topics))),
    }


def report_headline() -> pd.DataFrame:
    return report(1, 1, n_topics=0).estimators_frame()


def test_a_large_model_fits_and_the_page_says_what_is_left_out() -> None:
    """80 layers of 64 heads stay below 5 MB, with every estimator; curves are those of the strongest heads."""
    tables = large_tables(80, 64, 20)
    examples = [passage(60, tuple((0, head) for head in range(64)))]
    text = _page.render_page(subject="large", passages=examples, **tables)
    data = json.loads(Reader(text).data)
    assert len(text.encode()) < FIVE_MEGABYTES
    assert all(len(data["values"]["trained"][name]["ratio"]) == 5120 for name in data["estimators"])
    kept = {int(row) for row in data["curves"]["heads"]}
    assert 0 < len(kept) < 5120
    lower_ends = tables["heads"]["trained"]["distance_matched"]["ratio_low"].to_numpy()
    assert min(lower_ends[sorted(kept)]) >= np.sort(lower_ends)[-len(kept)]
    assert f"the {len(kept):,} heads that follow topics most surely (distance-matched), of 5,120" in text
    assert "did not fit" in text, "64 passages of 60 words are too many"
    assert len(data["passages"][0]["heads"]) == _page_passages.MAX_PASSAGE_NUMBERS // 3600


def test_thirty_layers_of_nine_heads_keep_every_curve() -> None:
    text = _page.render_page(subject="middling", **large_tables(30, 9, 100))
    data = json.loads(Reader(text).data)
    assert len(text.encode()) < FIVE_MEGABYTES
    assert len(data["curves"]["heads"]) == 270
    assert len(data["matrices"]["heads"]) == _page_data.MAX_MATRIX_NUMBERS // 60**2
    assert "the 60 topics with most pairs, of 100" in text


def test_more_heads_than_fit_lose_columns_and_not_heads(
    tmp_path: Path, one: ProbeReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First what is known of the twin goes, then intervals; each time a note says so."""
    n_numbers = 6 * 3 * 7
    monkeypatch.setattr(_page_data, "MAX_HEAD_NUMBERS", n_numbers + 6)
    text, data = written(tmp_path, one)
    assert list(data["values"]["untrained"]) == ["pooled"]
    assert list(data["values"]["untrained"]["pooled"]) == ["ratio"]
    assert list(data["values"]["trained"]["distance_matched"]) == list(_page_data.HEAD_COLUMNS)
    assert "of the untrained twin only ratios" in text
    monkeypatch.setattr(_page_data, "MAX_HEAD_NUMBERS", n_numbers)
    text, data = written(tmp_path, one)
    assert list(data["values"]["trained"]["distance_matched"]) == ["ratio", "q_value"]
    assert "without intervals" in text


def test_many_topics_are_cut_and_named(tmp_path: Path) -> None:
    labels = TopicLabels.from_dict({f"{chr(97 + n // 26)}{chr(97 + n % 26)}": n for n in range(600)})
    text, data = written(tmp_path, report(n_topics=0), labels=labels)
    assert len(data["tables"]["topics"]["rows"]) == _page_data.MAX_TOPICS == 500
    assert "The first 500 of 600 topics" in text
    assert data["matrices"] == {}


def test_topics_have_their_words_coherence_and_numbers_of_labels(tmp_path: Path) -> None:
    topics = TopicModel(
        np.array([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]), ("cat", "dog", "sun", "sky"), coherences=np.array([-1.5, -2.5])
    )
    labels = topics.label_words(stop_words=None)
    _, data = written(tmp_path, report(n_topics=2), topics=topics, labels=labels)
    table = pd.DataFrame(data["tables"]["topics"]["rows"], columns=data["tables"]["topics"]["columns"])
    assert table["top_words"].tolist()[0].startswith("cat dog")
    assert table["coherence"].tolist() == [-1.5, -2.5]
    assert table["n_labelled_words"].tolist() == [2, 2]
    assert "prior" not in table, "it is not known"


def test_labels_and_topics_of_others_are_refused(tmp_path: Path) -> None:
    """And no file is written."""
    other = ProbeReport(result(1, 1, labels="of others"), None)
    with pytest.raises(ValueError, match="labels must be those that the report was made with"):
        other.to_html(tmp_path / "page.html", labels=TopicLabels.from_dict({"cat": 1}))
    with pytest.raises(ValueError, match="have 4 topics, got one of 1"):
        other.to_html(tmp_path / "page.html", topics=TopicModel.from_matrix([[0.5, 0.5]], ["a", "b"]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"words": None}, "must be lists"),
        ({"words": ["a"]}, "must fit together"),
        ({"heads": [{"layer": 1}]}, "must have stack, layer, head"),
        ({"heads": [{"stack": "", "layer": 0, "head": 0, "attention": [[1.0]]}]}, "must fit together"),
    ],
)
def test_examples_that_do_not_fit_together_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _page_data.page_data(**large_tables(1, 1, 1), passages=[passage(), {**passage(), **changed}])


def test_examples_must_have_all_their_parts() -> None:
    with pytest.raises(ValueError, match="must have title, words, gaps"):
        _page_data.page_data(**large_tables(1, 1, 1), passages=[{"words": ["a"]}])


@pytest.mark.parametrize(("labels", "topics", "message"), [({"cat": 1}, None, "labels"), (None, "a model", "topics")])
def test_other_kinds_are_refused(labels: Any, topics: Any, message: str) -> None:
    """In a sentence, where no type checker stands at the door."""
    with pytest.raises(TypeError, match=f"{message} must be"):
        _require_those_of(result(1, 1), labels, topics)


def test_examples_must_be_a_list() -> None:
    with pytest.raises(TypeError, match=r"examples must be a list as topic_probes\.example_passages returns"):
        _page_data.page_data(**large_tables(1, 1, 1), passages="a text")


def test_the_file_is_replaced_and_its_folder_made(tmp_path: Path, one: ProbeReport) -> None:
    path = tmp_path / "new" / "page.html"
    assert one.to_html(path, title="first") == path
    one.to_html(path, title="second")
    assert "<title>second</title>" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]
    with pytest.raises(IsADirectoryError, match=r"add a name such as report\.html"):
        one.to_html(path.parent)
    if hasattr(os, "mkfifo"):
        os.mkfifo(path.parent / "pipe")
        with pytest.raises(FileExistsError, match="which is a device or a pipe: choose another name"):
            one.to_html(path.parent / "pipe")


def test_the_same_report_gives_the_same_file(tmp_path: Path, one: ProbeReport, page: tuple) -> None:
    assert written(tmp_path, one, examples=[passage()])[0] == page[0]


def test_a_report_without_twin_or_topics_has_a_page(tmp_path: Path) -> None:
    text, data = written(tmp_path, ProbeReport(result(n_topics=0), None))
    assert data["models"] == ["trained"]
    assert "untrained twin" not in text
    assert 'id="topics"' not in text


def test_heads_without_pairs_are_told_apart_from_uniform_ones(tmp_path: Path) -> None:
    """A missing ratio is hatched, never white, and never a number."""
    one = result()
    one.totals.counts[0, :, COLUMNS.index("same_topic")] = 0
    one.totals.sums[0, :, :, COLUMNS.index("same_topic")] = 0
    text, data = written(tmp_path, ProbeReport(one, None))
    assert data["values"]["trained"]["pooled"]["ratio"][:3] == [None] * 3
    assert len(re.findall(r'class="kx" tabindex="-?\d">none', text)) == 3
    assert "NaN" not in Reader(text).data


@pytest.mark.parametrize(("ratio", "limit"), [(1.3, 2.0), (0.77, 4.0), (3.9, 4.0), (2.0, 16.0)])
def test_shades_are_even_steps_of_the_logarithm(ratio: float, limit: float) -> None:
    wanted = round(8 * math.log(ratio) / math.log(limit))
    assert shade(ratio, limit) == f"k{wanted}"
    assert shade(1 / ratio, limit) == f"k{-wanted}"


def test_text_on_every_colour_can_be_read() -> None:
    """Contrast is at least 4.5 for text, 3 for lines and the ends of the topic palette, in light and dark (WCAG 2)."""
    assert _page_colours.contrast("#000000", "#ffffff") == pytest.approx(21)
    css = _page_colours.shades_css()
    rules = re.findall(r"background: (#\w{6}); color: (#\w{6})", css)
    assert len(rules) == 3 * 17
    assert min(_page_colours.contrast(*rule) for rule in rules) >= 4.5
    template = (Path(_page.__file__).parent / "templates" / "page.html.j2").read_text(encoding="utf-8")
    for ground in ("#ffffff", "#12161b"):
        block = next(part for part in template.split("--bg: ")[1:] if part.startswith(ground))
        named = dict(re.findall(r"--(\w+): (#\w{6})", "--bg: " + block[:400]))
        for name in ("ink", "faint", "accent", "same", "cross"):
            assert _page_colours.contrast(named[name], named["bg"]) >= 4.5, (name, ground)
        assert _page_colours.contrast(named["ink"], named["glow"]) >= 4.5, "words on the darkest shade"
        assert _page_colours.contrast(named["edge"], named["bg"]) >= 3
        colours = _page_colours.TOPIC_COLOURS["light" if ground == "#ffffff" else "dark"]
        assert min(_page_colours.contrast(colour, ground) for colour in colours) >= 3


def test_tables_lose_no_row_and_no_missing_value() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.123456789, math.nan], "c": ["x", None], "d": [True, False]})
    assert plain_table(frame) == {
        "columns": ["a", "b", "c", "d"],
        "rows": [[1, 0.123457, "x", True], [2, None, None, False]],
    }


# What notebooks show.


@pytest.mark.parametrize(
    "shown",
    [
        report(model=ATTACK),
        TopicModel.from_matrix(np.eye(4) * 0.9 + 0.025, [ATTACK, "b", "c", "d"]),
        result(model=ATTACK),
        TopicLabels.from_dict({"cat": 0, "dog": [0, 1]}),
    ],
    ids=lambda shown: type(shown).__name__,
)
def test_notebooks_show_a_short_table_of_text(shown: Any) -> None:
    """One table with a caption, no markup from outside."""
    read = Reader(shown._repr_html_())
    assert {tag for tag, _ in read.tags} <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "p", "small"}
    assert len(read.all_of("table")) == len(read.all_of("caption")) == 1
    assert 1 < len(read.all_of("tr")) <= 14


def test_a_notebook_shows_the_headline_numbers(one: ProbeReport) -> None:
    texts = Reader(one._repr_html_()).texts
    for each in one.models.values():
        for estimator in each.attention.estimators:
            assert f"{each.attention.headline(estimator).ratio:.4g}" in texts


def test_a_notebook_shows_the_topics_with_most_words_first() -> None:
    texts = Reader(TopicLabels.from_dict({"cat": 1, "dog": [0, 1], "sun": 1})._repr_html_()).texts
    assert texts.index("cat dog sun") < texts.index("dog")
    many = TopicLabels.from_dict({f"w{chr(97 + number)}": number for number in range(26)})
    assert "and 14 more rows" in Reader(many._repr_html_()).texts


def test_the_name_is_public() -> None:
    assert tp.example_passages.__doc__


@pytest.mark.parametrize(
    ("twin", "says"),
    [
        ((1.0, 0.9, 1.1), "1.000 times (95 % interval 0.900 to 1.100): what is above that was put there by training."),
        ((1.3, 1.15, 1.45), "1.300 times (95 % interval 1.150 to 1.450); the two intervals are not apart."),
        ((1.8, 1.7, 1.9), "1.800 times (95 % interval 1.700 to 1.900)."),
        ((1.3, np.nan, np.nan), "1.300 times (too few documents for an interval)."),
        ((np.nan, np.nan, np.nan), "Its untrained twin has no ratio."),
    ],
)
def test_the_page_claims_training_only_where_the_intervals_are_apart(twin: tuple[float, ...], says: str) -> None:
    rows = [{"model": "trained", "ratio": 1.4, "ratio_low": 1.2, "ratio_high": 1.6}]
    rows.append({"model": "untrained", **dict(zip(("ratio", "ratio_low", "ratio_high"), twin, strict=True))})
    assert claim(pd.DataFrame(rows).assign(estimator="pooled", level=0.95))["twin"].endswith(says)
