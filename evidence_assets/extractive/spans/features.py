"""Features of the spans of sentences that may answer a question, from rules of English and an encoder's vectors."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from evidence_assets.extractive.spans.candidates import candidate_kind, find_candidates
from evidence_assets.extractive.spans.passages import Passage
from evidence_assets.extractive.spans.questions import QuestionFocus, analyze_question, can_be_answer
from evidence_assets.models.protocols import Encoder, FloatArray, TokenVectors
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.tokens import AUXILIARIES, DETERMINERS, LISTS, PREPOSITIONS, Word, split_tokens

AGENT_REACH = 6
"""Maximum words between a verb and the "by" of its agent."""
REACH = 4.0
"""Words over which the nearness of a span to a matched word falls to 1/e."""
_MARK_CLASSES = {":": "colon", ",": "comma", "(": "bracket", ")": "bracket", '"': "quote", "“": "quote"}
MISSING_NAMES = "missing names in context"
"""Feature: names and numbers of the question that are in no passage of the sentence's source."""
NUMERIC_KINDS = ("date", "quantity", "number")
OTHER_VALUE = "other value"
"""Feature of a number in a sentence with all words of the question, if the clause of another number has more of them.
Such a number is no candidate."""
UNKNOWN_WORDS = "unknown words"
"""Feature: no word of the question, apart from what it asks for, is in the source."""
OTHER_THING = "other thing"
"""Feature: the question is about a thing ("the bridge") that only other sentences of the source name."""


@dataclass(frozen=True)
class SpanCandidate:
    """A span of a passage and its features by name; those of value 0 are left out."""

    passage: Passage
    start: int
    end: int
    features: Mapping[str, float]

    @property
    def text(self) -> str:
        return self.passage.text[self.start : self.end]


@dataclass(frozen=True)
class _Sentence:
    passage: Passage
    words: list[Word]
    vectors: FloatArray
    """Of each word."""
    referent: list[Word]
    referent_vectors: FloatArray
    cosine: float
    """Of the sentence and the question."""


def find_spans(question: str, passages: Sequence[Passage], encoder: Encoder) -> list[SpanCandidate]:
    """All spans of the passages that may answer the question, with their features."""
    focus = analyze_question(question)
    texts = list(dict.fromkeys([question, *(text for p in passages for text in (p.text, p.referent) if text)]))
    counts = encoder.count_tokens(texts)
    short = [text for text, count in zip(texts, counts, strict=True) if 0 < count <= encoder.max_tokens]
    if question not in short or not passages:
        return []
    tokens = dict(zip(short, encoder.encode_tokens(short), strict=True))
    question_vector = unit_rows(tokens[question].vectors.mean(axis=0))
    sentences = []
    for passage in passages:
        if passage.text in tokens and (words := split_tokens(passage.text)):
            parts = [tokens[text] for text in (passage.referent, passage.text) if text in tokens]
            pooled = unit_rows(np.concatenate([part.vectors for part in parts]).mean(axis=0))
            referent = split_tokens(passage.referent) if len(parts) > 1 else []
            referent_vectors = _word_vectors(referent, parts[0])
            vectors = _word_vectors(words, parts[-1])
            sentences.append(
                _Sentence(passage, words, vectors, referent, referent_vectors, float(pooled @ question_vector))
            )
    query = _Query.of(focus, _word_vectors(focus.words, tokens[question]), question_vector, sentences)
    best = max((sentence.cosine for sentence in sentences), default=0.0)
    candidates = []
    for sentence in sentences:
        words = sentence.words
        spans = [span for span in find_candidates(words) if can_be_answer(words, *span, focus)]
        shared = _match_sentence(query, sentence, sentences, best)
        for (first, last), features in zip(spans, _span_features(query, shared, spans), strict=True):
            if features[OTHER_VALUE]:
                continue
            start = words[first].start
            end = words[last - 1].end
            nonzero = {name: round(float(value), 6) for name, value in features.items() if value}
            candidates.append(SpanCandidate(sentence.passage, start, end, nonzero))
    return candidates


