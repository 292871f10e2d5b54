"""Which benchmarks and parts of benchmarks are declared, what each is read from and what it is answered from.

A part is answered and scored as a benchmark of its own, so that its scores are never taken for those of the whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evidence_assets import profiles
from evidence_assets.benchmarks.declarations import declarations_of, validate_attributes
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id

Family = Literal["mcqa", "table", "graph", "search", "retrieval"]
FAMILIES: dict[Family, str] = {
    "mcqa": "multiple-choice questions",
    "table": "questions and claims about tables",
    "graph": "questions on a graph",
    "search": "searches of a knowledge base",
    "retrieval": "passages for a question",
}
FAMILY_OF_TASK: dict[str, Family] = {
    "mcqa": "mcqa",
    "verification": "table",
    "table_qa": "table",
    "kgqa": "graph",
    "skb_search": "search",
    "retrieval": "retrieval",
}
SEED_SEPARATOR = "-seed"
"""What stands between a drawn part's name and its seed, which no document prints."""


class ExpectedSize(BaseModel):
    """How large a benchmark is, for planning before its files are there."""

    model_config = ConfigDict(extra="forbid")

    questions: int = Field(0, ge=0)
    """Questions of its split."""
    options: int = Field(0, ge=0)
    """Options of a question; 0 where it has none."""


class Sample(BaseModel):
    """Questions drawn at random, without replacement."""

    model_config = ConfigDict(extra="forbid")

    n: int = Field(ge=1)
    seed: int = Field(0, ge=0)


class Subset(BaseModel):
    """A part of a benchmark. What several fields say holds together, in the order in which they stand here."""

    model_config = ConfigDict(extra="forbid")

    split: str = Field("", pattern=r"^[\w.-]*$")
    """Another split of its files."""
    limit: int = Field(0, ge=0)
    """The first so many questions, in the order of the files; 0 for all."""
    sample: Sample | None = None
    expected: ExpectedSize | None = None
    """How large it is, where that does not follow from the benchmark."""

    @property
    def part(self) -> str:
        """What it is called after the benchmark: ``first150``, ``sample100-seed0``, ``test-0.1``."""
        first = f"first{self.limit}" if self.limit else ""
        drawn = f"sample{self.sample.n}{SEED_SEPARATOR}{self.sample.seed}" if self.sample else ""
        return "+".join(filter(None, (self.split, first, drawn)))

    @model_validator(mode="after")
    def _of_something(self) -> Subset:
        if not self.part:
            raise ValueError("a subset states split, limit or sample")
        return self

    def expected_size(self, whole: ExpectedSize) -> ExpectedSize:
        """How large it is where the benchmark is as large as this; no questions where that is not known."""
        if self.expected is not None:
            return self.expected
        sizes = {0 if self.split else whole.questions, self.limit, self.sample.n if self.sample else 0}
        return ExpectedSize(questions=min(sizes - {0}, default=0), options=whole.options)

    def select(self, questions: Iterable[QuestionRecord]) -> Iterator[QuestionRecord]:
        """Those of the split's questions that are of it, in their order."""
        if self.limit:
            questions = islice(questions, self.limit)
        return iter(questions if self.sample is None else draw_sample(questions, self.sample))


def draw_sample(questions: Iterable[QuestionRecord], sample: Sample) -> list[QuestionRecord]:
    """The ``n`` questions whose ids and seed hash lowest: the same whatever the order of the file and the program."""
    lowest = heapq.nsmallest(
        sample.n, enumerate(questions), key=lambda item: content_id("drawn", sample.seed, item[1].source_id)
    )
    return [question for _, question in sorted(lowest, key=lambda item: item[0])]


class RawInput(BaseModel):
    """What is made of files below the lake's ``raw``."""

    model_config = ConfigDict(extra="forbid")

    source: str = ""
    """Raw asset that puts the files there; where none is named, one of its own looks at them."""
    profiles: tuple[str, ...] = ()
    """Profiles in which it is made, and in those that extend one of them; in all where none is named."""
    holds: str = ""
    """What its files hold, where to obtain them and on which terms, as a message about missing ones says it."""
    differs: str = ""
    """Where it is other than what figures are printed for, such as another date; said beside each that stands on it."""

    def is_in_profile(self) -> bool:
        """Whether it is made in the profile in use."""
        return profiles.load().is_any_of(self.profiles)


