"""Features of the spans of sentences that may answer a question, from rules of English and an encoder's vectors."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from evidence_assets.extractive.spans.candidates import candidate_kind, find_candidates
from evidence_assets.extractive.spans.passages import Passage, is_heading
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
DISSIMILAR = 0.5
"""Cosine with the best word of a sentence below which the sentence does not speak of a word of the question."""
LACKS_KIND = "lacks kind"
"""Feature of a sentence without a span of the kind that the question asks for, such as a reason for "why"."""
TYPED_KINDS = ("person", "place", "time", "count", "amount", "reason")
NEW_WORDS = 8
"""Words beside those of the question from which on a sentence is no longer."""
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
    """A passage with the vectors of its words and of the words that its pronoun stands for."""

    passage: Passage
    words: list[Word]
    vectors: FloatArray
    referent: list[Word]
    referent_vectors: FloatArray
    cosine: float
    """Of the sentence, with its referent, and the question."""

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(word.stem for word in (*self.referent, *self.words))


def find_spans(question: str, passages: Sequence[Passage], encoder: Encoder) -> list[SpanCandidate]:
    """All spans of the passages that may answer the question, with their features."""
    query = _read_query(question, passages, encoder)
    if query is None:
        return []
    return [candidate for sentence in query.sentences for candidate in _find_in_sentence(query, sentence)]


def describe_passages(
    question: str, passages: Sequence[Passage], encoder: Encoder
) -> list[tuple[Passage, Mapping[str, float]]]:
    """The passages that the encoder reads completely, with the features of whole sentences as answers."""
    query = _read_query(question, passages, encoder)
    if query is None:
        return []
    return [(each.passage, _statement_features(_match_words(query, each))) for each in query.sentences]


def _read_query(question: str, passages: Sequence[Passage], encoder: Encoder) -> _Query | None:
    """The question and the passages, encoded; None without passages or if the question is too long."""
    texts = list(dict.fromkeys([question, *(text for p in passages for text in (p.text, p.referent) if text)]))
    counts = encoder.count_tokens(texts)
    short = [text for text, count in zip(texts, counts, strict=True) if 0 < count <= encoder.max_tokens]
    if question not in short or not passages:
        return None
    tokens = dict(zip(short, encoder.encode_tokens(short), strict=True))
    question_vector = unit_rows(tokens[question].vectors.mean(axis=0))
    sentences = list(_encode_sentences(passages, tokens, question_vector))
    return _Query(analyze_question(question), tokens[question], question_vector, sentences)


def _encode_sentences(
    passages: Sequence[Passage], tokens: Mapping[str, TokenVectors], question_vector: FloatArray
) -> Iterator[_Sentence]:
    """The passages with words that the encoder reads completely."""
    for passage in passages:
        words = split_tokens(passage.text)
        if not words or passage.text not in tokens:
            continue
        sentence_tokens = tokens[passage.text]
        referent_tokens = tokens.get(passage.referent)
        parts = (
            [sentence_tokens.vectors] if referent_tokens is None else [referent_tokens.vectors, sentence_tokens.vectors]
        )
        pooled = unit_rows(np.concatenate(parts).mean(axis=0))
        referent = [] if referent_tokens is None else split_tokens(passage.referent)
        yield _Sentence(
            passage,
            words,
            _word_vectors(words, sentence_tokens),
            referent,
            _word_vectors(referent, referent_tokens or sentence_tokens),
            float(pooled @ question_vector),
        )


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


def _find_in_sentence(query: _Query, sentence: _Sentence) -> Iterator[SpanCandidate]:
    """The spans of a sentence that may answer the question."""
    words = sentence.words
    spans = [span for span in find_candidates(words) if can_be_answer(words, *span, query.focus)]
    if not spans:
        return
    match = _match_words(query, sentence)
    for (first, last), features in zip(spans, _span_features(match, spans), strict=True):
        if not features[OTHER_VALUE]:
            nonzero = {name: round(float(value), 6) for name, value in features.items() if value}
            yield SpanCandidate(sentence.passage, words[first].start, words[last - 1].end, nonzero)


class _Query:
    """A question with the vectors and weights of its content words, and the words of each source."""

    def __init__(
        self, focus: QuestionFocus, tokens: TokenVectors, vector: FloatArray, sentences: Sequence[_Sentence]
    ) -> None:
        content = list(focus.content)
        vectors = _word_vectors(focus.words, tokens)
        self.focus = focus
        self.sentences = sentences
        self.vector = vector
        self.stems = [focus.words[n].stem for n in content]
        self.vectors = vectors[content]
        self.weights = _weigh_stems(self.stems, sentences)
        is_name = [n > 0 and (focus.words[n].is_capital or focus.words[n].is_number) for n in content]
        self.names = np.array(is_name, dtype=np.float32)
        self.is_thing = [focus.kind == "reason" or focus.words[n - 1].lower in DETERMINERS for n in content]
        """Whether a word follows an article or the like ("the bridge"), or a reason is asked for."""
        self.head = unit_rows(vectors[list(focus.head)].mean(axis=0, keepdims=True))[0] if focus.head else None
        self.wh = vectors[focus.wh] if focus.wh >= 0 else None
        self.best_cosine = max((sentence.cosine for sentence in sentences), default=0.0)
        self.source_stems = _collect_source_stems(sentences)


def _collect_source_stems(sentences: Sequence[_Sentence]) -> Mapping[str, set[str]]:
    """The stems of all sentences of each source."""
    stems = defaultdict[str, set[str]](set)
    for sentence in sentences:
        stems[sentence.passage.item.source_id] |= sentence.stems
    return stems


def _weigh_stems(stems: Sequence[str], sentences: Sequence[_Sentence]) -> FloatArray:
    """Weights of words with a sum of 1; words that are rare in the sentences weigh more."""
    counts = [sum(stem in sentence.stems for sentence in sentences) for stem in stems]
    weights = np.array([math.log((len(sentences) + 1.5) / (count + 0.5)) for count in counts], dtype=np.float32)
    return np.asarray(weights / max(float(weights.sum()), 1e-6))


@dataclass(frozen=True)
class _Match:
    """A sentence with the match of each of its words with each content word of the question."""

    query: _Query
    sentence: _Sentence
    equal: FloatArray
    """1 for words of the same stem, content words × words."""
    similar: FloatArray
    """Cosine of the words, at least 0."""


def _match_words(query: _Query, sentence: _Sentence) -> _Match:
    stems = [word.stem for word in sentence.words]
    equal = np.array([[float(a == b) for b in stems] for a in query.stems], dtype=np.float32)
    equal = equal.reshape(len(query.stems), len(stems))
    similar = np.maximum(query.vectors @ sentence.vectors.T, 0.0)
    if sentence.referent:  # the pronoun, the first word, stands for all words of the referent
        referent_stems = {word.stem for word in sentence.referent}
        equal[:, 0] = [float(stem in referent_stems) for stem in query.stems]
        similar[:, 0] = (query.vectors @ sentence.referent_vectors.T).max(axis=1, initial=0.0)
    return _Match(query, sentence, equal, np.maximum(similar, equal))


def _sentence_features(match: _Match) -> dict[str, float]:
    """Features of all spans of a sentence."""
    query = match.query
    sentence = match.sentence
    return {
        "long question": len(query.stems) / 10,
        f"asked {query.focus.kind}": 1.0,
        "sentence cosine": sentence.cosine,
        "sentence rank": 1 / (1 + sentence.passage.rank),
        "sentence gap": query.best_cosine - sentence.cosine,
        **_coverage_features(match),
    }


def _coverage_features(match: _Match) -> dict[str, float]:
    """How much of the question a sentence and its source say."""
    query = match.query
    passage = match.sentence.passage
    title = {word.stem for word in split_tokens(passage.item.title)}
    context = query.source_stems[passage.item.source_id] | title
    in_context = np.array([stem in context for stem in query.stems], dtype=np.float32)
    has = match.equal.max(axis=1, initial=0.0)
    in_either = np.maximum(has, in_context)
    similar = match.similar.max(axis=1, initial=0.0)
    things = np.array([a and b not in title for a, b in zip(query.is_thing, query.stems, strict=True)], np.float32)
    matched = query.weights @ has
    is_matched = matched >= 0.5 or _has_head(match)
    return {
        "matched": matched,
        "matched in context": query.weights @ in_either,
        "similar": query.weights @ similar,
        "least similar": similar.min(initial=1.0),
        "missing names": query.names @ (1 - has) / 2,
        MISSING_NAMES: query.names @ (1 - in_either) / 2,
        UNKNOWN_WORDS: bool(query.stems) and not in_either.any(),
        OTHER_THING: (things * in_context * (1 - has)).max(initial=0.0),
        "long sentence": len(match.sentence.words) / 40,
        "complete": float(has.all()),
        "complete in context": float(in_either.all() and is_matched),
    }


def _statement_features(match: _Match) -> dict[str, float]:
    """Features of a whole sentence as an answer: what it says of the question, and whether it has what is asked for."""
    focus = match.query.focus
    words = match.sentence.words
    shared = _sentence_features(match)
    kind = focus.kind
    has_kind = any(can_be_answer(words, *span, focus) for span in find_candidates(words))
    new_words = sum(word.is_content and word.stem not in focus.stems for word in words)
    best = match.similar.max(axis=1, initial=0.0)
    features = {
        **shared,
        f"{kind}: cosine": shared["sentence cosine"],
        f"{kind}: matched": shared["matched"],
        f"{kind}: has kind": has_kind,
        LACKS_KIND: kind in TYPED_KINDS and not has_kind,
        "unmatched words": (match.equal.max(axis=1, initial=0.0) == 0).sum() / 5,
        "dissimilar words": float((best < DISSIMILAR).sum()),
        "new words": min(new_words, NEW_WORDS) / NEW_WORDS,
        "head": _has_head(match),
        "verb": _has_last_verb(match),
        "heading": is_heading(match.sentence.passage.text),
    }
    return {name: round(float(value), 6) for name, value in features.items() if value}


def _has_last_verb(match: _Match) -> float:
    """Similarity of the question's last content word, often its verb, and the sentence."""
    return float(match.similar[-1].max(initial=0.0)) if len(match.similar) else 0.0


