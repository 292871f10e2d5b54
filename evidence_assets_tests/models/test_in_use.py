"""The encoder that remembers gives what the encoder gives, and asks it once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evidence_assets.models import in_use as models_in_use
from evidence_assets.models.in_use import RememberingEncoder


class Counting:
    """A stand-in whose vectors are made of the text alone; remembers what it was asked."""

    model_id, revision, dimensions, max_tokens = "counting", "1", 2, 100

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def tokens(self, texts: Sequence[str]) -> list[Any]:
        return []

    def sentences(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)


def test_each_text_is_encoded_once_and_given_in_the_order_asked() -> None:
    inner = Counting()
    encoder = RememberingEncoder(inner)
    texts = ["a", "bb", "a", "ccc"]
    assert np.array_equal(encoder.sentences(texts), Counting().sentences(texts))
    assert np.array_equal(encoder.sentences(["ccc", "d"]), Counting().sentences(["ccc", "d"]))
    assert inner.asked == ["a", "bb", "ccc", "d"]
    assert encoder.sentences([]).shape == (0, 2)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models_in_use, "REMEMBERED", 3)
    encoder = RememberingEncoder(Counting())
    for text in "abcdefg":
        encoder.sentences([text])
    assert len(encoder._known) == 3
    assert np.array_equal(encoder.sentences(["a", "g"]), Counting().sentences(["a", "g"]))
