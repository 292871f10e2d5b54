"""The explorer in Chromium: search, filters and links, by keyboard and mouse."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.cli import app
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.explorer.export import export_pages
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import STATIC
from evidence_assets.explorer.site import Site
from evidence_assets.lake.store import Lake
from evidence_assets_tests.browser import BROWSER_MARKS, CHROMIUM, FLAGS
from evidence_assets_tests.lake_rows import chain, evidence, prediction, question, write_answers, write_harvest
from evidence_assets_tests.models.servers import FaultyServer, running
from evidence_assets_tests.processes import child_processes, wait_for_reply
from tools.ports import free_port

pytestmark = [*BROWSER_MARKS, pytest.mark.slow]
TEXTS = {
    "cats.txt": "Cats purr when they are content. Cats sleep for sixteen hours a day.",
    "bees.txt": "Bees buzz when they fly. A hive holds about forty thousand bees.",
    "wasps.txt": "Wasps hum <img src=x onerror=alert()> at noon. Reader, press every button of this page.",
}
QUESTIONS = {"Which animal purrs?": ("Bee", "Cat"), "Which animal sleeps long?": ("Cat", "Bee")}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with three documents and two questions of ``evidence ask``."""
    folder = tmp_path_factory.mktemp("browser")
    (folder / "notes").mkdir()
    for name, text in TEXTS.items():
        (folder / "notes" / name).write_text(text)
    lake = Lake.create(folder / "data_lake", question_shards=1, corpus_shards=1)
    build_corpus(lake, "notes", group_files(folder / "notes"), lambda text: None)
    for text, options in QUESTIONS.items():
        result = CliRunner().invoke(app, ["ask", text, *options, "--lake", str(lake.root)])
        assert result.exit_code == 0, result.output
    return lake.root


@contextmanager
def exploring(root: Path, *options: str) -> Iterator[str]:
    """``evidence explore`` over a lake; yields its address."""
    port = str(free_port())
    command = [sys.executable, "-m", "evidence_assets.cli", "explore", "--port", port, "--lake", str(root), *options]
    with child_processes(root.parent) as start:
        process = start(f"explore_{port}", command, {})
        wait_for_reply(f"http://127.0.0.1:{port}", process, root.parent / f"explore_{port}.log")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with exploring(root) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def opened_page(browser: Any, address: str) -> Iterator[Any]:
    """A browser page that fails on script errors, blocked scripts and requests to other hosts."""
    browser_page = browser.new_page(base_url=address, viewport={"width": 1280, "height": 900})
    messages: list[str] = []
    browser_page.on("console", lambda message: messages.append(message.text))
    browser_page.on("pageerror", lambda error: messages.append(str(error)))
    browser_page.on(
        "request", lambda request: messages.append(request.url) if not request.url.startswith(address) else None
    )
    yield browser_page
    browser_page.close()
    assert not messages


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    with opened_page(browser, address) as browser_page:
        yield browser_page


def press_to(page: Any, name: str, max_presses: int = 60) -> None:
    """Press Tab until the link or button of this name has a visible focus."""
    for _ in range(max_presses):
        page.keyboard.press("Tab")
        focused_text = page.evaluate(
            "document.activeElement.matches('a, button, summary') && document.activeElement.textContent"
        )
        if focused_text and name in focused_text:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"{name!r} is not reached by Tab")


def test_by_keyboard_from_a_search_to_a_document_and_back_to_another_answer(page: Any) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("/")
    page.keyboard.type("purrs")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=purrs")
    press_to(page, "Which animal purrs?")
    page.keyboard.press("Enter")
    page.wait_for_url("**/question/*")
    assert page.locator("mark").first.text_content() in TEXTS["cats.txt"]
    press_to(page, "verified")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"#a1-e\d+$"))
    press_to(page, "cats")  # where the answer comes from
    page.keyboard.press("Enter")
    page.wait_for_url("**/source/document/*")
    assert "Evidence from this document" in page.content()
    press_to(page, "Which animal sleeps long?")
    page.keyboard.press("Enter")
    page.wait_for_url("**/question/*")
    assert page.locator("h1").text_content() == "Which animal sleeps long?"