def _has_head(match: _Match) -> bool:
    """Whether a sentence has all words that name the answer, if there are any."""
    focus = match.query.focus
    head = {focus.words[n].stem for n in focus.head}
    return bool(head) and head <= {word.stem for word in match.sentence.words}


def _span_features(match: _Match, spans: Sequence[tuple[int, int]]) -> Iterator[dict[str, float]]:
    """Features of each span of a sentence, with those of the sentence."""
    words = match.sentence.words
    stems = match.query.focus.stems
    shared = _sentence_features(match)
    positions = _place_spans(match, np.array(spans))
    number_leads = _clause_leads(match, [word.is_number and word.stem not in stems for word in words])
    is_name = [word.is_capital and word.is_content and word.stem not in stems for word in words]
    name_leads = _clause_leads(match, is_name)
    for number, (first, last) in enumerate(spans):
        kind = candidate_kind(words[first:last], is_start=not first)
        lead = (number_leads if kind in NUMERIC_KINDS else name_leads)[first]
        yield {
            **shared,
            **{name: values[number] for name, values in positions.items()},
            **_kind_features(match, shared, kind, first, last),
            "clause lead": lead,
            f"{kind} clause lead": lead,
            **_label_features(match, first),
            "leads": lead > 0,
            "trails": lead < 0,
            OTHER_VALUE: lead < 0 and kind in NUMERIC_KINDS and shared["complete"],
            **_agent_features(match, first, last),
            **_neighbour_features(match, kind, first, last),
        }