def _word_vectors(words: Sequence[Word], tokens: TokenVectors) -> FloatArray:
    """Unit vectors of words, each the mean of its tokens' vectors; zero for a word without tokens."""
    vectors = np.zeros((len(words), tokens.vectors.shape[1]), dtype=np.float32)
    starts = tokens.offsets[:, 0]
    ends = tokens.offsets[:, 1]
    for number, word in enumerate(words):
        inside = (starts < word.end) & (ends > word.start)
        if inside.any():
            vectors[number] = tokens.vectors[inside].mean(axis=0)
    return unit_rows(vectors)


@dataclass(frozen=True)
class _Query:
    """A question with the vectors and weights of its content words."""

    focus: QuestionFocus
    vector: FloatArray
    stems: list[str]
    vectors: FloatArray
    weights: FloatArray
    """Rare words of the passages weigh more; the sum is 1."""
    is_name: list[bool]
    is_thing: list[bool]
    """Whether a word follows an article or the like ("the bridge"), or a reason is asked for."""
    head_stems: frozenset[str]
    head: FloatArray | None
    wh: FloatArray | None

    @classmethod
    def of(
        cls, focus: QuestionFocus, vectors: FloatArray, pooled: FloatArray, sentences: Sequence[_Sentence]
    ) -> _Query:
        content = list(focus.content)
        stems = [focus.words[n].stem for n in content]
        stem_sets = [{word.stem for word in (*sentence.referent, *sentence.words)} for sentence in sentences]
        counts = [sum(stem in stem_set for stem_set in stem_sets) for stem in stems]
        weights = np.array([math.log((len(sentences) + 1.5) / (count + 0.5)) for count in counts], dtype=np.float32)
        head = focus.head
        return cls(
            focus,
            pooled,
            stems,
            vectors[content],
            weights / max(float(weights.sum()), 1e-6),
            [n > 0 and (focus.words[n].is_capital or focus.words[n].is_number) for n in content],
            [focus.kind == "reason" or focus.words[n - 1].lower in DETERMINERS for n in content],
            frozenset(focus.words[n].stem for n in head),
            unit_rows(vectors[list(head)].mean(axis=0, keepdims=True))[0] if head else None,
            vectors[focus.wh] if focus.wh >= 0 else None,
        )


@dataclass(frozen=True)
class _Matched:
    """A sentence with the match of each of its words with each content word of the question."""

    sentence: _Sentence
    equal: FloatArray
    """1 for words of the same stem, content words × words."""
    similar: FloatArray
    """Cosine of the words, at least 0."""
    stems: list[str]
    features: dict[str, float]


def _match_sentence(query: _Query, sentence: _Sentence, sentences: Sequence[_Sentence], best: float) -> _Matched:
    stems = [word.stem for word in sentence.words]
    equal = np.array([[float(a == b) for b in stems] for a in query.stems], dtype=np.float32)
    equal = equal.reshape(len(query.stems), len(stems))
    similar = np.maximum(query.vectors @ sentence.vectors.T, 0.0)
    if sentence.referent:  # the pronoun, the first word, stands for all words of the referent
        referent_stems = {word.stem for word in sentence.referent}
        equal[:, 0] = [float(stem in referent_stems) for stem in query.stems]
        similar[:, 0] = (query.vectors @ sentence.referent_vectors.T).max(axis=1, initial=0.0)
    similar = np.maximum(similar, equal)
    context = {
        word.stem
        for other in sentences
        if other.passage.source_id == sentence.passage.source_id
        for word in (*other.referent, *other.words)
    }
    title = {word.stem for word in split_tokens(sentence.passage.title)}
    context |= title
    weights = query.weights
    has = equal.max(axis=1, initial=0.0)
    best_similar = similar.max(axis=1, initial=0.0)
    in_context = np.array([stem in context for stem in query.stems], dtype=np.float32)
    names = np.array(query.is_name, dtype=np.float32)
    things = np.array([a and b not in title for a, b in zip(query.is_thing, query.stems, strict=True)], np.float32)
    has_head = bool(query.head_stems) and query.head_stems <= {*stems}
    features = {
        "long question": len(query.stems) / 10,
        f"asked {query.focus.kind}": 1.0,
        "sentence cosine": sentence.cosine,
        "sentence rank": 1 / (1 + sentence.passage.rank),
        "sentence gap": best - sentence.cosine,
        "matched": float(weights @ has),
        "matched in context": float(weights @ np.maximum(has, in_context)),
        "similar": float(weights @ best_similar),
        "least similar": float(best_similar.min(initial=1.0)),
        "missing names": float(names @ (1 - has)) / 2,
        MISSING_NAMES: float(names @ (1 - np.maximum(has, in_context))) / 2,
        UNKNOWN_WORDS: float(bool(query.stems) and not np.maximum(has, in_context).any()),
        OTHER_THING: float((things * in_context * (1 - has)).max(initial=0.0)),
        "long sentence": len(stems) / 40,
        "complete": float(has.all()),
        "complete in context": float(np.maximum(has, in_context).all() and (weights @ has >= 0.5 or has_head)),
    }
    return _Matched(sentence, equal, similar, stems, features)