class RawFiles(RawInput):
    """Files below the lake's ``raw`` that belong to no one benchmark or graph, such as vectors of words."""

    name: str
    """The raw asset that looks at them is ``raw/<name>``."""
    paths: tuple[str, ...]
    presets: tuple[str, ...] = ()
    """Presets whose variants read them: they are looked at where one of these is loaded; always where none is named."""


def all_raw_files() -> list[RawFiles]:
    """All declared files of this kind."""
    return [validate_attributes(RawFiles, declaration) for declaration in declarations_of("RawFiles")]


def find_raw_files(name: str) -> RawFiles:
    files_by_name = {one.name: one for one in all_raw_files()}
    if name not in files_by_name:
        raise BadInput(f"there are no files {name!r}; declared are {', '.join(files_by_name)}")
    return files_by_name[name]


class Benchmark(RawInput):
    """One benchmark, as its YAML states it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    task: Literal["mcqa", "verification", "table_qa", "kgqa", "skb_search", "retrieval"]
    """Its task; ``retrieval`` where only the evidence is scored, against the documents that it names as gold."""
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
    names: str = ""
    """File below ``raw`` of id TAB name, where its answers are ids: they are right by their name, too."""
    taxonomy_relation: str = ""
    """Relation of its own graph that says what terms mean, where no taxonomy is named: IsA."""
    background_graph: str = ""
    """Graph of general knowledge beside its corpus, for methods that join text and graph; those that answer from a
    graph alone do not read it."""
    expected: ExpectedSize = ExpectedSize()
    subsets: Sequence[Subset] = ()
    """Parts of it that are answered and scored by themselves, under its name and theirs: ``obqa.first150``."""

    @property
    def parts(self) -> list[BenchmarkPart]:
        """Its subsets as benchmarks of their own, of the same files."""
        shared_fields = {name: getattr(self, name) for name in Benchmark.model_fields}
        return [
            BenchmarkPart(
                **shared_fields
                | {
                    "name": f"{self.name}.{subset.part}",
                    "source": self.raw_asset,
                    "split": subset.split or self.split,
                    "expected": subset.expected_size(self.expected),
                    "subsets": [],
                    "subset": subset,
                }
            )
            for subset in self.subsets
        ]

    @property
    def base_name(self) -> str:
        """Name of the benchmark that it is, or is a part of."""
        return self.name.partition(".")[0]

    @property
    def family(self) -> Family:
        return FAMILY_OF_TASK[self.task]

    @property
    def raw_asset(self) -> str:
        """Key of the raw asset that its files belong to."""
        return self.source or f"raw/benchmarks/{self.base_name}"

    @property
    def files(self) -> list[str]:
        """Files and folders below ``raw`` that it is read from."""
        if self.reader == "own":
            questions = self.path or f"benchmarks/{self.base_name}/questions.jsonl"
            tables = self.tables or (f"benchmarks/{self.base_name}/tables.jsonl" if self.family == "table" else "")
            return [questions, *([tables] if tables else [])]
        return [self.path or self.reader, *filter(None, (self.tables, self.names))]

    @property
    def joined_graph(self) -> str:
        """Graph that methods which join text and graph read: the one beside its corpus, else its own."""
        return self.background_graph or self.graph


class BenchmarkPart(Benchmark):
    """A subset of a declared benchmark."""

    name: str
    subset: Subset


def all_benchmarks(folder: Path | None = None) -> dict[str, Benchmark]:
    """Every declared benchmark, and every declared part of one, by name, whatever profile it is for."""
    by_name: dict[str, Benchmark] = {}
    for document in declarations_of("Benchmark", folder):
        benchmark = validate_attributes(Benchmark, document)
        for each in (benchmark, *benchmark.parts):
            if each.name in by_name:
                raise BadInput(f"benchmark {each.name!r} is declared twice", file=document.file, field="name")
            by_name[each.name] = each
    return by_name


@lru_cache
def benchmarks(folder: Path | None = None) -> dict[str, Benchmark]:
    """The declared benchmarks that the profile in use runs, by name."""
    return {name: b for name, b in all_benchmarks(folder).items() if b.is_in_profile()}


def benchmarks_of_family(family: str) -> list[Benchmark]:
    return [b for _, b in sorted(benchmarks().items()) if b.family == family]