def _kind_features(match: _Match, shared: Mapping[str, float], kind: str, first: int, last: int) -> dict[str, float]:
    """What kind of span it is, and whether the question asks for it."""
    focus = match.query.focus
    words = match.sentence.words
    fits = focus.fits(kind, words, first, last)
    content = [word for word in words[first:last] if word.is_content]
    overlap = sum(word.stem in focus.stems for word in content)
    length = math.log(last - first)
    return {
        f"{focus.kind}: {kind}": 1.0,
        f"kind {kind}": 1.0,
        "length": length,
        f"{kind} length": length,
        "words of the question": overlap / max(1, len(content)),
        "a word of the question": overlap > 0,
        "fits": fits,
        f"{focus.kind} fits": fits,
        "complete in context and fits": shared["complete in context"] * fits,
        f"complete {kind}": shared["complete"],
    }


def _neighbour_features(match: _Match, kind: str, first: int, last: int) -> dict[str, float]:
    """Classes of the words at both ends of a span and beside them."""
    words = match.sentence.words
    question_kind = match.query.focus.kind
    before = _word_class(words[first - 1]) if first else "start"
    after = _word_class(words[last]) if last < len(words) else "end"
    preposition = next((word for word in words[:first][::-1] if word.lower not in DETERMINERS), None)
    return {
        f"after {before}": 1.0,
        f"before {after}": 1.0,
        f"{question_kind}: after {before}": 1.0,
        f"{question_kind}: in {_word_class(preposition) if preposition else 'start'}": 1.0,
        f"first {_content_class(words[first])}": 1.0,
        f"last {_content_class(words[last - 1])}": 1.0,
        f"{kind}: after {before}": 1.0,
        f"{kind}: before {after}": 1.0,
    }


