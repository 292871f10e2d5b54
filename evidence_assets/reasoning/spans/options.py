"""Support of an option that is a name or a number, from the spans of the evidence that say it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.spans.choice import load_span_weights, span_f1
from evidence_assets.reasoning.spans.features import find_spans
from evidence_assets.reasoning.spans.passages import Passage, split_passages
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.words import stems

# Tuned on two articles of SQuAD with names of their paragraphs as options, and on the first half of HotpotQA-100.
MENTION_WEIGHT = 0.1
"""Weight of a sentence that has the words of the option, where no likely span does."""
MIN_SUPPORT = 0.15
"""Minimum support of a supported option."""
LOG_WEIGHT, LOG_OFFSET = 1.6, 0.01


@dataclass(frozen=True)
class OptionSupport:
    """Support of an option from 0 to 1, and the sentence that says it, if any."""

    support: float
    passage: Passage | None


def support_option(
    question: str, option: str, texts: Sequence[EvidenceItem], others: Sequence[EvidenceItem], encoder: Encoder
) -> OptionSupport:
    """Expected token F1 of the option with the span that answers the question, plus a tenth of a cosine.

    The cosine is that of the question with the most similar sentence of ``texts`` or row of ``others`` that has all
    words of the option but those of the question.
    """
    vectors = encode_ends(encoder, [question, *(item.text for item in texts)])
    passages = split_passages(sorted(texts, key=lambda item: -float(vectors[item.text] @ vectors[question])))
    candidates = find_spans(question, passages, encoder)
    probabilities = load_span_weights().probabilities(candidates)
    words = set(stems(option))
    words = words.difference(stems(question)) or words
    gains = [
        float(p) * span_f1(option, c.text) if words.intersection(stems(c.text)) else 0.0
        for c, p in zip(candidates, probabilities, strict=True)
    ]
    passages += [Passage(item.evidence_id, item.source_id, item.text, 0) for item in others]
    mentions = [passage for passage in passages if words <= set(stems(passage.text))]
    vectors = encode_ends(encoder, [question, *(passage.text for passage in mentions)])
    cosines = [max(0.0, float(vectors[passage.text] @ vectors[question])) for passage in mentions]
    support = min(1.0, math.fsum(gains) + MENTION_WEIGHT * max(cosines, default=0.0))
    if any(gains):
        return OptionSupport(support, candidates[gains.index(max(gains))].passage)
    return OptionSupport(support, mentions[cosines.index(max(cosines))] if mentions else None)


def option_weight(support: float) -> float:
    """Log odds of an option with this support."""
    return LOG_WEIGHT * math.log(support + LOG_OFFSET)
