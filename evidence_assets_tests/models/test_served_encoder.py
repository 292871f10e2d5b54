"""Encoders on a server: the contract of encoders, retries, the cache of a lake, and what each fault says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from evidence_assets import profiles
from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.cli import app
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.lake import connect
from evidence_assets.lake.errors import BadInput, ModelUnavailable, TemporarilyUnavailable
from evidence_assets.lake.store import Lake
from evidence_assets.models.diagnosis import diagnose
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.registry import get_encoder, model_key
from evidence_assets.models.served_encoder import TEXTS_PER_REQUEST, ServedEncoder
from evidence_assets.profiles import EncoderSettings
from evidence_assets_tests.models.servers import MODEL, FaultyServer, closed_port, mock_embedding, running
from evidence_assets_tests.models.test_encoders import EncoderContract

TEXTS = [f"{'abcdefghij'[n % 10] * (1 + n % 7)} and text {n}" for n in range(3 * TEXTS_PER_REQUEST + 1)]


def make_client(server: FaultyServer, **settings: Any) -> ServedEncoder:
    return ServedEncoder(MODEL, base_url=server.url, **{"attempts": 3, "timeout_seconds": 10.0} | settings)


class TestServedEncoder(EncoderContract):
    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> Iterator[Encoder]:
        with running(FaultyServer().app) as url:
            yield ServedEncoder(MODEL, base_url=url, max_tokens=64)


def test_vectors_are_in_order_and_of_unit_length(server: FaultyServer) -> None:
    encoder = make_client(server, concurrency=2)
    expected = np.array([mock_embedding(text) for text in TEXTS])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode_sentences(TEXTS), expected, rtol=1e-6)
    sizes = sorted(len(body["input"]) for body in server.bodies)
    assert sizes == [1, 1, *[TEXTS_PER_REQUEST] * 3], "one text to learn the number of dimensions"
    assert {body["model"] for body in server.bodies} == {MODEL} and 1 < server.max_in_flight <= 2


def test_a_busy_server_is_asked_again(server: FaultyServer) -> None:
    encoder = make_client(server)
    server.plan = ["429", "503"]
    assert encoder.encode_sentences(["cab"]).shape == (1, 11)
    assert [body["input"] for body in server.bodies[:3]] == [["cab"]] * 3


@pytest.mark.parametrize(
    ("behaviour", "error", "message"),
    [
        ("429", TemporarilyUnavailable, r"returned no vectors: HTTP 429: .*Check that it is running, then retry"),
        ("500", TemporarilyUnavailable, r"returned no vectors: HTTP 500"),
        ("cut", TemporarilyUnavailable, r"returned no vectors: connection failed"),
        ("other body", TemporarilyUnavailable, r"returned no vectors: the reply contains none"),
        ("ragged", TemporarilyUnavailable, r"returned no vectors: the reply contains none"),
        ("401", ModelUnavailable, r"rejected the API key \(401\)\. Set the environment variable OPENAI_API_KEY"),
        ("wide", ModelUnavailable, r"vectors of 12 numbers for test-model, and of 11 before: another model is served"),
        ("too few", ModelUnavailable, r"not one for each text\. Serve one embedding model"),
        ("no numbers", ModelUnavailable, r"test-model yields values that are not numbers"),
        (
            "413",
            BadInput,
            r"refused texts \(413\): the 413 you .*\. Shorten the one that begins 'cabbage', or lower max_t",
        ),
    ],
)
def test_a_fault_says_what_to_do(behaviour: str, error: type[Exception], message: str, server: FaultyServer) -> None:
    encoder = make_client(server)
    assert encoder.dimensions == 11
    server.default_behaviour = behaviour
    with pytest.raises(error, match=message):
        encoder.encode_sentences(["cab", "cabbage"])


def test_a_server_that_is_away_and_a_model_that_it_lacks_are_reported(server: FaultyServer) -> None:
    with pytest.raises(TemporarilyUnavailable, match="returned no vectors: connection failed"):
        ServedEncoder(MODEL, base_url=f"http://127.0.0.1:{closed_port()}/v1", attempts=1)
    with pytest.raises(ModelUnavailable, match=r"does not serve 'bge'. It serves test-model"):
        ServedEncoder("bge", base_url=server.url)


def test_longer_texts_are_not_sent(server: FaultyServer) -> None:
    encoder = make_client(server, max_tokens=20)
    with pytest.raises(BadInput, match=r"longer than the 20 that test-model reads.*it begins 'cab cab"):
        encoder.encode_sentences(["cab " * 30])
    assert encoder.count_tokens(["กขคงจฉช" * 40]) >= [210], "no lower than one for four bytes"
    assert server.bodies == []


def test_tei_describes_its_model_without_a_list(server: FaultyServer) -> None:
    server.tei_info = {"model_id": MODEL, "model_sha": "c0ffee", "max_input_length": 128}
    encoder = make_client(server)
    assert (encoder.revision, encoder.max_tokens) == ("c0ffee", 128)
    server.tei_info = {"model_id": "another", "model_sha": None, "max_input_length": 128}
    with pytest.raises(ModelUnavailable, match=r"does not serve 'test-model'. It serves another"):
        make_client(server)


def test_what_needs_weights_or_tokens_asks_for_a_local_encoder(server: FaultyServer) -> None:
    settings = EncoderSettings(name=MODEL, base_url=server.url)
    with pytest.raises(BadInput, match=r"test-model is served and returns no token vectors. Choose a local encoder"):
        get_encoder(settings).encode_tokens(["cab"])
    with pytest.raises(BadInput, match=r"returns vectors of unit length only.*`normalize: true`"):
        get_encoder(settings).pool_sentences(["cab"])


# In a profile and a lake


@pytest.fixture
def profile(server: FaultyServer, tmp_path: Path, other_settings: pytest.MonkeyPatch) -> Path:
    """The active profile, whose encoder is served."""
    path = tmp_path / "served.yaml"
    encoder = f"{{name: {MODEL}, base_url: '{server.url}', max_tokens: 100}}"
    path.write_text(f"extends: embedded\nname: served\nencoder: {encoder}\n")
    other_settings.setenv("EVIDENCE_PROFILE", str(path))
    return path


@pytest.mark.usefixtures("profile")
def test_a_corpus_sends_only_new_chunks_and_answers(server: FaultyServer, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cats.txt").write_text("Cats sleep for sixteen hours a day.")
    lake = Lake.create(tmp_path / "lake")
    build_corpus(lake, "notes", group_files(folder), lambda text: None)
    server.bodies.clear()
    (folder / "bees.txt").write_text("Bees buzz when they fly.")
    build_corpus(lake, "notes", group_files(folder), lambda text: None)
    assert [body["input"] for body in server.bodies] == [["Bees buzz when they fly."]]
    with connect(lake.root) as connection:
        models = connection.execute("SELECT DISTINCT model_id FROM chunk_embeddings").fetchall()
    assert models == [(f"{MODEL}@served",)]
    question = ["ask", "How long do cats sleep?", "sixteen hours", "two hours", "--system", "cosine"]
    result = CliRunner().invoke(app, [*question, "--corpus", "notes", "--lake", str(lake.root), "--json"])
    assert result.exit_code == 0 and "Cats sleep for sixteen hours" in result.stdout, result.output


@pytest.mark.usefixtures("profile")
def test_vectors_are_cached_by_model_and_revision(server: FaultyServer) -> None:
    settings = profiles.load().encoder
    encoder = get_encoder(settings)
    assert model_key(encoder) == f"{MODEL}@served" and encoder.max_tokens == 100
    assert model_key(get_encoder(settings.model_copy(update={"revision": "v2"}))) == f"{MODEL}@v2"
    server.bodies.clear()
    encoder.encode_sentences(["cab"])
    encoder.encode_sentences(["cab"])
    assert len(server.bodies) == 1


@pytest.mark.usefixtures("profile")
def test_doctor_names_the_server_and_how_to_start_one(server: FaultyServer) -> None:
    (result,) = [r for r in diagnose(profiles.load()) if r.requirement == "encoder server"]
    assert result.is_ok and result.status == f"{server.url} serves {MODEL}: 11 dimensions, up to 100 tokens"
    away = EncoderSettings(name="bge", base_url=f"http://127.0.0.1:{closed_port()}/v1")
    other_profile = profiles.load().model_copy(update={"encoders": {"bge": away}})
    (result,) = [r for r in diagnose(other_profile) if r.requirement == "encoder server"]
    assert result.is_ok is False and "connection failed" in result.status
    assert result.remedy.startswith("start one, for example: text-embeddings-router --model-id bge")


def test_a_served_token_encoder_is_refused_with_its_file(profile: Path) -> None:
    profile.write_text("extends: embedded\nname: tokens\ntoken_encoder: {name: x, base_url: 'http://127.0.0.1:1/v1'}\n")
    with pytest.raises(BadInput, match=r"served\.yaml: token_encoder: .*a server returns no token vectors"):
        profiles.load(str(profile))
