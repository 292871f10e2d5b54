"""Servers as they are: refusals and lists of models of OpenAI, Gemini, Anthropic, vLLM, llama.cpp and Ollama.

The replies are written after the providers' documentation and the errors that their users report. No request leaves
this machine.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from evidence_assets.experiment.solvers import prompts_version
from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models import openai_client
from evidence_assets.models.diagnosis import diagnose
from evidence_assets.models.openai_client import ServedModel
from evidence_assets.models.protocols import Request
from evidence_assets.models.registry import load_generator
from evidence_assets.models.served_encoder import ServedEncoder
from evidence_assets.models.served_models import OpenAIGenerator
from evidence_assets.profiles import GeneratorSettings, load
from evidence_assets_tests.conftest import REPOSITORY
from evidence_assets_tests.models.servers import chat_body, complete, running, short_pauses

Refusal = tuple[int, Any]
"""Status and body of a refused request."""
CHOOSE = Request("Be brief.", "Which drug may treat gout?", max_tokens=40, choices=("A", "B"))
OPENAI_KINDS = {"type": "invalid_request_error", "code": "unsupported_parameter"}


def openai_error(message: str, param: str | None = None) -> Refusal:
    return 400, {"error": {"message": message, **OPENAI_KINDS, "param": param}}


def vllm_error(message: str, status: int = 400) -> Refusal:
    return status, {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}


def gemini_error(status: int, message: str) -> Refusal:
    return status, [{"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}]


def anthropic_error(status: int, kind: str, message: str) -> Refusal:
    return status, {"type": "error", "error": {"type": kind, "message": message}}


def has_system_role(body: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def refuse_as_gpt_5(body: dict[str, Any]) -> Refusal | None:
    """A thinking model of OpenAI."""
    if "max_tokens" in body:
        remedy = "Use 'max_completion_tokens' instead."
        return openai_error(f"Unsupported parameter: 'max_tokens' is not supported with this model. {remedy}")
    if body.get("temperature", 1) != 1:
        message = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
        return openai_error(f"{message}supported.", "temperature")
    return None


def refuse_as_o1_mini(body: dict[str, Any]) -> Refusal | None:
    """OpenAI's first thinking model, without a system role and without replies by schema."""
    if has_system_role(body):
        return openai_error("Unsupported value: 'messages[0].role' does not support 'system' with this model.")
    if "response_format" in body:
        message = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
        return openai_error(f"{message} Learn more about supported models at the Structured Outputs guide")
    return refuse_as_gpt_5(body)


def refuse_as_gemini(body: dict[str, Any]) -> Refusal | None:
    if "seed" in body:
        return gemini_error(400, 'Invalid JSON payload received. Unknown name "seed": Cannot find field.')
    return None


def refuse_as_gemma_on_gemini(body: dict[str, Any]) -> Refusal | None:
    """Gemma, which Gemini's server also has."""
    if has_system_role(body):
        return gemini_error(400, "Developer instruction is not enabled for models/gemma-3-27b-it")
    if "response_format" in body:
        return gemini_error(400, "JSON mode is not enabled for models/gemma-3-27b-it")
    return refuse_as_gemini(body)


def refuse_as_opus(body: dict[str, Any]) -> Refusal | None:
    """A model of Anthropic without sampling parameters; the server ignores `seed` and `response_format`."""
    if "temperature" in body:
        return anthropic_error(400, "invalid_request_error", "`temperature` is deprecated for this model.")
    return None


def refuse_as_gemma_on_vllm(body: dict[str, Any]) -> Refusal | None:
    return vllm_error("System role not supported") if has_system_role(body) else None


def refuse_as_mistral_on_vllm(body: dict[str, Any]) -> Refusal | None:
    message = "Conversation roles must alternate user/assistant/user/assistant/..."
    return vllm_error(message) if has_system_role(body) else None


def refuse_as_old_vllm(body: dict[str, Any]) -> Refusal | None:
    """A release that forbids unknown fields."""
    fault = {"type": "extra_forbidden", "loc": ("body", "structured_outputs"), "msg": "Extra inputs are not permitted"}
    return vllm_error(str([fault])) if "structured_outputs" in body else None


