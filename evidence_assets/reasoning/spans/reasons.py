"""Answers to "why": the clause after "because" or "due to" of a sentence that states what the question asks about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evidence_assets.models.protocols import Encoder
from evidence_assets.reasoning.spans.candidates import split_tokens
from evidence_assets.reasoning.spans.features import SpanCandidate
from evidence_assets.reasoning.spans.passages import Passage
from evidence_assets.reasoning.spans.questions import QuestionFocus

_REASON = re.compile(
    r"\b(?:because(?: of)?|due to|owing to|thanks to|as a result of|in order to|so that)\s+(?P<reason>[^.;:!?()]+)",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:not|never|nor|without)\b|n['’]t\b", re.IGNORECASE)


def find_reason(
    focus: QuestionFocus, passages: Sequence[Passage], encoder: Encoder
) -> tuple[SpanCandidate, float] | None:
    """The reason whose sentence is most similar to the question, and this cosine.

    All content words of the question must be in the sentence outside the reason, in what its pronoun stands for, or
    in the title; a sentence that denies something gives no reason for it.
    """
    content = {focus.words[n].stem for n in focus.content}
    reasons = []
    for passage in passages:
        match = _REASON.search(passage.text)
        if match is None:
            continue
        rest = passage.text[: match.start()] + passage.text[match.end() :]
        stems = {word.stem for word in split_tokens(" ".join((rest, passage.referent, passage.title)))}
        if content and content <= stems and not _NEGATION.search(rest):
            end = match.start("reason") + len(match["reason"].rstrip(" ,"))
            reasons.append(SpanCandidate(passage, match.start("reason"), end, {}))
    if not reasons:
        return None
    question = "".join(word.text + " " for word in focus.words).strip()
    vectors = encoder.encode_sentences([question, *(reason.passage.text for reason in reasons)])
    cosines = [min(1.0, round(float(vector @ vectors[0]), 6)) for vector in vectors[1:]]
    best = max(range(len(reasons)), key=lambda n: cosines[n])
    return reasons[best], cosines[best]
