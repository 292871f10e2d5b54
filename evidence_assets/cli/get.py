"""``evidence get``: official files from their public home."""

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
    name: Annotated[str, typer.Argument(help="A benchmark or graph; all that can be fetched are listed without.")] = "",
    mirror: Annotated[
        str, typer.Option(help="A server of the same layout to fetch from, such as http://host:8000.")
    ] = "",
) -> None:
    """Fetch the official files of a benchmark or graph into the lake.

    They are checked by count and hash. The network must be allowed by EVIDENCE_NETWORK=1.
    """
    with report_errors():
        from evidence_assets.assets.resources import LakeResource

        known = downloads.download_sources()
        if not name:
            raw = fetch_folder(find_lake() / "raw")
            rows = []
            for one, home in sorted(known.items()):
                there = sum((raw / file.to).exists() for file in home.files)
                rows.append((one, home.revision, home.url(home.files[0]), len(home.files), there))
            print_table(("name", "revision", "home", "files", "there"), rows)
            return
        whole = name.partition(".")[0]
        if whole not in known:
            said = data_sources(all_benchmarks()[whole])[whole] if whole in all_benchmarks() else ""
            near = closest_name(whole, known)
            raise BadInput(
                f"no home of {whole} is known that it could be fetched from"
                + (f"; put the files there yourself: {said}" if said else f"; did you mean {near!r}?")
            )
        fetched = downloads.download_files(
            whole, LakeResource().open(), mirror, lambda text: out.print(text, markup=False, soft_wrap=True)
        )
    out.print(f"{whole}: {fetched} fetched, all {len(known[whole].files)} as they should be")
