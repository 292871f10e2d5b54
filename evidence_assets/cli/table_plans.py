"""The plan of a printed table: its data, models, work and sources, and what cannot be had."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.planning import PlannedWork, plan_work
from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.cli.console import out, print_table
from evidence_assets.cli.table_runs import runnable_sources, table_presets
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.cells import Cell, CellSource, required_data
from evidence_assets.reproduction.data_files import DataFiles, RequiredData
from evidence_assets.reproduction.table_plans import (
    NOT_MEASURED,
    Measurement,
    UsedModel,
    find_measurements,
    find_models,
)
from evidence_assets.systems.kbloom.seeds import collection_folder, list_seed_files

Row = dict[str, Any]
MODEL_COLUMNS = ("model", "use", "server", "port", "cards", "memory", "context", "note")


def build_plan(cells: Sequence[Cell], table: str, reasons: Iterable[Mapping[str, Any]], finder: RequiredData) -> Row:
    """The plan of the cells of a table (``thesis 7.5``) that can be filled; ``reasons`` say why others cannot."""
    sources = runnable_sources(cells)
    models = find_models(sources, finder)
    raw = find_lake() / "raw"
    return {
        "profile": profiles.load().name,
        "presets": table_presets(sources, table),
        "data": [_describe_data(files, raw) for files in required_data(sources, finder)],
        "models": [_describe_model(model) for model in models],
        "work": [asdict(work) for work in _plan_sources(sources)],
        "sources": [_describe_source(asset, each) for asset, each in find_measurements(sources, finder)],
        "unavailable": _list_unavailable(cells, models, reasons),
    }


def _describe_data(files: DataFiles, raw: Path) -> Row:
    paths = files.find(raw)
    size = None if paths is None else sum(path.stat().st_size for path in paths)
    targets = [str(path) for path in files.targets(raw)]
    return {"name": files.name, "targets": targets, "bytes": size, "origin": files.describe_origin()}


def _describe_model(model: UsedModel) -> Row:
    """A model with its server; what it needs of a machine was not measured, except the size of its files."""
    settings = model.settings
    return {
        "model": settings.name,
        "use": model.use,
        "server": model.server,
        "port": model.port,
        "megabytes": settings.megabytes,
        **dict.fromkeys(("cards", "memory", "context"), NOT_MEASURED if not model.server or model.port else "remote"),
        "note": settings.note,
    }


def _plan_sources(sources: Iterable[CellSource]) -> list[PlannedWork]:
    """The work of each variant on each benchmark, and of each harvest."""
    from evidence_assets.cli.runner import dagster_home

    dagster_home()
    lake = Lake(find_lake()) if (find_lake() / "format.json").exists() else None
    work: dict[tuple[str, str], PlannedWork] = {}
    with dg.DagsterInstance.get() as instance:
        for source in sources:
            key = (source.collection or source.benchmark, source.variant.label)
            if key in work:
                continue
            if source.scope:
                work[key] = PlannedWork(*key, _count_relations(source.collection), None, None, None, None)
            else:
                work[key] = plan_work(source.variant, benchmarks()[source.benchmark], lake, instance)
    return [work[key] for key in sorted(work)]


def _count_relations(collection: str) -> int | None:
    """Packaged relations of a collection; None if they are the user's own."""
    if collection not in profiles.load().harvesting.relations:
        return None
    return len(list_seed_files(collection_folder(collection)))


def _describe_source(asset: str, measurement: Measurement | None) -> Row:
    if measurement is None:
        return {"asset": asset, "measured": NOT_MEASURED, "work": "", "page": "", "disk_bytes": None}
    part = f"{asset}/{measurement.part}" if measurement.part else asset
    return {
        "asset": part,
        "measured": measurement.result,
        "work": measurement.work,
        "page": f"docs/{measurement.page}",
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
    models = [[row[name] for name in MODEL_COLUMNS] for row in plan["models"]]
    _print_rows("Models; start a server with `vllm serve MODEL --host 127.0.0.1 --port PORT`", MODEL_COLUMNS, models)
    work_columns = ("benchmark", "variant", "questions, relations", "requests", "tokens in", "tokens out", "hours")
    _print_rows("Work; tokens and hours of the latest runs here", work_columns, map(_format_work, plan["work"]))
    source_columns = ("asset", "measured", "work", "page", "disk")
    _print_rows("Sources and their measurements", source_columns, map(_format_source, plan["sources"]))
    unavailable = [(row["what"], row["why"]) for row in plan["unavailable"]]
    _print_rows("What cannot be had", ("what", "why"), unavailable)
    if plan["work"]:
        out.print(f"`evidence reproduce {plan['table']} --run` fills the table; run it again to continue.")
    else:
        out.print(f"No cell of {plan['table']} can be filled.")


def _print_rows(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    if lines := list(rows):
        print_table(columns, lines, title=title)


def _format_data(row: Mapping[str, Any]) -> tuple[str, ...]:
    size = "missing, not measured" if row["bytes"] is None else format_bytes(row["bytes"])
    return row["name"], ", ".join(row["targets"]), size if row["targets"] else "packaged", row["origin"]


def _format_work(row: Mapping[str, Any]) -> list[Any]:
    names = ("items", "requests", "tokens_in", "tokens_out")
    numbers = [NOT_MEASURED if row[name] is None else f"{row[name]:,}" for name in names]
    hours = NOT_MEASURED if row["seconds"] is None else str(timedelta(seconds=round(row["seconds"])))
    return [row["benchmark"], row["variant"], *numbers, hours]


def _format_source(row: Mapping[str, Any]) -> list[Any]:
    disk = NOT_MEASURED if row["disk_bytes"] is None else format_bytes(row["disk_bytes"])
    return [row["asset"], row["measured"], row["work"], row["page"], disk]


def format_bytes(number: int) -> str:
    """A size in the largest fitting unit of 1,000.

    >>> format_bytes(950), format_bytes(5_449_200_000)
    ('950 bytes', '5.4 GB')
    """
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
