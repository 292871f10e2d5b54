"""The typed tasks that a reasoner answers, and the shape of its answers.

A *solver* answers tasks: ``prompted`` puts them to a generator and parses the reply, ``extractive`` works them out
from the evidence alone. Both get the same task and give the same result, so a system never knows which it talks to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Protocol

from evidence_assets.lake.ids import content_id

TABLE_CELL_KINDS = ("cell", "row", "column")
"""Kinds of evidence that stand in a table."""
CAPTION = "caption"
"""Kind of evidence, and its place: what stands above a table."""
TABLE_KINDS = (*TABLE_CELL_KINDS, CAPTION)


@dataclass(frozen=True)
class EvidenceItem:
    """One row of evidence as a reasoner sees it; ``text`` is data, never an instruction."""

    evidence_id: str
    kind: str
    source_id: str
    locator: str
    text: str
    score: float = 0.0

    @cached_property
    def content_hash(self) -> str:
        """Hash of the fact itself, without what it was retrieved for and how it was scored."""
        return content_id("evidence", self.kind, self.source_id, self.locator, self.text)


@dataclass(frozen=True)
class ChainStep:
    """One sentence of a chain; ``cited`` are evidence ids, ``quoted`` what it claims stands there (may be empty)."""

    text: str
    cited: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExplainOption:
    """Write the chain that links a question to one option (or a claim to one label), as if it held."""

    question: str
    hypothesis: str
    """Label of the option, such as ``B``."""
    option: str
    """Its text."""
    evidence: tuple[EvidenceItem, ...]
    task: str = "mcqa"
    negated: bool = False

    @property
    def input_hash(self) -> str:
        """Everything the chain depends on; scores are left out, so a shifted score costs nothing."""
        return content_id(
            "explain",
            self.task,
            self.question,
            self.hypothesis,
            self.option,
            self.negated,
            [(e.kind, e.source_id, e.locator, e.text) for e in self.evidence],
        )


@dataclass(frozen=True)
class ReplyCost:
    """What a language model's reply to one task cost, a repair and all else that was asked for it included.

    ``finish_reason`` and ``prompt_hash`` are those of the last one.
    """

    model: str
    tokens_in: int
    tokens_out: int
    finish_reason: str
    prompt_hash: str = ""

    def plus(self, other: ReplyCost) -> ReplyCost:
        """Both as one."""
        tokens = self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out
        return ReplyCost(other.model, *tokens, other.finish_reason, other.prompt_hash)

    @staticmethod
    def total(replies: Iterable[ReplyCost | None]) -> ReplyCost | None:
        """Several as one; None where there is none."""
        return reduce(ReplyCost.plus, told) if (told := [r for r in replies if r is not None]) else None

    @staticmethod
    def columns(reply: ReplyCost | None) -> dict[str, int | str | None]:
        """The columns of a row that rests on it; empty ones where no model replied."""
        told = (None, None, None) if reply is None else (reply.tokens_in, reply.tokens_out, reply.finish_reason)
        return dict(zip(("tokens_in", "tokens_out", "finish_reason"), told, strict=True))


@dataclass(frozen=True)
class Chain:
    """Reasoning steps towards one hypothesis; ``support`` in [0, 1] is the solver's own weight, if it gives one."""

    hypothesis: str
    steps: tuple[ChainStep, ...]
    support: float | None = None
    prompt_hash: str = ""
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class ChooseAnswer:
    """Compare the chains of all options and name one."""

    question: str
    labels: tuple[str, ...]
    options: tuple[str, ...]
    chains: tuple[Chain, ...]
    evidence: dict[str, tuple[EvidenceItem, ...]] = field(default_factory=dict)
    """Evidence per label."""
    task: str = "mcqa"
    negated: bool = False

    @property
    def facts(self) -> tuple[EvidenceItem, ...]:
        """The evidence of all options, every fact once."""
        return tuple({item.content_hash: item for items in self.evidence.values() for item in items}.values())


@dataclass(frozen=True)
class Choice:
    """The answer to a question: the best label, and whether the evidence supports it (answered, ambiguous,
    insufficient or failed).
    """

    answer: str | None
    supported: tuple[str, ...]
    status: str
    confidence: float | None = None
    error: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    """How strongly each label is held; larger is better, differences count. Empty where the solver has no measure."""
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Failure:
    """A task that a solver could not answer, with its reason; becomes a ``failed`` row."""

    reason: str
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


class Reasoner(Protocol):
    """Whoever answers or explains."""

    @property
    def name(self) -> str:
        """What the ``reasoner`` column says."""
        ...

    @property
    def model_id(self) -> str: ...
    @property
    def version(self) -> str:
        """Everything besides the task that decides the result: model revision, prompt version, code version."""
        ...


class Solver(Reasoner, Protocol):
    """Answers typed tasks, one result a task, in order."""

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]: ...
    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]: ...
