"""Takes the pictures of docs/tour.md: the explorer over a lake of the sample, in Chromium, a few colours each to stay
small.

python tools/tour.py --lake data_lake
"""

from __future__ import annotations

import argparse
import io
import shutil
import threading
import time
from pathlib import Path

import uvicorn
from PIL import Image
from playwright.sync_api import sync_playwright

from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.site import application
from evidence_assets.lake.catalogue import find_lake

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "tour"
COLOURS, MOST_BYTES = 48, 100_000
PORT = 3097


def pages(opened: LakeReader) -> dict[str, str]:
    """The address of each picture: answers that are right and sure, whatever the lake holds of them."""

    def best(variant: str, right: str = "is_right", benchmark: str = "%") -> str:
        [row] = opened.answers(
            f"SELECT question_id FROM answers WHERE variant = $variant AND {right} AND status = 'answered' AND "
            f"benchmark LIKE "
            "$benchmark ORDER BY confidence DESC, prediction_id LIMIT 1",
            variant=variant,
            benchmark=benchmark,
        )
        return str(row["question_id"])

    with opened.reader() as reader:
        [chunk] = reader.rows(
            "SELECT source_id FROM evidence JOIN counterfactuals c ON list_contains(c.cited, evidence.content_hash) "
            "WHERE source_kind = 'chunk' AND c.necessary GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
            ["evidence", "counterfactuals"],
        ) or reader.rows(
            "SELECT source_id FROM evidence WHERE source_kind = 'chunk' GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1",
            ["evidence"],
        )
    return {
        "scores": "/",
        "questions": "/questions?variant=mcqa/uscrake",
        "path": f"/question/{best('mcqa/ugat', benchmark='sample_graph')}?variant=mcqa/ugat#a1",
        "table": f"/question/{best('table/ucret')}?variant=table/ucret",
        "source": f"/source/chunk/{chunk['source_id']}",
        "compare": "/compare?a=mcqa/ugat&b=mcqa/bm25&benchmark=sample_graph",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path, default=None)
    root = parser.parse_args().lake or find_lake()
    server = uvicorn.Server(uvicorn.Config(application(root), host="127.0.0.1", port=PORT, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.1)
    chromium = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1000, "height": 640}, color_scheme="light")
        for name, address in pages(LakeReader(root)).items():
            page.goto(f"http://127.0.0.1:{PORT}{address}")
            if name == "table":
                page.locator("figure.grid").first.scroll_into_view_if_needed()
            screenshot = Image.open(io.BytesIO(page.screenshot()))
            screenshot.convert("RGB").quantize(COLOURS).save(FOLDER / f"{name}.png", optimize=True)
            size = (FOLDER / f"{name}.png").stat().st_size
            assert size <= MOST_BYTES, f"{name}.png has {size:,} bytes"
            print(f"docs/tour/{name}.png {size:,} bytes")
        browser.close()
    server.should_exit = True


if __name__ == "__main__":
    main()
