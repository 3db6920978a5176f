"""The report page in a browser: what a reader sees, clicks, types and saves."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import helpers
from topic_probes import ProbeReport, TopicLabels, TopicModel, example_passages, probe, probe_contextual
from topic_probes.report._page_colours import shade

ATTACK = "<img src=x onerror=window.broken=1>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CELLS = ".map td[data-r]"
KIND = "BERT bridge" if helpers.HAS_BRIDGE else "HookedEncoder"
CONTENT = ("cat", "dog", "bird", "horse", "sun", "moon", "star", "sky")


@pytest.fixture(scope="module")
def topics() -> TopicModel:
    numbers = np.full((2, 8), 0.02)
    numbers[0, :4] = numbers[1, 4:] = 0.23
    return TopicModel.from_matrix(numbers, CONTENT)


@pytest.fixture(scope="module")
def labels(topics: TopicModel) -> TopicLabels:
    return topics.label_words()


@pytest.fixture(scope="module")
def report(labels: TopicLabels) -> ProbeReport:
    numbers = np.random.default_rng(0)
    documents = [" ".join(numbers.choice([*CONTENT, "the", "of"], 20)) for _ in range(40)]
    model = helpers.build(KIND, tokenizer=helpers.tiny_tokenizer())
    found = probe(model, documents, labels, n_permutations=19, progress=False)
    context = [
        probe_contextual(model, documents, labels, weights=weights, progress=False)
        for weights in ("trained", "untrained")
    ]
    return found.with_contextual(*context)


@pytest.fixture(scope="module")
def page_path(report: ProbeReport, topics: TopicModel, labels: TopicLabels, tmp_path_factory: Any) -> Path:
    model = helpers.build(KIND, tokenizer=helpers.tiny_tokenizer())
    text = f"The cat {ATTACK} saw a dog, and the moon."
    examples = example_passages(model, [text], labels, heads=[(1, 2)])
    path = tmp_path_factory.mktemp("page") / "page.html"
    return report.to_html(path, topics=topics, labels=labels, examples=examples, title=f"A title {ATTACK}")


def without_browser(why: str) -> NoReturn:
    """Skip; fail where a browser is asked for, so that nobody takes these tests for passed."""
    if os.environ.get("TOPIC_PROBES_NEEDS_BROWSER") == "1":
        pytest.fail(f"{why}, and TOPIC_PROBES_NEEDS_BROWSER=1 asks for these tests: see CONTRIBUTING.md")
    pytest.skip(why)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        import playwright.sync_api as api
    except ImportError:
        without_browser("playwright is not installed")
    if CHROMIUM is None:
        without_browser("no Chromium on this machine")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any, page_path: Path) -> Iterator[Any]:
    """The page, opened; at the end nothing has failed in it, and it has asked for nothing."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    context.set_default_timeout(60_000)  # a busy machine is no failure
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("request", lambda request: faults.append(request.url) if _is_foreign(request.url, page_path) else None)
    opened.goto(page_path.as_uri())
    opened.wait_for_selector("html[data-ready]", timeout=20_000)
    yield opened
    assert opened.evaluate("window.broken") is None
    assert faults == []
    context.close()


def _is_foreign(address: str, path: Path) -> bool:
    return not address.startswith(("data:", "blob:", path.as_uri()))


def saved(page: Any, button: Any) -> list[dict[str, str]]:
    """The rows of the file that a button saves."""
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename.endswith(".csv")
    return list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8"))))