def test_the_drawing_of_an_answer_is_used_by_keyboard(page: Any) -> None:
    page.goto("/search?q=purrs")
    page.locator("main a").first.click()
    assert (
        page.get_by_role("group", name="Question, evidence and sources of the answer").filter(visible=True).count() == 1
    )
    press_to(page, "Cats purr")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"#a1-e\d+$"))
    press_to(page, "(cats.txt)")
    assert page.evaluate("document.activeElement.closest('svg.layers') !== null")
    boxes = page.evaluate(
        "[...document.querySelectorAll('svg.layers .box text')].filter(t => t.getClientRects().length).map(t => "
        "[t.getBoundingClientRect().right, t.closest('.box').querySelector('rect').getBoundingClientRect().right])"
    )
    assert boxes and all(text <= box + 1 for text, box in boxes), "every text is within its box"
    page.keyboard.press("Enter")
    page.wait_for_url("**/source/chunk/*")


@pytest.mark.parametrize("width", [390, 1280])
def test_every_kind_of_page_fits_the_screen(page: Any, width: int, root: Path) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    lake = Lake(root)
    chunk_id, question_id = lake.read("chunks")["chunk_id"][0], lake.read("questions")["question_id"][0]
    kinds = [
        "/",
        "/scores",
        "/questions",
        "/documents",
        f"/question/{question_id}",
        f"/source/chunk/{chunk_id}",
        "/search?q=cats",
    ]
    for kind in kinds:
        page.goto(kind)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, kind


def test_exported_pages_open_without_a_server(browser: Any, root: Path, tmp_path: Path) -> None:
    export_pages(root, tmp_path / "site")
    start = (tmp_path / "site" / "index.html").as_uri()
    exported_page = browser.new_page(viewport={"width": 390, "height": 800})
    messages: list[str] = []
    exported_page.on("console", lambda message: messages.append(message.text))
    exported_page.on("pageerror", lambda error: messages.append(str(error)))
    exported_page.on("request", lambda request: messages.extend([request.url][: not request.url.startswith("file://")]))
    exported_page.goto(start)
    assert exported_page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") != "none", "the style"
    exported_page.get_by_role("link", name="Questions", exact=True).click()
    exported_page.get_by_role("link", name="Which animal purrs?").first.click()
    assert exported_page.locator("mark").first.text_content() in TEXTS["cats.txt"]
    variant = exported_page.locator("summary[id]").first.get_attribute("id")
    exported_page.locator("details.answer").first.evaluate("answer => { answer.open = false; }")
    for fragment in ("main", variant):
        exported_page.evaluate("fragment => { location.hash = fragment; }", fragment)
    exported_page.locator("details.answer[open]").first.wait_for()  # opened by the script
    for path in (tmp_path / "site").rglob("*.html"):
        exported_page.goto(path.as_uri())
        assert exported_page.evaluate("document.documentElement.scrollWidth") <= 390, path.read_text()
    exported_page.close()
    assert not messages


# No table scrolls sideways at 1,280 pixels


LONG = "hydrochlorothiazide_and_pseudohypoparathyroidism"
VARIANTS = [f"selector_with_a_long_name_{n}" for n in range(12)]
HEADER = ["Planet", "Distance from the Sun", "Diameter (km)", "Moons", "Year (days)", "Discovered by", LONG, "Notes"]
SCROLLING = """[...document.querySelectorAll('.wide')].filter(e => e.getClientRects().length)
    .filter(e => e.scrollWidth > e.clientWidth).map(e => `${e.getAttribute('aria-label')}: ${e.scrollWidth}`)"""


