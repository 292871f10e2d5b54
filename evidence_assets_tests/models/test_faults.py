"""Faults of models and servers, on real local servers and real model files: each has the outcome in the table, with a
sentence that says what to do. Faults that pass are in `test_openai_server`.
"""

import hashlib
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.inference import check_weights
from evidence_assets.models.local_generators import TransformersGenerator
from evidence_assets.models.protocols import Request
from evidence_assets.models.served_models import OpenAIGenerator
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.reasoning.tasks import ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets_tests.models.servers import (
    MODEL,
    FaultyServer,
    closed_port,
    complete,
    other_api,
    running,
    short_pauses,
)
from evidence_assets_tests.models.tiny import make_causal, make_encoder
from evidence_assets_tests.reasoning.small_questions import make_question

STEP = "the step fails"
ROW = "one failed row"
QUESTION = ChooseAnswer(make_question("What treats pain?", "aspirin", "gold"), ())
EXPLAIN = ExplainOption(QUESTION.question, "A", (EvidenceItem("e1", "chunk", "d", "0:9", "Aspirin may treat pain."),))
RUSSIAN_STEP = '{"steps": [{"text": "Аспирин помогает от головной боли", "evidence": [1], "quotes": []}]}'


@dataclass(frozen=True)
class Scene:
    """A server that misbehaves on demand, tiny models, and a folder for damaged copies of them."""

    server: FaultyServer
    url: str
    encoder: Path
    causal: Path
    scratch: Path

    def generator(self, model: str = MODEL, url: str = "", timeout: float = 10.0) -> OpenAIGenerator:
        """A client with three attempts."""
        return OpenAIGenerator(model, base_url=url or self.url, attempts=3, timeout_seconds=timeout)

    def solver(self, reply: str, model: str = MODEL, url: str = "", timeout: float = 10.0) -> PromptedSolver:
        """A solver whose server always behaves like this."""
        self.server.default_behaviour = reply or self.server.default_behaviour
        return PromptedSolver(LanguageModel(self.generator(model, url, timeout)))


@dataclass(frozen=True)
class Fault:
    """A fault, how to provoke it, and its expected outcome."""

    name: str
    provoke: Callable[[Scene], object]
    ends_in: str
    message: str
    n_requests: int = 0
    """Expected requests to the server; 0 if no completion is requested."""


def choosing(reply: str, timeout: float = 10.0) -> Callable[[Scene], object]:
    """Request a label while the server always behaves like this."""
    return lambda scene: scene.solver(reply, timeout=timeout).choose([QUESTION])[0]


def explaining(reply: str) -> Callable[[Scene], object]:
    """Request a chain while the server always replies like this."""
    return lambda scene: scene.solver(reply).explain([EXPLAIN])[0]


def choose_at(address: Callable[[Scene], str], model: str = MODEL) -> Callable[[Scene], object]:
    """Send a request to another address, or for another model."""
    return lambda scene: scene.solver("", model, address(scene)).choose([QUESTION])


def closed_address(_: Scene) -> str:
    """An address at which no server runs."""
    return f"http://127.0.0.1:{closed_port()}/v1"


def encoder_without(name: str) -> Callable[[Scene], object]:
    """Load a copy of the encoder's folder without one file."""

    def provoke(scene: Scene) -> object:
        folder = shutil.copytree(scene.encoder, scene.scratch / f"without-{name}")
        (folder / name).unlink()
        return load_encoder(str(folder))

    return provoke


def call_other_api(scene: Scene) -> object:
    """Send a request to a server with another API."""
    with running(other_api()) as url:
        return complete(scene.generator(url=url), [Request("", "x")])


def bad_checksum(scene: Scene) -> None:
    """Check a damaged file of weights."""
    path = scene.scratch / "model.safetensors"
    content = (scene.encoder / "model.safetensors").read_bytes()
    path.write_bytes(content[:-1] + b"?")
    check_weights(path, hashlib.sha256(content).hexdigest(), "fetch the file again")


def long_text(scene: Scene) -> object:
    """Encode a text above the encoder's limit."""
    return load_encoder(str(scene.encoder), device="cpu").encode_sentences(["pain " * 999])


def nan_vectors(scene: Scene) -> object:
    """Encode with weights that are not numbers."""
    encoder = load_encoder(str(scene.encoder), device="cpu")
    with torch.no_grad():
        encoder._model.network.encoder.layer[-1].output.LayerNorm.bias[3] = float("nan")
    return encoder.encode_sentences(["the pain"])


def nan_logits(scene: Scene) -> object:
    """Generate with weights that are not numbers."""
    generator = TransformersGenerator(str(scene.causal), device="cpu")
    with torch.no_grad():
        generator.network.lm_head.weight[5] = float("nan")
    return complete(generator, [Request("", "What is pain?", max_tokens=4)])


