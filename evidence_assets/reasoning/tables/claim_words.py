"""The words of a claim: which rows and columns it names, which comparison it makes, what it denies.

What belongs here: the small vocabulary of comparisons and the naming of lines; no numbers are looked at. Positions are
offsets in the claim's reading copy.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evidence_assets.reasoning.tables.cells import CellValue, parse_values
from evidence_assets.reasoning.tables.text import STOP_WORDS, plain_text, stem, tokens, word_set
from evidence_assets.reasoning.tables.view import Place, TableView

VERSION = "3"

CueKind = Literal["comparative", "superlative", "trend"]


@dataclass(frozen=True)
class _CueWord:
    pattern: re.Pattern[str]
    kind: CueKind
    direction: int
    judging: bool
    weight: float


def _word(pattern: str, kind: CueKind, direction: int, judging: bool, weight: float) -> _CueWord:
    return _CueWord(re.compile(rf"\b(?:{pattern})", re.IGNORECASE), kind, direction, judging, weight)


_CUE_WORDS = (
    _word(r"(?:outperformed|surpassed|beaten|exceeded) by", "comparative", -1, True, 0.7),
    _word(r"best|strongest|top[- ]performing|state[- ]of[- ]the[- ]art", "superlative", 1, True, 0.7),
    _word(r"worst|poorest|weakest", "superlative", -1, True, 0.7),
    _word(r"highest|largest|greatest|longest|biggest|(?<=the )most\b", "superlative", 1, False, 0.7),
    _word(r"lowest|smallest|least\b|fewest|shortest", "superlative", -1, False, 0.7),
    _word(r"better|outperform\w*|superior|surpass\w*|beats?\b|exceed\w*", "comparative", 1, True, 0.7),
    _word(r"worse|inferior|underperform\w*|poorer", "comparative", -1, True, 0.7),
    _word(r"higher|greater|larger|more\b(?! than (?:half|\d))|longer|bigger", "comparative", 1, False, 0.6),
    _word(r"lower\b|smaller|fewer|less\b|shorter", "comparative", -1, False, 0.6),
    _word(r"improv\w*|gains?\b|boost\w*|benefit\w*|help(?:s|ed|ful)?\b", "comparative", 1, True, 0.5),
    _word(r"effective\w*|advantage\w*|useful|valuable|increas\w*|raise[sd]", "comparative", 1, True, 0.5),
    _word(r"decreas\w*|drop\w*|declin\w*|degrad\w*|hurts?\b|reduc\w*", "comparative", -1, True, 0.5),
)
# What papers write for what they say.
_SHORT_FORMS = {
    "precision": ("p", "prec"), "recall": ("r", "rec"), "accuracy": ("acc",), "f1": ("f",), "measure": ("f", "f1"),
    "score": ("f", "f1"), "fscore": ("f", "f1"), "baseline": ("base",),
}  # fmt: skip
_RIVAL = re.compile(
    r"\b(?:than|over|upon|compar(?:ed|ing|ison)(?: (?:to|with))?|relative to|against|versus|vs\.?|outperform\w*|beats?|"
    r"surpass\w*|exceed\w*|improve\w*(?= the)|as well as|with respect to|from)\b",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|fails?|failed|unable|hardly|without|insufficient)\b|n't\b", re.IGNORECASE
)
_UNIVERSAL = re.compile(r"\b(?:all|both|every|each|always|consistently|any)\b", re.IGNORECASE)
_TREND = re.compile(
    r"\b(?:as|when|with)\b.{0,40}\b(?:increas\w*|grow\w*|decreas\w*|more|larger|deeper|longer)\b|\bfrom \d+ to \d+\b",
    re.IGNORECASE,
)
_LOWER_IS_BETTER = re.compile(
    r"\b(?:error\w*|loss|wer|ter|cer|per|ser|mae|mse|rmse|perplexity|ppl|pp|time|latency|seconds?|cost|rank|distance|"
    r"deviation|std|variance|invalid|worse|miss|wrong|add|false|p-value)\b|↓",
    re.IGNORECASE,
)
# How many characters before a word a negation may stand and still deny it.
_NEGATION_REACH = 45
_NAMED = 0.6
_CLAUSE_END = re.compile(r"[,;:.]\s|\b(?:while|but|whereas|which|and)\b", re.IGNORECASE)
_CLAUSE_WORDS = 3
_OWN_WORDS = frozenset({"our", "ours", "we", "proposed"})


@dataclass(frozen=True)
class Line:
    """A row or column that the claim names: its index, the cell that bears the name, and where the claim names it.

    ``at`` are the offsets of all words of the name, ``score`` the share of the name that the claim says.
    """

    index: int
    place: Place
    at: tuple[int, ...]
    score: float

    @property
    def start(self) -> int:
        return self.at[0]


@dataclass(frozen=True)
class Cue:
    """A word that calls for a comparison; ``judging`` words ("better") turn round where less is better."""

    kind: CueKind
    direction: int
    judging: bool
    weight: float
    start: int
    end: int


@dataclass(frozen=True)
class Claim:
    """A claim taken apart; ``coverage`` is how far it is about the table, in [0, 1]."""

    text: str
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]
    numbers: tuple[CellValue, ...]
    cues: tuple[Cue, ...]
    negations: tuple[int, ...]
    universal: bool
    coverage: float

    def negates(self, position: int) -> bool:
        """Whether a negation stands shortly before a position, in the same clause."""
        for start in self.negations:
            between = self.text[start:position]
            if 0 <= position - start <= _NEGATION_REACH and not re.search(r"[.;:]\s|, (?:but|while|and)\b", between):
                return True
        return False

    def names_rows(self, view: TableView) -> bool:
        """Whether the claim says what the rows are rows of: a word that all row names share, or their header."""
        names = [frozenset(stem(t) for name in view.shape.row_labels[i] for t in tokens(name)) for i in view.body]
        shared = frozenset.intersection(*names) if names else frozenset()
        heads = frozenset(stem(t) for j in view.shape.row_header_columns for t in tokens(view.shape.labels[j]))
        return bool((shared | heads) & word_set(self.text))

    def attributes(self, lines: Sequence[Line], cue: Cue) -> list[int]:
        """Lines named between this comparison and the next, as in "better precision but lower recall"; else all."""
        following = min((other.start for other in self.cues if other.start > cue.start), default=len(self.text))
        close = [line.index for line in lines if cue.start <= line.start < following]
        return close or [line.index for line in lines]

    def sides(self, lines: Sequence[Line], cue: Cue) -> tuple[list[Line], list[Line]]:
        """Named lines that a comparison is about, and named lines that they are compared with.

        The second side follows "than" and its like. Of several named before, those in the comparison's own clause are
        its subject: "comparing A with B, A does better" is about A.
        """
        than = self.than(cue)
        before = [line for line in lines if line.start <= than]
        after = [line for line in lines if line.start > than]
        if not before:
            return after, []
        if not after:
            clause = self.text.rfind(",", 0, cue.start) + 1
            within = [line for line in before if any(clause <= position < cue.start for position in line.at)]
            if within and len(within) < len(before):
                return within, [line for line in before if line not in within]
        return before, after

    def than(self, cue: Cue) -> int:
        """Where the second side of a comparison begins; past the end of the claim if there is none."""
        match = _RIVAL.search(self.text, cue.start)
        return match.start() if match else len(self.text)


def lower_is_better(names: Sequence[str]) -> bool:
    """Whether the names of a cell say that it holds an error, a cost or a time."""
    return any(_LOWER_IS_BETTER.search(name) for name in names)


def read_claim(view: TableView, text: str) -> Claim:
    """Take a claim apart against the names of a table."""
    plain = plain_text(text)
    words = _positioned(plain)
    rows = _named_rows(view, words)
    columns = _named_columns(view, words)
    names = {stem(t) for j in view.columns for t in tokens(view.shape.labels[j])}
    names |= {stem(t) for i in view.body for name in view.shape.row_labels[i] for t in tokens(name)}
    return Claim(
        plain, rows, columns, _stated_numbers(plain, names), _cues(plain),
        tuple(match.start() for match in _NEGATION.finditer(plain)), bool(_UNIVERSAL.search(plain)),
        _coverage(plain, names),
    )  # fmt: skip


def _coverage(plain: str, names: set[str]) -> float:
    """How far a claim is about the table: the share of words that are its names, in the clause that has most of them.

    What a long claim says besides (why something is so, who found it before) does not make its core about less.
    """
    parts = [plain, *(part for part in _CLAUSE_END.split(plain) if len(word_set(part)) >= _CLAUSE_WORDS)]
    return max((len(words & names) / len(words) for words in map(word_set, parts) if words), default=0.0)


def _positioned(plain: str) -> list[tuple[str, int]]:
    """Stems of the claim's words with their positions; "our", "we" and "proposed" are one word."""
    found = []
    position = 0
    folded = plain.lower()
    for token in tokens(plain):
        at = folded.find(token, position)
        position = at + len(token) if at >= 0 else position
        found.append((_name_stem(token), max(at, 0)))
    return found


