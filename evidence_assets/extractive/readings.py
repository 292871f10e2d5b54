"""Readings of a question over facts: what its words may ask for, and how probable each is.

A reading follows the same relations in the same directions from the same name. Its probability is
``exp(s_i) / (1 + Σ_j exp(s_j))`` over all readings, where 1 stands for no answer and ``s`` is a weighted sum of
features of its best path: whether its relations are those of the question, each step is asked for, and its end is of
the kind that the question asks for. A path is no reading if its end is of another kind, if a word of the question asks
for a relation that it has not (:mod:`.relation_words`), or if it has a relation that no word asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from evidence_assets.extractive.choice_probabilities import choice_probabilities
from evidence_assets.extractive.relation_words import (
    WordWithMeaning,
    find_meanings,
    join_meanings,
    relation_words_version,
)
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
IMPLIED_MEANINGS = {"place": frozenset({"location", "headquarters", "residence"}), "time": frozenset({"dating"})}
"""What "where" and "when" may ask for without another word, as in "Where is the shipyard?"."""
_WHERE_IS = re.compile(r"where(?: is| are|['’]s)\b", re.IGNORECASE)
PLACE_WORDS = frozenset({"in", "at", "place", "location", "located", "near", "from"})
"""Words of relations that lead to a place."""

SETTLEMENTS = frozenset({"town", "city", "village"})


def _names_place(relation_words: str) -> bool:
    return not PLACE_WORDS.isdisjoint(map(str.casefold, split_words(relation_words)))


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
    def leads_to_place(self) -> bool:
        """Whether its last relation says so, such as "born in"."""
        return self.steps[-1][1] and _names_place(self.facts[-1].relation_words)

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
    ambiguous question. ``min_with_text``: Minimum probability of a reading that a text confirms. ``min_with_model``:
    Minimum probability of one that a language model ends with, too.
    """

    bias: float
    weights: Mapping[str, float]
    min_answer: float
    min_closest: float
    min_with_text: float
    min_with_model: float

    @property
    def version(self) -> str:
        thresholds = (self.min_answer, self.min_closest, self.min_with_text, self.min_with_model)
        weights = sorted(self.weights.items())
        return content_id("reading weights", self.bias, weights, *thresholds, relation_words_version())

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
    sourced = [fact for fact in facts if fact.sourced]
    located = {fact.head for fact in sourced if _names_place(fact.relation_words)}
    paths = find_paths(question, sourced)
    views = {start: _QuestionView.of(question, start) for start in dict.fromkeys(path.start for path in paths)}
    paths = [p for p in paths if views[p.start].accepts(p) and not (p.end in located and views[p.start].asks_beyond(p))]
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
    texts = [question, *KINDS.values(), *(view.masked for view in views.values())]
    for path in paths:
        texts += [path.text, path.relations, path.end]
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
    known_words: tuple[WordWithMeaning, ...]
    """Its words whose meaning is known."""
    asks_where: bool
    """Whether it begins with "where is"."""

    @classmethod
    def of(cls, question: str, start: str) -> _QuestionView:
        focus = analyze_question(_replace_name(question, start, " "))
        words = tuple(w for w in focus.words if w.is_content and w.lower not in LISTS["question_words"])
        head = " ".join(focus.words[position].text for position in focus.head)
        masked = _replace_name(question, start, "it")
        asks_where = _WHERE_IS.match(question) is not None
        return cls(masked, words, focus, head, tuple(find_meanings(masked)), asks_where)

    @property
    def asking_words(self) -> Sequence[WordWithMeaning]:
        """The words that ask for relations."""
        return [word for word in self.known_words if not word.is_light] or self.known_words

    def accepts(self, path: FactPath) -> bool:
        """Whether a path may be what the question asks for."""
        # One word asks for one relation: "Where was Anna born?" is not answered by her father's birthplace.
        has_words = len(path.facts) == 1 or len(self.words) >= len(path.facts)
        return has_words and self.accepts_end(path) and self.is_met_by(path)

    def accepts_end(self, path: FactPath) -> bool:
        """Whether the end of a path can be what the question asks for.

        It is of its kind, and has no other word of the question than the head: "the airport that it departs from" is
        not the city where that airport is.
        """
        head = {stem(word) for word in self.head.split()}
        others = {stem(word.text) for word in self.words} - head
        if any(stem(word) in others for word in split_words(path.end)):
            return False
        end_kind = candidate_kind(split_tokens(path.end))
        is_name = end_kind == "quantity" and path.end[0].isalpha()  # "Room 14"
        is_numeric = end_kind in NUMERIC_KINDS and not is_name
        if "year" in head:
            return bool(re.search(r"\b\d{4}\b", path.end))
        if self.focus.kind == "named":
            return end_kind != "date"
        if self.focus.kind in ("time", "count", "amount"):
            return is_numeric
        if self.focus.kind == "person":
            return not is_numeric and not path.leads_to_place
        return self.focus.kind != "place" or not is_numeric

    def asks_beyond(self, path: FactPath) -> bool:
        """Whether a question asks for the place of an end that has one, not for the end.

        A town in a country is no country, somebody who works at a hospital works in the town where it is, and "where is
        the yard that built it?" asks for the place of the yard.
        """
        head = self.head.casefold()
        is_in_town = path.leads_to_place and "in" in split_words(path.facts[-1].relation_words)
        return (
            head in ("country", "continent")
            or (head in SETTLEMENTS and not is_in_town)
            or (self.asks_where and not path.leads_to_place)
        )

    def is_met_by(self, path: FactPath) -> bool:
        """Whether a path says what the question asks for, and no more.

        Each word that asks for a relation needs a step or name with its meaning, or a step whose meaning is not known.
        Each step with a meaning needs a word that asks for it, or a content word whose meaning is not known and that
        is not in the path.
        """
        steps = [join_meanings([fact.relation_words]) for fact in path.facts]
        met = join_meanings(path.names).union(*steps)
        n_unmet = sum(word.meanings.isdisjoint(met) for word in self.asking_words)
        if n_unmet > steps.count(frozenset()):
            return False
        implied = IMPLIED_MEANINGS.get(self.focus.kind, frozenset())
        asked_meanings = implied.union(*(word.meanings for word in self.asking_words))
        n_unasked = sum(bool(meanings) and meanings.isdisjoint(asked_meanings) for meanings in steps)
        return n_unasked <= self._count_unknown_words(path)

    def _count_unknown_words(self, path: FactPath) -> int:
        """Content words without a known meaning that are not in the path either."""
        known_stems = {one for word in self.known_words for one in word.stems}
        texts = (path.relations, *path.names, self.head)
        known_stems |= {stem(word) for text in texts for word in split_words(text)}
        return sum(stem(word.text) not in known_stems for word in self.words)


