"""What a piece of evidence says of a question and one of its options: entails it, contradicts it, or only mentions it.

Belongs here: a signal for readers and auditors, read from the words alone. It decides nothing: selectors rank and
reasoners answer without it.
"""

from __future__ import annotations

from typing import Literal

from evidence_assets.reasoning.statements import asked_kind, statements
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.stems import stems

Stance = Literal["entails", "contradicts", "mentions"]
ASKED_SHARE = 0.5
"""Share of what a question asks about, that one statement must name together with the whole option."""


def stance(question: str, option: str, kind: str, text: str) -> Stance:
    """What the evidence says of the option as an answer.

    A statement that names every word of the option and at least half of the question's (those that only name the kind
    of thing asked for left out) entails the answer, or contradicts it where it denies. The first such statement that
    does not deny decides; evidence without one only mentions.

    >>> stance("What lowers glucose?", "insulin", "chunk", "Insulin lowers glucose in blood.")
    'entails'
    >>> stance("What lowers glucose?", "aspirin", "chunk", "Aspirin does not lower glucose.")
    'contradicts'
    >>> stance("What lowers glucose?", "aspirin", "chunk", "Aspirin is sold as tablets. Insulin lowers glucose.")
    'mentions'
    """
    wanted = set(stems(option))
    asked = set(stems(question)) - asked_kind(question) - wanted
    denied = False
    for statement in statements(EvidenceItem("", kind, "", "", text)):
        words = set(stems(statement.text))
        if not wanted or not wanted <= words or len(asked & words) < ASKED_SHARE * len(asked):
            continue
        if not statement.denies:
            return "entails"
        denied = True
    return "contradicts" if denied else "mentions"
