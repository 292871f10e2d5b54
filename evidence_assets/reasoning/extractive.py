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
from evidence_assets.reasoning.statements import Statement, asked_kind, statements
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Failure, Step
from evidence_assets.text.negation import asks_for_exception
from evidence_assets.text.stems import spelled, stems

VERSION = "5"
"""Changes whenever a chain or a choice may."""

TASKS = ("mcqa", "kgqa")

MEANING_SHARE = 0.5
"""Share of the encoder in how well statements fit the question, where there is an encoder."""
MEANING_RANGE = (0.25, 0.80)
"""Cosines that count as 0 and as 1."""
UNSEEN_WEIGHT = 0.1
"""Weight of a word that the corpus does not know, beside 1 for its rarest: most such words only phrase the question."""
KIND_WEIGHT = 0.25
"""What the words after "which" and "what" count, and what words of an option count that the question has as well."""
LONG = 8
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


WEIGHT_STEP = 0.05
"""Weights of words are rounded to multiples of it."""


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
    """The usable statements of one option's evidence, with the words of each and the weights that count."""

    statements: list[Statement]
    words: list[Counter[str]]
    option: dict[str, float]
    question: dict[str, float]
    option_words: Counter[str]

    def of_option(self, words: Counter[str]) -> float:
        """Share of the option's weight in some words."""
        return sum(weight for word, weight in self.option.items() if word in words) / sum(self.option.values())

    def of_question(self, words: Counter[str]) -> float:
        """Share of the question's weight in some words; a word that the option has too must stand there once more."""
        covered = sum(weight for word, weight in self.question.items() if words[word] > self.option_words[word])
        return covered / sum(self.question.values())


class ExtractiveSolver:
    """Answers multiple-choice and graph questions by what the evidence states.

    A statement u (a clause of a sentence, a triple, a path) links question and option with strength
    o(u) · q(u) · ((1 − m) + m·s(u)) / ℓ(u): o and q are the weighted shares of the option's and of the question's
    stems that stand in u (a word of both must stand there twice), s its similarity in meaning to question and option,
    m :data:`MEANING_SHARE` (0 without an encoder), ℓ = max(1, stems of the clause u / :data:`LONG`). A stem weighs
    (idf / highest idf)², less where it only names the kind of thing asked for. Two statements that share a name found
    in neither question nor option link them together as one of their joint words and meaning would, times
    :data:`BRIDGE_SHARE` and the weight of the name. A statement that denies what it mentions counts
    :data:`DENIAL_SHARE` and is held against the others. Support is the square root of the strongest link less half the
    square root of the strongest denial.

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
        # In steps, so that a few documents more or less change the weight of hardly any word, and so hardly any chain.
        self._weights = {
            word: round((value / heaviest) ** 2 / WEIGHT_STEP) * WEIGHT_STEP for word, value in (idf or {}).items()
        }
        self.model_id = "extractive" if encoder is None else f"extractive+{encoder.model_id}"
        self.version = "-".join(part for part in (VERSION, "" if encoder is None else encoder.revision) if part)

    def task_version(self, task: ExplainOption) -> str:
        """The version, and the weights of the words that this task holds."""
        if not self._weights:
            return self.version
        texts = [task.question, task.option, *(item.text for item in task.evidence)]
        words = sorted({word for text in texts for word in stems(text)})
        return content_id(self.version, [(word, self._weight(word)) for word in words])

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

    def _weight(self, word: str) -> float:
        return self._weights.get(word, UNSEEN_WEIGHT if self._weights else 1.0)

    def _read(self, task: ExplainOption) -> _Reading:
        """Statements that say something of the option, and those that say most of the question."""
        option, asked = Counter(stems(task.option)), set(stems(task.question))
        kind = asked_kind(task.question)
        reading = _Reading(
            [],
            [],
            {word: self._weight(word) * (KIND_WEIGHT if word in asked else 1) for word in option} or {"": 1.0},
            {word: self._weight(word) * (KIND_WEIGHT if word in kind else 1) for word in sorted(asked)} or {"": 1.0},
            option,
        )
        rows = []
        for item in task.evidence:
            for statement in statements(item):
                words = Counter(stems(statement.text))
                rows.append((statement, words, reading.of_option(words), reading.of_question(words)))
        nearest = {id(row) for row in sorted(rows, key=lambda row: -row[3])[:BRIDGE_POOL]}
        for row in rows:
            if row[2] > 0 or (row[3] > 0 and id(row) in nearest):
                reading.statements.append(row[0])
                reading.words.append(row[1])
        return reading

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
        words = sum((reading.words[row] for row in rows), Counter[str]())
        lengths = [len(reading.words[row]) / LONG for row in rows if not reading.statements[row].whole]
        length = max([1.0, *lengths])
        strength = reading.of_option(reading.words[rows[-1]]) * reading.of_question(words) / length
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
            strength = self._strength(task, reading, (row,), vectors)
            if strength > 0:
                if statement.denies:
                    # what is denied of another thing says nothing of this one
                    if reading.of_option(reading.words[row]) > 0.99:
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
        known = reading.option.keys() | reading.question.keys()

        def foremost(share: Callable[[Counter[str]], float]) -> list[int]:
            shares = {
                row: share(words)
                for row, words in enumerate(reading.words)
                if not reading.statements[row].denies and share(words) > 0
            }
            return sorted(shares, key=lambda row: -shares[row])[:BRIDGE_POOL]

        links = []
        for first in foremost(reading.of_question):
            for second in foremost(reading.of_option):
                shared = (reading.words[first].keys() & reading.words[second].keys()) - known
                one, two = reading.statements[first], reading.statements[second]
                if first == second or not shared or one.quote == two.quote:
                    continue
                name = min(1.0, max(self._weight(word) for word in shared))
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
        odd = task.negated or asks_for_exception(task.question)
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
            shared = spelled(link.bridge, statement.quote)
            lead = f"“{task.option}” is reached through {', '.join(shared)}, as it also states"
        steps.append(Step(f"{lead}: “{statement.quote}”", (statement.evidence_id,), (statement.quote,)))
    if against is not None:
        denial = against.statements[0]
        if denial not in link.statements:
            steps.append(Step(f"Against it stands: “{denial.quote}”", (denial.evidence_id,), (denial.quote,)))
    return tuple(steps)