def _name_stem(token: str) -> str:
    return "our" if token in _OWN_WORDS else stem(token)


def _named_rows(view: TableView, words: list[tuple[str, int]]) -> tuple[Line, ...]:
    names = []
    for i in view.body:
        for j in view.shape.row_header_columns:
            label = view.cell((i, j)).plain or _filled_down(view, i, j)
            if label:
                names.append((i, (i, j), label))
    return _named(names, words)


def _filled_down(view: TableView, row: int, column: int) -> str:
    """Name of a row left empty because the one above is meant."""
    labels = view.shape.row_labels[row]
    above = next((view.cell((i, column)).plain for i in range(row - 1, 0, -1) if view.cell((i, column)).plain), "")
    return above if above in labels else ""


def _named_columns(view: TableView, words: list[tuple[str, int]]) -> tuple[Line, ...]:
    names = []
    top = max(view.shape.header_rows, default=0)
    for j in view.columns:
        if j in view.shape.row_header_columns:
            continue
        names.append((j, (top, j), view.shape.labels[j]))
    return _named(names, words)


def _names_of(label: str) -> list[str]:
    """A label, and the shorter names that it goes by: what stands before its parentheses or its colon."""
    short = re.sub(r"\s*\([^()]*\)", "", label).strip()
    return list(dict.fromkeys(name for name in (label, short, label.split(":")[0].strip()) if name))


