"""Relation vocabularies with templates and opposites, and the mapping from relation names of other sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from evidence_assets.benchmarks.line_streams import headed_rows

if TYPE_CHECKING:
    from evidence_assets.benchmarks.graphs.formats import TripleRecord

_FOLDER = Path(__file__).parent
VOCABULARY_FILES = (_FOLDER / "biomedical_relations.tsv", _FOLDER / "conceptnet_relations.tsv")
MAPPING_FILE = _FOLDER / "relation_mapping.tsv"
TRANSLATED_COLUMNS = ("head", "relation", "tail", "head_type", "tail_type")
_CAMEL_CASE = re.compile("(?:[A-Z][a-z]+){2,}")


@dataclass(frozen=True)
class Relation:
    """The words between head and tail of a relation, and the relations that contradict it."""

    template: str
    opposites: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vocabulary:
    """Relations by name, and foreign names by source as (relation, whether head and tail are swapped)."""

    relations: dict[str, Relation]
    foreign: dict[tuple[str, str], tuple[str, bool]]

    def template(self, relation: str) -> str:
        """Words for a relation; for one outside the vocabulary, the words of its name.

        >>> template = load_vocabulary().template
        >>> template("is_a_risk_factor_of"), template("process_of"), template("NotHasProperty")
        ('is a risk factor for', 'process of', 'not has property')
        """
        entry = self.relations.get(relation)
        if entry:
            return entry.template
        if _CAMEL_CASE.fullmatch(relation):
            relation = re.sub("(?<=[a-z])(?=[A-Z])", " ", relation).lower()
        return " ".join(relation.replace("_", " ").split())

    @cached_property
    def opposites(self) -> frozenset[tuple[str, str]]:
        """Pairs of contradicting relations, in both orders."""
        pairs = {(name, other) for name, relation in self.relations.items() for other in relation.opposites}
        return frozenset(pairs | {(b, a) for a, b in pairs})

    def foreign_names(self, source: str) -> dict[str, str]:
        """Relations of the vocabulary by the foreign names of a source."""
        return {name: translation for (origin, name), (translation, _) in self.foreign.items() if origin == source}

    def translate(self, triples: Iterable[TripleRecord], source: str) -> Iterator[TripleRecord]:
        """Translate the relations of ``source`` into this vocabulary; unmapped names stay.

        An inverted relation swaps head and tail, and their types.
        """
        for triple in triples:
            relation, is_inverted = self.foreign.get((source, triple.relation), (triple.relation, False))
            triple = triple._replace(relation=relation)
            if is_inverted:
                head = triple.head
                tail = triple.tail
                head_type = triple.head_type
                tail_type = triple.tail_type
                triple = triple._replace(head=tail, tail=head, head_type=tail_type, tail_type=head_type)
            yield triple

    def translate_rows(self, triples: pl.DataFrame, source: str) -> pl.DataFrame:
        """Translate rows with `TRANSLATED_COLUMNS`; those with neither a translation nor a known relation are left out.

        An inverted relation swaps head and tail, and their types.
        """
        names = {name: (name, False) for name in self.relations}
        names |= {name: entry for (origin, name), entry in self.foreign.items() if origin == source}
        entries = [(name, relation, is_inverted) for name, (relation, is_inverted) in names.items()]
        schema = {"relation": pl.String, "translation": pl.String, "is_inverted": pl.Boolean}
        rows = triples.join(pl.DataFrame(entries, schema, orient="row"), on="relation", maintain_order="left")
        opposite_ends = {"head": "tail", "tail": "head", "head_type": "tail_type", "tail_type": "head_type"}
        ends = [pl.when("is_inverted").then(o).otherwise(end).alias(end) for end, o in opposite_ends.items()]
        return rows.with_columns(*ends, pl.col("translation").alias("relation")).drop("translation", "is_inverted")


def load_vocabulary() -> Vocabulary:
    """Load the vocabularies and the mapping of this package."""
    relations: dict[str, Relation] = {}
    foreign: dict[tuple[str, str], tuple[str, bool]] = {}
    for file in VOCABULARY_FILES:
        for row in headed_rows(file, ("relation", "template", "opposites"), "\t", quoted=False):
            opposites = tuple(row.text("opposites", blank=True).split())
            relations[row.text("relation")] = Relation(row.text("template"), opposites)
    for row in headed_rows(MAPPING_FILE, ("source", "foreign", "relation", "inverted"), "\t", quoted=False):
        foreign[row.text("source"), row.text("foreign")] = row.text("relation"), row.text("inverted") == "1"
    return Vocabulary(relations, foreign)
