"""Dumps in the shapes of Wikidata and of Freebase, from lines to the score of twenty questions: seconds and memory.

    python -m bench.graphs.dumps [--lines 1000000] [--json FILE]

Both dumps state the same kind of world: every tenth entity has the label of another, every fourth an alias, each has a
date and is part of another, and a tenth as many as there are lines are in one country, the hub. Each stage runs in a
process of its own, as its asset does. The questions ask for dates, wholes, what an alias or a shared label is part of,
and for the capital of the hub, one of its triples; all answers are known. Evidence are the triples of the graph in
prompting with background knowledge. Vectors are sums of random vectors of words, so no encoder is needed.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bench.graphs.selection import WordVectors
from bench.measuring import in_new_process, make_parser, measured
from bench.result_files import print_table, write_results
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.evidence_rows import evidence_rows
from evidence_assets.experiment.graph_building import GraphBuilder, build_arrays
from evidence_assets.experiment.question_rows import build_questions, question_rows
from evidence_assets.experiment.scores.metrics import Estimate
from evidence_assets.experiment.scores.retrieval_scores import triple_metrics
from evidence_assets.experiment.stage import StageContext, StageOutput
from evidence_assets.experiment.stored_rows import QuestionRow, typed_rows
from evidence_assets.graphs.graph_store import open_graph
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.systems.background.system import BackgroundKnowledge, BackgroundSettings
from tools.convert.triples import convert

SYLLABLES = [f"{consonant}{vowel}" for consonant in "bdfgklmnprtvz" for vowel in "aiou"]
WORDS = [f"{first}{second}" for first in SYLLABLES for second in SYLLABLES]
SHARED, LINES_IN_HUB, FREEBASE_LINES = 10, 10, 6
NAME = "dump"
COLUMNS = ("dump", "lines", "stage", "s, wall / CPU", "own memory, MiB", "with mapped files, MiB", "result")


@dataclass(frozen=True)
class World:
    """What a dump states of its entities, by number; number 0 is the hub."""

    entities: int
    in_hub: int

    def label(self, entity: int) -> str:
        """A name of two words; every tenth entity has that of the one before."""
        number = entity - (entity % SHARED == SHARED - 1)
        return f"{WORDS[number // len(WORDS)]} {WORDS[number % len(WORDS)]}"

    def alias(self, entity: int) -> str | None:
        """Another name of every fourth entity, which no entity has as its label."""
        return f"{WORDS[-1 - entity // len(WORDS)]} {WORDS[entity % len(WORDS)]}" if entity % 4 == 0 else None

    def date(self, entity: int) -> str:
        return f"{1000 + entity % 1000}-05-{1 + entity % 28:02d}"

    def whole(self, entity: int) -> int:
        """The entity that it is part of."""
        return (7919 * entity + 1) % self.entities

    @property
    def capital(self) -> int:
        return self.entities - 2

    def is_in_hub(self, entity: int) -> bool:
        return 0 < entity <= self.in_hub


def wikidata_world(lines: int) -> World:
    return World(lines, lines // LINES_IN_HUB)


def freebase_world(lines: int) -> World:
    return World(lines // FREEBASE_LINES, lines // LINES_IN_HUB)


PROPERTIES = {"P569": "date of birth", "P361": "part of", "P17": "country", "P36": "capital"}


def wikidata_lines(world: World) -> Iterator[str]:
    """An entity in each line of a JSON array."""
    yield "["
    for key, label in PROPERTIES.items():
        yield json.dumps({"id": key, "labels": {"en": {"value": label}}, "claims": []}) + ","
    for entity in range(world.entities):
        time = {"type": "time", "value": {"time": f"+{world.date(entity)}T00:00:00Z", "precision": 11}}
        claims = {"P569": time, "P361": _item(world.whole(entity))}
        claims |= {"P17": _item(0)} if world.is_in_hub(entity) else {}
        claims |= {"P36": _item(world.capital)} if entity == 0 else {}
        alias = world.alias(entity)
        record = {
            "id": f"Q{entity}",
            "labels": {"en": {"value": world.label(entity)}, "de": {"value": f"das {world.label(entity)}"}},
            "aliases": {"en": [{"value": alias}]} if alias else {},
            "claims": {
                key: [{"mainsnak": {"snaktype": "value", "datavalue": value}, "rank": "normal"}]
                for key, value in claims.items()
            },
        }
        yield json.dumps(record) + ","
    yield "]"


def _item(entity: int) -> dict[str, Any]:
    return {"type": "wikibase-entityid", "value": {"entity-type": "item", "id": f"Q{entity}"}}


def freebase_lines(world: World) -> Iterator[str]:
    """A statement in each line, with tabs between its parts."""
    ns, xsd = "<http://rdf.freebase.com/ns/", "<http://www.w3.org/2001/XMLSchema#date>"
    for entity in range(world.entities):
        label, alias = world.label(entity), world.alias(entity)
        statements = [
            ("type.object.name", f'"{label}"@en'),
            ("type.object.name", f'"das {label}"@de'),
            ("type.object.type", f"{ns}common.topic>"),
            *([("common.topic.alias", f'"{alias}"@en')] if alias else []),
            ("people.person.date_of_birth", f'"{world.date(entity)}"^^{xsd}'),
            ("location.location.part_of", f"{ns}m.0{world.whole(entity):x}>"),
            *([("location.location.country", f"{ns}m.00>")] if world.is_in_hub(entity) else []),
            *([("location.country.capital", f"{ns}m.0{world.capital:x}>")] if entity == 0 else []),
        ]
        for relation, value in statements:
            yield f"{ns}m.0{entity:x}>\t{ns}{relation}>\t{value}\t."


@dataclass(frozen=True)
class Shape:
    """The world of a dump of so many lines, and its lines."""

    world: Callable[[int], World]
    lines: Callable[[World], Iterator[str]]


SHAPES = {"wikidata": Shape(wikidata_world, wikidata_lines), "freebase": Shape(freebase_world, freebase_lines)}


def questions_of(world: World) -> pl.DataFrame:
    """Rows of twenty questions, the last about the hub."""
    step = max(world.entities // 25 // SHARED * SHARED, SHARED)
    plain, with_alias, shared = (range(first, 20 * step, step) for first in (step + 2, step + 4, step + SHARED - 2))
    texts_and_answers: list[tuple[str, tuple[str, ...]]] = []
    for entity in plain[:5]:
        texts_and_answers.append((f"What is the date of birth of {world.label(entity)}?", (world.date(entity),)))
    for entity in plain[5:10]:
        texts_and_answers.append((f"What is {world.label(entity)} part of?", (world.label(world.whole(entity)),)))
    for entity in [entity for entity in with_alias if world.alias(entity)][:5]:
        texts_and_answers.append((f"What is {world.alias(entity)} part of?", (world.label(world.whole(entity)),)))
    for entity in shared[:4]:
        both = (world.date(entity), world.date(entity + 1))
        texts_and_answers.append((f"What is the date of birth of {world.label(entity)}?", both))
    texts_and_answers.append((f"What is the capital of {world.label(0)}?", (world.label(world.capital),)))
    records = [
        QuestionRecord(NAME, str(i), "test", "kgqa", text, gold=gold)
        for i, (text, gold) in enumerate(texts_and_answers)
    ]
    return pl.DataFrame(prepare_rows("questions", question_rows(records, "test", 0, 1)))


# Stages -------------------------------------------------------------------------------------------------------------

BUILDER = GraphBuilder(
    NAME, [GraphSource(format="tab_separated", paths=("dump/triples.tsv",), names="dump/names.tsv", licence="CC0-1.0")]
)


def write_dump(lake: Lake, shape: str, lines: int) -> int:
    path = lake.raw_path("dump/dump")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        return sum(bool(file.write(f"{line}\n")) for line in SHAPES[shape].lines(SHAPES[shape].world(lines)))


def convert_dump(lake: Lake, shape: str, lines: int) -> int:
    folder = lake.raw_path("dump")
    return convert(shape, [folder / "dump"], folder / "triples.tsv", folder / "triples_in_ids.tsv")


def build(part: str, table: str, rows: Callable[[StageContext], StageOutput]) -> Callable[[Lake, str, int], int]:
    """A stage that writes the rows of an asset of the graph."""

    def write(lake: Lake, shape: str, lines: int) -> int:
        key = f"knowledge/{NAME}/{part}"
        output = rows(StageContext(lake, table, key))
        lake.write(key, "", {table: output.rows, **({"lineage_edges": output.lineage} if output.lineage else {})})
        return len(output.rows)

    return write


def index(lake: Lake, shape: str, lines: int) -> int:
    return build_arrays(lake, NAME)[1].n_edges


def score(lake: Lake, shape: str, lines: int) -> dict[str, Estimate]:
    """Scores of the twenty questions, from the lake alone."""
    questions = questions_of(SHAPES[shape].world(lines))
    encoder = WordVectors()
    selector = BackgroundKnowledge(open_graph(lake, NAME, encoder), encoder, BackgroundSettings())
    evidence = evidence_rows("background", selector, build_questions(questions)).rows
    return triple_metrics(typed_rows(questions, QuestionRow), pl.DataFrame(prepare_rows("evidence", evidence)))


STAGES: dict[str, Callable[[Lake, str, int], Any]] = {
    "lines": write_dump,
    "conversion": convert_dump,
    "triples": build("triples", "triples", BUILDER.build_triples),
    "nodes": build("nodes", "kg_nodes", BUILDER.build_nodes),
    "edges": build("edges", "kg_edges", BUILDER.build_edges),
    "compressed rows": index,
    "twenty questions": score,
}


def measure_stage(stage: str, folder: Path, shape: str, lines: int) -> tuple[str, ...]:
    """A row of the results of one stage."""
    report, used = measured(STAGES[stage], Lake.create(folder), shape, lines)
    result = f"hit@10 {report['hit@10'].value:.2f}" if isinstance(report, dict) else f"{report:,}"
    return (shape, f"{lines:,}", stage, f"{used}", f"{used.peak:,.0f}", f"{used.with_files:,.0f}", result)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as temporary:
            for stage in STAGES:
                rows.append(in_new_process(measure_stage, stage, Path(temporary) / "lake", shape, options.lines))
                print(rows[-1], flush=True)
    print_table(COLUMNS, rows)
    if options.json:
        write_results(options.json, COLUMNS, rows)


if __name__ == "__main__":
    main()
