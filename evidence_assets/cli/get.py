"""``evidence get`` and ``evidence convert``: official files from their public home, and dumps as graphs are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evidence_assets.benchmarks import homes
from evidence_assets.benchmarks.declared import declared
from evidence_assets.benchmarks.graphs import conversion
from evidence_assets.benchmarks.graphs.formats import format_named
from evidence_assets.benchmarks.official.stark_pickles import convert_folder
from evidence_assets.benchmarks.readers import questions_of
from evidence_assets.cli.console import out, sentences, table
from evidence_assets.experiment.derived_figures import obtained
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.fetching import fetched_below
from evidence_assets.text.nearest import nearest

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

        known = homes.homes()
        if not name:
            raw = fetched_below(find_lake() / "raw")
            rows = [
                (
                    one,
                    home.revision,
                    home.url(home.files[0]),
                    len(home.files),
                    sum((raw / f.to).exists() for f in home.files),
                )
                for one, home in sorted(known.items())
            ]
            table(("name", "revision", "home", "files", "there"), rows)
            return
        whole = name.partition(".")[0]
        if whole not in known:
            said = obtained(declared()[whole])[whole] if whole in declared() else ""
            near = nearest(whole, known)
            raise BadInput(
                f"no home of {whole} is known that it could be fetched from"
                + (f"; put the files there yourself: {said}" if said else f"; did you mean {near!r}?")
            )
        fetched = homes.get(
            whole, LakeResource().open(), mirror, lambda text: out.print(text, markup=False, soft_wrap=True)
        )
    out.print(f"{whole}: {fetched} fetched, all {len(known[whole].files)} as they should be")


@commands.command()
def convert(
    format: Annotated[
        str, typer.Argument(help="A format of graphs, such as wikidata, freebase or conceptnet; or stark.")
    ],
    files: Annotated[
        list[Path],
        typer.Argument(
            help="The dump, or as many files as the format takes; for stark the folder of a processed base."
        ),
    ],
    to: Annotated[Path | None, typer.Option(help="Folder for triples.tsv; graphs/FORMAT below the lake's raw.")] = None,
    around: Annotated[
        str, typer.Option(help="A benchmark: only what is near the entities that its questions name is kept.")
    ] = "",
    hops: Annotated[int, typer.Option(min=1, max=4, help="How near, in steps.")] = 1,
    memory: Annotated[str, typer.Option(help="What the work on disk may take of memory.")] = "1GB",
) -> None:
    """Write a dump as triples.tsv, in names, and where it has ids as triples_in_ids.tsv with names.tsv, in memory that does not grow with it."""
    with sentences():
        from evidence_assets.assets.resources import LakeResource

        if format == "stark":
            for written in convert_folder(files[0]):
                out.print(f"{written}", markup=False, soft_wrap=True)
            return
        lake, near = LakeResource().open(), set[str]()
        if around:
            if around not in declared():
                raise BadInput(f"there is no benchmark {around!r}; did you mean {nearest(around, declared())!r}?")
            near = {entity for question in questions_of(lake, declared()[around]) for entity in question.topic_entities}
            if not near:
                raise BadInput(f"the questions of {around} name no entities")
        folder = to or lake.raw_place(f"graphs/{format}")
        in_ids = folder / "triples_in_ids.tsv" if format_named(format, files).named else None
        to_file = folder / "triples.tsv"
        count = conversion.convert(format, files, to_file, in_ids, around=near, hops=hops, memory=memory)
    out.print(f"{count:,} triples in {folder}", markup=False, soft_wrap=True)