def _replace_name(question: str, name: str, replacement: str) -> str:
    return re.sub(re.escape(name), replacement, question, flags=re.IGNORECASE)


class _Rater:
    """Features of paths, from the vectors of their texts."""

    def __init__(self, question: str, vectors: Mapping[str, FloatArray]) -> None:
        self._question = question
        self._vectors = vectors

    def rate(self, path: FactPath, view: _QuestionView) -> dict[str, float]:
        meanings = join_meanings([path.relations])
        is_met = [not word.meanings.isdisjoint(meanings) for word in view.asking_words]
        return {
            "text_cosine": self._cosine(self._question, path.text),
            "relation_cosine": self._cosine(view.masked, path.relations),
            "has_asked_meaning": float(any(is_met)),
            "has_other_words": float(not all(is_met)),
            "is_long": float(len(path.facts) > 1),
            "is_backward": float(not path.steps[-1][1]),
            "nearest_kind": self._rate_kind(path.end, view.focus.kind),
        }

    def _rate_kind(self, end: str, kind: str) -> float:
        """How much nearer the end is to the kind that the question asks for than to the others."""
        if kind not in KINDS:
            return 0.0
        cosines = {name: self._cosine(end, text) for name, text in KINDS.items()}
        return cosines.pop(kind) - max(cosines.values())

    def _cosine(self, one: str, other: str) -> float:
        return round(float(self._vectors[one] @ self._vectors[other]), 6)
