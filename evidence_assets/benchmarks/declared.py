"""Which benchmarks are declared, what each is read from and what it is answered from.

Belongs here: the declarations as ``defs`` states them, read without Dagster, because the partitions of every asset and
the questions that systems answer depend on them. The raw asset of a benchmark is made in ``assets.benchmark``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from evidence_assets import profiles
from evidence_assets.benchmarks.declarations import instances, validated
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


class FromRaw(BaseModel):
    """What is made of files below the lake's ``raw``."""

    model_config = ConfigDict(extra="forbid")

    source: str = ""
    """Raw asset that puts the files there; where none is named, one of its own looks at them."""
    profiles: tuple[str, ...] = ()
    """Profiles in which it is made; in all where none is named."""
    holds: str = ""
    """What its files hold, where to obtain them and on which terms, as a message about missing ones says it."""
    hub: str = Field("", pattern=r"^$|^[\w.-]+/[\w.-]+/[\w./-]+$")
    """Folder of a dataset on the Hugging Face hub that holds them as they are read: ``owner/name/folder``."""

    def runs_in(self, profile: str = "") -> bool:
        """Whether it is made in the profile of this name, by default in the one in use."""
        return not self.profiles or (profile or profiles.load().name) in self.profiles


class Expected(BaseModel):
    """How large a benchmark is, for planning before its files are there."""

    model_config = ConfigDict(extra="forbid")

    questions: int = Field(0, ge=0)
    """Questions of its split."""
    options: int = Field(0, ge=0)
    """Options of a question; 0 where it has none."""


class Benchmark(FromRaw):
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


def declared(folder: Path | None = None) -> dict[str, Benchmark]:
    """Every declared benchmark by name, whatever profile it is for; those below ``folder`` alone where one is given."""
    by_name: dict[str, Benchmark] = {}
    for document in instances("Benchmark", folder):
        benchmark = validated(Benchmark, document)
        if benchmark.name in by_name:
            raise BadInput(f"benchmark {benchmark.name!r} is declared twice", file=document.file, field="name")
        by_name[benchmark.name] = benchmark
    return by_name


@lru_cache
def benchmarks(folder: Path | None = None) -> dict[str, Benchmark]:
    """The declared benchmarks that the profile in use runs, by name."""
    profile = profiles.load().name
    return {name: b for name, b in declared(folder).items() if b.runs_in(profile)}


def of_family(family: str) -> list[Benchmark]:
    """The family's benchmarks, by name."""
    return [b for _, b in sorted(benchmarks().items()) if b.family == family]
