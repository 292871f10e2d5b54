"""Reading evidence as statements: sentences and clauses of a text with their places, and the words they are made of.

Belongs here: what the extractive reasoner needs to compare a text with a question. Everything is a pure function of its
text; nothing in a text is ever obeyed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence_assets.reasoning.tasks import EvidenceItem

_ABBREVIATION = re.compile(r"(?:\b(?:[A-Za-z]|e\.g|i\.e|cf|vs|etc|al|Dr|Mr|Mrs|Ms|Prof|St|No|Fig|approx)\.)$")
_SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s+[\"'“‘(\[]?[A-Z0-9])|\n+")
_CLAUSE_END = re.compile(
    r";\s+|,\s+(?=(?:whereas|while|although|though|but|however|unlike)\b)|\s+(?=whereas\b)|,\s+(?=and\s+(?:\S+\s+){3})"
)
_ASKED = re.compile(r"\b(?:which|what|whose)\s+((?:[\w-]+\s+){0,3}[\w-]+)", re.IGNORECASE)
_PRONOUN = re.compile(r"\s*(?:it|its|they|their|them|this|these|those|he|his|she|her|such)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|n't|hardly|contrary|false|untrue|wrong(?:ly)?|myth|unable|"
    r"fails?|denied|denies|disproved)\b|n['’]t\b",
    re.IGNORECASE,
)
"""Words by which a clause denies what it mentions."""

STOP = frozenset(
    """a about after all also although am among an and any are as at be because been before being between both but by
    can could did do does doing done during each either else ever every for from further get gets give given gives go
    had has have having he her here hers him his how however i if in into is it its itself just kind know known like
    likely made make makes many may might mine more most much must my neither no none nor not now of off often on once
    one only or other others our out over own part per question rather same say see several she should since so some
    someone something such take taken takes than that the their them then there these they thing this those through
    thus to too under until up upon us use used uses using usually very was way we were what when where whether which
    while who whom whose why will with within without would yes you your following except best true false answer
    option choose name find called""".split()  # noqa: SIM905
)

_SUFFIXES = (
    ("ational", "ate"), ("ization", "ize"), ("fulness", "ful"), ("ousness", "ous"), ("iveness", "ive"),
    ("ically", "ic"), ("sses", "ss"), ("ies", "y"), ("ied", "y"), ("ingly", ""), ("edly", ""), ("ing", ""), ("ed", ""),
    ("ly", ""), ("es", ""), ("s", ""),
)  # fmt: skip


def stem(word: str) -> str:
    """Word without its commonest English endings, lower-cased, so that "carving" and "carved" meet.

    >>> [stem(word) for word in ("carving", "carved", "carves", "carve", "diabetes", "illnesses", "bus", "Families")]
    ['carv', 'carv', 'carv', 'carv', 'diabet', 'illness', 'bus', 'family']
    """
    word = word.casefold()
    for suffix, ending in _SUFFIXES:
        root = word.removesuffix(suffix)
        if root == word or len(root) < 3 or (suffix == "s" and root.endswith(("s", "u", "i"))):
            continue
        word = root + ending
        if (
            suffix in ("ing", "ed", "ingly", "edly")
            and len(word) > 3
            and word[-1] == word[-2]
            and word[-1] not in "lsz"
        ):
            word = word[:-1]
        break
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def stems(text: str) -> list[str]:
    """Stems of the words of a text in order, words that say nothing left out; all words if no other is left."""
    words = [word.casefold() for word in _WORD.findall(text)]
    return [stem(word) for word in words if word not in STOP] or [stem(word) for word in words]


def spelled(wanted: Sequence[str], text: str) -> list[str]:
    """Stems as the words that stand for them in a text.

    >>> spelled(["diabet", "carv"], "Carving helps against diabetes.")
    ['diabetes', 'Carving']
    """
    words: dict[str, str] = {}
    for word in _WORD.findall(text):
        words.setdefault(stem(word), word)
    return [words.get(each, each) for each in wanted]


def asked_kind(question: str) -> frozenset[str]:
    """Stems of the words right after "which" or "what": they name the kind of the answer, not the topic.

    >>> sorted(asked_kind("Into which product do soybeans go?"))
    ['product']
    """
    kinds = set()
    for match in _ASKED.finditer(question):
        for word in match[1].casefold().split():
            if word in STOP:
                break
            kinds.add(stem(word))
    return frozenset(kinds)


def denies(text: str) -> bool:
    """Whether a clause denies what it mentions; two negations, as in "without it there is no ...", affirm."""
    return len(NEGATION.findall(text)) % 2 == 1


@dataclass(frozen=True)
class Statement:
    """A clause of one evidence row.

    ``text`` is the clause, ``quote`` the whole sentence around it (with the one before, where it begins with a
    pronoun), a verbatim part of the evidence's text.
    """

    evidence_id: str
    text: str
    quote: str
    denies: bool
    whole: bool = False
    """Whether it is all of its evidence row, as a triple or a path is."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, white space around it left out.

    >>> text = "Dr. Who left. It was 3.5 p.m. Why?"
    >>> [text[a:b] for a, b in sentence_spans(text)]
    ['Dr. Who left.', 'It was 3.5 p.m.', 'Why?']
    """
    spans, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        if "\n" not in match.group() and _ABBREVIATION.search(text, start, match.start() + 1):
            before = text[start : match.end()]
            if not re.search(r"\b[ap]\.m\.$", before):
                continue
        spans.append((start, match.end()))
        start = match.end()
    spans.append((start, len(text)))
    trimmed = []
    for a, b in spans:
        piece = text[a:b]
        if piece.strip():
            lead = len(piece) - len(piece.lstrip())
            trimmed.append((a + lead, a + len(piece.rstrip())))
    return trimmed


def statements(item: EvidenceItem) -> Iterator[Statement]:
    """Statements of one evidence row: the clauses of its sentences, and its whole sentences where they have several."""
    if item.kind in ("triple", "path", "cell", "column", "row"):
        yield Statement(item.evidence_id, item.text, item.text, denies(item.text), True)
        return
    spans = sentence_spans(item.text)
    for number, (start, end) in enumerate(spans):
        if number and _PRONOUN.match(item.text, start):
            start = spans[number - 1][0]
            yield _statement(item, start, end, item.text[start:end])
            continue
        for clause in _CLAUSE_END.split(item.text[start:end]):
            if clause.strip():
                yield _statement(item, start, end, clause)


def _statement(item: EvidenceItem, start: int, end: int, clause: str) -> Statement:
    return Statement(item.evidence_id, clause, item.text[start:end], denies(clause))