def test_a_click_opens_the_head_with_its_numbers_curve_topics_and_passage(page: Any, report: ProbeReport) -> None:
    page.click('td[data-r="5"]')
    dialog = page.locator("dialog[open]")
    assert dialog.get_by_role("heading", name="Layer 1, head 2").is_visible()
    row = report.attention.to_frame("distance_matched").query("layer == 1 and head == 2").iloc[0]
    line = dialog.locator("tbody tr", has_text="distance matched").first.inner_text()
    assert f"{row['ratio']:.3f}" in line
    assert f"{row['q_value']:.3f}" in line
    assert dialog.get_by_role("img", name="Attention against distance").locator("path.line").count() == 4
    assert dialog.locator("table.matrix tbody tr").count() == 2
    assert dialog.locator(".passage").count() == 1
    page.click("#head-close")
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.parametrize("estimator", ["distance_matched", "pooled"])
def test_the_list_of_heads_is_in_order_of_the_lower_ends(page: Any, report: ProbeReport, estimator: str) -> None:
    """As the forest plot and the command line's table have them."""
    page.select_option("#estimator", estimator)
    listed = page.locator("#strongest tr th button").all_inner_texts()
    rows = report.attention.to_frame(estimator).nlargest(12, "ratio_low").to_dict("records")
    assert listed == [f"layer {row['layer']}, head {row['head']}" for row in rows]
    assert "most surely above 1" in page.locator("#strongest-caption").inner_text()


def test_a_selected_word_shades_the_words_that_it_attends_to(page: Any, labels: TopicLabels) -> None:
    """The most attended word is the darkest, a change of word changes the shades, text with markup is text."""
    page.click('td[data-r="5"]')
    words = page.locator(".passage .w")
    assert ATTACK.split("=")[0] in page.locator(".passage").inner_text()
    model = helpers.build(KIND, tokenizer=helpers.tiny_tokenizer())
    text = f"The cat {ATTACK} saw a dog, and the moon."
    (known,) = example_passages(model, [text], labels, heads=[(1, 2)])
    attention = np.array(known["heads"][0]["attention"], dtype=float)
    shades = []
    for query in (1, len(attention) - 1):
        words.nth(query).click()
        assert page.locator('.passage .w[aria-pressed="true"]').count() == 1
        assert words.nth(query).get_attribute("aria-pressed") == "true"
        opacity = page.eval_on_selector_all(
            ".passage .w",
            "nodes => nodes.map(node => Number((node.style.backgroundColor.match(/([\\d.]+)%/) || [0, 0])[1]))",
        )
        assert int(np.argmax(opacity)) == int(np.argmax(attention[query]))
        order = np.argsort(attention[query])
        assert (np.diff(np.array(opacity)[order]) >= 0).all()
        shades.append(opacity)
    assert shades[0] != shades[1]


