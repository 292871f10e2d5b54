"""Commands that prepare a project and clean up: ``evidence init | get | doctor | gc``."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from evidence_assets.benchmarks import downloads
from evidence_assets.benchmarks.declared_benchmarks import declarations
from evidence_assets.cli.console import LakeOption, format_cell, out, print_table, report_errors
from evidence_assets.lake.catalogue import LAKE_VARIABLE, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.mirror import fetch_folder
from evidence_assets.lake.store import Lake, delete_orphans, find_orphans
from evidence_assets.reproduction.data_files import declared_data, find_data
from evidence_assets.reproduction.presets import PRESETS_VARIABLE
from evidence_assets.text.spelling import did_you_mean

commands = typer.Typer(rich_markup_mode=None)
TEMPLATE = Path(__file__).resolve().parent.parent / "project_template"
"""Files of a new project. ``dot_`` in a name becomes a dot, PROJECT_NAME the project's name."""

SOURCE_PREFIXES = ("corpus/", "knowledge/")
"""Of the keys of assets that are named after a declared corpus or graph."""


@commands.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to create, such as my_project; `.` for this one.")],
) -> None:
    """Create a project with a small corpus and a benchmark.

    The lake and Dagster's history are in the project's folder. Existing files are not changed.
    """
    with report_errors():
        create_project(folder)
    where = "" if folder.resolve() == Path.cwd() else f"`cd {folder}`, then "
    out.print(f"{folder}: a project with the corpus `library` and the benchmark `quiz`; README.md explains its files.")
    out.print(f"Next: {where}`evidence run quiz --variants bm25,uscrake`.")


def create_project(folder: Path) -> None:
    """Copy the template; raises BadInput if one of its files exists."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.casefold()).strip("-") or "evidence-project"
    sources = sorted(path for path in TEMPLATE.rglob("*") if path.is_file())
    targets = [folder / path.relative_to(TEMPLATE).as_posix().replace("dot_", ".") for path in sources]
    if existing := [path for path in targets if path.exists()]:
        raise BadInput("exists already: choose another folder, or move this file away", file=existing[0])
    for source, target in zip(sources, targets, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text(encoding="utf-8").replace("PROJECT_NAME", name), encoding="utf-8")


@commands.command()
def get(
    name: Annotated[str, typer.Argument(help="Benchmark or graph to download. Lists all without it.")] = "",
) -> None:
    """Download the official files of a benchmark or graph.

    Counts and hashes are checked. Downloads need EVIDENCE_NETWORK=1.
    """
    with report_errors():
        from evidence_assets.assets.resources import LakeResource

        sources = downloads.download_sources()
        if not name:
            raw = fetch_folder(find_lake() / "raw")
            rows = []
            for source_name, source in sorted(sources.items()):
                present = sum((raw / file.to).exists() for file in source.files)
                rows.append((source_name, source.revision, source.url(source.files[0]), len(source.files), present))
            print_table(("name", "revision", "address", "files", "present"), rows)
            return
        benchmark = name.partition(".")[0]
        if benchmark not in sources:
            raise BadInput(_explain_missing_download(benchmark, sources))
        fetched = downloads.download_files(benchmark, LakeResource().open(), out.print)
    out.print(f"{benchmark}: {fetched} files downloaded, all {len(sources[benchmark].files)} are valid")


def _explain_missing_download(name: str, sources: Collection[str]) -> str:
    """Where to put the files of a name without a download, and where to obtain them."""
    data = find_data(name)
    if not data:
        known_names = {*sources, *(files.name for files in declared_data().values())}
        return f"there is no download for {name}{did_you_mean(name, known_names)}"
    raw = find_lake() / "raw"
    lines = [f"there is no download for {name}; put the files in the lake yourself:"]
    for files in data:
        if files.is_downloadable:
            lines.append(f"  {files.name}: {files.describe_origin()}")
        else:
            targets = ", ".join(map(str, files.targets(raw)))
            lines.append(f"  {files.name}: as {targets}: {files.contents}")
    return "\n".join(lines)


@commands.command()
def gc(
    yes: Annotated[bool, typer.Option("--yes", help="Delete; without it, only list.")] = False, lake: LakeOption = None
) -> None:
    """List or delete data of removed assets and killed runs."""
    with report_errors():
        import dagster as dg

        from evidence_assets.assets.run_liveness import fail_killed_runs
        from evidence_assets.cli.runner import dagster_home

        home = dagster_home()
        with dg.DagsterInstance.get() as instance:
            fail_killed_runs(instance, home, out.print)
        opened_lake = Lake(lake or find_lake())
        orphans = find_orphans(opened_lake, _find_assets(opened_lake))
        for path, size in orphans:
            out.print(f"{size:>14,} bytes  {path.relative_to(opened_lake.root)}")
        total = sum(size for _, size in orphans)
        if not orphans:
            out.print("nothing to delete")
        elif yes:
            delete_orphans(orphans)
            out.print(f"deleted {len(orphans)} folders and files, {total:,} bytes")
        else:
            out.print(f"{len(orphans)} folders and files, {total:,} bytes; `evidence gc --yes` deletes them")


def _find_assets(lake: Lake) -> set[str]:
    """Assets that Dagster, single questions or other profiles may have in the lake."""
    from evidence_assets.assets.definitions import load_definitions
    from evidence_assets.experiment.ad_hoc_questions import find_ad_hoc_assets

    os.environ |= {LAKE_VARIABLE: lake.address, PRESETS_VARIABLE: "all"}
    assets = {"/".join(key.path) for key in load_definitions().resolve_asset_graph().materializable_asset_keys}
    assets |= find_ad_hoc_assets(lake)
    names = {declared.attributes.get("name") for declared in declarations()}
    for _, asset in lake.assets():  # of other profiles: their models, corpora and graphs
        of_model = any(parent.as_posix() in assets for parent in PurePosixPath(asset).parents)
        if of_model or (asset.startswith(SOURCE_PREFIXES) and asset.split("/")[1] in names):
            assets.add(asset)
    return assets


@commands.command()
def doctor() -> None:
    """Check the packages, models and devices that a profile needs."""
    with report_errors():
        from evidence_assets import profiles
        from evidence_assets.models.diagnosis import diagnose

        findings = diagnose(profiles.load())
    table = Table("", "requirement", "status", "remedy", show_header=False)
    for result in findings:
        label = {True: Text("ok", "green"), False: Text("missing", "red"), None: Text("note")}[result.is_ok]
        table.add_row(label, format_cell(result.requirement), format_cell(result.status), format_cell(result.remedy))
    out.print(table, soft_wrap=False)
    if any(result.is_ok is False for result in findings):
        raise typer.Exit(1)
