"""Backfill a variant's benchmarks in the Dagster UI, by clicks in Chromium.

    EVIDENCE_PROFILE=local make ui
    python -m tools.backfill_in_browser mcqa/bm25 sample_mcqa [BENCHMARK …] [--address http://127.0.0.1:3000]

Dialogs are filled in, as a user would: for what the variant needs besides questions, for its questions to its
predictions, and for its scores. Of each, its runs and seconds are printed; the exit status is 1 where a run failed.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import playwright.sync_api

from bench.measuring import make_parser
from bench.result_files import print_table

ASSETS = "{ assetNodes { assetKey { path } dependencyKeys { path } partitionKeys } }"
RUNS = "{ runsOrError(limit: 1000) { ... on Runs { results { runId status } } } }"
ENDED = {"SUCCESS", "FAILURE", "CANCELED"}
QUIET_SECONDS = 40
"""Seconds without a new run after which a backfill is taken to be complete: the daemon asks every 30."""
HEADS = ("partitioned by", "assets", "runs", "failed", "seconds")


class Interface:
    """The Dagster UI in a browser, and what it asks its server."""

    def __init__(self, address: str, browser: playwright.sync_api.Browser) -> None:
        self.address = address
        self.page = browser.new_page(viewport={"width": 1500, "height": 1000})
        self.page.set_default_timeout(120_000)

    def query(self, query: str) -> Any:
        reply = httpx2.post(f"{self.address}/graphql", json={"query": query}, timeout=60)
        return reply.raise_for_status().json()["data"]

    def find_assets(self, variant: str) -> dict[str, list[str]]:
        """Partitions of the assets that the variant's scores need, by their keys."""
        nodes = {"/".join(node["assetKey"]["path"]): node for node in self.query(ASSETS)["assetNodes"]}
        needed = [f"scores/{variant}"]
        partitions: dict[str, list[str]] = {}
        while needed:
            key = needed.pop()
            if key in nodes and key not in partitions:
                partitions[key] = nodes[key]["partitionKeys"]
                needed += ["/".join(upstream["path"]) for upstream in nodes[key]["dependencyKeys"]]
        return partitions

    def run_statuses(self) -> dict[str, str]:
        return {run["runId"]: run["status"] for run in self.query(RUNS)["runsOrError"]["results"]}

    def launch(self, keys: Sequence[str], benchmarks: Sequence[str], *, has_partitions: bool) -> None:
        """Select assets in the lineage, choose the benchmarks' partitions in the dialog, and launch.

        ``has_partitions``: Otherwise there is no dialog: one click launches a run.
        """
        page = self.page
        page.goto(f"{self.address}/asset-groups", wait_until="domcontentloaded")
        materialize = page.get_by_role("button", name="Materialize")
        materialize.first.wait_for()
        page.locator(".CodeMirror").first.click()
        page.keyboard.insert_text(" or ".join(f'key:"{key}"' for key in keys))
        page.keyboard.press("Enter")
        page.wait_for_timeout(5_000)
        materialize.first.click()
        if not has_partitions:
            page.wait_for_timeout(5_000)
            return
        confirm = page.get_by_role("button", name="Confirm", exact=True)
        launch = page.get_by_role("button", name=re.compile("^Launch"))
        confirm.or_(launch).first.wait_for()
        if confirm.count():
            confirm.click()
            launch.first.wait_for()
        self._choose_partitions(page.get_by_role("dialog").filter(has_text="Launch runs to materialize"), benchmarks)
        launch.first.click()
        page.wait_for_timeout(3_000)

    def _choose_partitions(self, dialog: playwright.sync_api.Locator, benchmarks: Sequence[str]) -> None:
        """The benchmarks in the first list, and all of the second one, or of a single list of another kind."""
        pickers = dialog.get_by_text("Select a partition or create one")
        if benchmarks:
            pickers.first.click()
            for benchmark in benchmarks:
                self.page.get_by_title(benchmark, exact=True).last.click()
            dialog.get_by_text("Launch runs to materialize").click()  # closes the list
        if pickers.count():
            dialog.get_by_role("button", name="All", exact=True).last.click()

    def wait_for_runs(self, earlier: set[str]) -> list[str]:
        """Statuses of the runs since then, when all have ended and none was started for a while."""
        last_change = time.monotonic()
        statuses: dict[str, str] = {}
        while time.monotonic() < last_change + QUIET_SECONDS:
            time.sleep(2)
            now = {run: status for run, status in self.run_statuses().items() if run not in earlier}
            if now != statuses or not ENDED.issuperset(now.values()):
                last_change, statuses = time.monotonic(), now
        return list(statuses.values())


def backfill(interface: Interface, variant: str, benchmarks: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Launch each part, wait for it, and yield its row."""
    partitions = interface.find_assets(variant)
    scores = [f"scores/{variant}"]
    by_question = [key for key, names in partitions.items() if f"{benchmarks[0]}|0" in names]
    by_benchmark = [key for key, names in partitions.items() if benchmarks[0] in names and key not in scores]
    sources = [key for key in partitions if key not in {*by_question, *by_benchmark, *scores}]
    # Dagster leaves out what is behind a gap: tables and scores in one backfill would only make the tables.
    parts = [
        ("nothing, or a corpus' shards", sources, ()),
        ("benchmark", by_benchmark, benchmarks),
        ("benchmark and shard", by_question, benchmarks),
        ("benchmark, scores", scores, benchmarks),
    ]
    for name, keys, chosen in parts:
        if not keys:
            continue
        started, earlier = time.monotonic(), set(interface.run_statuses())
        interface.launch(keys, chosen, has_partitions=any(partitions[key] for key in keys))
        statuses = interface.wait_for_runs(earlier)
        seconds = time.monotonic() - started - QUIET_SECONDS
        failed = sum(status != "SUCCESS" for status in statuses)
        yield name, str(len(keys)), str(len(statuses)), str(failed), f"{seconds:.0f}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("variant")
    parser.add_argument("benchmarks", nargs="+")
    parser.add_argument("--address", default="http://127.0.0.1:3000")
    parser.add_argument("--picture", type=Path, help="a file for a picture of the runs")
    options = parser.parse_args()
    rows = []
    with playwright.sync_api.sync_playwright() as library:
        browser = library.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        interface = Interface(options.address, browser)
        for row in backfill(interface, options.variant, options.benchmarks):
            print(*row, sep="  ", flush=True)
            rows.append(row)
        if options.picture:
            interface.page.goto(f"{options.address}/runs", wait_until="domcontentloaded")
            interface.page.wait_for_timeout(10_000)
            interface.page.screenshot(path=str(options.picture))
        browser.close()
    print_table(HEADS, rows, options.variant)
    sys.exit(any(row[3] != "0" or row[2] == "0" for row in rows))


if __name__ == "__main__":
    main()