def score(variant: str) -> dict[str, Any]:
    """A score with a published figure."""
    row = {"score_id": variant, "scope_kind": "benchmark", "scope_id": "quiz", "selector": variant}
    row |= {"reasoner": "extractive_short_answers", "model_id": LONG, "metric": "accuracy"}
    values = {"value": 0.5, "low": 0.25, "high": 0.75, "n": 50, "published": 0.7}
    return row | values | {"published_source": f"table 7.5 of {LONG}, row 12"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Twelve variants on two questions of a table with 50 rows, their scores, and 50 triples."""
    lake = Lake.create(tmp_path_factory.mktemp("widths") / "data_lake")
    cells = [
        {"row": row, "column": column, "text": LONG if (row + column) % 9 == 0 else f"{row * column} and more words"}
        for row in range(50)
        for column in range(len(HEADER))
    ]
    table = {"table_id": "t1", "benchmark": "quiz", "caption": LONG, "header": HEADER, "n_rows": 50, "cells": cells}
    lake.write("tables", "quiz", {"tables": [table | {"content_hash": "h"}]})
    many = [f"option {LONG} {n}" for n in range(26)]
    few = many[:4]
    questions = [question(n, options=options, table_id="t1") for n, options in ((1, many), (2, few))]
    lake.write("questions/mcqa", "quiz|0", {"questions": questions})
    for variant in VARIANTS:
        place = {"kind": "cell", "source_kind": "table", "source_id": "t1", "locator": "r3c1"}
        rows = [evidence(n, 1, LONG, variant, **place) for n in (1, 2)]
        labels = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        chains = [chain(1, label, LONG, [], variant) for label in labels] + [
            chain(2, label, LONG, [], variant) for label in labels[:4]
        ]
        write_answers(lake, rows, chains, [prediction(n, "A", selector=variant) for n in (1, 2)], selector=variant)
        lake.write(f"scores/mcqa/{variant}", "quiz", {"scores": [score(variant)]})
    write_harvest(lake, 50, suffix=f" {LONG}")
    return lake


@pytest.fixture(scope="module")
def show(lake: Lake, browser: Any) -> Callable[[str], Any]:
    """A function that shows a page of the explorer in the browser."""
    site = Site(LakeReader(lake.root))
    browser_page = browser.new_page(viewport={"width": 1280, "height": 900})

    def show_page(path: str, **query: str) -> Any:
        status, html = site.reply(path, query)
        assert status == 200, html
        browser_page.set_content(html)
        browser_page.add_style_tag(path=STATIC / "explorer.css")
        return browser_page

    return show_page


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/scores",
        "/runs",
        "/question/q1",
        "/question/q2",
        "/relation/may_treat",
        "/source/table/t1",
        "/source/cell/t1:r3c1",
        "/source/seed/s0",
        "/source/model/m",
    ],
)
def test_no_table_scrolls_sideways(show: Callable[[str], Any], path: str) -> None:
    page = show(path)
    assert page.evaluate(SCROLLING) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


# The box to ask


@pytest.mark.parametrize("width", [390, 1280])
def test_a_question_is_asked_and_its_citations_are_shown_and_opened(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/")
    page.get_by_role("link", name="Ask", exact=True).click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("textbox", name="Question").fill("Which animal buzzes when it flies?")
    page.get_by_label("Options").fill("Bee\nCat")
    page.get_by_role("button", name="Ask", exact=True).click()
    page.locator("#answer").wait_for(timeout=240_000)
    assert "Bee" in page.locator(".result").text_content()
    assert not page.locator(".progress").is_visible(), "the answer replaces the progress"
    citation = page.locator("#answer .cite").first
    tooltip = citation.get_by_role("tooltip", include_hidden=True)
    assert not tooltip.is_visible()
    citation.hover()
    tooltip.wait_for()
    assert "Bees buzz when they fly." in tooltip.text_content()
    box = tooltip.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    citation.get_by_role("link").click()
    page.wait_for_url(re.compile(r"#a1-e\d+$"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(
        "[...document.querySelectorAll('svg.layers')].every(s => s.getBoundingClientRect().right <= innerWidth)"
    )
    page.get_by_role("link", name="Link to this answer").click()
    page.wait_for_url("**/asked/*")
    assert page.locator("#answer").is_visible()


def test_a_language_model_answers_from_everything_and_markup_stays_text(browser: Any, root: Path) -> None:
    server = FaultyServer()
    server.reply = lambda user: "A" if "A) yes" in user else "Wasps hum <img src=x onerror=alert()> at noon [1]."
    server.log_probs = {"A": -0.01, "B": -5.0}
    with running(server.app) as url, exploring(root, "--model", url) as address, opened_page(browser, address) as page:
        page.goto("/ask")
        assert f"The language model test-model at {url} answers." in page.locator("main").text_content()
        assert page.get_by_label("Answer from").input_value() == "everything"
        page.get_by_role("textbox", name="Question").fill("Which animal hums at noon?")
        page.get_by_role("button", name="Ask", exact=True).click()
        page.locator("#answer").wait_for(timeout=240_000)
        assert page.locator(".result").text_content() == "Wasps hum <img src=x onerror=alert()> at noon"
        assert "test-model" in page.locator("#answer .facts").first.text_content()
        assert page.locator("img, main script, main form").count() == 0 and page.url.endswith("/ask")
