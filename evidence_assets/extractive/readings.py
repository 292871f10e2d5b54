"""Readings of a question over facts: what its words may ask for, and how probable each is.

A reading follows the same relations in the same directions from the same name. Its probability is
``exp(s_i) / (1 + Σ_j exp(s_j))`` over all readings, where 1 stands for no answer and ``s`` is a weighted sum of
features of its best path: whether its relations are those of the question, each step is asked for, and its end is of
the kind that the question asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from pathlib import Path

import numpy as np

from evidence_assets.extractive.choice_probabilities import choice_probabilities
from evidence_assets.extractive.spans.candidates import candidate_kind
from evidence_assets.extractive.spans.questions import QuestionFocus, analyze_question
from evidence_assets.graphs.entity_linking import EntityLinker
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import read_yaml_mapping
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.short_answers import ShortFact
from evidence_assets.text.tokens import LISTS, Word, split_tokens
from evidence_assets.text.words import split_words, stem

WEIGHTS_FILE = Path(__file__).with_suffix(".yaml")
KINDS = {
    "place": "a place, a town or a building",
    "person": "a person",
    "time": "a date, a year or a time",
    "amount": "a number or an amount",
}
"""What names the kinds of answers to an encoder."""
NUMERIC_KINDS = ("date", "number", "quantity")
PLACE_WORDS = frozenset({"in", "at", "place", "location", "located", "near", "from"})
"""Words of relations that lead to a place."""


@dataclass(frozen=True)
class FactPath:
    """Facts that lead from a name in the question to another name, the end."""

    start: str
    end: str
    facts: tuple[ShortFact, ...] = ()
    steps: tuple[tuple[str, bool], ...] = ()
    """Relations, and whether the path follows each from head to tail."""

    @property
    def text(self) -> str:
        return ". ".join(fact.sentence for fact in self.facts)

    @property
    def relations(self) -> str:
        return " and ".join(fact.relation_words for fact in self.facts)

    @property
    def names(self) -> list[str]:
        """The names that the path leads to."""
        names = dict.fromkeys(name for fact in self.facts for name in (fact.head, fact.tail))
        return [name for name in names if name != self.start]

    def extend(self, facts: Sequence[ShortFact]) -> Iterator[FactPath]:
        """The path with one more fact, first from head to tail, then from tail to head."""
        for is_forward in (True, False):
            for fact in facts:
                here, there = (fact.head, fact.tail) if is_forward else (fact.tail, fact.head)
                if here == self.end:
                    yield FactPath(self.start, there, (*self.facts, fact), (*self.steps, (fact.relation, is_forward)))


@dataclass(frozen=True)
class Reading:
    """Paths with the same start, relations and directions, the nearest to the question first; features of the first."""

    paths: tuple[FactPath, ...]
    features: Mapping[str, float]

    @property
    def ends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path.end for path in self.paths))


@dataclass(frozen=True)
class ReadingWeights:
    """Weights of the features and thresholds of probabilities; fitted by ``bench/answers/fit_graph_answers.py``.

    ``min_answer``: Minimum probability of an answer. ``min_closest``: Minimum probability of the closest answer of an
    ambiguous question. ``min_with_text``: Minimum probability of a reading that a text confirms.
    """

    bias: float
    weights: Mapping[str, float]
    min_answer: float
    min_closest: float
    min_with_text: float

    @property
    def version(self) -> str:
        thresholds = (self.min_answer, self.min_closest, self.min_with_text)
        return content_id("reading weights", self.bias, sorted(self.weights.items()), *thresholds)

    def rank(self, readings: Sequence[Reading]) -> list[tuple[float, Reading]]:
        """The readings by the probability of their first end, which is the sum over all readings with it."""
        shares = choice_probabilities(self.bias, self.weights, [reading.features for reading in readings]).tolist()
        share_of_end: dict[str, float] = {}
        for share, reading in zip(shares, readings, strict=True):
            end = reading.ends[0]
            share_of_end[end] = share_of_end.get(end, 0.0) + share
        by_share = sorted(zip(shares, readings, strict=True), key=lambda item: -round(item[0], 6))
        ranked = [(round(share_of_end[reading.ends[0]], 6), reading) for _, reading in by_share]
        return sorted(ranked, key=lambda item: -item[0])


@lru_cache
def load_reading_weights() -> ReadingWeights:
    """The packaged weights."""
    return ReadingWeights(**read_yaml_mapping(WEIGHTS_FILE)["values"])


def find_readings(question: str, facts: Sequence[ShortFact], encoder: Encoder) -> list[Reading]:
    """All readings of a question over sourced facts."""
    paths = find_paths(question, [fact for fact in facts if fact.sourced])
    views = {start: _QuestionView.of(question, start) for start in dict.fromkeys(path.start for path in paths)}
    # One word asks for one relation: "Where was Anna born?" is not answered by her father's birthplace.
    paths = [path for path in paths if len(path.facts) == 1 or len(views[path.start].words) >= len(path.facts)]
    rater = _Rater(question, encode_ends(encoder, _list_texts(question, paths, views)))
    return _group_paths([(path, rater.rate(path, views[path.start])) for path in paths])


def _group_paths(rated_paths: Sequence[tuple[FactPath, Mapping[str, float]]]) -> list[Reading]:
    """The readings of paths with their features."""
    groups: dict[object, list[tuple[FactPath, Mapping[str, float]]]] = {}
    for path, features in rated_paths:
        groups.setdefault((path.start, path.steps), []).append((path, features))
    readings = []
    for group in groups.values():
        group.sort(key=lambda item: -round(item[1]["text_cosine"] + item[1]["relation_cosine"], 6))
        readings.append(Reading(tuple(path for path, _ in group), group[0][1]))
    return readings


def _list_texts(question: str, paths: Sequence[FactPath], views: Mapping[str, _QuestionView]) -> list[str]:
    """The texts whose cosines are features."""
    texts = [question, *KINDS.values()]
    for view in views.values():
        texts += [view.masked, view.head, *(word.text for word in view.words)]
    for path in paths:
        texts += [path.text, path.relations, *path.names, *(fact.relation_words for fact in path.facts)]
    return texts


def find_paths(question: str, facts: Sequence[ShortFact]) -> list[FactPath]:
    """All paths of one or two facts that start in the question and end outside it."""
    names = sorted({name for fact in facts for name in (fact.head, fact.tail)})
    spans = EntityLinker(names).find_spans(question)
    question_names = {names[node] for span in spans for node in span.link.nodes}
    paths = []
    for start in sorted(question_names):
        for path in FactPath(start, start).extend(facts):
            if path.end in question_names:
                continue
            paths.append(path)
            for longer in path.extend(facts):
                if longer.facts[0] != longer.facts[1] and longer.end not in question_names | {path.end}:
                    paths.append(longer)
    return paths


@dataclass(frozen=True)
class _QuestionView:
    """A question without the name that a path starts from."""

    masked: str
    words: tuple[Word, ...]
    """Its content words."""
    focus: QuestionFocus
    head: str
    """The words that name the answer, such as "instrument" of "which instrument"."""

    @classmethod
    def of(cls, question: str, start: str) -> _QuestionView:
        focus = analyze_question(_replace_name(question, start, " "))
        words = tuple(w for w in focus.words if w.is_content and w.lower not in LISTS["question_words"])
        head = " ".join(focus.words[position].text for position in focus.head)
        return cls(_replace_name(question, start, "it"), words, focus, head)


def _replace_name(question: str, name: str, replacement: str) -> str:
    return re.sub(re.escape(name), replacement, question, flags=re.IGNORECASE)


class _Rater:
    """Features of paths, from the vectors of their texts."""

    def __init__(self, question: str, vectors: Mapping[str, FloatArray]) -> None:
        self._question = question
        self._vectors = vectors

    def rate(self, path: FactPath, view: _QuestionView) -> dict[str, float]:
        relations = [fact.relation_words for fact in path.facts]
        relation_matches = [[self._match(word, relation) for word in view.words] for relation in relations]
        name_matches = [[self._match(word, name) for word in view.words] for name in path.names]
        covered = np.max([*relation_matches, *name_matches], axis=0) if view.words else np.zeros(0)
        is_long = len(path.facts) > 1
        return {
            "text_cosine": self._cosine(self._question, path.text),
            "relation_cosine": self._cosine(view.masked, path.relations),
            "is_long": float(is_long),
            "asks_for_each": _match_apart(relation_matches) if is_long else 0.0,
            "covered": float(covered.mean()) if len(covered) else 1.0,
            "is_backward": float(not path.steps[-1][1]),
            "head_is_end": self._cosine(view.head, path.end) if view.head else 0.0,
            **self._rate_kind(path.end, relations[-1], view.focus.kind, is_forward=path.steps[-1][1]),
        }

    def _rate_kind(self, end: str, relation: str, kind: str, *, is_forward: bool) -> dict[str, float]:
        """Whether the end is of the kind that the question asks for."""
        end_kind = candidate_kind(split_tokens(end))
        is_numeric = end_kind in NUMERIC_KINDS
        asks_for_number = kind in ("time", "count", "amount")
        leads_to_place = is_forward and not PLACE_WORDS.isdisjoint(map(str.casefold, split_words(relation)))
        if asks_for_number:
            is_other_kind = not is_numeric
        else:
            is_other_kind = kind in ("person", "place") and (is_numeric or (kind == "person" and leads_to_place))
        nearest = 0.0
        if kind in KINDS:
            cosines = {name: self._cosine(end, text) for name, text in KINDS.items()}
            nearest = cosines.pop(kind) - max(cosines.values())
        return {
            "is_other_kind": float(is_other_kind),
            "is_no_place": float(kind == "place" and not leads_to_place),
            "nearest_kind": nearest,
        }

    def _match(self, word: Word, text: str) -> float:
        """1 for a word of the text, else the cosine."""
        return 1.0 if word.stem in {stem(other) for other in split_words(text)} else self._cosine(word.text, text)

    def _cosine(self, one: str, other: str) -> float:
        return round(float(self._vectors[one] @ self._vectors[other]), 6)


def _match_apart(relation_matches: Sequence[Sequence[float]]) -> float:
    """The weaker of two matches where each relation has a word of the question of its own."""
    first, last = relation_matches
    return max((min(first[a], last[b]) for a, b in permutations(range(len(first)), 2)), default=0.0)
