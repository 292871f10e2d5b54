"""The Dagster UI in a browser: materialize an asset by clicking, backfill one benchmark, look at a picture."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evidence_assets.experiment.scores import charts
from evidence_assets.lake.store import Lake
from evidence_assets_tests.browser import BROWSER_MARKS, CHROMIUM, FLAGS
from evidence_assets_tests.conftest import World, run_python
from evidence_assets_tests.lake_rows import score
from evidence_assets_tests.processes import child_processes, query_dagster, serve_dagster

pytestmark = [*BROWSER_MARKS, pytest.mark.long]


PHONE = 390
"""Width of a phone in pixels."""


@pytest.fixture
def server(world: World) -> Iterator[str]:
    """``dagster dev`` over an empty world, and its address."""
    with serve(world) as address:
        yield address


@contextmanager
def serve(world: World) -> Iterator[str]:
    """Run ``dagster dev`` over a world, and yield its address."""
    with child_processes(world.root) as start:
        yield serve_dagster(start, world.root, world.environment)


def test_materialize_by_clicking_then_backfill_one_benchmark(server: str, world: World) -> None:
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1500, "height": 1000})
        page.goto(f"{server}/assets/raw/sample", wait_until="domcontentloaded")
        button = page.get_by_role("button", name="Materialize", exact=False).first
        expect(button).to_be_enabled(timeout=60_000)
        button.click()
        deadline = time.monotonic() + 480  # a crowded machine took more than 120
        corpus_file = world.root / "data_lake" / "raw" / "sample" / "corpus" / "sample" / "articles.jsonl"
        while not corpus_file.exists():
            assert time.monotonic() < deadline, "nothing was written"
            time.sleep(0.5)
        page.goto(f"{server}/runs", wait_until="domcontentloaded")
        expect(page.get_by_text("Success", exact=False).first).to_be_visible(timeout=240_000)
        page.goto(f"{server}/assets/raw/sample?view=overview", wait_until="domcontentloaded")
        expect(page.get_by_text("The sample world", exact=False).first).to_be_visible(timeout=60_000)
        page.screenshot(path=str(world.root / "asset.png"))
        browser.close()
    _backfill_one_benchmark(server, world)


def _backfill_one_benchmark(server: str, world: World) -> None:
    """The request that the interface's backfill dialog sends, carried out by the daemon."""
    launched = query_dagster(
        server,
        "mutation ($p: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $p) "
        "{ __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }",
        p={"assetSelection": [{"path": ["questions", "mcqa"]}], "partitionNames": ["sample_mcqa|0"]},
    )["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    deadline = time.monotonic() + 480  # a crowded machine took more than 240
    while True:
        status = query_dagster(
            server,
            "query ($id: String!) { partitionBackfillOrError(backfillId: $id) "
            "{ ... on PartitionBackfill { status } } }",
            id=launched["backfillId"],
        )["partitionBackfillOrError"]["status"]
        if status == "COMPLETED_SUCCESS":
            break
        assert status in ("REQUESTED", "COMPLETING") and time.monotonic() < deadline, status
        time.sleep(1)
    questions = world.root / "data_lake" / "questions" / "asset=questions.mcqa"
    assert (questions / "sample_mcqa" / "0.parquet").exists()
    assert not (questions / "sample_graph").exists(), "only the one benchmark was asked for"


def test_the_scoreboard_shows_its_picture_and_a_table_the_folder_of_its_files(world: World) -> None:
    from playwright.sync_api import expect, sync_playwright

    lake = Lake.create(world.root / "data_lake", question_shards=1, corpus_shards=1)
    scores = [score("accuracy", 0.625, "sample_mcqa", low=0.5, high=0.75, published=0.6)]
    lake.write("scores/mcqa/bm25", "sample_mcqa", {"scores": scores})
    command = ["-m", "dagster", "asset", "materialize", "-m", "evidence_assets.definitions", "--select"]
    run_python(*command, "key:report/scoreboard", env=world.environment)
    with serve(world) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"{address}/assets/report/scoreboard?view=overview", wait_until="domcontentloaded")
        row = page.get_by_role("row").filter(has_text="accuracy on sample_mcqa")
        row.get_by_text("[Show Markdown]").click(timeout=60_000)
        picture = page.get_by_role("img", name="accuracy on sample_mcqa")
        for width in (1280, PHONE):  # the UI's menu covers the metadata of a phone, but not the dialog
            page.set_viewport_size({"width": width, "height": 844})
            expect(picture).to_be_visible()
            assert picture.evaluate("image => image.naturalWidth") == charts.WIDTH
            box = picture.bounding_box()
            assert box and box["x"] >= 0 and box["x"] + box["width"] <= width and box["height"] > 50
            page.screenshot(path=str(world.root / f"scoreboard-{width}.png"))
        page.goto(f"{address}/assets/scores/mcqa/bm25?view=overview", wait_until="domcontentloaded")
        folder = (lake.root / "scores" / "asset=scores.mcqa.bm25").as_uri().replace("%3D", "=")
        expect(page.get_by_text(folder).first).to_be_visible(timeout=60_000)
        page.screenshot(path=str(world.root / "folder.png"))
        browser.close()
