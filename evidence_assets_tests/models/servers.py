"""Real local servers for the tests of served models: one that misbehaves on demand, one with another API."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from evidence_assets.models.protocols import Completion, Generator, Request

MODEL = "test-model"


def complete(generator: Generator, requests: Sequence[Request]) -> list[Completion]:
    """Completions in the order of the requests."""
    completions = dict(generator.generate_each(requests))
    return [completions[number] for number in range(len(requests))]


@contextmanager
def running(app: Any) -> Iterator[str]:
    """Serve an ASGI app on a free port of this machine; yields the root of its protocol."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.005)
        try:
            yield f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join(timeout=5)


@contextmanager
def short_pauses() -> Iterator[None]:
    """Shorten the client's pauses between attempts to a fiftieth."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio, "sleep", lambda seconds: asyncio.sleep(seconds / 50))
        yield


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def chat_body(text: str, finish: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 11, "completion_tokens": 3}}


def mock_embedding(text: str) -> list[float]:
    """The test server's vector of a text: counts of letters, not of unit length."""
    return [1.0, *(float(text.count(letter)) for letter in "abcdefghij")]


def embeddings_body(texts: list[str], behaviour: str = "") -> dict[str, Any]:
    """The reply to a request for embeddings; the protocol does not guarantee the order of rows."""
    vectors = [mock_embedding(text) for text in texts]
    if behaviour == "wide":
        vectors = [[*vector, 1.0] for vector in vectors]
    elif behaviour == "ragged":
        vectors[-1].append(1.0)
    elif behaviour == "no numbers":
        vectors = [[None for _ in vector] for vector in vectors]  # type: ignore[misc]
    rows = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    if behaviour == "too few":
        rows = rows[1:]
    return {"object": "list", "data": rows[::-1], "usage": {"prompt_tokens": 3, "total_tokens": 3}}


EMBEDDING_BEHAVIOURS = ("", "wide", "ragged", "no numbers", "too few")
JSON_BODY = [(b"content-type", b"application/json")]