def test_the_keyboard_reaches_and_opens_each_head(page: Any) -> None:
    """One stop of Tab for the map, arrows inside, Enter opens, Escape closes and gives the focus back."""
    page.focus('.map td[tabindex="0"]')
    assert page.evaluate("document.activeElement.dataset.r") == "3", "the first cell is that of the last layer"
    for key in ("ArrowRight", "ArrowDown", "End"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.dataset.r") == "2"
    said = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert said.startswith("layer 0, head 2: ratio ")
    assert page.locator('.map td[tabindex="0"]').count() == 1
    page.keyboard.press("Enter")
    assert page.locator("dialog[open] h2").inner_text() == "Layer 0, head 2"
    assert page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    assert page.evaluate("document.activeElement.dataset.r") == "2"


def test_screen_readers_find_landmarks_headings_and_named_heads(page: Any, report: ProbeReport) -> None:
    """The page by its accessibility tree: parts, the outline, and the map as a grid whose cells say which head."""
    sections = ["Headline", "Heads", "Topics", "Embeddings", "How it was computed"]
    seen = page.locator("body").aria_snapshot()
    parts = [line.split('"')[0].strip(" -:") for line in seen.splitlines() if re.match(r"- \w", line)]
    assert [part for part in parts if part not in ("link", "tooltip")] == ["banner", "main", "contentinfo"]
    outline = re.findall(r'heading "(.*)" \[level=(\d)\]', seen)
    assert outline[0] == (f"A title {ATTACK}", "1")
    assert [name for name, level in outline if level == "2"] == sections
    assert {level for _, level in outline[1:]} <= {"2", "3"}
    links = page.get_by_role("navigation", name="Sections").get_by_role("link")
    assert links.all_inner_texts() == sections
    assert re.findall(r'^  - region "(.*)":', seen, re.MULTILINE) == sections, (
        "parts of main, each named by its heading"
    )

    grid = page.get_by_role("grid", name="same topic / cross topic, 2 layers x 3 heads")
    assert grid.count() == 1
    assert [len(grid.get_by_role(role).all()) for role in ("columnheader", "rowheader")] == [3, 2]
    grid.get_by_role("gridcell", name="layer 1, head 2").click()  # a cell that had the focus has the new numbers, too
    page.keyboard.press("Escape")
    for estimator in ("pooled", "distance_matched"):
        page.select_option("#estimator", estimator)
        for row in report.attention.to_frame(estimator).to_dict("records"):
            cell = grid.get_by_role("gridcell", name=f"layer {row['layer']}, head {row['head']}: ratio")
            assert cell.count() == 1
            # Text has three digits, as each number on the page.
            said = re.findall(r"ratio ([\d.]+) \(([\d.]+) to ([\d.]+)\)", cell.get_attribute("aria-label"))
            wanted = [row[name] for name in ("ratio", "ratio_low", "ratio_high")]
            np.testing.assert_allclose([float(number) for number in said[0]], wanted, rtol=5e-3)
    assert page.get_by_role("button", name="open layer 1, head 2").count() == 1


@pytest.mark.parametrize(("asked", "outcome"), [("1", "asks for these tests"), ("", "no Chromium")])
def test_a_missing_browser_fails_where_one_is_asked_for(
    asked: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOPIC_PROBES_NEEDS_BROWSER", asked)
    kind = pytest.fail.Exception if asked else pytest.skip.Exception
    with pytest.raises(kind, match=outcome):
        without_browser("no Chromium on this machine")


def test_words_of_a_passage_are_reached_by_arrows(page: Any) -> None:
    page.click('td[data-r="5"]')
    page.focus('.passage .w[tabindex="0"]')
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent").startswith("cat")
    assert 'From "cat" most attention to' in page.locator("[aria-live]").last.inner_text()


def test_other_estimators_and_weights_recolour_the_map(page: Any, report: ProbeReport) -> None:
    """Cells show the numbers of what is chosen, in the colours that Python gives them; going back too."""
    shown = "nodes => nodes.map(node => [Number(node.dataset.r), node.textContent, node.className])"
    assert report.baseline is not None
    limit = float(page.evaluate("JSON.parse(document.getElementById('page-data').textContent).limit"))
    for weights, estimator, result in (
        ("untrained", "distance_matched", report.baseline.attention),
        ("trained", "within_document", report.attention),
        ("trained", "pooled", report.attention),
    ):
        page.select_option("#weights", weights)
        page.select_option("#estimator", estimator)
        ratios = result.to_frame(estimator)["ratio"]
        wanted = [[row, f"{ratio:.2f}", shade(ratio, limit)] for row, ratio in enumerate(ratios)]
        assert sorted(page.eval_on_selector_all(CELLS, shown)) == wanted
    assert len(set(shade(ratio, limit) for ratio in ratios)) > 2, "colours differ"


def test_hovering_says_the_numbers(page: Any, report: ProbeReport) -> None:
    page.hover('td[data-r="4"]')
    ratio = report.attention.to_frame()["ratio"][4]
    assert page.locator("#tip").inner_text().startswith(f"layer 1, head 1: ratio {ratio:.3g}")
    page.hover("h1")
    assert not page.locator("#tip").is_visible()


def test_every_table_is_saved_as_it_is(page: Any, report: ProbeReport) -> None:
    """Rows and numbers of each file are those of the frames."""
    rows = {name: saved(page, page.locator(f'button[data-table="{name}"]')) for name in (
        "headline", "heads", "distance", "topics", "embedding", "contextual", "settings",
    )}  # fmt: skip
    frame = report.estimators_frame()
    np.testing.assert_allclose([float(row["ratio"]) for row in rows["headline"]], frame["ratio"], rtol=1e-5)
    heads = [row for row in rows["heads"] if row["model"] == "trained" and row["estimator"] == "within_document"]
    wanted = report.attention.to_frame("within_document")
    for name in ("layer", "head", "ratio", "ratio_low", "q_value", "sink_mass", "n_same_topic"):
        np.testing.assert_allclose([float(row[name]) for row in heads], wanted[name], rtol=1e-4)
    assert len(rows["distance"]) == sum(len(each.attention.distance_frame()) for each in report.models.values())
    assert len(rows["contextual"]) == 2 * len(report.contextual_frame())
    assert len(rows["embedding"]) == len(report.embedding_frame())
    assert len(rows["topics"]) == 2
    assert {"part": "options", "name": "seed", "value": "0"} in rows["settings"]


def test_a_head_saves_its_own_tables(page: Any, report: ProbeReport) -> None:
    page.click('td[data-r="5"]')
    curve, matrix = (saved(page, page.locator("dialog .save").nth(number)) for number in (0, 1))
    frame = report.attention.distance_frame().query("layer == 1 and head == 2 and pair_class == 'cross_topic'")
    got = [float(row["mean"]) for row in curve if row["model"] == "trained" and row["pair_class"] == "cross_topic"]
    np.testing.assert_allclose(got, frame["mean"], rtol=1e-3)
    wanted = report.attention.topic_matrix(1, 2).to_numpy().ravel()
    np.testing.assert_allclose([float(row["mean"]) for row in matrix], wanted, rtol=1e-2)


def test_the_switch_changes_the_colours(page: Any) -> None:
    """As the system at first; light and dark by choice."""
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.select_option("#theme", "dark")
    dark = page.evaluate(ground)
    assert light == "rgb(255, 255, 255)"
    assert dark == "rgb(18, 22, 27)"
    page.emulate_media(color_scheme="dark")
    page.select_option("#theme", "light")
    assert page.evaluate(ground) == light
    page.select_option("#theme", "auto")
    assert page.evaluate(ground) == dark


@pytest.mark.parametrize("width", [360, 768, 1920])
def test_nothing_is_wider_than_the_screen(page: Any, width: int) -> None:
    """Wide tables scroll in themselves; charts are drawn anew at the width there is."""
    page.set_viewport_size({"width": width, "height": 800})
    for _ in range(60):  # it is drawn anew a moment after the size has settled
        if page.evaluate("document.documentElement.scrollWidth") <= width:
            break
        page.wait_for_timeout(50)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click('td[data-r="5"]')
    assert page.evaluate("document.querySelector('#head').scrollWidth") <= width
    widths = "nodes => nodes.map(node => node.getBoundingClientRect().width)"
    charts = page.eval_on_selector_all("dialog svg[role=img]", widths)
    assert len(charts) == 1
    assert charts[0] <= width


def test_layer_curves_follow_the_choice_of_measure(page: Any) -> None:
    """Four lines with bands; another measure draws other ones."""
    chart = page.locator("#layers svg[role=img]")
    first = chart.inner_html()
    assert chart.locator("path.line").count() == 4
    page.select_option("#measure", "cosine")
    assert chart.inner_html() != first
    assert "mean cosine" in chart.inner_html()


def test_without_scripts_the_tables_are_there(browser: Any, page_path: Path, report: ProbeReport) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(page_path.as_uri())
    headline = report.attention.headline()
    assert f"{headline.ratio:.3f}" in opened.locator("#headline table").inner_text()
    assert "need JavaScript" in opened.locator("noscript").inner_text()
    context.close()
