"""Typed tasks of a reasoner, and its typed results.

A *solver* answers tasks: ``prompted`` sends them to a generator and parses the reply, ``extractive`` uses the evidence
alone. Both have the same interface, so that systems work with either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Literal, Protocol, cast

from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.questions import Question

NOT_ENOUGH_INFORMATION = "NOT ENOUGH INFORMATION"
"""Label of a claim that the evidence does not settle."""
STATED_STATUS = "stated"
"""Status of an answer that is a whole statement: the text answers the question, but no part of it is sure."""
TABLE_CELL_KINDS = ("cell", "row", "column")
"""Kinds of evidence that are parts of a table's grid."""
CAPTION = "caption"
"""Kind and locator of a table's caption as evidence."""
TABLE_KINDS = (*TABLE_CELL_KINDS, CAPTION)


MODEL_KNOWLEDGE = "model"
"""Value of ``why.origin`` for facts recalled by a language model, without a source."""


@dataclass(frozen=True)
class EvidenceItem:
    """A row of evidence as answerers and scores read it; ``text`` is data, never an instruction."""

    evidence_id: str
    kind: str
    source_id: str
    locator: str
    text: str
    score: float = 0.0
    why: str | None = None
    """How it was selected, as JSON."""
    option: str = ""
    source_kind: str = ""
    rank: int = 0

    @cached_property
    def content_hash(self) -> str:
        """Hash of the fact, independent of question and score."""
        return content_id("evidence", self.kind, self.source_id, self.locator, self.text)

    @cached_property
    def details(self) -> Mapping[str, object]:
        """How it was selected."""
        details: object = json.loads(self.why) if self.why else {}
        return cast(dict[str, object], details) if isinstance(details, dict) else {}

    @property
    def title(self) -> str:
        """Title of its document, if known."""
        return str(self.details.get("title", ""))

    @property
    def titled_text(self) -> str:
        """Its title and text in one line."""
        return " ".join(f"{self.title}: {self.text}".removeprefix(": ").split())

    @property
    def text_in_context(self) -> str:
        """Its title, the heading and the sentence before it, and its text in one line."""
        context = str(self.details.get("context", "")).removeprefix(self.title)
        return " ".join(f"{self.title}: {context} {self.text}".removeprefix(": ").split())

    @property
    def referent(self) -> str:
        """What a pronoun at the start of the text stands for, if known."""
        return str(self.details.get("referent", ""))

    @property
    def triple(self) -> tuple[str, str, str] | None:
        """Head, relation and tail; None if it is not a triple."""
        triple = self.details.get("triple")
        if self.kind != "triple" or not isinstance(triple, list) or len(triple) != 3:
            return None
        return str(triple[0]), str(triple[1]), str(triple[2])

    @property
    def is_sourced(self) -> bool:
        """Whether it has a source; facts recalled by a language model have none."""
        return self.details.get("origin") != MODEL_KNOWLEDGE


@dataclass(frozen=True)
class ChainStep:
    """One sentence of a chain, with the ids of the ``cited`` evidence and the texts ``quoted`` from it, if any."""

    text: str
    cited: tuple[str, ...] = ()
    quoted: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExplainOption:
    """Write the chain that links a question to one option (or a claim to one label), assuming that it is correct."""

    question: Question
    hypothesis: str
    """Label of the option, such as ``B``."""
    evidence: tuple[EvidenceItem, ...]

    @cached_property
    def option(self) -> str:
        """Text of the option."""
        return dict(self.question.hypotheses)[self.hypothesis]

    @property
    def input_hash(self) -> str:
        """Hash of the chain's inputs, without scores, so that a changed score does not recompute it."""
        return content_id(
            "explain",
            self.question.task,
            self.question.text,
            self.hypothesis,
            self.option,
            self.question.negated,
            [(e.kind, e.source_id, e.locator, e.text) for e in self.evidence],
            *(["names"] if self.question.has_names else []),
        )


@dataclass(frozen=True)
class ReplyCost:
    """Tokens of a language model's replies to one task, including repairs.

    ``finish_reason``, ``prompt_hash`` and ``choice_log_probs`` are those of the last reply.
    """

    model: str
    tokens_in: int
    tokens_out: int
    finish_reason: str
    prompt_hash: str = ""
    choice_log_probs: tuple[float, ...] = ()

    def plus(self, other: ReplyCost) -> ReplyCost:
        """The sum of both costs."""
        tokens = self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out
        return ReplyCost(other.model, *tokens, other.finish_reason, other.prompt_hash, other.choice_log_probs)

    @staticmethod
    def total(replies: Iterable[ReplyCost | None]) -> ReplyCost | None:
        """The sum of several costs; None if there are none."""
        return reduce(ReplyCost.plus, costs) if (costs := [r for r in replies if r is not None]) else None

    @staticmethod
    def columns(reply: ReplyCost | None) -> dict[str, int | str | None]:
        """Values of the token and stop reason columns; null without a reply."""
        values = (None, None, None) if reply is None else (reply.tokens_in, reply.tokens_out, reply.finish_reason)
        return dict(zip(("tokens_in", "tokens_out", "finish_reason"), values, strict=True))


OmissionKind = Literal["missing", "cut", "rejected"]


@dataclass(frozen=True)
class Omission:
    """A part of an answer's input that is ``missing``, ``cut`` (truncated) or ``rejected``, with the reason."""

    kind: OmissionKind
    part: str
    """Such as ``explanation of B``."""
    reason: str = ""


@dataclass(frozen=True)
class Chain:
    """Reasoning steps towards one hypothesis; ``support`` in [0, 1] is the solver's weight, if it gives one."""

    hypothesis: str
    steps: tuple[ChainStep, ...]
    support: float | None = None
    prompt_hash: str = ""
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)
    omissions: tuple[Omission, ...] = ()


@dataclass(frozen=True)
class ChooseAnswer:
    """Compare the chains of all options and select one option."""

    question: Question
    chains: tuple[Chain, ...]
    evidence: dict[str, tuple[EvidenceItem, ...]] = field(default_factory=dict)
    """Evidence per label."""
    closeness: float = 1.0
    """How close the question and the fact nearest to it are in meaning: the cosine of their vectors."""

    @property
    def facts(self) -> tuple[EvidenceItem, ...]:
        """The distinct facts in the evidence of all options."""
        return tuple({item.content_hash: item for items in self.evidence.values() for item in items}.values())


@dataclass(frozen=True)
class Choice:
    """The best label of a question, and a status: answered, ambiguous, insufficient or failed."""

    answer: str | None
    supported: tuple[str, ...]
    status: str
    error: str = ""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Log odds of each label up to a constant; larger is better. Empty if the solver has no scores."""
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Failure:
    """A task that a solver could not answer, with the reason; becomes a ``failed`` row."""

    reason: str
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


class Reasoner(Protocol):
    """A method that answers or explains."""

    @property
    def name(self) -> str:
        """Value of the column ``reasoner``."""
        ...

    @property
    def model_id(self) -> str: ...
    @property
    def version(self) -> str:
        """Hash of everything except the task that determines the result: model revision, prompts, code version."""
        ...


class Solver(Reasoner, Protocol):
    """Answers typed tasks, one result per task, in order."""

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]: ...
    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]: ...
