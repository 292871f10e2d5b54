"""Features of the spans of sentences that may answer a question, from rules of English and an encoder's vectors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evidence_assets.models.protocols import Encoder, FloatArray, TokenVectors
from evidence_assets.models.vectors import unit_rows
from evidence_assets.reasoning.spans.candidates import (
    DETERMINERS,
    LISTS,
    Word,
    candidate_kind,
    find_candidates,
    split_tokens,
)
from evidence_assets.reasoning.spans.passages import Passage
from evidence_assets.reasoning.spans.questions import QuestionFocus, analyze_question, can_be_answer

_OWN_CLASSES = ("by", "of", "to", "from", "as", "and", "or", "for", "with", "the", ",")
_FUNCTION_WORDS = {word: frozenset({word}) for word in _OWN_CLASSES} | {
    name: LISTS[name] for name in ("place_prepositions", "determiners", "auxiliaries", "prepositions")
}
REACH = 4.0
"""Words over which the nearness of a span to a matched word falls to 1/e."""
MISSING_NAMES = "missing names in context"
"""Feature: names and numbers of the question that are in no passage of the sentence's source."""


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
    """A passage as words, those of its pronoun's referent first, with their vectors."""

    passage: Passage
    n_referent: int
    words: list[Word]
    vectors: FloatArray
    cosine: float
    """Of the sentence and the question."""

    @property
    def stems(self) -> list[str]:
        return [word.stem for word in self.words]


@dataclass(frozen=True)
class _Query:
    """The content words of a question, with their vectors and weights."""

    focus: QuestionFocus
    stems: list[str]
    vectors: FloatArray
    weights: FloatArray
    """Rare words of the passages weigh more; the sum is 1."""
    names: FloatArray
    """1 for names and numbers."""
    wh: FloatArray | None
    """Vector of the question word."""


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
    sentences = [
        sentence for passage in passages if (sentence := _analyze_sentence(passage, tokens, question_vector)).words
    ]
    query = _analyze_query(focus, _word_vectors(focus.words, tokens[question]), sentences)
    best = max((sentence.cosine for sentence in sentences), default=0.0)
    candidates = []
    for sentence in sentences:
        words = sentence.words[sentence.n_referent :]
        spans = [span for span in find_candidates(words) if can_be_answer(words, *span, focus)]
        for (first, last), features in zip(spans, _span_features(query, sentence, sentences, spans, best), strict=True):
            nonzero = {name: round(float(value), 6) for name, value in features.items() if value}
            candidates.append(SpanCandidate(sentence.passage, words[first].start, words[last - 1].end, nonzero))
    return candidates


def _analyze_sentence(passage: Passage, tokens: Mapping[str, TokenVectors], question: FloatArray) -> _Sentence:
    """The words of a passage; none if it is too long for the encoder."""
    parts = [text for text in (passage.referent, passage.text) if text in tokens and passage.text in tokens]
    words = [split_tokens(text) for text in parts]
    n_referent = len(words[0]) if len(parts) > 1 else 0
    if not parts or not words[-1]:
        return _Sentence(passage, 0, [], np.zeros((0, len(question)), np.float32), 0.0)
    vectors = np.concatenate([_word_vectors(w, tokens[text]) for w, text in zip(words, parts, strict=True)])
    pooled = unit_rows(np.concatenate([tokens[text].vectors for text in parts]).mean(axis=0))
    return _Sentence(passage, n_referent, [w for part in words for w in part], vectors, float(pooled @ question))


def _word_vectors(words: Sequence[Word], tokens: TokenVectors) -> FloatArray:
    """Unit vectors of words, each the mean of its tokens' vectors; zero for a word without tokens."""
    vectors = np.zeros((len(words), tokens.vectors.shape[1]), dtype=np.float32)
    starts, ends = tokens.offsets[:, 0], tokens.offsets[:, 1]
    for number, word in enumerate(words):
        inside = (starts < word.end) & (ends > word.start)
        if inside.any():
            vectors[number] = tokens.vectors[inside].mean(axis=0)
    return unit_rows(vectors)


def _analyze_query(focus: QuestionFocus, vectors: FloatArray, sentences: Sequence[_Sentence]) -> _Query:
    content = list(focus.content)
    stems = [focus.words[n].stem for n in content]
    stem_sets = [set(sentence.stems) for sentence in sentences]
    counts = [sum(stem in stem_set for stem_set in stem_sets) for stem in stems]
    weights = np.array([math.log((len(sentences) + 1.5) / (count + 0.5)) for count in counts], dtype=np.float32)
    names = [float(n > 0 and (focus.words[n].is_capital or focus.words[n].is_number)) for n in content]
    wh = vectors[focus.wh] if focus.wh >= 0 else None
    weights /= max(float(weights.sum()), 1e-6)
    return _Query(focus, stems, vectors[content], weights, np.array(names, dtype=np.float32), wh)


