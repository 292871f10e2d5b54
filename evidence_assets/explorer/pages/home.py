"""The first page: scores beside printed figures, what is missing or older than what it reads, and the last runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.declared import benchmarks
from evidence_assets.experiment.ad_hoc_questions import BENCHMARK as ASKED
from evidence_assets.experiment.variants import variants
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.open_lake import Reader
from evidence_assets.explorer.pages import Page
from evidence_assets.explorer.scores import SCORES, difference, is_headline
from evidence_assets.lake.store import Lake

RUNS = 10


def home(reader: Reader, asked: Mapping[str, str]) -> Page:
    rows = reader.rows(SCORES, ["scores"])
    counts = reader.answers(
        "SELECT benchmark, count(DISTINCT variant) AS variants, count(*) AS answers, "
        "count(*) FILTER (status = 'failed') AS failed FROM answers GROUP BY benchmark ORDER BY benchmark"
    )
    by_benchmark: dict[str, list[Row]] = {}
    for row in rows:
        if row["scope_kind"] == "benchmark" and is_headline(row):
            by_benchmark.setdefault(row["scope_id"], []).append(row | {"off": difference(row)})
    shown = {
        "scores": by_benchmark,
        "harvests": [row for row in rows if row["scope_kind"] != "benchmark" and is_headline(row)],
        "counts": counts,
        "asked_one_by_one": ASKED,
        "states": _states(reader.opened.lake),
        "runs": last_runs(reader.opened.lake, RUNS),
        "relations": reader.rows("SELECT DISTINCT relation_id FROM relation_seeds ORDER BY 1", ["relation_seeds"]),
    }
    return Page("home.html", "Scores", shown)


def _states(lake: Lake) -> list[dict[str, str]]:
    """Loaded variants that lack an answer or a score for a benchmark, and scores older than what they are made from."""
    newest: dict[tuple[str, str, str], float] = {}
    for table in ("evidence", "predictions", "scores"):
        for path in lake.files(table):
            asset, benchmark = path.relative_to(lake.root / table).parts[:2]
            key = (table, asset.removeprefix(f"asset={table}."), benchmark.removesuffix(".parquet"))
            newest[key] = max(newest.get(key, 0.0), path.stat().st_mtime)
    known, found = benchmarks(), []
    for variant in variants():
        if not variant.loaded:
            continue
        name, selector = variant.place.replace("/", ".", 1), f"{variant.family}.{variant.selector}"
        for benchmark in (b.name for b in known.values() if b.family == variant.family):
            picked, said = newest.get(("evidence", selector, benchmark)), newest.get(("predictions", name, benchmark))
            scored = newest.get(("scores", name, benchmark))
            lacking = (
                "evidence" if picked is None else "predictions" if said is None else "scores" if scored is None else ""
            )
            if lacking and (variant.family != "retrieval" or lacking != "predictions"):
                found.append({"variant": variant.place, "benchmark": benchmark, "state": f"no {lacking} yet"})
            elif scored and said and picked and (scored < said or said < picked):
                late = "scores are older than predictions" if scored < said else "predictions are older than evidence"
                found.append({"variant": variant.place, "benchmark": benchmark, "state": late})
    return found


def written(run: Path) -> float:
    """When the last file of a run was written."""
    return max((path.stat().st_mtime for path in run.glob("*.parquet")), default=0.0)


def last_runs(lake: Lake, most: int, of: str = "") -> list[dict[str, Any]]:
    """The last runs that wrote rows of assets whose names begin so, newest first."""
    folders = [folder for folder in (lake.root / "history").glob("run=*") if next(folder.glob(f"{of}*.parquet"), None)]
    last = sorted(folders, key=lambda folder: (-written(folder), folder.name))[:most]
    return [
        {
            "run_id": folder.name.removeprefix("run="),
            "at": datetime.fromtimestamp(written(folder), UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "assets": len(
                names := sorted(
                    {path.name.partition("@")[0].replace(".", "/") for path in folder.glob(f"{of}*.parquet")}
                )
            ),
            "names": ", ".join(names[:3]) + (" …" if len(names) > 3 else ""),
        }
        for folder in last
    ]