def refuse_as_gemma_on_llama_cpp(body: dict[str, Any]) -> Refusal | None:
    """The template's fault is an error of the server, which is retried first."""
    source = "While executing CallExpression at line 1, column 45 in source:\n...{{ raise_exception('System role not..."
    message = f"\n------------\n{source}\nError: Jinja Exception: System role not supported"
    return (
        (500, {"error": {"code": 500, "message": message, "type": "server_error"}}) if has_system_role(body) else None
    )


def refuse_as_llama_cpp_without_grammar(body: dict[str, Any]) -> Refusal | None:
    message = "Failed to initialize samplers: failed to parse grammar"
    error = {"error": {"code": 400, "message": message, "type": "invalid_request_error"}}
    return (400, error) if "response_format" in body else None


def accept_all(body: dict[str, Any]) -> Refusal | None:
    return None


@dataclass
class ProtocolServer:
    """A server with one model that refuses requests as a provider's does."""

    refuse: Callable[[dict[str, Any]], Refusal | None] = accept_all
    model: str = "model-1"
    listed: Refusal | None = None
    """Reply to a request for the list of models; None: the list has the model."""
    reply: str = "B"
    missing: Refusal = (404, {"error": {"message": "The model `x` does not exist or you do not have access to it."}})
    """Reply to a request for another model."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        routes = [
            Route("/v1/models", self._list_models),
            Route("/v1/chat/completions", self._reply, methods=["POST"]),
            Route("/v1/embeddings", self._reply, methods=["POST"]),
        ]
        self.app = Starlette(routes=routes)

    async def _list_models(self, _: HttpRequest) -> Response:
        status, body = self.listed or (200, {"object": "list", "data": [{"id": self.model, "object": "model"}]})
        return JSONResponse(body, status) if not isinstance(body, str) else PlainTextResponse(body, status)

    async def _reply(self, request: HttpRequest) -> Response:
        body = await request.json()
        self.bodies.append(body)
        status, refusal = (200, None) if body["model"] == self.model else self.missing
        if status == 200 and (refused := self.refuse(body)):
            status, refusal = refused
        return JSONResponse(refusal or chat_body(self.reply), status)

    def client(self, model: str = "", **settings: Any) -> OpenAIGenerator:
        options = {"attempts": 2, "timeout_seconds": 10.0, "concurrency": 1} | settings
        return OpenAIGenerator(model or self.model, base_url=self.url, **options)


Serve = Callable[[ProtocolServer], AbstractContextManager[ProtocolServer]]


@contextmanager
def _serve(server: ProtocolServer) -> Iterator[ProtocolServer]:
    with running(server.app) as server.url:
        yield server


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setattr(openai_client, "_adaptations", defaultdict(list))  # ports are used again
    with short_pauses():
        yield _serve


SCHEMA_FIELDS = {"model", "messages", "max_tokens", "temperature", "seed", "response_format"}
PLAIN_FIELDS = SCHEMA_FIELDS - {"response_format"}
JOINED = [{"role": "user", "content": "Be brief.\n\nWhich drug may treat gout?"}]


@pytest.mark.parametrize(
    ("refuse", "constrain", "fields", "is_joined", "n_refused"),
    [
        (refuse_as_gpt_5, "json_schema", {"model", "messages", "seed", "response_format"}, False, 2),
        (refuse_as_o1_mini, "json_schema", {"model", "messages", "seed"}, True, 4),
        (refuse_as_gemini, "json_schema", SCHEMA_FIELDS - {"seed"}, False, 1),
        (refuse_as_gemma_on_gemini, "json_schema", PLAIN_FIELDS - {"seed"}, True, 3),
        (refuse_as_opus, "json_schema", SCHEMA_FIELDS - {"temperature"}, False, 1),
        (refuse_as_gemma_on_vllm, "structured_outputs", PLAIN_FIELDS | {"structured_outputs"}, True, 1),
        (refuse_as_mistral_on_vllm, "structured_outputs", PLAIN_FIELDS | {"structured_outputs"}, True, 1),
        (refuse_as_old_vllm, "structured_outputs", PLAIN_FIELDS, False, 1),
        (refuse_as_gemma_on_llama_cpp, "json_schema", SCHEMA_FIELDS, True, 2),
        (refuse_as_llama_cpp_without_grammar, "json_schema", PLAIN_FIELDS, False, 1),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_refused_request_is_sent_as_the_server_wants_it(
    refuse: Callable[[dict[str, Any]], Refusal | None],
    constrain: str,
    fields: set[str],
    is_joined: bool,
    n_refused: int,
    serve: Serve,
) -> None:
    with serve(ProtocolServer(refuse)) as server:
        first, second = complete(server.client(constrain=constrain), [CHOOSE, CHOOSE])
    assert [first.text, second.text] == ["B", "B"], first.finish_reason
    *_, last = server.bodies
    limit = "max_tokens" if "max_tokens" in fields else "max_completion_tokens"
    assert set(last) == fields | {limit} and last[limit] == 40
    assert (last["messages"] == JOINED) == is_joined
    assert len(server.bodies) == n_refused + 2, "what the server refuses is remembered"


@pytest.mark.parametrize("reply", ["<think>A? No.</think>\n\nB", "A? No.\n</think>B", "B"])
def test_a_model_that_thinks_has_tokens_for_it_and_its_thoughts_are_no_reply(reply: str, serve: Serve) -> None:
    settings = GeneratorSettings(backend="openai", name="model-1", thinking_tokens=2000)
    with serve(ProtocolServer(refuse_as_gpt_5, reply=reply)) as server:
        client = load_generator(settings.model_copy(update={"base_url": server.url}))
        (completion,) = complete(client, [CHOOSE])
        plain = server.client()
    assert completion.text == "B" and server.bodies[-1]["max_completion_tokens"] == 2040
    assert client.parameters != plain.parameters and "thinking_tokens" not in plain.parameters
    assert prompts_version(settings) != prompts_version(settings.model_copy(update={"thinking_tokens": 0}))


def test_requests_in_flight_are_changed_once(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, openai_client.__name__)
    with serve(ProtocolServer(refuse_as_o1_mini)) as server:
        completions = complete(server.client(concurrency=8), [CHOOSE] * 30)
    assert [completion.text for completion in completions] == ["B"] * 30
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 4, "each change is reported once"
    assert any("sent without temperature: Unsupported value: 'temperature' does not" in each for each in messages)


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens, whereas you provided 5000.",
        "'max_tokens' or 'max_completion_tokens' is too large: 40. This model's maximum context length is 32 tokens "
        "and your request has 20 input tokens",
        "This model's maximum context length is 4096 tokens. However, you requested 4726 tokens (3726 in the messages, "
        "1000 in the completion). Please reduce the length of the messages or completion.",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "The response was filtered due to the prompt triggering the content management policy.",
    ],
)
def test_other_refusals_change_no_field(message: str, serve: Serve) -> None:
    with serve(ProtocolServer(lambda body: openai_error(message))) as server:
        (completion,) = complete(server.client(), [CHOOSE])
    assert completion.is_refused and completion.finish_reason.endswith(message)
    assert [set(body) for body in server.bodies] == [SCHEMA_FIELDS]


NO_LIST = {
    "anthropic": anthropic_error(401, "authentication_error", "x-api-key header is required"),
    "anthropic's version": anthropic_error(400, "invalid_request_error", "anthropic-version: header is required"),
    "no list": (404, {"detail": "Not Found"}),
    "another list": (200, {"models": [{"name": "model-1"}]}),
    "page": (200, "<html>hello</html>"),
}


@pytest.mark.parametrize("kind", NO_LIST)
def test_a_server_without_a_list_of_models_works(kind: str, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-1\n")
    with serve(ProtocolServer(listed=NO_LIST[kind])) as server:
        client = server.client(api_key_env="SOME_KEY", revision="pinned")
        assert [completion.text for completion in complete(client, [CHOOSE])] == ["B"]
    assert not client.is_listed and client.revision == "pinned"


MISSING = {
    "openai": (404, {"error": {"message": "The model `gpt-9` does not exist or you do not have access to it."}}),
    "vllm": vllm_error("The model `gpt-9` does not exist.", 404),
    "gemini": gemini_error(404, "models/gpt-9 is not found for API version v1main, or is not supported"),
    "anthropic": anthropic_error(404, "not_found_error", "model: gpt-9"),
    "ollama": (404, {"error": {"message": 'model "gpt-9" not found, try pulling it first', "type": "api_error"}}),
    "deepseek": (400, {"error": {"message": "Model Not Exist", "type": "invalid_request_error"}}),
    "mistral": (400, {"object": "error", "message": "Invalid model: gpt-9", "type": "invalid_model"}),
}


@pytest.mark.parametrize("kind", MISSING)
def test_a_wrong_name_without_a_list_fails_at_the_first_request(kind: str, serve: Serve) -> None:
    with serve(ProtocolServer(listed=(404, {}), missing=MISSING[kind])) as server:
        client = server.client("gpt-9")
        with pytest.raises(ModelUnavailable, match=r"has no model 'gpt-9' at /chat/completions \(4.*Correct the name"):
            complete(client, [CHOOSE] * 20)
        assert len(server.bodies) == 1, "one request, not a failed row for each"
        with pytest.raises(ModelUnavailable, match="has no model 'gpt-9' at /embeddings"):
            ServedEncoder("gpt-9", base_url=server.url).encode_sentences(["cab"])


def test_a_missing_key_is_reported_before_the_first_request(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    listed = 401, {"error": {"message": "You didn't provide an API key.", "type": "invalid_request_error"}}
    expected = r"rejected the API key \(401\). Set the environment variable SOME_KEY"
    with serve(ProtocolServer(listed=listed)) as server, pytest.raises(ModelUnavailable, match=expected):
        server.client(api_key_env="SOME_KEY")


@pytest.mark.parametrize(
    ("listed_name", "name"),
    [("qwen2.5:latest", "qwen2.5"), ("models/gemini-2.0-flash", "gemini-2.0-flash"), ("qwen2.5:7b", "qwen2.5:7b")],
)
def test_lists_name_models_in_their_own_way(listed_name: str, name: str, serve: Serve) -> None:
    """Ollama's add the tag, Gemini's a folder."""
    listed = 200, {"object": "list", "data": [{"id": "other"}, {"id": listed_name}]}
    with serve(ProtocolServer(model=name, listed=listed)) as server:
        client = server.client()
        assert client.is_listed and complete(client, [CHOOSE])[0].text == "B"
        with pytest.raises(ModelUnavailable, match=r"does not serve 'qwen2'\. It serves other"):
            server.client("qwen2")


def test_doctor_tries_a_request_without_a_list(serve: Serve) -> None:
    with serve(ProtocolServer(refuse_as_gpt_5, listed=(404, {}))) as server:

        def status(name: str) -> tuple[bool | None, str]:
            settings = GeneratorSettings(backend="openai", name=name, base_url=server.url)
            profile = load("embedded").model_copy(update={"generators": {"served": settings}})
            (result,) = [each for each in diagnose(profile) if each.requirement == "language model server"]
            return result.is_ok, result.status

        assert status("model-1") == (True, f"{server.url} has no list of models; model-1 replied to a request")
        is_ok, message = status("gpt-9")
    assert is_ok is False and "has no model 'gpt-9'" in message


def test_doctor_starts_the_local_profile_as_the_docs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServedModel, "_find_entry", _fail_to_connect)
    (result,) = [each for each in diagnose(load("local")) if each.requirement == "language model server"]
    command = "llama-server --model /path/to/FILE.gguf --alias NAME --host 127.0.0.1 --port 8081"
    assert (result.is_ok, result.remedy) == (False, f"start one, for example: {command}")
    assert f"`{command}`" in (REPOSITORY / "docs" / "local-model.md").read_text(encoding="utf-8")


def _fail_to_connect(client: ServedModel) -> dict[str, Any]:
    """As if no server ran, also where one does."""
    raise ModelUnavailable(f"the server at {client.base_url} returned no reply")


def test_doctor_names_the_only_model_of_a_server(serve: Serve) -> None:
    with serve(ProtocolServer(model="qwen2.5-1.5b")) as server:
        settings = GeneratorSettings(backend="openai", name="", base_url=server.url)
        profile = load("embedded").model_copy(update={"generators": {"served": settings}})
        (result,) = [each for each in diagnose(profile) if each.requirement == "language model server"]
        assert (result.is_ok, result.status) == (True, f"{server.url}/models serves qwen2.5-1.5b")


def test_doctor_names_the_port_and_what_a_hosted_model_needs() -> None:
    local = GeneratorSettings(backend="openai", name="qwen", base_url="http://127.0.0.1:8002/v1")
    hosted = GeneratorSettings(backend="openai", name="m", base_url="https://h.invalid/v1", api_key_env="H_KEY")
    profile = load("embedded").model_copy(update={"generators": {"qwen": local, "hosted": hosted}})
    remedies = [each.remedy for each in diagnose(profile) if each.requirement == "language model server"]
    assert remedies == [
        "start one, for example: vllm serve qwen --host 127.0.0.1 --port 8002",
        "correct name, base_url or the key in H_KEY",
    ]
