"""``evidence explore``: the lake's answers and their evidence as pages to walk through."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evidence_assets.cli.console import LakeOption, err, out, report_errors
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.store import Lake

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def explore(
    port: Annotated[int, typer.Option(help="Port on this machine; the first free one from 3001 on by default.")] = 0,
    export_to: Annotated[
        Path | None, typer.Option("--export", help="Write the pages as files into this folder instead.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Pages that are written at most.")] = 2_000,
    lake: LakeOption = None,
) -> None:
    """Walk through answers, evidence and sources in a browser: read-only, on this machine alone."""
    with report_errors():
        root = Lake(lake or find_lake()).root
        if export_to is None:
            from evidence_assets.explorer.site import serve

            serve(root, port=port)
            return
        from evidence_assets.explorer.export import export_pages

        done = export_pages(
            root, export_to, most, lambda n: err.print(f"{n:,} pages", style="dim") if n % 100 == 0 else None
        )
    out.print(f"{done.pages:,} pages in {export_to}; open {export_to / 'index.html'}", markup=False, soft_wrap=True)
    if done.skipped:
        out.print(f"{done.skipped:,} linked pages were left out: --most writes more", style="dim")
