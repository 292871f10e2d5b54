"""Linking by name: each rule, their order, exactness of the fuzzy rule, spans, and names that are no names."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz import fuzz

from evidence_assets.graphs.entity_linking import EntityLinker, NameVectors
from evidence_assets.graphs.keyphrases import candidate_phrases, extract_concepts
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.words import name_key, words_with_offsets


def letter_vectors(texts: Sequence[str]) -> np.ndarray:
    """A transparent stand-in for an encoder: letter counts."""
    return np.array([[text.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for text in texts], dtype=np.float32)


class Exact:
    """Looks at all vectors."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._vectors = unit_rows(letter_vectors(texts))

    def __len__(self) -> int:
        return len(self._vectors)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores = queries @ self._vectors.T
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, rows, 1), rows


def test_rules_are_tried_in_order_and_recorded() -> None:
    surfaces = ["Paris", "paris", "food court", "make bread", "swimming pool", "listen"]
    linker, near = EntityLinker(surfaces), NameVectors(Exact(surfaces), letter_vectors)
    assert linker.link("Paris") == linker.link(" Paris ").__class__("Paris", "exact", 1.0, (0,))
    assert (linker.link("PARIS").rule, linker.link("PARIS").nodes) == ("normalised", (0, 1))
    assert (linker.link("Food Courts").rule, linker.link("Food Courts").nodes) == ("normalised", (2,))
    assert linker.link("the food-court").nodes == (2,)
    assert (linker.link("making bread").rule, linker.link("making bread").nodes) == ("normalised", (3,))
    fuzzy = linker.link("swiming poool")
    assert (fuzzy.rule, fuzzy.nodes) == ("fuzzy", (4,))
    assert fuzzy.score == pytest.approx(fuzz.ratio("swiming poool", "swimming pool") / 100)
    (anagram,) = linker.link_many(["silent"], near)
    assert (anagram.rule, anagram.nodes) == ("embedding", (5,))
    assert anagram.score == pytest.approx(1.0)
    assert linker.link("silent").rule == "none"
    assert linker.link("zzz").rule == "none"


@given(
    st.lists(st.sampled_from(["new york", "york", "new", "dog", "hot dog", "dogs run"]), min_size=1, unique=True),
    st.lists(st.sampled_from(["New", "York", "dogs", "hot", "run", "xyz,", "-"]), max_size=9),
)
@settings(max_examples=60, deadline=None)
def test_spans_equal_a_search_by_word_windows(names: list[str], words: list[str]) -> None:
    text, keys = " ".join(words), {name_key(name) for name in names}
    results, position = [], 0
    tokens = words_with_offsets(text)
    while position < len(tokens):
        for stop in range(len(tokens), position, -1):
            piece = text[tokens[position][1] : tokens[stop - 1][2]]
            if name_key(piece) in keys:
                results.append(piece)
                position = stop
                break
        else:
            position += 1
    spans = EntityLinker(names).find_spans(text)
    assert [text[span.start : span.end] for span in spans] == results
    assert all(span.link.nodes for span in spans)


def test_spans_keep_to_word_boundaries_and_skip_filler() -> None:
    linker = EntityLinker(["art", "what", "The Who", "people", "Müller"])
    assert linker.find_spans("Party of artists: what do people do?") == []
    text = "Did the Who hear MÜLLER's art?"
    assert [text[s.start : s.end] for s in linker.find_spans(text)] == ["MÜLLER", "art"]


def test_names_without_words_link_only_to_themselves() -> None:
    linker = EntityLinker(["", "  ", "+", "dog"], [0, 1, 2, 3])
    assert linker.link("+").nodes == (2,)
    assert not linker.link("").nodes
    assert not linker.link("???").nodes
    assert linker.find_spans("") == linker.find_spans("?!") == []
    empty = EntityLinker([])
    assert not empty.link("dog").nodes
    assert empty.find_spans("dog") == []


# Concept extraction: what counts as a candidate, the choice against a slow one, and texts without concepts


def encode(texts: Sequence[str]) -> np.ndarray:
    """Random but reproducible vectors."""
    seeds = [sum((i + 1) * ord(c) for i, c in enumerate(text)) for text in texts]
    return np.stack([np.random.default_rng(seed).normal(size=12).astype(np.float32) for seed in seeds])


def phrases(text: str) -> list[str]:
    return [phrase for phrase, _, _ in candidate_phrases(text)]


def test_candidates_keep_edges_free_of_stop_words_and_cross_no_punctuation() -> None:
    assert phrases("The point of view, a deep-sea fish") == [
        "point",
        "point of view",
        "view",
        "deep",
        "deep-sea",
        "deep-sea fish",
        "sea",
        "sea fish",
        "fish",
    ]
    assert phrases("a dog's bone") == ["dog", "dog's bone", "bone"]
    assert phrases("Dogs and dog and DOGS") == ["Dogs", "Dogs and dog"]
    assert phrases("something different, 12 people") == []
    assert phrases("12 eggs") == ["12 eggs", "eggs"]


def test_choice_equals_a_slow_reference() -> None:
    text = "Frilled sharks and angler fish live far beneath the surface of the ocean"
    names = phrases(text)

    def cosine(a: str, b: str) -> float:
        x, y = encode([a])[0].astype(float), encode([b])[0].astype(float)
        return round(float(x @ y / np.linalg.norm(x) / np.linalg.norm(y)), 6)

    expected: list[str] = [max(names, key=lambda p: cosine(p, text))]
    while len(expected) < 6:
        expected.append(
            max(
                (p for p in names if p not in expected),
                key=lambda p: cosine(p, text) - max(cosine(p, s) for s in expected),
            )
        )
    results = extract_concepts([text], encode, top_n=6)[0]
    assert [concept.text for concept in results] == expected
