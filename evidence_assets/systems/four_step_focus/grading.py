"""The grading task: how well a node of the knowledge base answers a question, from 0 to 1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request, Reranker
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.tasks import Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template, fence
from evidence_assets.text.chunking import CountTokens, split_chunks

MAX_DOCUMENT_CHARACTERS = 4000
"""Document characters in the text of a card."""
MAX_REPLY_TOKENS = 64
"""Tokens of a grade, with room for a word before it and a sentence after it."""
_NUMBER = re.compile(
    r"(?<![\w.,/])(?P<number>-?(?:[0-9]+(?:[.,][0-9]+)?|\.[0-9]+))"
    r"(?:\s*(?:/|out of)\s*(?P<whole>1|5|10|100)(?:\.0)?|\s*(?P<percent>%))?(?![.,]?\w)(?!\s*(?:/|%|out of))"
)
_LABELLED_GRADE = re.compile(
    r"\b(?i:score|grade|rating|relevance|answer)\b[^\w\n.-]*(?:(?:is|of)\b[^\w\n.-]*)?" + _NUMBER.pattern
)
_SCALE = re.compile(r"(?:\b(?:between|from|of)\s+)?(?<![\w.])0(?:\.0)?\s*(?:and|to|-|–)\s*1(?:\.0)?(?![\w.])")
"""The scale itself, as in "on a scale of 0 to 1"."""


@dataclass(frozen=True)
class NodeCard:
    """The name, type, document and relations of a node, for a grader."""

    name: str
    node_type: str
    document: str
    relations: tuple[tuple[str, str, str], ...]
    relations_left_out: int = 0

    def text(self, max_characters: int) -> str:
        """Name, type, document and relations, with notes on what is left out; ``max_characters`` of the document."""
        facts = "".join(f"\n- {head} | {relation} | {tail}" for head, relation, tail in self.relations)
        document = self.document
        if len(document) > max_characters:
            document = f"{document[:max_characters]} [{len(document) - max_characters} more characters left out]"
        if self.relations_left_out:
            facts += f"\n[{self.relations_left_out} more left out]"
        return f"{self.name} ({self.node_type})\n{document}" + (f"\nRelations:{facts}" if facts else "")

    def passages(self, max_characters: int, count_tokens: CountTokens, max_tokens: int) -> list[str]:
        """The same text in passages of at most ``max_tokens`` tokens, each with name and type."""
        title = f"{self.name} ({self.node_type})"
        body = self.text(max_characters)[len(title) + 1 :]
        body_tokens = max(1, max_tokens - count_tokens([title])[0] - 1)
        return [f"{title}\n{body[c.start : c.end]}" for c in split_chunks(body, count_tokens, body_tokens)] or [title]


GradeTask = tuple[str, NodeCard]
"""A question and the card of a node to grade."""


_PROMPT = Template.load(__package__, "published_grade", "question entry")


def grade_request(task: GradeTask, prompts: Prompts = PACKAGED) -> Request:
    """Build the request for a grade: a number from 0 to 1."""
    question, card = task
    fields = {"question": fence("question", question), "entry": fence("entry", card.text(MAX_DOCUMENT_CHARACTERS))}
    return prompts.customize(_PROMPT).request(MAX_REPLY_TOKENS, **fields)


def parse_grade(reply: str) -> float:
    """Parse a number from 0 to 1: the last one after a word such as "score", else the only one in the reply.

    Raises UnusableReply if there is none, or several.

    >>> parse_grade("**Score:** 0.8/1, as it meets 2 of 3 requirements"), parse_grade(".8")
    (0.8, 0.8)
    """
    text = _SCALE.sub(" ", reply.replace("*", "").replace("`", ""))
    labelled = list(_LABELLED_GRADE.finditer(text))[-1:]
    grades = {_grade(match) for match in labelled or _NUMBER.finditer(text)}
    grades = {grade for grade in grades if 0 <= grade <= 1}
    if len(grades) != 1:
        raise UnusableReply(f"the grade is no number from 0 to 1: {reply.strip()[:40]!r}")
    return grades.pop()


def _grade(match: re.Match[str]) -> float:
    """The value of a number; 8/10 and 80 % are 0.8."""
    whole = 100.0 if match["percent"] else float(match["whole"] or 1)
    return float(match["number"].replace(",", ".")) / whole


GRADE: PromptedTask[GradeTask, float] = PromptedTask(
    "grade", (_PROMPT,), grade_request, lambda reply, _: parse_grade(reply)
)


class PromptedGrader:
    """Grades with a language model."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.version = content_id(
            "prompted_grader", GRADE.version_with(model.prompts), model.version, MAX_DOCUMENT_CHARACTERS
        )

    def grade(self, pairs: Sequence[GradeTask]) -> list[tuple[float | Failure, ReplyCost | None]]:
        return GRADE.ask_with_cost(self._model, pairs)


class RerankerGrader:
    """Grades with the scores of a reranker, whose scale only orders nodes.

    A card is split into passages of at most ``tokens`` tokens, which fit the reranker, and gets the best score.
    """

    def __init__(self, reranker: Reranker, count_tokens: CountTokens, tokens: int = 128) -> None:
        self._reranker = reranker
        self._count = count_tokens
        self._tokens = tokens
        self.version = content_id(
            "reranker_grader", reranker.model_id, reranker.revision, MAX_DOCUMENT_CHARACTERS, tokens
        )

    def grade(self, pairs: Sequence[GradeTask]) -> list[tuple[float, None]]:
        texts = [card.passages(MAX_DOCUMENT_CHARACTERS, self._count, self._tokens) for _, card in pairs]
        inputs = [(question, text) for (question, _), passages in zip(pairs, texts, strict=True) for text in passages]
        scores = iter(self._reranker.score(inputs).tolist() if inputs else [])
        return [(max(next(scores) for _ in passages), None) for passages in texts]


Grader = PromptedGrader | RerankerGrader
"""Grades pairs of a question and a card, in order; larger is better."""
