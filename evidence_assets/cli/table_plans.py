"""The plan of a printed table: its data, models, work and sources, and what cannot be had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets import profiles, systems
from evidence_assets.assets.planning import BenchmarkSizes, PlannedWork, plan_harvest, plan_work
from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.cli.console import leave_out_empty, out, print_table
from evidence_assets.cli.table_runs import runnable_sources, table_presets
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.store import Lake
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.reproduction.cells import Cell, CellSource, required_data
from evidence_assets.reproduction.data_files import DataFiles, RequiredData
from evidence_assets.reproduction.estimates import TOKENS_PAGE, count_cards, facts
from evidence_assets.reproduction.table_plans import (
    NOT_MEASURED,
    Measurement,
    UsedModel,
    find_measurements,
    find_models,
)
from evidence_assets.systems.kbloom.system import KBloom

Row = dict[str, Any]
NOT_KNOWN = "not known"
MODELS_TITLE = """Models; computed for cards of 80 GB and a cache for all requests at once; a smaller cache holds fewer
Start a server with `vllm serve MODEL --host 127.0.0.1 --port PORT --max-model-len CONTEXT`"""
WORK_TITLE = f"""Work, at most and without repairs; hours and tokens of the latest runs here, of shared steps once
~: from thirty inputs of the sample ({TOKENS_PAGE}), with whole chunks"""
NO_HOURS = """Other hours are not measured: divide tokens by the rates of your server, which a run prints as it goes.
No rate of these models was measured (docs/deploy.md#6-the-language-models-of-paper)."""
SOURCES_TITLE = "Sources: what was measured, and time and disk space at their size"


def build_plan(cells: Sequence[Cell], table: str, reasons: Iterable[Mapping[str, Any]], finder: RequiredData) -> Row:
    """The plan of the cells of a table (``thesis 7.5``) that can be filled; ``reasons`` say why others cannot."""
    sources = runnable_sources(cells)
    models = find_models(sources, finder)
    work = _plan_sources(sources)
    context = max((each.context for each in work), default=0)
    raw = find_lake() / "raw"
    parts = {
        "data": [_describe_data(files, raw) for files in required_data(sources, finder)],
        "models": [_describe_model(model, context) for model in models],
        "work": [asdict(each) for each in work],
        "sources": [_describe_source(asset, each) for asset, each in find_measurements(sources, finder)],
    }
    return {
        "profile": profiles.load().name,
        "presets": table_presets(sources, table),
        **parts,
        "totals": compute_totals(parts),
        "unavailable": _list_unavailable(cells, models, reasons),
    }


def compute_totals(plan: Mapping[str, Sequence[Row]]) -> dict[str, Row]:
    """The sums of a plan's requests, tokens, seconds and bytes on disk, each with the number of unknown parts.

    Disk space is that of data files and of what is built from them; models have their own table.
    """
    work = plan["work"]
    sources = plan["sources"]
    data_files = [row for row in plan["data"] if row["targets"]]  # other files are in the package
    values = {
        "requests": [row["requests"] for row in work],
        "tokens": [row[name] for row in work for name in ("tokens_in", "tokens_out")],
        "seconds": [row["seconds"] for row in (*work, *sources)],
        "disk_bytes": [*(row["bytes"] for row in data_files), *(row["disk_bytes"] for row in sources)],
    }
    return {name: _sum_known(numbers) for name, numbers in values.items()}


def _sum_known(numbers: Sequence[float | None]) -> Row:
    known_numbers = [number for number in numbers if number is not None]
    return {"known": sum(known_numbers), "unknown_parts": len(numbers) - len(known_numbers)}


def _describe_data(files: DataFiles, raw: Path) -> Row:
    paths = files.find(raw)
    size = facts().bytes.get(files.name) if paths is None else sum(path.stat().st_size for path in paths)
    targets = [str(path) for path in files.targets(raw)]
    return {
        "name": files.name,
        "targets": targets,
        "bytes": size,
        "is_there": paths is not None,
        "origin": files.describe_origin(),
    }


def _describe_model(model: UsedModel, context: int) -> Row:
    """A model with its server and what it needs of a machine; ``context``: most tokens of a request and its reply."""
    settings = model.settings
    unknown = NOT_KNOWN if not model.server or model.port else "remote service"
    row: Row = {
        "model": settings.name,
        "use": model.use,
        "server": model.server,
        "port": model.port,
        "megabytes": settings.megabytes,
        **dict.fromkeys(("cards", "weights", "cache"), unknown),
        "context": context if model.server else NOT_KNOWN,
        "note": settings.note,
    }
    if size := facts().models.get(settings.name):
        cache = size.cache * context * settings.concurrency if isinstance(settings, GeneratorSettings) else 0
        cards = count_cards(size.weights + cache)
        row |= {"cards": cards, "weights": size.weights, "cache": cache, "context": size.context or context}
    return row


def _plan_sources(sources: Iterable[CellSource]) -> list[PlannedWork]:
    """The work of each variant on each benchmark, and of each harvest."""
    from evidence_assets.cli.runner import dagster_home

    dagster_home()
    sizes = BenchmarkSizes(Lake(find_lake()) if (find_lake() / "format.json").exists() else None)
    # The judgements of a harvest include the work of its other scores.
    by_key: dict[tuple[str, str], CellSource] = {}
    for source in sorted(sources, key=lambda each: not each.score_asset.endswith("_judged")):
        by_key.setdefault((source.collection or source.benchmark, source.variant.label), source)
    timed: dict[str, set[str]] = defaultdict(set)
    work = []
    with dg.DagsterInstance.get() as instance:
        for (name, _), source in sorted(by_key.items(), key=lambda item: item[0]):
            method = systems.open_method(source.variant)
            if isinstance(method, KBloom):
                is_judged = source.score_asset.endswith("_judged")
                work.append(plan_harvest(method, source.collection, is_judged=is_judged))
            else:
                benchmark = benchmarks()[source.benchmark]
                has_answers = source.has_answers
                work.append(
                    plan_work(source.variant, benchmark, sizes, instance, has_answers=has_answers, timed=timed[name])
                )
    return work


def _describe_source(asset: str, measurement: Measurement) -> Row:
    seconds = measurement.seconds
    return {
        "asset": f"{asset}/{measurement.part}".rstrip("/"),
        "measured": "; ".join(measurement.results) or NOT_MEASURED,
        "work": measurement.work,
        "page": measurement.page and f"docs/{measurement.page}",
        "factor": measurement.factor,
        "seconds": seconds and seconds * measurement.factor,
        "mebibytes": measurement.mebibytes,
        "disk_bytes": measurement.disk_bytes,
    }


def _list_unavailable(
    cells: Iterable[Cell], models: Iterable[UsedModel], reasons: Iterable[Mapping[str, Any]]
) -> list[Row]:
    """What cannot be had, each with its reason: models, recorded answers, cells that nothing fills."""
    rows = [{"what": model.settings.name, "why": model.settings.note} for model in models if model.settings.note]
    n_recorded = sum(cell.from_records for cell in cells)
    if n_recorded:
        why = "Other groups' systems, whose answers this package does not have: put files of them into raw/recorded."
        rows.append({"what": f"{n_recorded} cells of other systems", "why": why})
    for each in reasons:
        rows.append({"what": f"{each['cells']} cells: {', '.join(each['of'])}", "why": each["reason"]})
    return rows


def print_plan(plan: Mapping[str, Any]) -> None:
    """Print a plan for people; parts without rows are left out."""
    presets = ", ".join(plan["presets"]) or "none"
    out.print(f"{plan['table']}: {plan['title']}\nprofile {plan['profile']}; presets {presets}, enabled by --run")
    _print_rows("Data", ("data", "put into", "size", "from"), map(_format_data, plan["data"]))
    model_columns = ("model", "use", "port", "cards", "weights", "cache", "context", "note")
    _print_rows(
        MODELS_TITLE, model_columns, ([_format_need(row, name) for name in model_columns] for row in plan["models"])
    )
    work_columns = ("benchmark", "variant", "questions, relations", "requests", "tokens in", "tokens out", "hours")
    _print_rows(WORK_TITLE, work_columns, map(_format_work, plan["work"]))
    if any(row["seconds"] is None for row in plan["work"]):
        out.print(NO_HOURS)
    _print_sources(plan)
    if plan["work"]:
        out.print(f"`evidence reproduce {plan['table']} --run` fills the table; run it again to continue.")
        out.print(format_totals(plan["totals"]))
    else:
        out.print(f"No cell of {plan['table']} can be filled.")


def _print_sources(plan: Mapping[str, Any]) -> None:
    """Print the measured work of sources, and what cannot be had."""
    source_columns = ("asset", "measured work", "memory there", "×", "time", "disk", "page")
    _print_rows(SOURCES_TITLE, source_columns, map(_format_source, plan["sources"]))
    unavailable = [(row["what"], row["why"]) for row in plan["unavailable"]]
    _print_rows("What cannot be had", ("what", "why"), unavailable)


def format_totals(totals: Mapping[str, Row]) -> str:
    """The totals of a plan in one sentence; a sum with unknown parts is a lower bound."""
    requests, tokens, seconds, disk_bytes = (totals[name] for name in ("requests", "tokens", "seconds", "disk_bytes"))
    texts = [
        _format_total(requests, f"{requests['known']:,} requests", "requests"),
        _format_total(tokens, f"{tokens['known']:,} tokens", "tokens"),
        _format_total(seconds, f"{seconds['known'] / 3600:,.1f} hours", "hours"),
        _format_total(disk_bytes, f"{format_bytes(disk_bytes['known'])} of disk for data and sources", "disk space"),
    ]
    return f"In all: {', '.join(texts)}."


def _format_total(total: Row, text: str, unit: str) -> str:
    if not total["unknown_parts"]:
        return text
    return f"at least {text}" if total["known"] else f"{unit} {NOT_KNOWN}"


def _print_rows(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    if lines := list(rows):
        print_table(*leave_out_empty(columns, lines), title=title)


def _format_data(row: Mapping[str, Any]) -> tuple[str, ...]:
    size = NOT_KNOWN if row["bytes"] is None else format_bytes(row["bytes"])
    if not row["is_there"]:
        size = f"missing; about {size}" if row["bytes"] else f"missing; {size}"
    return row["name"], ", ".join(row["targets"]), size if row["targets"] else "packaged", row["origin"]


def _format_need(row: Mapping[str, Any], column: str) -> Any:
    value = row[column]
    if not value or not isinstance(value, int) or column == "port":
        return value or ""
    return format_bytes(value) if column in ("weights", "cache") else f"{value:,}"


def _format_work(row: Mapping[str, Any]) -> list[Any]:
    numbers = [_format_number(row[name]) for name in ("items", "requests", "tokens_in", "tokens_out")]
    if row["tokens_from"] == TOKENS_PAGE:
        numbers[2:] = [f"~ {number}" for number in numbers[2:]]
    return [row["benchmark"], row["variant"], *numbers, _format_seconds(row["seconds"])]


def _format_source(row: Mapping[str, Any]) -> list[Any]:
    memory = f"{row['mebibytes']:,} MiB" if row["mebibytes"] else NOT_MEASURED
    disk = format_bytes(row["disk_bytes"]) if row["disk_bytes"] else NOT_MEASURED
    time = _format_seconds(row["seconds"]) or NOT_MEASURED
    return [row["asset"], row["work"], memory, f"{row['factor']:,.2f}", time, disk, row["page"]]


def _format_number(number: int | None) -> str:
    return NOT_KNOWN if number is None else f"{number:,}"


def _format_seconds(seconds: float | None) -> str:
    return "" if seconds is None else str(timedelta(seconds=round(seconds)))


def format_bytes(number: int) -> str:
    """A size in the largest fitting unit of 1,000.

    >>> format_bytes(950), format_bytes(5_449_200_000)
    ('950 bytes', '5.4 GB')
    """
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
