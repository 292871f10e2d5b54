"""Words and layers of the real encoder: a view returns what its definition says of the encoder's own output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import Encoder, LayeredEncoder
from evidence_assets.systems.uscrake.token_views import WordMeans

TEXTS = ["Hyponatraemia is treated with tolvaptan.", "", "Bees make honey!", "naïve café-owners, e.g. ours"]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(EMBEDDED_ENCODER, dtype="float32", device="cpu")


def test_layers_are_the_networks_hidden_states(encoder: Any) -> None:
    assert isinstance(encoder, LayeredEncoder)
    last, five = encoder.encode_tokens(TEXTS), encoder.token_layers(TEXTS, 5)
    model, tokenizer = encoder._model.network, encoder._tokenizer
    for text, one, layered in zip(TEXTS, last, five, strict=True):
        assert layered.vectors.shape == (len(one.tokens), 5 * 384)
        np.testing.assert_allclose(layered.vectors[:, -384:], one.vectors, atol=1e-5)
        assert layered.tokens == one.tokens and (layered.offsets == one.offsets).all()
        with torch.inference_mode():
            ids = torch.tensor([tokenizer.encode(text).ids])
            states = model(input_ids=ids, output_hidden_states=True).hidden_states
        for back in range(5):
            expected = states[-5 + back][0, 1:-1].numpy()
            np.testing.assert_allclose(layered.vectors[:, 384 * back : 384 * (back + 1)], expected, atol=1e-4)
    with pytest.raises(BadInput, match="has 7 layers"):
        encoder.token_layers(TEXTS, 8)


def test_words_are_means_of_their_pieces(encoder: Any) -> None:
    view = WordMeans(encoder)
    assert encoder.count_words(TEXTS) == view.count_tokens(TEXTS)
    for text, words, pieces in zip(TEXTS, view.encode_tokens(TEXTS), encoder.encode_tokens(TEXTS), strict=True):
        assert len(words.tokens) == view.count_tokens([text])[0] == len(set(pieces.words.tolist()))
        for i, (form, (a, b)) in enumerate(zip(words.tokens, words.offsets.tolist(), strict=True)):
            assert text[a:b].casefold() == form
            in_word = pieces.words == sorted(set(pieces.words.tolist()))[i]
            np.testing.assert_allclose(words.vectors[i], pieces.vectors[in_word].mean(axis=0), atol=1e-6)
    assert view.encode_tokens(TEXTS)[0].tokens == ("hyponatraemia", "is", "treated", "with", "tolvaptan", ".")