def _named(labels: list[tuple[int, Place, str]], words: list[tuple[str, int]]) -> tuple[Line, ...]:
    """Lines with a name whose telling words stand in the claim; a longer name hides a shorter one within it."""
    names = [(index, place, name) for index, place, label in labels for name in _names_of(label)]
    parts = [
        frozenset(_name_stem(t) for t in tokens(name) if t not in STOP_WORDS or t in _OWN_WORDS or len(t) == 1)
        for _, _, name in names
    ]
    distinct = set(parts)
    frequency = {word: sum(word in part for part in distinct) for part in distinct for word in part}
    weight = {word: math.log(1 + len(distinct) / count) for word, count in frequency.items()}
    positions: dict[str, list[int]] = {}
    spoken_short: set[str] = set()
    for order, (word, _) in enumerate(words):
        positions.setdefault(word, []).append(order)
    for full, forms in _SHORT_FORMS.items():
        for form in forms:
            if stem(full) in positions and form not in positions:
                positions[form] = positions[stem(full)]
                spoken_short.add(form)
    lines: dict[int, Line] = {}
    for (index, place, _), part in zip(names, parts, strict=True):
        total = math.fsum(weight[word] for word in part)
        held = [word for word in sorted(part) if word in positions]
        if not any((len(word) > 1 and not word.isdigit()) or word in spoken_short for word in held):
            continue
        score = math.fsum(weight[word] for word in held) / total
        if score < _NAMED:
            continue
        where = {words[order][1] for word in held for order in positions[word]}
        line = Line(index, place, tuple(sorted(where)), score)
        if index not in lines or (line.score, len(line.at)) > (lines[index].score, len(lines[index].at)):
            lines[index] = line
    kept = [
        line
        for line in lines.values()
        if not any(set(line.at) < set(other.at) and other.score >= line.score - 1e-9 for other in lines.values())
    ]
    return tuple(sorted(kept, key=lambda line: (line.start, line.index)))


def _stated_numbers(plain: str, names: set[str]) -> tuple[CellValue, ...]:
    """Numbers that the claim states as values: no p-values, years, numbers in names, or numbers of tables."""
    found = []
    for value in parse_values(plain):
        before = plain[: value.start].rstrip(" .(#").lower()
        if value.kind in {"p_value", "date"} or before.endswith(("table", "tables", "eq", "section", "figure", "fig")):
            continue
        whole = value.value == int(value.value)
        if whole and (
            1900 <= value.value <= 2100 or str(int(value.value)) in names or re.match(r"\s*-", plain[value.end :])
        ):
            continue
        found.append(value)
    return tuple(found)


def _cues(plain: str) -> tuple[Cue, ...]:
    found: list[Cue] = []
    trend = _TREND.search(plain)
    for word in _CUE_WORDS:
        for match in word.pattern.finditer(plain):
            if any(cue.start <= match.start() < cue.end for cue in found):
                continue
            rises = trend is not None and word.kind == "comparative" and "increas" in match.group().lower()
            kind: CueKind = "trend" if rises else word.kind
            found.append(Cue(kind, word.direction, word.judging, word.weight, match.start(), match.end()))
    return tuple(sorted(found, key=lambda cue: cue.start))