def _sentence_features(
    query: _Query, sentence: _Sentence, sentences: Sequence[_Sentence], equal: FloatArray, similar: FloatArray
) -> dict[str, float]:
    """Features of a sentence: the content words of the question that it or other sentences of its source have."""
    same_source = [other for other in sentences if other.passage.source_id == sentence.passage.source_id]
    context = {stem for other in same_source for stem in other.stems}
    context |= {word.stem for word in split_tokens(sentence.passage.title)}
    weights, has, best_similar = query.weights, equal.max(axis=1, initial=0.0), similar.max(axis=1, initial=0.0)
    in_context = np.maximum(has, np.array([stem in context for stem in query.stems], dtype=np.float32))
    return {
        f"asked {query.focus.kind}": 1.0,
        "long question": len(query.stems) / 10,
        "sentence cosine": sentence.cosine,
        "sentence rank": 1 / (1 + sentence.passage.rank),
        "matched": float(weights @ has),
        "matched in context": float(weights @ in_context),
        "similar": float(weights @ best_similar),
        "least similar": float(best_similar.min(initial=1.0)),
        "missing names": float(query.names @ (1 - has)) / 2,
        MISSING_NAMES: float(query.names @ (1 - in_context)) / 2,
        "complete": float(has.all()),
        "complete in context": float(in_context.all() and weights @ has >= 0.5),
    }


def _span_features(
    query: _Query, sentence: _Sentence, sentences: Sequence[_Sentence], spans: Sequence[tuple[int, int]], best: float
) -> Iterator[dict[str, float]]:
    """Features of each span of a sentence, with those of the sentence."""
    if not spans:
        return
    focus, words = query.focus, sentence.words[sentence.n_referent :]
    equal = np.array([[float(a == b) for b in sentence.stems] for a in query.stems], dtype=np.float32)
    equal = equal.reshape(len(query.stems), len(sentence.words))
    similar = np.maximum(np.maximum(query.vectors @ sentence.vectors.T, 0.0), equal)
    shared = _sentence_features(query, sentence, sentences, equal, similar)
    shared["sentence gap"] = best - sentence.cosine
    numeric = _place_spans(query, sentence, equal, similar, np.array(spans) + sentence.n_referent)
    for number, (first, last) in enumerate(spans):
        kind, span = candidate_kind(words[first:last], is_start=not first), words[first:last]
        content = [word.stem for word in span if word.is_content]
        fits = float(focus.fits(kind, words, first, last))
        before = _word_class(words[first - 1]) if first else "start"
        after = _word_class(words[last]) if last < len(words) else "end"
        preposition = next((_word_class(w) for w in words[:first][::-1] if w.lower not in DETERMINERS), "start")
        yield {
            **shared,
            **{name: float(values[number]) for name, values in numeric.items()},
            f"{focus.kind}: {kind}": 1.0,
            f"kind {kind}": 1.0,
            "length": math.log(last - first),
            f"{kind} length": math.log(last - first),
            "words of the question": sum(stem in focus.stems for stem in content) / max(1, len(content)),
            f"{focus.kind} fits": fits,
            "complete and fits": shared["complete"] * fits,
            "complete in context and fits": shared["complete in context"] * fits,
            f"complete {kind}": shared["complete"],
            "head inside": float(bool(focus.head_stems & {word.stem for word in span})),
            "head after": float(bool(focus.head_stems & {word.stem for word in words[last : last + 2]})),
            "ends with head": float(span[-1].stem in focus.head_stems),
            f"after {before}": 1.0,
            f"before {after}": 1.0,
            f"{focus.kind}: after {before}": 1.0,
            f"{focus.kind}: in {preposition}": 1.0,
            f"{kind}: after {before}": 1.0,
            f"{kind}: before {after}": 1.0,
            f"first {_word_class(span[0])}": 1.0,
            f"last {_word_class(span[-1])}": 1.0,
        }


def _place_spans(
    query: _Query, sentence: _Sentence, equal: FloatArray, similar: FloatArray, spans: npt.NDArray[np.intp]
) -> dict[str, FloatArray]:
    """Numeric features of the spans of a sentence: nearness to the words of the question, and vectors."""
    first, last, positions = spans[:, :1], spans[:, 1:], np.arange(len(sentence.words))[None, :]
    distance = np.maximum(np.maximum(first - positions, positions - last + 1), 0)
    outside = (distance > 0).astype(np.float32)
    near = np.exp(-(distance - 1) / REACH) * outside

    def best(similarity: FloatArray, factor: FloatArray) -> FloatArray:
        """Weighted mean over the words of the question of their best match, for each span."""
        matches = (similarity[None] * factor[:, None, :]).max(axis=2, initial=0.0)
        return np.asarray(matches @ query.weights, dtype=np.float32)

    role = "subject" if query.focus.is_subject else "object"
    is_before = (similar[None] * outside[:, None, :]).argmax(axis=2) < first if len(query.stems) else outside[:, :0]
    left = is_before.astype(np.float32) @ query.weights - 0.5
    features = {
        "near equal": best(equal, near),
        "near similar": best(similar, near),
        "similar outside": best(similar, outside),
        "similar inside": best(similar, 1 - outside),
        f"{role} left": left,
        f"{query.focus.kind} left": left,
    }
    if query.wh is not None:
        features[f"span and question word {query.focus.kind}"] = unit_rows((1 - outside) @ sentence.vectors) @ query.wh
    return features


def _word_class(word: Word) -> str:
    """Class of a word by its form, or of a function word by its list."""
    if word.is_number:
        return "number"
    if word.is_content:
        endings = ("ed", "ing", "ly", "s")
        return "name" if word.is_capital else next((f"-{e}" for e in endings if word.lower.endswith(e)), "word")
    lists = (name for name, words in _FUNCTION_WORDS.items() if word.lower in words)
    return next(lists, "mark" if word.is_mark else "function word")
