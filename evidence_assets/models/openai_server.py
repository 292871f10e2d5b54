"""A server of the OpenAI protocol (vLLM, Ollama, llama.cpp, a paid one), called through the package ``openai``.

What goes wrong on the server's side is retried and then raises :class:`ModelUnavailable`. A request that the server
refuses is a :class:`RefusedRequest`: one failed row.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAsyncHttpxClient

from evidence_assets.lake.errors import ModelUnavailable, TryLater

LARGEST_REPLY = 8 << 20
"""Bytes of a reply that are read; whatever sends more is no chat server."""
OPTIONAL = ("seed", "structured_outputs")
"""Fields of a request that not every server takes: one that rejects a field is sent it no more."""
_REJECTED: dict[tuple[str, str], set[str]] = defaultdict(set)
"""Fields that a model at a server rejected."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANOTHER_SHAPE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)


class RefusedRequest(Exception):
    """The server refuses a request with a 4xx status; it may take others."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"({status}): {message}")
        self.status = status


class OpenAIServer:
    """A server at ``base_url``, usually ending in ``/v1``, of which one model is asked, several requests at once.

    ``api_key_env``: Environment variable that holds the key, if the server wants one; the key is in no message.
    ``concurrency``: Requests under way at once.
    ``timeout_seconds``: Longest that one attempt may take, from connecting to the last byte of the reply.
    ``attempts``: Times that a request is tried before the server counts as unavailable.
    """

    path = ""
    asked_for = "reply"
    """What it is asked for, in messages."""

    def __init__(
        self,
        model_id: str,
        base_url: str,
        api_key_env: str,
        concurrency: int = 1,
        timeout_seconds: float = 300.0,
        attempts: int = 6,
    ) -> None:
        self.model_id, self.url, self.timeout = model_id, base_url.rstrip("/"), timeout_seconds
        self._concurrency, self._attempts = concurrency, attempts
        self.key, self._key_env = os.environ.get(api_key_env, ""), api_key_env
        self._verified = False

    def check(self, reply: Any) -> object:
        """Read the JSON of a reply; a ``LookupError``, ``TypeError`` … where it does not hold what was asked for."""
        raise NotImplementedError

    def list_models(self) -> list[dict[str, Any]]:
        """What the server says of the models that it serves, each with its ``id``."""
        return asyncio.run(self._list_models())

    def ask_each(self, payloads: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Any, float]]:
        """(number, JSON of the reply or :class:`RefusedRequest`, seconds) as the replies arrive.

        If the server gives out, what is under way is waited for and yielded before the error is raised.
        """
        replies = self._ask_each(payloads)
        with asyncio.Runner() as runner:
            while (reply := runner.run(_next(replies))) is not None:
                yield reply

    async def _list_models(self) -> list[dict[str, Any]]:
        try:
            async with self._client() as client:
                reply: Any = await self._call(client.get("/models", cast_to=object))
            return [{**row, "id": str(row["id"])} for row in reply["data"]]
        except (RefusedRequest, *_ANOTHER_SHAPE) as error:
            raise ModelUnavailable(
                f"the server at {self.url} is not an OpenAI-compatible one: GET {self.url}/models answers "
                f"{getattr(error, 'status', 200)} without a list of models; set base_url to the root of the protocol, "
                f"which usually ends in /v1"
            ) from None

    async def _ask_each(self, payloads: Sequence[dict[str, Any]]) -> AsyncGenerator[tuple[int, Any, float], None]:
        await self._verify()
        waiting = enumerate(payloads)
        failure: BaseException | None = None
        async with self._client() as client:
            under_way = {asyncio.create_task(self._ask(client, *each)) for each in islice(waiting, self._concurrency)}
            while under_way:
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if error := task.exception():
                        failure = failure or error
                    else:
                        yield task.result()
                if failure is None:
                    following = islice(waiting, len(done))
                    under_way |= {asyncio.create_task(self._ask(client, *each)) for each in following}
        if failure is not None:
            raise failure

    async def _verify(self) -> None:
        """Make sure, once, that the server speaks this protocol and serves the model."""
        if self._verified:
            return
        served = [row["id"] for row in await self._list_models()]
        if self.model_id not in served:
            raise ModelUnavailable(
                f"the server at {self.url} does not serve {self.model_id!r} but {', '.join(served[:5]) or 'none'}; "
                f"name one of these, or start the server with the model"
            )
        self._verified = True

    async def _ask(self, client: AsyncOpenAI, number: int, payload: dict[str, Any]) -> tuple[int, Any, float]:
        started = time.perf_counter()
        rejected = _REJECTED[self.url, self.model_id]
        body = {name: value for name, value in payload.items() if name not in rejected}
        try:
            reply: object = await self._call(client.post(self.path, cast_to=object, body=body))
        except RefusedRequest as error:
            if error.status == 404:
                raise ModelUnavailable(
                    f"the server at {self.url} has no {self.path} of {self.model_id!r} (404)"
                ) from None
            named = {name for name in OPTIONAL if name in body and re.search(rf"\b{name}\b", str(error))}
            if named and error.status in (400, 422):
                rejected |= named
                return await self._ask(client, number, payload)
            reply = error
        return number, reply, time.perf_counter() - started

    def _client(self) -> AsyncOpenAI:
        local = urlsplit(self.url).hostname in _LOOPBACK  # a proxy cannot reach this machine's own ports
        try:
            return AsyncOpenAI(
                api_key=self.key or "none",  # the package insists on one
                base_url=self.url,
                max_retries=self._attempts - 1,
                http_client=_WholeReplies(self, verify=_certificates(), trust_env=not local),
            )
        except httpx2.InvalidURL as error:
            raise ModelUnavailable(f"the server at {self.url} cannot be asked: {error}; check base_url") from None

    async def _call(self, calling: Coroutine[Any, Any, object]) -> object:
        """What a call of ``openai`` gives; its errors in our own words."""
        try:
            return await calling
        except APIStatusError as error:
            status, failed = error.status_code, error.request
            if status in (401, 403):
                raise ModelUnavailable(
                    f"the server at {self.url} refuses the key ({status}); set "
                    f"the environment variable {self._key_env} to a valid one"
                ) from None
            message = self._without_key(_message(error.body))
            if status not in (408, 409, 429) and status < 500:
                raise RefusedRequest(status, message) from None
            reason = f"it answers {status}: {message}"
            if wait := error.response.headers.get("retry-after"):
                reason += f" and asks to wait {wait} s"
        except APITimeoutError as error:
            reason, failed = f"no whole reply within {self.timeout:g} s", error.request
        except APIConnectionError as error:
            cause, failed = error.__cause__, error.request
            told = isinstance(cause, httpx2.DecodingError)
            reason = str(cause) if told else f"the connection failed ({type(cause).__name__}: {cause})"
        attempts = 1 + int(failed.headers.get("x-stainless-retry-count", 0))
        raise TryLater(
            f"the server at {self.url} gives no {self.asked_for} after {attempts} attempt{'s' * (attempts > 1)}: "
            f"{self._without_key(reason)}; see that it runs, then retry: what is finished is kept"
        )

    def _without_key(self, text: str) -> str:
        return text.replace(self.key, "[key]") if self.key else text


class _WholeReplies(DefaultAsyncHttpxClient):
    """Reads a reply whole, within limits of time and size; retries a late or unreadable one like a cut connection."""

    def __init__(self, server: OpenAIServer, **options: Any) -> None:
        super().__init__(timeout=httpx2.Timeout(server.timeout, connect=min(10.0, server.timeout)), **options)
        self._server = server

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        # The package sends on what it finds in the environment for the server of OpenAI itself.
        for name in ("openai-organization", "openai-project", *([] if self._server.key else ["authorization"])):
            request.headers.pop(name, None)
        body = bytearray()
        try:
            async with asyncio.timeout(self._server.timeout):
                response = await super().send(request, **{**options, "stream": True})
                async for block in response.aiter_bytes():
                    body += block
                    if len(body) > LARGEST_REPLY:
                        raise ModelUnavailable(
                            f"the server at {self._server.url} sends over {LARGEST_REPLY >> 20} MiB for one reply; "
                            f"it is no such server, check base_url"
                        )
        except TimeoutError:
            raise httpx2.ReadTimeout("too slow", request=request) from None
        if response.is_success and request.method == "POST":
            self._check(request, body)
        headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
        headers["content-type"] = "application/json"
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)

    def _check(self, request: httpx2.Request, body: bytearray) -> None:
        lacking = "is not JSON"
        try:
            reply = json.loads(body)
            lacking = f"has no {self._server.asked_for} in it"
            self._server.check(reply)
        except _ANOTHER_SHAPE:
            reason = f"its reply {lacking}: {body[:60].decode(errors='replace')!r}"
            raise httpx2.DecodingError(reason, request=request) from None


async def _next(replies: AsyncGenerator[tuple[int, Any, float], None]) -> tuple[int, Any, float] | None:
    return await anext(replies, None)


def revision_in(models: Sequence[dict[str, Any]], name: str) -> str:
    """What a list of models says of one besides its name: a revision, or what is served under that name."""
    for row in models:
        if row["id"] == name:
            root = str(row.get("root") or "").rstrip("/")
            served = root.rpartition("/")[2] if root not in ("", name) else ""
            return str(row.get("revision") or row.get("digest") or served)
    return ""


def _message(body: Any) -> str:
    """What a server says of an error, at most 300 characters; Gemini's puts it into a list."""
    body = body[0] if isinstance(body, list) and body else body
    for name in ("error", "message"):
        body = body.get(name, body) if isinstance(body, dict) else body
    return " ".join(str(body or "").split())[:300]


@cache
def _certificates() -> ssl.SSLContext:
    """Read once, as it takes 50 ms."""
    return httpx2.create_ssl_context()
