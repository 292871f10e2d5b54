"""``evidence get``: official files of a benchmark or graph from their public home."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from evidence_assets.cli.console import cell, out, sentences
from evidence_assets.lake.errors import BadInput

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
def get(
    name: Annotated[str, typer.Argument(help="A benchmark or graph; all that can be fetched are listed without.")] = "",
    mirror: Annotated[
        str, typer.Option(help="A server of the same layout to fetch from, such as http://host:8000.")
    ] = "",
) -> None:
    """Fetch the official files of a benchmark or graph into the lake, checked by count and hash; needs EVIDENCE_NETWORK=1."""
    with sentences():
        from evidence_assets.assets.resources import LakeResource
        from evidence_assets.benchmarks.declared import declared
        from evidence_assets.benchmarks.homes import get as fetch
        from evidence_assets.benchmarks.homes import homes
        from evidence_assets.experiment.beside_print import obtained
        from evidence_assets.lake.catalogue import find_lake
        from evidence_assets.lake.mirror import fetched_below
        from evidence_assets.text.nearest import nearest

        if not name:
            raw = fetched_below(find_lake() / "raw")
            shown = Table("name", "revision", "home", "files", "there")
            for one, home in sorted(homes().items()):
                there = sum((raw / file.to).exists() for file in home.files)
                shown.add_row(one, cell(home.revision), cell(home.url(home.files[0])), str(len(home.files)), str(there))
            out.print(shown)
            return
        whole = name.partition(".")[0]
        if whole not in homes():
            said = obtained(declared()[whole])[whole] if whole in declared() else ""
            near = nearest(whole, homes())
            raise BadInput(
                f"no home of {whole} is known that it could be fetched from"
                + (f"; put the files there yourself: {said}" if said else f"; did you mean {near!r}?")
            )
        count = fetch(whole, LakeResource().open(), mirror, lambda text: out.print(text, markup=False, soft_wrap=True))
    out.print(f"{whole}: {count} fetched, all {len(homes()[whole].files)} as they should be")
