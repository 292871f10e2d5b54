"""``evidence get``: downloads official files from their publishers."""

from __future__ import annotations

from typing import Annotated

import typer

from evidence_assets.benchmarks import downloads
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.cli.console import out, print_table, report_errors
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.mirror import fetch_folder
from evidence_assets.reproduction.cells import data_sources
from evidence_assets.text.spelling import closest_name

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def get(
    name: Annotated[str, typer.Argument(help="A benchmark or graph. Lists all downloads without it.")] = "",
    mirror: Annotated[str, typer.Option(help="Mirror server with the same paths, such as http://host:8000.")] = "",
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
            for source_name, home in sorted(sources.items()):
                present = sum((raw / file.to).exists() for file in home.files)
                rows.append((source_name, home.revision, home.url(home.files[0]), len(home.files), present))
            print_table(("name", "revision", "home", "files", "there"), rows)
            return
        benchmark = name.partition(".")[0]
        if benchmark not in sources:
            contents = data_sources(all_benchmarks()[benchmark])[benchmark] if benchmark in all_benchmarks() else ""
            suggestion = closest_name(benchmark, sources)
            raise BadInput(
                f"there is no download for {benchmark}"
                + (
                    f"; put the files in the lake yourself: {contents}"
                    if contents
                    else f"; did you mean {suggestion!r}?"
                )
            )
        fetched = downloads.download_files(
            benchmark, LakeResource().open(), mirror, lambda text: out.print(text, markup=False, soft_wrap=True)
        )
    out.print(f"{benchmark}: {fetched} files downloaded, all {len(sources[benchmark].files)} are valid")