def _span_features(query: _Query, matched: _Matched, spans: Sequence[tuple[int, int]]) -> Iterator[dict[str, float]]:
    """Features of each span of a sentence, with those of the sentence."""
    words = matched.sentence.words
    focus = query.focus
    if not spans:
        return
    numeric = _place_spans(query, matched, np.array(spans))
    kinds = [candidate_kind(words[first:last], is_start=not first) for first, last in spans]
    numbers = [word.is_number and word.stem not in focus.stems for word in words]
    names = [word.is_capital and word.is_content and word.stem not in focus.stems for word in words]
    name_leads, number_leads = (_clause_leads(query, matched, values) for values in (names, numbers))
    question_kind = focus.kind
    for number, ((first, last), kind) in enumerate(zip(spans, kinds, strict=True)):
        features = dict(matched.features)
        features.update({name: float(values[number]) for name, values in numeric.items()})
        stems = matched.stems[first:last]
        content = [stem for stem, word in zip(stems, words[first:last], strict=True) if word.is_content]
        fits = focus.fits(kind, words, first, last)
        overlap = sum(stem in focus.stems for stem in content)
        lead = (number_leads if kind in NUMERIC_KINDS else name_leads)[first]
        features |= {
            f"{question_kind}: {kind}": 1.0,
            f"kind {kind}": 1.0,
            "length": math.log(last - first),
            f"{kind} length": math.log(last - first),
            "words of the question": overlap / max(1, len(content)),
            "a word of the question": float(overlap > 0),
            "fits": float(fits),
            f"{question_kind} fits": float(fits),
            "complete in context and fits": features["complete in context"] * fits,
            f"complete {kind}": features["complete"],
            "clause lead": lead,
            f"{kind} clause lead": lead,
            **_label_features(query, matched, first),
            "leads": float(lead > 0),
            "trails": float(lead < 0),
            OTHER_VALUE: features["complete"] * float(lead < 0 and kind in NUMERIC_KINDS),
        }
        if focus.verb is not None:
            features |= _agent_features(words, matched.similar[focus.verb], first, last)
        before = _word_class(words[first - 1]) if first else "start"
        preposition = next((word for word in words[:first][::-1] if word.lower not in DETERMINERS), None)
        after = _word_class(words[last]) if last < len(words) else "end"
        features |= {
            f"after {before}": 1.0,
            f"before {after}": 1.0,
            f"{question_kind}: after {before}": 1.0,
            f"{question_kind}: in {_word_class(preposition) if preposition else 'start'}": 1.0,
            f"first {_content_class(words[first])}": 1.0,
            f"last {_content_class(words[last - 1])}": 1.0,
            f"{kind}: after {before}": 1.0,
            f"{kind}: before {after}": 1.0,
        }
        yield features


def _clause_leads(query: _Query, matched: _Matched, values: Sequence[bool]) -> list[float]:
    """For each word, how much more of the question its clause has than the best clause of another value.

    "95 euros" leads in "260 euros for adults and 95 euros for juniors" if the question asks about juniors. A clause
    begins at the last comma after the value before, else at the last "and"; what precedes the first value belongs to
    all.

    ``values``: Which words are values.
    """
    words = matched.sentence.words
    edges = list[int]()
    end = 0
    for n in (n for n, is_value in enumerate(values) if is_value):
        joins = [k for k in range(end, n) if words[k].lower in LISTS["clause_joining"]]
        join = ([k for k in joins if words[k].is_mark] or joins or [n])[-1]  # "26 euros, pupils and students 9 euros"
        if not edges or join < n or n - end > 1:  # otherwise the value goes on: "12 June 1941"
            edges.append(join if edges else n)
        end = n + 1
    if len(edges) < 2:
        return [0.0] * len(words)
    clauses = list(pairwise([*edges, len(words)]))
    shares = [float(query.weights @ matched.equal[:, low:high].max(axis=1, initial=0.0)) for low, high in clauses]
    leads = [share - max(shares[:n] + shares[n + 1 :]) for n, share in enumerate(shares)]
    return [leads[max(0, bisect_right(edges, n) - 1)] for n in range(len(words))]


