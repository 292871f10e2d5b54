"""The explorer in a real Chromium: asked, searched, filtered and walked through."""

from __future__ import annotations

import os
import re
import shutil
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
from evidence_assets_tests.explorer.test_site import files

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: install Debian's package chromium"),
]
TEXTS = {
    "cats.txt": "Cats purr when they are content. Cats sleep for sixteen hours a day.",
    "bees.txt": "Bees buzz when they fly. A hive holds about forty thousand bees.",
    "harm.txt": "Owls hoot at night. <script>document.title = 'taken'</script><img src=x "
    "onerror=\"document.title = 'taken'\">",
}
QUESTIONS = {
    "Which animal purrs?": ("Bee", "Cat"),
    "Which animal sleeps long?": ("Cat", "Bee"),
    "Which animal hoots? <b onmouseover=\"document.title='taken'\">": (
        "Owl",
        "<script>document.title='taken'</script>",
    ),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with three documents and three asked questions, asked as a user asks them."""
    place = tmp_path_factory.mktemp("browser")
    (place / "notes").mkdir()
    for name, text in TEXTS.items():
        (place / "notes" / name).write_text(text)
    lake = Lake.create(place / "data_lake", question_shards=1, corpus_shards=1)
    build_corpus(lake, "notes", group_files(place / "notes"), lambda text: None)
    for question, options in QUESTIONS.items():
        done = CliRunner().invoke(app, ["ask", question, "--options", *options, "--lake", str(lake.root)])
        assert done.exit_code == 0, done.output
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
    """A page of a browser that must not meet an error, a refused script or a request to elsewhere."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        opened = browser.new_page(base_url=address, viewport={"width": 1280, "height": 900})
        told: list[str] = []
        opened.on("console", lambda message: told.append(message.text))
        opened.on("pageerror", lambda error: told.append(str(error)))
        opened.on("request", lambda request: told.append(request.url) if not request.url.startswith(address) else None)
        yield opened
        browser.close()
        assert not told


def press_to(page: Any, name: str, most: int = 60) -> None:
    """Press Tab until the link or button of this name has the focus, and see that it is shown to have it."""
    for _ in range(most):
        page.keyboard.press("Tab")
        there = page.evaluate(
            "document.activeElement.matches('a, button, summary') && document.activeElement.textContent"
        )
        if there and name in there:
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
    assert "What rests on it" in page.content()
    press_to(page, "Which animal sleeps long?")
    page.keyboard.press("Enter")
    page.wait_for_url("**/question/*")
    assert page.locator("h1").text_content() == "Which animal sleeps long?"


def test_text_that_means_harm_stays_text(page: Any) -> None:
    page.goto("/search?q=hoot")
    for _ in range(2):
        for link in page.locator("main a").all()[:1]:
            link.click()
    page.goto("/questions")
    page.get_by_role("link", name="Which animal hoots?", exact=False).first.click()
    page.get_by_text("onmouseover").first.hover()
    page.locator("a[href^='/source/']").first.click()
    assert page.title() != "taken" and page.locator("main script, main img, main b[onmouseover]").count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_every_kind_of_page_fits_the_screen(page: Any, width: int, root: Path) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    lake = Lake(root)
    chunk = lake.read("chunks")["chunk_id"][0]
    question = lake.read("questions")["question_id"][0]
    kinds = ["/", "/questions", f"/question/{question}", f"/source/chunk/{chunk}", "/compare", "/search?q=cats"]
    for kind in kinds:
        page.goto(kind)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, kind


def test_walking_about_changes_nothing_in_the_lake(page: Any, root: Path) -> None:
    before, seen, waiting = files(Lake(root)), set[str](), ["/"]
    while waiting and len(seen) < 60:
        at = waiting.pop(0)
        if at in seen:
            continue
        seen.add(at)
        reply = page.goto(at)
        assert reply.status == 200, at
        waiting += page.evaluate(
            "[...document.querySelectorAll('main a[href^=\"/\"]')].map(a => a.getAttribute('href'))"
        )
    assert len(seen) > 15 and files(Lake(root)) == before
