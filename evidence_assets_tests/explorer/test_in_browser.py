"""The explorer in Chromium: search, filters and links, by keyboard and mouse."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.cli import app
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.lake.store import Lake
from evidence_assets_tests.browser import BROWSER_MARKS, CHROMIUM, FLAGS

pytestmark = [*BROWSER_MARKS, pytest.mark.slow]
TEXTS = {
    "cats.txt": "Cats purr when they are content. Cats sleep for sixteen hours a day.",
    "bees.txt": "Bees buzz when they fly. A hive holds about forty thousand bees.",
}
QUESTIONS = {"Which animal purrs?": ("Bee", "Cat"), "Which animal sleeps long?": ("Cat", "Bee")}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two documents and two questions of ``evidence ask``."""
    folder = tmp_path_factory.mktemp("browser")
    (folder / "notes").mkdir()
    for name, text in TEXTS.items():
        (folder / "notes" / name).write_text(text)
    lake = Lake.create(folder / "data_lake", question_shards=1, corpus_shards=1)
    build_corpus(lake, "notes", group_files(folder / "notes"), lambda text: None)
    for question, options in QUESTIONS.items():
        result = CliRunner().invoke(app, ["ask", question, "--options", *options, "--lake", str(lake.root)])
        assert result.exit_code == 0, result.output
    return lake.root


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    """``evidence explore`` over that lake."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "evidence_assets.cli", "explore", "--port", str(port), "--lake", str(root)]
    process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    base = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(base, timeout=5)
                break
            except OSError:
                assert process.poll() is None
                time.sleep(0.1)
        yield base
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def page(address: str) -> Iterator[Any]:
    """A browser page that fails on script errors, blocked scripts and requests to other hosts."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        browser_page = browser.new_page(base_url=address, viewport={"width": 1280, "height": 900})
        messages: list[str] = []
        browser_page.on("console", lambda message: messages.append(message.text))
        browser_page.on("pageerror", lambda error: messages.append(str(error)))
        browser_page.on(
            "request", lambda request: messages.append(request.url) if not request.url.startswith(address) else None
        )
        yield browser_page
        browser.close()
        assert not messages


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
    assert re.search(r"#a1-e\d+$", page.url)
    press_to(page, "cats")
    page.keyboard.press("Enter")
    page.wait_for_url("**/source/chunk/*")
    assert "Evidence from this chunk" in page.content()
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
    assert re.search(r"#a1-e\d+$", page.url)
    press_to(page, "cats.txt")
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
    chunk = lake.read("chunks")["chunk_id"][0]
    question = lake.read("questions")["question_id"][0]
    kinds = ["/", "/scores", "/questions", f"/question/{question}", f"/source/chunk/{chunk}", "/search?q=cats"]
    for kind in kinds:
        page.goto(kind)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, kind
