"""A served encoder: the vectors that a server on this machine gives, in order and of unit length, and its faults."""

from __future__ import annotations

import numpy as np
import pytest

from evidence_assets.graphs.passages import node_passages
from evidence_assets.lake.errors import BadInput, TemporarilyUnavailable
from evidence_assets.models.diagnosis import diagnose
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.models.served_models import TEXTS_PER_REQUEST, ServedEncoder
from evidence_assets.profiles import EncoderSettings, load
from evidence_assets_tests.models.servers import MODEL, FaultyServer, embedded
from evidence_assets_tests.systems.four_step_focus.test_system import BASE, DOCUMENTS, make_base

TEXTS = [f"{'abcdefghij'[n % 10] * (1 + n % 7)} and text {n}" for n in range(3 * TEXTS_PER_REQUEST + 1)]


def asking(server: FaultyServer, **settings: object) -> ServedEncoder:
    return ServedEncoder(MODEL, base_url=server.url, **{"attempts": 3, "timeout_seconds": 10.0} | settings)  # type: ignore[arg-type]


def test_vectors_are_the_servers_in_order_and_of_unit_length(server: FaultyServer) -> None:
    model = asking(server, concurrency=2)
    expected = np.array([embedded(text) for text in TEXTS])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode_sentences(TEXTS), expected, rtol=1e-6)
    assert sorted(len(body["input"]) for body in server.bodies) == [
        1,
        TEXTS_PER_REQUEST,
        TEXTS_PER_REQUEST,
        TEXTS_PER_REQUEST,
    ]
    assert {body["model"] for body in server.bodies} == {MODEL} and 1 < server.most_under_way <= 2
    assert isinstance(model, Encoder) and model.dimensions == 11 and model.encode_sentences([]).shape == (0, 11)


@pytest.mark.parametrize("fault", ["429", "other body"])
def test_a_passing_fault_is_tried_again_and_a_lasting_one_fails_the_step(server: FaultyServer, fault: str) -> None:
    server.plan = [fault, fault]
    assert asking(server).encode_sentences(["cab"]).shape == (1, 11) and len(server.bodies) == 3
    server.always = fault
    with pytest.raises(TemporarilyUnavailable, match="returned no vectors after 3 attempts"):
        asking(server).encode_sentences(["cab"])


def test_what_cannot_be_encoded_is_named_and_nothing_is_cut(server: FaultyServer) -> None:
    model = asking(server, max_tokens=20)
    with pytest.raises(BadInput, match=r"longer than the 20 that test-model reads.*it begins 'cab cab"):
        model.encode_sentences(["cab " * 30])
    assert model.count_tokens(["กขคงจฉช" * 40]) >= [210], "no lower than one for four bytes"
    assert server.bodies == []
    server.always = "400"
    with pytest.raises(BadInput, match="the 400 you asked for; one begins 'cabbage'"):
        model.encode_sentences(["cab", "cabbage"])


def test_the_revision_is_what_the_server_says_of_the_model_else_the_stated_one(server: FaultyServer) -> None:
    assert (asking(server).revision, asking(server, revision="v2").revision) == ("served", "v2")
    server.listed = {"root": "vendor/weights-7"}
    assert asking(server, revision="v2").revision == "weights-7"


def test_a_profile_names_it_as_any_other_and_passages_are_as_long_as_it_reads(server: FaultyServer) -> None:
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
    cut = [p for p in node_passages(base, model, tokens=128) if p.owner_id == "n0" and p.start >= 0]
    assert len(cut) > 10 and max(model.count_tokens([p.text for p in cut])) <= 128
    profile = load().model_copy(update={"encoders": {"ada": settings}})
    assert [f.status for f in diagnose(profile) if f.requirement == "encoder server"] == [
        f"{server.url}/models serves {MODEL}"
    ]
    assert len(BASE) == len(base)
