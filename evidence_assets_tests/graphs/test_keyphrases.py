"""Concept extraction: what counts as a candidate, the choice against a slow one, and texts without concepts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from evidence_assets.graphs.keyphrases import candidate_phrases, extract_concepts


class CountingEncoder:
    """Random but reproducible vectors, and a record of what was asked."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(list(texts))
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


@pytest.mark.parametrize("diversity", [0.0, 0.3, 0.7, 1.0])
def test_choice_equals_a_slow_reference(diversity: float) -> None:
    text = "Frilled sharks and angler fish live far beneath the surface of the ocean"
    encode = CountingEncoder()
    names = phrases(text)

    def cosine(a: str, b: str) -> float:
        x, y = encode([a])[0].astype(float), encode([b])[0].astype(float)
        return round(float(x @ y / np.linalg.norm(x) / np.linalg.norm(y)), 6)

    expected: list[str] = [max(names, key=lambda p: cosine(p, text))]
    while len(expected) < 6:
        expected.append(
            max(
                (p for p in names if p not in expected),
                key=lambda p: (1 - diversity) * cosine(p, text) - diversity * max(cosine(p, s) for s in expected),
            )
        )
    results = extract_concepts([text], encode, top_n=6, diversity=diversity)[0]
    assert [concept.text for concept in results] == expected
    assert [concept.score for concept in results] == pytest.approx([cosine(p, text) for p in expected], abs=1e-6)


def test_many_texts_are_encoded_once_in_one_call_and_do_not_depend_on_each_other() -> None:
    texts = ["A red dog barks", "", "What is it?", "A red dog barks", "The red dog sleeps"]
    encode = CountingEncoder()
    joint = extract_concepts(texts, encode)
    assert len(encode.calls) == 1
    assert len(encode.calls[0]) == len(set(encode.calls[0]))
    assert joint == [extract_concepts([text], CountingEncoder())[0] for text in texts]
    assert joint[1] == joint[2] == []