def _clause_leads(match: _Match, is_value: Sequence[bool]) -> list[float]:
    """For each word, how much more of the question its clause has than the best clause of another value.

    "95 euros" leads in "260 euros for adults and 95 euros for juniors" if the question asks about juniors. What
    precedes the first value belongs to all.
    """
    words = match.sentence.words
    starts = _find_clauses(words, is_value)
    if len(starts) < 2:
        return [0.0] * len(words)
    weights = match.query.weights
    clauses = pairwise([*starts, len(words)])
    shares = [float(weights @ match.equal[:, low:high].max(axis=1, initial=0.0)) for low, high in clauses]
    leads = [share - max(shares[:n] + shares[n + 1 :]) for n, share in enumerate(shares)]
    return [leads[max(0, bisect_right(starts, n) - 1)] for n in range(len(words))]


def _find_clauses(words: Sequence[Word], is_value: Sequence[bool]) -> list[int]:
    """Starts of the clauses of values: at the last comma after the value before, else at the last "and"."""
    starts = list[int]()
    end = 0
    for n in (n for n in range(len(words)) if is_value[n]):
        joins = [k for k in range(end, n) if words[k].lower in LISTS["clause_joining"]]
        join = ([k for k in joins if words[k].is_mark] or joins or [n])[-1]  # "26 euros, pupils and students 9 euros"
        if not starts or join < n or n - end > 1:  # otherwise the value goes on: "12 June 1941"
            starts.append(join if starts else n)
        end = n + 1
    return starts


def _label_features(match: _Match, first: int) -> dict[str, float]:
    """How much of the question is in the label of a span, and of the label in the question: "Fan oven: 170 °C"."""
    words = match.sentence.words
    colon = next((n for n in reversed(range(first)) if words[n].text in ":;."), 0)
    if words[colon].text != ":":
        return {}
    start = next((n + 1 for n in reversed(range(colon)) if words[n].is_mark), 0)
    label = [word.stem for word in words[start:colon] if word.is_content]
    shared = sum(stem in match.query.focus.stems for stem in label)
    weight = match.query.weights @ match.equal[:, start:colon].max(axis=1, initial=0.0)
    return {"label matched": weight, "label in question": shared / max(1, len(label)), "labelled": 1.0}


def _agent_features(match: _Match, first: int, last: int) -> dict[str, float]:
    """How well the question's verb matches the verb that a span is the subject or, after "by", the agent of."""
    if match.query.focus.verb is None:
        return {}
    words = match.sentence.words
    verb = match.similar[match.query.focus.verb]
    start = first  # "by the architect Paul Weber": a name may follow its noun
    while start and words[first].is_capital and not words[start - 1].is_capital and words[start - 1].is_content:
        start -= 1
    while start and words[start - 1].lower in DETERMINERS:
        start -= 1
    if start and words[start - 1].lower == "by":
        return {"passive agent": verb[max(0, start - 1 - AGENT_REACH) : start - 1].max(initial=0.0)}
    return {"active agent": verb[last : last + 3].max(initial=0.0)}


def _place_spans(match: _Match, spans: npt.NDArray[np.intp]) -> dict[str, FloatArray]:
    """Numeric features of the spans of a sentence: nearness to the words of the question, and vectors."""
    first = spans[:, :1]
    last = spans[:, 1:]
    positions = np.arange(len(match.sentence.words))[None, :]
    distance = np.maximum(np.maximum(first - positions, positions - last + 1), 0)
    outside = (distance > 0).astype(np.float32)
    inside = 1 - outside
    near = np.exp(-(distance - 1) / REACH) * outside
    return {
        "near equal": _best_matches(match.query, match.equal, near),
        "near similar": _best_matches(match.query, match.similar, near),
        "similar outside": _best_matches(match.query, match.similar, outside),
        "similar inside": _best_matches(match.query, match.similar, inside),
        **_cosine_features(match, spans[:, 1] - 1, inside),
    }


def _best_matches(query: _Query, similarity: FloatArray, factor: FloatArray) -> FloatArray:
    """Weighted mean over the words of the question of their best match, for each span, a row of ``factor``."""
    if not query.stems:
        return np.zeros(len(factor), dtype=np.float32)
    return np.asarray((similarity[None] * factor[:, None, :]).max(axis=2) @ query.weights, dtype=np.float32)


def _cosine_features(match: _Match, last_words: npt.NDArray[np.intp], inside: FloatArray) -> dict[str, FloatArray]:
    """Cosines of the spans and of their last words with the question, its question word and its head."""
    query = match.query
    vectors: FloatArray = unit_rows(inside @ match.sentence.vectors)
    features = {"span and question": vectors @ query.vector}
    if query.wh is not None:
        features[f"span and question word {query.focus.kind}"] = vectors @ query.wh
    if query.head is not None:
        features["span and head"] = vectors @ query.head
        features["last word and head"] = match.sentence.vectors[last_words] @ query.head
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
