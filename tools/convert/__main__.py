"""``python -m tools.convert FORMAT FILES``: a dump as triples.tsv, in names and in bounded memory.

Where the dump has ids, triples_in_ids.tsv and names.tsv are written beside it. FORMAT is wikidata, freebase, or a graph
format of the product. ``python -m tools.convert stark FOLDER`` writes the pickled dictionaries of a processed STaRK
base as JSON, without running what is in them. It says how much memory that takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evidence_assets.assets.resources import LakeResource
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.cli.console import out, report_errors
from evidence_assets.lake.errors import BadInput
from evidence_assets.text.spelling import did_you_mean
from tools.convert.dumps import DUMPS
from tools.convert.stark_pickles import convert_folder, describe_memory
from tools.convert.triples import convert

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command(help=__doc__)
def main(
    format: Annotated[str, typer.Argument(help="Format of the dump, or stark.")],
    files: Annotated[list[Path], typer.Argument(help="The files that the format takes; for stark a folder.")],
    to: Annotated[Path | None, typer.Option(help="Folder for triples.tsv; graphs/FORMAT below the lake's raw.")] = None,
    around: Annotated[
        str, typer.Option(help="A benchmark: keep only what is near the entities of its questions.")
    ] = "",
    hops: Annotated[int, typer.Option(min=1, max=4, help="How near, in steps.")] = 1,
    memory: Annotated[str, typer.Option(help="Memory for the work on disk.")] = "1GB",
) -> None:
    with report_errors():
        if format == "stark":
            out.print(describe_memory(files[0]), markup=False, soft_wrap=True)
            for written in convert_folder(files[0]):
                out.print(f"{written}", markup=False, soft_wrap=True)
            return
        lake, near = LakeResource().open(), set[str]()
        if around:
            if around not in all_benchmarks():
                raise BadInput(f"there is no benchmark {around!r}{did_you_mean(around, all_benchmarks())}")
            near = {
                entity
                for question in read_benchmark_questions(lake, all_benchmarks()[around])
                for entity in question.topic_entities
            }
            if not near:
                raise BadInput(f"the questions of {around} name no entities")
        folder = to or lake.raw_path(f"graphs/{format}")
        in_ids = folder / "triples_in_ids.tsv" if format in DUMPS else None
        count = convert(format, files, folder / "triples.tsv", in_ids, around=near, hops=hops, memory=memory)
    out.print(f"{count:,} triples in {folder}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    app()
