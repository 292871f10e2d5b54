"""The extractive reasoner: multiple-choice and graph questions worked out from the evidence alone, no model asked.

Belongs here: how strongly the statements of an option's evidence link it to the question, the chain that quotes them,
and the comparison of the options. It is deterministic, generates nothing and knows nothing but the evidence; it is
named ``extractive`` in every table. Questions on tables have a reasoner of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.reasoning.statements import EXCEPTION, Statement, statements, stems
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Failure, Step

VERSION = "1"
"""Changes whenever a chain or a choice may."""

TASKS = ("mcqa", "kgqa")

MEANING_SHARE = 0.5
"""Share of the encoder in how well statements fit the question, where there is an encoder."""
MEANING_RANGE = (0.25, 0.80)
"""Cosines that count as 0 and as 1."""
UNSEEN_WEIGHT = 0.1
"""Weight of a word that the corpus does not know, beside 1 for its rarest: most such words only phrase the question."""
LONG = 12
"""Stems from which on a statement is a list rather than a link; twice as many halve it."""
DENIAL_SHARE = 0.05
"""What a statement that denies still counts as a link."""
BRIDGE_SHARE = 0.9
"""What two statements joined by a shared name count beside one that says the same."""
BRIDGE_POOL = 12
"""Statements tried at each end of a bridge."""
FLOOR = 0.30
"""Support under which an option counts as not supported."""
MARGIN = 0.05
"""Supports nearer than this are not told apart."""


def idf_of(texts: Iterable[str]) -> dict[str, float]:
    """Weight of each stem over a corpus: ln(1 + N / df).

    >>> weights = idf_of(["insulin lowers glucose", "glucose is sweet"])
    >>> weights["insulin"] > weights["glucos"]
    True
    """
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        counts.update(set(stems(text)))
        total += 1
    return {each: log(1 + total / count) for each, count in counts.items()}


@dataclass(frozen=True)
class _Link:
    """Statements that link question and option, and how strongly."""

    strength: float
    statements: tuple[Statement, ...]
    bridge: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Reading:
    """The usable statements of one option's evidence, with what each has of option and question."""

    statements: list[Statement]
    words: list[frozenset[str]]
    option: frozenset[str]
    question: frozenset[str]
    of_option: list[float]
    of_question: list[float]


