"""Claims that say two things at once: their clauses, each a claim of its own.

What belongs here: cutting a claim at "and", "but", "while" and the like, and giving a clause without a subject that of
the first. Whether a cut makes sense is seen by checking the clauses: where one of them says nothing, the claim is one.
"""

from __future__ import annotations

import re

from evidence_assets.reasoning.tables import workings
from evidence_assets.reasoning.tables.mentions import Reading

VERSION = "1"

_JOINT = re.compile(
    r"(?:,\s*|\s+)(?:and|but|while|whereas|yet|whilst|though|although)\s+(?:(?:also|it|they|is|are|was|were)\s+(?=\w))?|;\s+",
    re.IGNORECASE,
)


def clauses(reading: Reading) -> list[str]:
    """The clauses of a claim in order, each with a subject; one that cannot be cut is its only clause."""
    text = reading.text
    cuts = [
        match
        for match in _JOINT.finditer(text)
        if not re.search(r"\bbetween\s+\S+$", text[: match.start()], re.IGNORECASE)
    ]
    cuts = [match for match in cuts if not reading.masked(match.end() - 1)]
    if not cuts or not reading.rows:
        return [text]
    starts, ends = [0, *(match.end() for match in cuts)], [*(match.start() for match in cuts), len(text)]
    subject = min((mention for _, mention in reading.rows), key=lambda mention: mention.start)
    if subject.end > ends[0]:
        return [text]
    name = text[subject.start : subject.end]
    found = [text[: ends[0]]]
    degrees = workings.words_of_degree(reading)
    for start, end in zip(starts[1:], ends[1:], strict=True):
        degree = min((word.start for word in degrees if start <= word.start < end), default=end)
        named = any(start <= mention.start < degree for _, mention in reading.rows)
        found.append(text[start:end] if named else f"{name} is {text[start:end]}")
    return found
