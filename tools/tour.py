"""Take the pictures of the documentation in Chromium: the explorer and the Dagster UI over the sample's lake.

Run `make demo` first: the pictures show its lake (`--lake`) and its Dagster instance (DAGSTER_HOME).
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import playwright.sync_api
import uvicorn
from PIL import Image
from playwright.sync_api import ViewportSize

from evidence_assets.cli.browser_answers import open_browser_answers
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.site import application
from evidence_assets.lake.catalogue import find_lake

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "tour"
COLOURS, MAX_BYTES = 48, 100_000
EXPLORER_PORT, DAGSTER_PORT = 3097, 3098
PHONE_PAGES = ("overview", "path", "relation")
"""Pages that are also taken on a narrow screen, in dark colours, as `NAME-phone.png`."""
QUESTION = "Is methadone an opioid?"
WIDE = ViewportSize(width=1000, height=640)
NARROW = ViewportSize(width=390, height=780)


def pages(lake: LakeReader) -> dict[str, str]:
    """The address of each page: confident right answers, whatever the lake contains."""

    def best_question(variant: str, benchmark: str = "%") -> str:
        [row] = reader.rows(
            "SELECT question_id FROM answers WHERE variant = $variant AND is_right AND status = 'answered' "
            "AND benchmark LIKE $benchmark ORDER BY confidence DESC, prediction_id LIMIT 1",
            variant=variant,
            benchmark=benchmark,
        )
        return str(row["question_id"])

    with lake.opened() as reader:
        [chunk] = reader.rows(
            "SELECT source_id FROM evidence JOIN counterfactuals c ON list_contains(c.cited, evidence.content_hash) "
            "WHERE source_kind = 'chunk' AND c.necessary GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
        ) or reader.rows(
            "SELECT source_id FROM evidence WHERE source_kind = 'chunk' GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1"
        )
        [relation] = reader.rows(
            "SELECT relation_id FROM triples WHERE origin = 'kbloom' GROUP BY ALL ORDER BY relation_id DESC LIMIT 1"
        )
        path_question = best_question("mcqa/ugat", benchmark="sample_graph")
        table_question = best_question("table/ucret")
    return {
        "overview": "/",
        "relation": f"/relation/{relation['relation_id']}",
        "scores": "/scores",
        "questions": "/questions?variant=mcqa/uscrake",
        "path": f"/question/{path_question}?variant=mcqa/ugat#a1",
        "table": f"/question/{table_question}?variant=table/ucret",
        "source": f"/source/chunk/{chunk['source_id']}",
    }


@contextmanager
def explorer(root: Path) -> Iterator[str]:
    app = application(root, open_browser_answers(""))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=EXPLORER_PORT, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.1)
    yield f"http://127.0.0.1:{EXPLORER_PORT}"
    server.should_exit = True


@contextmanager
def dagster_ui() -> Iterator[str]:
    command = [sys.executable, "-m", "dagster_webserver", "--read-only", "--host", "127.0.0.1"]
    process = subprocess.Popen([*command, "--port", str(DAGSTER_PORT), "-m", "evidence_assets.definitions"])
    yield f"http://127.0.0.1:{DAGSTER_PORT}"
    process.terminate()
    process.wait()


def save(page: Any, name: str) -> None:
    """Save a screenshot with few colours, to keep the file small."""
    path = FOLDER / f"{name}.png"
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS).save(path, optimize=True)
    size = path.stat().st_size
    assert size <= MAX_BYTES, f"{path.name} has {size:,} bytes, more than {MAX_BYTES:,}"
    print(f"docs/tour/{path.name} {size:,} bytes")


def ask(browser: Any, address: str) -> None:
    """Ask a question of one's own, and save the answer on wide and narrow screens, in light and dark colours."""
    for end, size in (("", WIDE), ("-phone", NARROW)):
        for colours in ("light", "dark"):
            page = browser.new_page(viewport=size, color_scheme=colours)
            page.goto(f"{address}/ask")
            page.locator("input[name=text]").fill(QUESTION)
            page.get_by_role("button", name="Ask").click()
            page.locator("#answer .result").wait_for(timeout=120_000)
            page.locator("#answer").scroll_into_view_if_needed()
            save(page, f"ask-{colours}{end}")
            page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path, default=None)
    root = parser.parse_args().lake or find_lake()
    FOLDER.mkdir(exist_ok=True)
    with playwright.sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport=WIDE, color_scheme="light")
        with explorer(root) as address:
            for name, path in pages(LakeReader(root)).items():
                page.goto(address + path)
                if name == "table":
                    page.locator("figure.grid").first.scroll_into_view_if_needed()
                save(page, name)
            ask(browser, address)
        phone = browser.new_page(viewport=NARROW, color_scheme="dark")
        with explorer(root) as address:
            for name in PHONE_PAGES:
                phone.goto(address + pages(LakeReader(root))[name])
                save(phone, f"{name}-phone")
        page.set_viewport_size({"width": 1500, "height": 700})
        with dagster_ui() as address:
            for attempt in range(60):  # the server starts, then loads the assets
                try:
                    page.goto(f"{address}/asset-groups", wait_until="domcontentloaded")
                    page.get_by_text("uscrake").first.wait_for(timeout=20_000)
                    break
                except playwright.sync_api.Error:
                    if attempt == 59:
                        raise
                    time.sleep(1)
            page.wait_for_timeout(5_000)
            save(page, "assets")
        browser.close()


if __name__ == "__main__":
    main()