def _label_features(query: _Query, matched: _Matched, first: int) -> dict[str, float]:
    """How much of the question is in the label of a span, and of the label in the question: "Fan oven: 170 °C"."""
    words = matched.sentence.words
    colon = next((n for n in reversed(range(first)) if words[n].text in ":;."), 0)
    if words[colon].text != ":":
        return {}
    start = next((n + 1 for n in reversed(range(colon)) if words[n].is_mark), 0)
    label = [n for n in range(start, colon) if words[n].is_content]
    shared = sum(matched.stems[n] in query.focus.stems for n in label)
    weight = float(query.weights @ matched.equal[:, start:colon].max(axis=1, initial=0.0))
    return {"label matched": weight, "label in question": shared / max(1, len(label)), "labelled": 1.0}


def _agent_features(words: Sequence[Word], verb: FloatArray, first: int, last: int) -> dict[str, float]:
    """How well the question's verb matches the verb that a span is the subject or, after "by", the agent of."""
    start = first  # "by the architect Paul Weber": a name may follow its noun
    while start and words[first].is_capital and not words[start - 1].is_capital and words[start - 1].is_content:
        start -= 1
    while start and words[start - 1].lower in DETERMINERS:
        start -= 1
    if start and words[start - 1].lower == "by":
        return {"passive agent": float(verb[max(0, start - 1 - AGENT_REACH) : start - 1].max(initial=0.0))}
    return {"active agent": float(verb[last : last + 3].max(initial=0.0))}


def _place_spans(query: _Query, matched: _Matched, spans: npt.NDArray[np.intp]) -> dict[str, FloatArray]:
    """Numeric features of the spans of a sentence: nearness to the words of the question, and vectors."""
    n = len(matched.stems)
    weights = query.weights
    first = spans[:, :1]
    last = spans[:, 1:]
    positions = np.arange(n)[None, :]
    distance = np.maximum(np.maximum(first - positions, positions - last + 1), 0)
    outside = (distance > 0).astype(np.float32)
    near = np.exp(-(distance - 1) / REACH) * outside

    def best(similarity: FloatArray, factor: FloatArray) -> FloatArray:
        """Weighted mean over the words of the question of their best match, for each span."""
        if not len(weights):
            return np.zeros(len(spans), dtype=np.float32)
        return np.asarray((similarity[None] * factor[:, None, :]).max(axis=2) @ weights, dtype=np.float32)

    inside = 1 - outside
    vectors = unit_rows(inside @ matched.sentence.vectors)
    features = {
        "near equal": best(matched.equal, near),
        "near similar": best(matched.similar, near),
        "similar outside": best(matched.similar, outside),
        "similar inside": best(matched.similar, inside),
        "span and question": vectors @ query.vector,
    }
    if query.wh is not None:
        features[f"span and question word {query.focus.kind}"] = vectors @ query.wh
    if query.head is not None:
        features["span and head"] = vectors @ query.head
        features["last word and head"] = matched.sentence.vectors[spans[:, 1] - 1] @ query.head
    return features


def _word_class(word: Word) -> str:
    """Class of a word beside a span."""
    if word.is_mark:
        return _MARK_CLASSES.get(word.text, "mark")
    if word.lower in ("by", "of", "to", "from", "as", "and", "or", "for", "with", "the"):
        return word.lower
    if word.lower in LISTS["place_prepositions"]:
        return "in"
    if word.lower in DETERMINERS:
        return "determiner"
    if word.lower in AUXILIARIES:
        return "auxiliary"
    if word.lower in PREPOSITIONS:
        return "preposition"
    if word.is_function:
        return "function word"
    return _content_class(word)


def _content_class(word: Word) -> str:
    """Class of a content word by its form."""
    if word.is_number:
        return "number"
    if word.is_capital:
        return "name"
    return next((f"-{ending}" for ending in ("ed", "ing", "ly", "s") if word.lower.endswith(ending)), "word")