async def _close_early(scope: Scope, receive: Receive, send: Send) -> None:
    """Announce a long body, send the beginning and close the connection."""
    headers = [*JSON_BODY, (b"content-length", b"5000")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"choices": [{"mess', "more_body": True})
    raise ConnectionResetError


async def _trickle(scope: Scope, receive: Receive, send: Send) -> None:
    """Send a body byte by byte, almost without end."""
    await send({"type": "http.response.start", "status": 200, "headers": JSON_BODY})
    for _ in range(100):
        await asyncio.sleep(0.05)
        await send({"type": "http.response.body", "body": b" ", "more_body": True})


class FaultyServer:
    """Speaks the protocol; each request takes the next behaviour of ``plan``, then ``always``.

    A behaviour is a name of ``_misbehave`` or a text to reply.
    """

    reply: Callable[[str], str]
    plan: list[str]
    default_behaviour: str
    bodies: list[dict[str, Any]]
    times: list[float]
    headers: list[dict[str, str]]

    url = ""

    def __init__(self) -> None:
        self.reset()
        self.app = Starlette(
            routes=[
                Route("/v1/models", self._models),
                Route("/info", self._info),
                Route("/props", self._props),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/embeddings", self._chat, methods=["POST"]),
            ]
        )

    def reset(self) -> None:
        """Clear recorded requests and behave well."""
        self.reply, self.plan, self.default_behaviour = (lambda user: "B"), [], ""
        self.bodies, self.times, self.headers = [], [], []
        self.in_flight = self.max_in_flight = 0
        self.model_entry = dict[str, str]()
        self.tei_info = dict[str, Any]()
        self.properties = dict[str, Any]()
        """What llama.cpp's server says about its model."""
        self.log_probs = dict[str, float]()
        """Log probabilities of the first token, for requests that ask for them."""

    async def _info(self, _: HttpRequest) -> Response:
        return JSONResponse(self.tei_info, 200 if self.tei_info else 404)

    async def _props(self, _: HttpRequest) -> Response:
        return JSONResponse(self.properties, 200 if self.properties else 404)

    async def _models(self, _: HttpRequest) -> Response:
        if self.tei_info:
            return Response(status_code=404)
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", **self.model_entry}]})

    async def _chat(self, request: HttpRequest) -> Any:
        body = await request.json()
        self.bodies.append(body)
        self.times.append(time.monotonic())
        self.headers.append(dict(request.headers))
        behaviour = self.plan.pop(0) if self.plan else self.default_behaviour
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0.01)
            if "input" in body:
                if behaviour in EMBEDDING_BEHAVIOURS:
                    return JSONResponse(embeddings_body(body["input"], behaviour))
                return await self._misbehave(behaviour, "", body)
            return await self._misbehave(behaviour, body["messages"][-1]["content"], body)
        finally:
            self.in_flight -= 1

    async def _misbehave(self, behaviour: str, user: str, fields: Collection[str]) -> Any:
        """The reply to a request with these fields, by the behaviour."""
        error = {"error": {"message": f"the {behaviour} you asked for", "type": "test"}}
        match behaviour:
            case "429" | "500" | "503" | "400" | "401" | "413":
                return JSONResponse(error, int(behaviour))
            case "429 for an hour":
                return JSONResponse(error, 429, headers={"Retry-After": "3600"})
            case "no schema" if "response_format" in fields:  # as OpenAI says it
                message = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
                return JSONResponse({"error": {"message": message, "param": "response_format"}}, 400)
            case "no log probabilities" if "logprobs" in fields:
                return JSONResponse({"error": {"message": "logprobs are not supported", "param": "logprobs"}}, 400)
            case "no seed" if "seed" in fields:
                return JSONResponse(
                    [{"error": {"code": 400, "message": 'Unknown name "seed": Cannot find field.'}}], 400
                )
            case "key in error":
                return JSONResponse({"error": {"message": "bad key sk-secret-123"}}, 500)
            case "cut":
                return _close_early
            case "trickle":
                return _trickle
            case "empty body" | "malformed body":
                return Response(
                    b'{"choices": [{' if behaviour == "malformed body" else b"", media_type="application/json"
                )
            case "other body":
                return JSONResponse({"result": "B"})
            case "slow":
                await asyncio.sleep(1.0)
        text, finish = REPLIES.get(behaviour, (behaviour, "stop"))
        if behaviour in ("", "slow", "no seed", "no schema", "no log probabilities"):
            text = self.reply(user)
        body = chat_body(text, finish)
        if behaviour == "null":
            body["choices"][0]["message"]["content"] = None
        if "logprobs" in fields and self.log_probs:
            body["choices"][0]["logprobs"] = {"content": [_token_entry(text, self.log_probs)]}
        if behaviour == "declined":
            body["choices"][0]["message"] |= {"content": None, "refusal": "I must not say."}
        return JSONResponse(body)


def _token_entry(text: str, log_probs: Mapping[str, float]) -> dict[str, Any]:
    top = [{"token": token, "logprob": value, "bytes": None} for token, value in log_probs.items()]
    return {"token": text, "logprob": log_probs.get(text, -9.0), "bytes": None, "top_logprobs": top}


REPLIES = {
    "empty": ("", "stop"),
    "100 kB": ("the answer is long " * 5300, "stop"),
    "cut off": ('{"steps": [{"text": "it be', "length"),
    "label cut off": ("A", "length"),
    "filtered": ("A", "content_filter"),
}
"""Reply and finish reason by behaviour."""


def other_api() -> Starlette:
    """A server with another API."""

    async def page(_: HttpRequest) -> Response:
        return PlainTextResponse("<html>hello</html>")

    return Starlette(routes=[Route("/{path:path}", page)])


def strict_faults(schema: Any, location: str = "schema") -> list[str]:
    """Violations of the OpenAI API's strict schema rules."""
    if isinstance(schema, list):
        return [fault for item in schema for fault in strict_faults(item, location)]
    if not isinstance(schema, dict):
        return []
    faults = [f"{location}: {key}" for key in schema.keys() - STRICT_KEYWORDS]
    fields = schema.get("properties", {})
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            faults.append(f"{location}: further properties are not forbidden")
        if sorted(schema.get("required", ())) != sorted(fields):
            faults.append(f"{location}: not all properties are required")
    for name, field in fields.items():
        faults += strict_faults(field, f"{location}.{name}")
    return faults + strict_faults(schema.get("items"), f"{location}[]")


STRICT_KEYWORDS = {
    *(
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "maxItems",
        "enum",
        "anyOf",
        "description",
        "pattern",
    )
}
