"""The grading task: how well a node of the knowledge base answers a question, from 0 to 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request, Reranker
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.tasks import Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template, fence
from evidence_assets.text.chunking import CountTokens, split_chunks

Scale = Literal["tenths", "number"]
MAX_DOCUMENT_CHARACTERS = 4000
"""Document characters in the text of a card."""
GRADES = tuple(f"{tenth / 10:.1f}" for tenth in range(11))


@dataclass(frozen=True)
class NodeCard:
    """The name, type, document and relations of a node, for a grader."""

    name: str
    node_type: str
    document: str
    relations: tuple[tuple[str, str, str], ...]

    def text(self, max_characters: int) -> str:
        """Name, type, document and relations; a document over ``max_characters`` is truncated with a note."""
        facts = "".join(f"\n- {head} | {relation} | {tail}" for head, relation, tail in self.relations)
        document = self.document
        if len(document) > max_characters:
            document = f"{document[:max_characters]} [{len(document) - max_characters} more characters left out]"
        return f"{self.name} ({self.node_type})\n{document}" + (f"\nRelations:{facts}" if facts else "")

    def passages(self, max_characters: int, count_tokens: CountTokens, max_tokens: int) -> list[str]:
        """The same text in passages of at most ``max_tokens`` tokens, each with name and type."""
        title = f"{self.name} ({self.node_type})"
        body = self.text(max_characters)[len(title) + 1 :]
        body_tokens = max(1, max_tokens - count_tokens([title])[0] - 1)
        return [f"{title}\n{body[c.start : c.end]}" for c in split_chunks(body, count_tokens, body_tokens)] or [title]


@dataclass(frozen=True)
class GradeTask:
    """A question and the card of a node to grade."""

    question: str
    card: NodeCard
    scale: Scale = "tenths"


class Grader(Protocol):
    """Grades pairs of a question and a card, in order; larger is better."""

    @property
    def version(self) -> str: ...
    def grade(self, pairs: Sequence[tuple[str, NodeCard]]) -> Sequence[tuple[float | Failure, ReplyCost | None]]: ...


_PROMPT, _PUBLISHED = (Template.load(__package__, name, "question entry") for name in ("grade", "published_grade"))


def grade_request(task: GradeTask, prompts: Prompts = PACKAGED) -> Request:
    """Build the request for a grade: one of eleven, or any number from 0 to 1 as published."""
    fields = {
        "question": fence("question", task.question),
        "entry": fence("entry", task.card.text(MAX_DOCUMENT_CHARACTERS)),
    }
    if task.scale == "tenths":
        return prompts.customize(_PROMPT).request(8, GRADES, **fields)
    return prompts.customize(_PUBLISHED).request(16, **fields)


def parse_grade(reply: str) -> float:
    """Parse a number from 0 to 1; raises UnusableReply for anything else."""
    text = reply.strip()
    if not re.fullmatch(r"0(\.[0-9]+)?|1(\.0+)?", text):
        raise UnusableReply(f"the grade is no number from 0 to 1: {text[:40]!r}")
    return float(text)


GRADE: PromptedTask[GradeTask, float] = PromptedTask(
    "grade", (_PROMPT, _PUBLISHED), grade_request, lambda reply, _: parse_grade(reply)
)


class PromptedGrader:
    """Grades with a language model."""

    def __init__(self, model: LanguageModel, scale: Scale = "tenths") -> None:
        self._model, self._scale = model, scale
        self.version = content_id(
            "prompted_grader", GRADE.version_with(model.prompts), model.version, MAX_DOCUMENT_CHARACTERS, scale
        )

    def grade(self, pairs: Sequence[tuple[str, NodeCard]]) -> list[tuple[float | Failure, ReplyCost | None]]:
        return GRADE.ask_with_cost(self._model, [GradeTask(*pair, self._scale) for pair in pairs])


class RerankerGrader:
    """Grades with the scores of a reranker, whose scale only orders nodes.

    A card is split into passages of at most ``tokens`` tokens, which fit the reranker, and gets the best score.
    """

    def __init__(self, reranker: Reranker, count_tokens: CountTokens, tokens: int = 128) -> None:
        self._reranker, self._count, self._tokens = reranker, count_tokens, tokens
        self.version = content_id(
            "reranker_grader", reranker.model_id, reranker.revision, MAX_DOCUMENT_CHARACTERS, tokens
        )

    def grade(self, pairs: Sequence[tuple[str, NodeCard]]) -> list[tuple[float, None]]:
        texts = [card.passages(MAX_DOCUMENT_CHARACTERS, self._count, self._tokens) for _, card in pairs]
        inputs = [(question, text) for (question, _), passages in zip(pairs, texts, strict=True) for text in passages]
        scores = iter(self._reranker.score(inputs).tolist() if inputs else [])
        return [(max(next(scores) for _ in passages), None) for passages in texts]
