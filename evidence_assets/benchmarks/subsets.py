"""Parts of benchmarks: what a subset states, how it is called, and which questions are of it.

A subset is answered and scored as a benchmark of its own, in partitions of its own, so that no score of a part is ever
taken for one of the whole.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evidence_assets.benchmarks.reading import text_lines
from evidence_assets.benchmarks.records import Question
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id

SEEDED = "-seed"
"""What stands between a drawn part's name and its seed, which no document prints."""


class Expected(BaseModel):
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
    ids: str = ""
    """File below the lake's ``raw`` with the ids of its questions, one a line, as the benchmark's files have them."""
    limit: int = Field(0, ge=0)
    """The first so many questions, in the order of the files; 0 for all."""
    sample: Sample | None = None
    expected: Expected | None = None
    """How large it is, where that does not follow from the benchmark."""

    @property
    def part(self) -> str:
        """What it is called after the benchmark: ``first150``, ``sample100-seed0``, ``test-0.1``, ``ids-easy``."""
        listed = f"ids-{Path(self.ids).stem}" if self.ids else ""
        first = f"first{self.limit}" if self.limit else ""
        drawn = f"sample{self.sample.n}{SEEDED}{self.sample.seed}" if self.sample else ""
        return "+".join(filter(None, (self.split, listed, first, drawn)))

    @model_validator(mode="after")
    def _of_something(self) -> Subset:
        if not self.part:
            raise ValueError("a subset states split, ids, limit or sample")
        return self

    def expected_of(self, whole: Expected) -> Expected:
        """How large it is where the benchmark is as large as this; no questions where that is not known."""
        if self.expected is not None:
            return self.expected
        sizes = {0 if self.split or self.ids else whole.questions, self.limit, self.sample.n if self.sample else 0}
        return Expected(questions=min(sizes - {0}, default=0), options=whole.options)

    def chosen(self, questions: Iterable[Question], raw: Path) -> Iterator[Question]:
        """Those of the split's questions that are of it, in their order."""
        if self.ids:
            questions = _listed(questions, raw / self.ids)
        if self.limit:
            questions = islice(questions, self.limit)
        return iter(questions if self.sample is None else drawn(questions, self.sample))


def drawn(questions: Iterable[Question], sample: Sample) -> list[Question]:
    """The ``n`` questions whose ids and seed hash lowest: the same whatever the order of the file and the program."""
    lowest = heapq.nsmallest(
        sample.n, enumerate(questions), key=lambda item: content_id("drawn", sample.seed, item[1].source_id)
    )
    return [question for _, question in sorted(lowest, key=lambda item: item[0])]


def _listed(questions: Iterable[Question], file: Path) -> Iterator[Question]:
    if not file.is_file():
        raise BadInput("is not there: it should hold the ids of a subset's questions, one a line", file=file)
    wanted = {line.strip(): number for number, line in text_lines(file) if line.strip()}
    for question in questions:
        if wanted.pop(question.source_id, None) is not None:
            yield question
    for missing, number in wanted.items():
        raise BadInput(f"the benchmark has no question {missing!r}", file=file, line=number)
