"""``evidence explore``: the lake's answers and their evidence in a web browser."""

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
    port: Annotated[int, typer.Option(help="Port on this machine. Default: the first free port from 3001.")] = 0,
    export_to: Annotated[Path | None, typer.Option("--export", help="Write the pages to this folder instead.")] = None,
    max_pages: Annotated[int, typer.Option("--most", min=1, help="Maximum pages to write.")] = 2_000,
    lake: LakeOption = None,
) -> None:
    """Browse answers, evidence and sources in a web browser.

    The server is read-only and reachable only from this machine.
    """
    with report_errors():
        root = Lake(lake or find_lake()).root
        if export_to is None:
            from evidence_assets.explorer.site import serve

            serve(root, port=port)
            return
        from evidence_assets.explorer.export import export_pages

        result = export_pages(
            root, export_to, max_pages, lambda n: err.print(f"{n:,} pages", style="dim") if n % 100 == 0 else None
        )
    out.print(f"{result.pages:,} pages in {export_to}; open {export_to / 'index.html'}", markup=False, soft_wrap=True)
    if result.skipped:
        out.print(f"{result.skipped:,} linked pages were not written; use --most to write more", style="dim")