FAULTS = (
    Fault("server slower than the time-out", choosing("slow", 0.2), STEP, "connection failed .ReadTimeout", 3),
    Fault("reply that never ends in time", choosing("trickle", 0.3), STEP, r"no complete reply in 1\.8 s", 1),
    Fault("429 time after time", choosing("429"), STEP, "HTTP 429", 3),
    Fault("429 with a long wait", choosing("429 for an hour"), STEP, "HTTP 429", 1),
    Fault("500 time after time", choosing("500"), STEP, "HTTP 500.*retry; finished work is reused", 3),
    Fault("503 time after time", choosing("503"), STEP, "HTTP 503", 3),
    Fault("connection cut within the reply", choosing("cut"), STEP, "connection failed", 3),
    Fault("empty body", choosing("empty body"), STEP, "reply", 1),
    Fault("malformed JSON body", choosing("malformed body"), STEP, "reply", 1),
    Fault("JSON of another protocol", choosing("other body"), STEP, "the reply contains none", 1),
    Fault("key refused (401)", choosing("401"), STEP, "Set the environment variable OPENAI_API_KEY", 1),
    Fault("server not running", choose_at(closed_address), STEP, "Check that it is running"),
    Fault("server is another API", call_other_api, STEP, "405.*set base_url to the root"),
    Fault("wrong root of the protocol", choose_at(lambda scene: scene.url.removesuffix("/v1")), STEP, "base_url"),
    Fault("model not served", choose_at(lambda scene: scene.url, "llama"), STEP, "does not serve 'llama'. It serves"),
    Fault("request refused (400)", choosing("400"), ROW, r"refused by the server \(400\)", 1),
    Fault("empty answer", choosing("empty"), ROW, "it is empty; after one repair attempt", 2),
    Fault("answer without content", choosing("null"), ROW, "it is empty; after one repair attempt", 2),
    Fault("answer of 100 kB", choosing("100 kB"), ROW, "characters, more than 20000", 2),
    Fault("cut label", choosing("label cut off"), ROW, "limit .finish reason length, 3 tokens after a prompt of 11", 2),
    Fault("answer broken off by a filter", choosing("filtered"), ROW, "content filter broke it off", 2),
    Fault("answer declined", choosing("declined"), ROW, "refused by the model: I must not say", 1),
    Fault("wrong label", choosing("Z"), ROW, "'Z', which is not one of A, B, INSUFFICIENT", 2),
    Fault("two labels", choosing("A or B"), ROW, "names several options: A, B", 2),
    Fault("label in another language", choosing("这个问题没有明确的结论"), ROW, "names no option", 2),
    Fault("chain cut off", explaining("cut off"), ROW, "cut off at the token limit", 2),
    Fault("chain in malformed JSON", explaining('{"steps": [{"te'), ROW, "not valid JSON", 2),
    Fault("chain of another shape", explaining('{"steps": 3}'), ROW, "no JSON object with a list of steps", 2),
    Fault("chain in another language", explaining(RUSSIAN_STEP), ROW, "in Cyrillic script, the question in Latin", 2),
    Fault("model without a tokenizer", encoder_without("tokenizer.json"), STEP, "tokenizer"),
    Fault("model without configuration", encoder_without("config.json"), STEP, "config.json"),
    Fault("model without weights", encoder_without("model.safetensors"), STEP, "lacks its weights"),
    Fault("weights that fail their checksum", bad_checksum, STEP, "fail their checksum.*fetch the file again"),
    Fault("NaN vectors", nan_vectors, STEP, "values that are not numbers.*Fetch the weights again"),
    Fault("NaN in a language model", nan_logits, STEP, "values that are not numbers.*Fetch the weights again"),
    Fault("text longer than the encoder reads", long_text, STEP, "Split it into chunks"),
)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder, server = tmp_path_factory.mktemp("faults"), FaultyServer()
    with short_pauses(), running(server.app) as url:
        scratch = folder / "scratch"
        scratch.mkdir()
        yield Scene(server, url, make_encoder(folder / "encoder"), make_causal(folder / "causal"), scratch)


def outcome(fault: Fault, scene: Scene) -> tuple[str, str, int]:
    """Provoke the fault; returns its outcome, the message to the user, and the number of requests."""
    scene.server.reset()
    try:
        result = fault.provoke(scene)
    except (ModelUnavailable, BadInput) as error:
        return STEP, str(error), len(scene.server.bodies)
    ends_in = ROW if isinstance(result, Failure) else f"nothing wrong: {result!r}"
    return ends_in, result.reason if isinstance(result, Failure) else "", len(scene.server.bodies)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_the_outcome_in_the_table(fault: Fault, scene: Scene) -> None:
    ends_in, message, n_requests = outcome(fault, scene)
    assert ends_in == fault.ends_in, message
    assert re.search(fault.message, message, re.DOTALL), message
    assert n_requests == fault.n_requests
    assert len(message) < 700, "a sentence, not a dump"
