"""A served encoder: vectors in order and of unit length, and faults of a local server."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evidence_assets.graphs.passages import node_passages
from evidence_assets.lake.errors import BadInput, TemporarilyUnavailable
from evidence_assets.models.diagnosis import diagnose
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.models.served_models import TEXTS_PER_REQUEST, ServedEncoder
from evidence_assets.profiles import EncoderSettings, load
from evidence_assets_tests.models.servers import MODEL, FaultyServer, mock_embedding
from evidence_assets_tests.systems.four_step_focus.test_system import BASE, DOCUMENTS, make_base

TEXTS = [f"{'abcdefghij'[n % 10] * (1 + n % 7)} and text {n}" for n in range(3 * TEXTS_PER_REQUEST + 1)]


def make_client(server: FaultyServer, **settings: Any) -> ServedEncoder:
    return ServedEncoder(MODEL, base_url=server.url, **{"attempts": 3, "timeout_seconds": 10.0} | settings)


def test_served_vectors_are_in_order_and_of_unit_length(server: FaultyServer) -> None:
    model = make_client(server, concurrency=2)
    expected = np.array([mock_embedding(text) for text in TEXTS])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode_sentences(TEXTS), expected, rtol=1e-6)
    assert sorted(len(body["input"]) for body in server.bodies) == [
        1,
        TEXTS_PER_REQUEST,
        TEXTS_PER_REQUEST,
        TEXTS_PER_REQUEST,
    ]
    assert {body["model"] for body in server.bodies} == {MODEL} and 1 < server.max_in_flight <= 2
    assert isinstance(model, Encoder) and model.dimensions == 11 and model.encode_sentences([]).shape == (0, 11)


def test_temporary_faults_are_retried_and_lasting_faults_fail_the_step(server: FaultyServer) -> None:
    server.plan = ["429", "429"]
    assert make_client(server).encode_sentences(["cab"]).shape == (1, 11) and len(server.bodies) == 3
    server.default_behaviour = "other body"
    with pytest.raises(TemporarilyUnavailable, match="returned no vectors: the reply contains none"):
        make_client(server).encode_sentences(["cab"])


def test_texts_that_are_too_long_or_refused_are_reported(server: FaultyServer) -> None:
    model = make_client(server, max_tokens=20)
    with pytest.raises(BadInput, match=r"longer than the 20 that test-model reads.*it begins 'cab cab"):
        model.encode_sentences(["cab " * 30])
    assert model.count_tokens(["กขคงจฉช" * 40]) >= [210], "no lower than one for four bytes"
    assert server.bodies == []
    server.default_behaviour = "400"
    with pytest.raises(BadInput, match=r"the 400 you asked for\. Shorten the one that begins 'cabbage'"):
        model.encode_sentences(["cab", "cabbage"])


def test_a_served_encoder_in_a_profile_determines_the_passage_length(server: FaultyServer) -> None:
    settings = EncoderSettings(name=MODEL, base_url=server.url, max_tokens=8191)
    model = get_encoder(settings)
    assert model_key(model) == f"{MODEL}@served" and model.max_tokens == 8191
    model.encode_sentences(["cab"])
    model.encode_sentences(["cab"])  # remembered
    assert len([body for body in server.bodies if body["input"] == ["cab"]]) == 1
    long = "It thins blood, slowly. " * 300
    base = make_base(documents=[long, *DOCUMENTS[1:]])
    assert [p.end - p.start for p in node_passages(base, model) if p.owner_id == "n0" and p.start >= 0] == [
        len(long.rstrip())
    ]
    passages = [p for p in node_passages(base, model, tokens=128) if p.owner_id == "n0" and p.start >= 0]
    assert len(passages) > 10 and max(model.count_tokens([p.text for p in passages])) <= 128
    profile = load().model_copy(update={"encoders": {"ada": settings}})
    assert [f.status for f in diagnose(profile) if f.requirement == "encoder server"] == [
        f"{server.url}/models serves {MODEL}"
    ]
    assert len(BASE) == len(base)