class ExtractiveSolver:
    """Answers multiple-choice and graph questions by what the evidence states.

    A statement u (a clause of a sentence, a triple, a path) links question and option with strength
    o(u) · q(u) · ((1 − m) + m·s(u)) / ℓ(u): o and q are the weighted shares of the option's and of the question's stems
    that stand in u, s its similarity in meaning to question and option, m :data:`MEANING_SHARE` (0 without an encoder),
    ℓ = max(1, stems of u / :data:`LONG`). A stem weighs (idf / highest idf)². Two statements that share a name found in
    neither question nor option link them together as one of their joint words and meaning would, times
    :data:`BRIDGE_SHARE` and the weight of the name. A statement that denies what it mentions counts
    :data:`DENIAL_SHARE` and is held against the others. Support is the square root of the strongest link less half the
    strongest denial.

    Parameters
    ----------
    encoder
        Adds similarity of meaning; without it words alone decide.
    idf
        Inverse document frequency of each stem, such as :func:`idf_of` the corpus; without it all words weigh the same.
    on_progress
        Called with (tasks done, tasks in all).
    """

    name = "extractive"

    def __init__(
        self,
        encoder: Encoder | None = None,
        *,
        idf: Mapping[str, float] | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.encoder, self.on_progress = encoder, on_progress
        heaviest = max((idf or {}).values(), default=1.0)
        self._weights = {word: (value / heaviest) ** 2 for word, value in (idf or {}).items()}
        self.model_id = "extractive" if encoder is None else f"extractive+{encoder.model_id}"
        parts = [VERSION, "" if encoder is None else encoder.revision, content_id(self._weights)[:12] if idf else ""]
        self.version = "-".join(part for part in parts if part)

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """One chain an option: the statements that link it to the question, quoted and cited."""
        readings = [self._read(task) for task in tasks]
        vectors = self._vectors(tasks, readings)
        results: list[Chain | Failure] = []
        for number, (task, reading) in enumerate(zip(tasks, readings, strict=True), start=1):
            if task.task not in TASKS:
                results.append(Failure(f"the extractive reasoner does {' and '.join(TASKS)} tasks, not {task.task}"))
            else:
                results.append(self._chain(task, reading, vectors))
            if self.on_progress is not None:
                self.on_progress(number, len(tasks))
        return results

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """Name the best supported option, or the least supported one where the question asks for the exception."""
        return [self._choice(task) for task in tasks]

    def _weight(self, words: Iterable[str]) -> float:
        unseen = UNSEEN_WEIGHT if self._weights else 1.0
        return sum(self._weights.get(word, unseen) for word in words)

    def _read(self, task: ExplainOption) -> _Reading:
        """Statements that say something of the option, and those that say most of the question."""
        option = frozenset(stems(task.option))
        question = frozenset(stems(task.question)) - option
        whole_option, whole_question = self._weight(option) or 1, self._weight(question) or 1
        rows = []
        for item in task.evidence:
            for statement in statements(item):
                words = frozenset(stems(statement.text))
                shares = self._weight(option & words) / whole_option, self._weight(question & words) / whole_question
                rows.append((statement, words, *shares))
        nearest = {id(row) for row in sorted(rows, key=lambda row: -row[3])[:BRIDGE_POOL]}
        rows = [row for row in rows if row[2] > 0 or (row[3] > 0 and id(row) in nearest)]
        found, words_of, of_option, of_question = ([row[part] for row in rows] for part in range(4))
        return _Reading(found, words_of, option, question, of_option, of_question)  # type: ignore[arg-type]

    def _vectors(self, tasks: Sequence[ExplainOption], readings: list[_Reading]) -> dict[str, FloatArray]:
        """Vectors of all texts to be compared, each encoded once; texts longer than the encoder reads have none."""
        if self.encoder is None:
            return {}
        texts = [*map(_wanted, tasks), *(each.text for reading in readings for each in reading.statements)]
        texts = list(dict.fromkeys(texts))
        counts = self.encoder.count_tokens(texts)
        short = [text for text, count in zip(texts, counts, strict=True) if count <= self.encoder.max_tokens]
        return dict(zip(short, self.encoder.sentences(short), strict=True))

    def _strength(
        self, task: ExplainOption, reading: _Reading, rows: tuple[int, ...], vectors: dict[str, FloatArray]
    ) -> float:
        """Strength of some statements taken as one; the last of them must speak of the option."""
        words = frozenset().union(*(reading.words[row] for row in rows))
        covered = self._weight(reading.question & words) / (self._weight(reading.question) or 1)
        length = max(1.0, max(len(reading.words[row]) for row in rows) / LONG)
        strength = reading.of_option[rows[-1]] * covered / length
        known = [vectors.get(reading.statements[row].text) for row in rows]
        wanted = vectors.get(_wanted(task))
        if wanted is None or any(vector is None for vector in known):
            return strength
        together = np.sum([vector for vector in known if vector is not None], axis=0)
        low, high = MEANING_RANGE
        cosine = float(together @ wanted) / (float(np.linalg.norm(together)) or 1.0)
        meaning = min(1.0, max(0.0, (cosine - low) / (high - low)))
        return strength * (1 - MEANING_SHARE + MEANING_SHARE * meaning)

    def _chain(self, task: ExplainOption, reading: _Reading, vectors: dict[str, FloatArray]) -> Chain:
        direct, denials = [], []
        for row, statement in enumerate(reading.statements):
            if reading.of_option[row] and reading.of_question[row]:
                strength = self._strength(task, reading, (row,), vectors)
                if statement.denies:
                    denials.append(_Link(strength, (statement,)))
                    strength *= DENIAL_SHARE
                direct.append(_Link(strength, (statement,)))
        links = [*direct, *self._bridges(task, reading, vectors)]
        best = max(links, key=lambda link: link.strength, default=None)
        if best is None or best.strength <= 0:
            return Chain(task.hypothesis, (Step(f"No evidence links the question to “{task.option}”."),), 0.0)
        against = max(denials, key=lambda link: link.strength, default=None)
        support = sqrt(best.strength)
        if against is not None and against.statements != best.statements:
            support = max(0.0, support - sqrt(against.strength) / 2)
        return Chain(task.hypothesis, _steps(task, best, against), round(min(1.0, support), 6))

    def _bridges(self, task: ExplainOption, reading: _Reading, vectors: dict[str, FloatArray]) -> list[_Link]:
        """Pairs of a statement on the question and one on the option that share a name unknown to both."""
        known = reading.option | reading.question

        def foremost(scores: list[float]) -> list[int]:
            usable = [row for row, score in enumerate(scores) if score > 0 and not reading.statements[row].denies]
            return sorted(usable, key=lambda row: -scores[row])[:BRIDGE_POOL]

        links = []
        for first in foremost(reading.of_question):
            for second in foremost(reading.of_option):
                shared = (reading.words[first] & reading.words[second]) - known
                one, two = reading.statements[first], reading.statements[second]
                if first == second or not shared or one.quote == two.quote:
                    continue
                name = min(1.0, max(self._weight([word]) for word in shared))
                strength = BRIDGE_SHARE * name * self._strength(task, reading, (first, second), vectors)
                links.append(_Link(strength, (one, two), tuple(sorted(shared))))
        return links

    def _choice(self, task: ChooseAnswer) -> Choice | Failure:
        support: dict[str, float] = {}
        for chain in task.chains:
            if chain.support is None:
                return Failure(
                    f"the chain of {chain.hypothesis} carries no support; explain it with this reasoner first"
                )
            support[chain.hypothesis] = chain.support
        missing = [label for label in task.labels if label not in support]
        if missing:
            return Failure(f"no chain for {', '.join(missing)}")
        odd = task.negated or bool(EXCEPTION.search(task.question))
        supported = tuple(label for label in task.labels if support[label] >= FLOOR)
        value = {label: (1 - support[label] if odd else support[label]) for label in task.labels}
        ranked = sorted(task.labels, key=lambda label: -value[label])
        confidence = round(value[ranked[0]] / (sum(value.values()) or 1), 6)
        if not supported or (odd and len(supported) < min(2, len(task.labels) - 1)):
            return Choice(None, supported, "insufficient", 0.0)
        if len(ranked) > 1 and value[ranked[0]] - value[ranked[1]] < MARGIN:
            unclear = not odd and support[ranked[1]] >= FLOOR
            return Choice(ranked[0], supported, "ambiguous" if unclear or odd else "answered", confidence)
        return Choice(ranked[0], supported, "answered", confidence)


def _wanted(task: ExplainOption) -> str:
    return f"{task.question} {task.option}"


def _steps(task: ExplainOption, link: _Link, against: _Link | None) -> tuple[Step, ...]:
    """The sentences of a chain; each quotes the sentence that it cites, word for word."""
    steps = []
    for number, statement in enumerate(link.statements):
        if len(link.statements) == 1:
            lead = f"On “{task.option}” the evidence states"
        elif number == 0:
            lead = "On the question the evidence states"
        else:
            lead = f"“{task.option}” is reached through {', '.join(link.bridge)}, as it also states"
        steps.append(Step(f"{lead}: “{statement.quote}”", (statement.evidence_id,), (statement.quote,)))
    if against is not None:
        denial = against.statements[0]
        if denial not in link.statements:
            steps.append(Step(f"Against it stands: “{denial.quote}”", (denial.evidence_id,), (denial.quote,)))
    return tuple(steps)
