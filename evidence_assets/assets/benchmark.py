"""A benchmark, declared: it joins its family's partitions and says how it is read and what it is answered from.

A benchmark is a partition of the assets of its family; of its own it has only the raw asset that looks at its files.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

import dagster as dg
from pydantic import Field, ValidationError

from evidence_assets import profiles
from evidence_assets.assets.declarations import DEFS, declarations, variants
from evidence_assets.assets.raw_files import FromRaw
from evidence_assets.benchmarks.registry import DATASETS
from evidence_assets.lake.errors import BadInput

Family = Literal["mcqa", "table", "graph", "search", "retrieval"]
FAMILIES: tuple[Family, ...] = ("mcqa", "table", "graph", "search", "retrieval")
FAMILY_OF_TASK: dict[str, Family] = {
    "mcqa": "mcqa",
    "verification": "table",
    "table_qa": "table",
    "kgqa": "graph",
    "skb_search": "search",
    "retrieval": "retrieval",
}
ANSWERED_FROM = {"corpus": ("Corpus",), "graph": ("Graph", "KnowledgeBase"), "background_graph": ("Graph",)}
"""Components that make what a benchmark is answered from."""
BENCHMARKS = DEFS / "benchmarks"


class Expected(dg.Model, dg.Resolvable):
    """How large a benchmark is, for planning before its files are there."""

    questions: int = Field(0, ge=0)
    """Questions of its split."""
    options: int = Field(0, ge=0)
    """Options of a question; 0 where it has none."""


class Benchmark(dg.Component, FromRaw):
    """One benchmark, as its YAML states it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    task: Literal["mcqa", "verification", "table_qa", "kgqa", "skb_search", "retrieval"]
    """What is asked of it; ``retrieval`` where only the evidence is scored, against the documents that it names as gold."""
    reader: str = "own"
    """Reader of its format; ``own`` is this project's own JSON lines."""
    path: str = ""
    """Its file or folder below the lake's ``raw``; ``benchmarks/<name>`` where none is named."""
    tables: str = ""
    """For the readers ``own`` and ``tabfact``: file or folder of its tables below ``raw``."""
    split: str = "test"
    corpus: str = ""
    """Corpus that it is answered from."""
    graph: str = ""
    """Graph that it is answered from."""
    taxonomy: str = ""
    """Knowledge base whose documents say what terms mean; each begins with the definition of its node."""
    background_graph: str = ""
    """Graph of general knowledge beside its corpus, for methods that join text and graph; those that answer from a
    graph alone do not read it."""
    expected: Expected = Expected()

    @property
    def family(self) -> Family:
        return FAMILY_OF_TASK[self.task]

    @property
    def raw(self) -> str:
        """Key of the raw asset that its files belong to."""
        return self.source or f"raw/benchmarks/{self.name}"

    @property
    def files(self) -> list[str]:
        """Files and folders below ``raw`` that it is read from."""
        if self.reader == "own":
            questions = self.path or f"benchmarks/{self.name}/questions.jsonl"
            tables = self.tables or (f"benchmarks/{self.name}/tables.jsonl" if self.family == "table" else "")
            return [questions, *([tables] if tables else [])]
        return [self.path or self.reader, *([self.tables] if self.tables else [])]

    @property
    def joined_graph(self) -> str:
        """Graph that methods which join text and graph read: its own, else the one beside its corpus."""
        return self.graph or self.background_graph

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.runs_in():
            return dg.Definitions()
        for field in ANSWERED_FROM:
            self._refuse_undeclared(field)
        wanted = DATASETS[self.reader].wanted(self.split) if self.reader in DATASETS else ""
        return dg.Definitions(assets=self.raw_assets(self.raw, self.files, wanted)[1])

    def _refuse_undeclared(self, field: str) -> None:
        """Refuse a corpus or graph that nothing makes in this profile: its questions would wait for it for ever."""
        name, profile = getattr(self, field), profiles.load().name
        made = [
            d for component in ANSWERED_FROM[field] for d in variants(component) if d.attributes.get("name") == name
        ]
        if name and not any(profile in (d.attributes.get("profiles") or (profile,)) for d in made):
            where = "is declared for other profiles only" if made else "is declared nowhere"
            raise BadInput(
                f"benchmark {self.name} is answered from {name!r}, which {where}: declare a "
                f"{' or '.join(ANSWERED_FROM[field])} of this name for profile {profile}, or take the line out",
                field=field,
            )


def declared(folder: Path = BENCHMARKS) -> dict[str, Benchmark]:
    """Every benchmark declared in YAML below ``folder`` by name, whatever profile it is for."""
    found: dict[str, Benchmark] = {}
    for document in declarations(folder):
        if document.type != f"{Benchmark.__module__}.{Benchmark.__name__}":
            continue
        try:
            made = Benchmark.model_validate(document.attributes)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadInput(first["msg"], file=document.file, field=".".join(str(p) for p in first["loc"])) from error
        if made.name in found:
            raise BadInput(f"benchmark {made.name!r} is declared twice", file=document.file, field="name")
        found[made.name] = made
    return found


@lru_cache
def benchmarks(folder: Path = BENCHMARKS) -> dict[str, Benchmark]:
    """The declared benchmarks that the profile in use runs, by name.

    Read here, before Dagster instantiates the components, because the partitions of every asset depend on them.
    """
    profile = profiles.load().name
    return {name: b for name, b in declared(folder).items() if b.runs_in(profile)}


def of_family(family: Family) -> list[Benchmark]:
    """The family's benchmarks, by name."""
    return [b for _, b in sorted(benchmarks().items()) if b.family == family]
