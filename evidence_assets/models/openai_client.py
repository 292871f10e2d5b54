"""A model on a server with the OpenAI protocol, such as vLLM, Ollama or TEI, called through ``openai``.

Failed requests are retried, then raise :class:`ModelUnavailable`. The result of a request that the server refuses is a
:class:`Refusal`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, ClassVar, TypeVar

import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient, NotFoundError

from evidence_assets.lake.errors import ModelUnavailable, TemporarilyUnavailable

OPTIONAL_FIELDS = ("seed", "structured_outputs", "response_format")
"""Request fields that some servers reject, as Gemini's does ``seed``; OpenAI has ``response_format`` with a schema only
for models since August 2024."""
_rejected_fields: dict[tuple[str, str], set[str]] = defaultdict(set)
_PARSE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Refusal:
    """The server's reason for refusing a request, with the HTTP status."""

    status: int
    message: str

    def __str__(self) -> str:
        return f"({self.status}): {self.message}"


@dataclass(eq=False)
class ServedModel:
    """A client of one model, with up to ``concurrency`` requests in flight.

    Its revision is the one that the server reports. Raises ModelUnavailable if the server does not serve the model.
    """

    model_id: str
    _: KW_ONLY
    base_url: str = "http://127.0.0.1:8000/v1"
    revision: str = "served"
    """Distinguishes these weights from others of the same name if the server reports no revision."""
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: int = 8
    timeout_seconds: float = 300.0
    """Longest wait for the next byte of a reply; it also limits the time of all attempts together."""
    attempts: int = 6

    path: ClassVar[str]
    """Path of its requests below ``base_url``."""
    reply_kind: ClassVar[str]
    """What a reply contains, for messages."""

    def __post_init__(self) -> None:
        self.base_url = self.base_url.rstrip("/")
        self._key = os.environ.get(self.api_key_env, "")
        self._entry = self._find_entry()
        self.revision = self._reported_revision() or self.revision

    def _find_entry(self) -> dict[str, Any]:
        """This model's entry in the server's list of models; raises ModelUnavailable if the list does not have it."""
        try:
            entries = {str(entry["id"]): entry for entry in asyncio.run(self._list_models())}
        except (APIStatusError, *_PARSE_ERRORS):
            raise self._unavailable(
                "is not OpenAI-compatible: its path /models gives no list of models. Set base_url to the root of the "
                "API, which usually ends in /v1"
            ) from None
        if self.model_id not in entries:
            names = ", ".join([*entries][:5]) or "no model"
            raise self._unavailable(f"does not serve {self.model_id!r}. It serves {names}. Choose one, or serve it")
        return dict(entries[self.model_id])

    def _reported_revision(self) -> str:
        """The revision in the list of models, else the name of the served weights; empty if neither is given."""
        root = str(self._entry.get("root") or "").rstrip("/")
        weights = "" if root == self.model_id else root.rpartition("/")[2]
        return str(self._entry.get("revision") or self._entry.get("digest") or weights)

    def send_each(
        self, bodies: Sequence[dict[str, Any]], parse: Callable[[Any], Reply]
    ) -> Generator[tuple[int, Reply | Refusal, float], None, None]:
        """Yield (number of the request, parsed reply or refusal, seconds) as they arrive.

        ``parse`` raises one of ``_PARSE_ERRORS`` for a decoded reply of another structure. After a failure, requests in
        flight are awaited and yielded before the error is raised.
        """
        if not bodies:
            return
        failed: set[asyncio.Task[Any]] = set()
        with asyncio.Runner() as runner:
            client = self._client()
            loop = runner.get_loop()
            tasks = (loop.create_task(self._send(client, number, body, parse)) for number, body in enumerate(bodies))
            in_flight = set(islice(tasks, self.concurrency))
            try:
                while in_flight:
                    finished, in_flight = runner.run(asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED))
                    failed |= {task for task in finished if task.exception()}
                    yield from (task.result() for task in finished - failed)
                    if not failed:
                        in_flight |= set(islice(tasks, len(finished)))
            finally:
                for task in in_flight:
                    task.cancel()
                runner.run(client.close())
        for task in failed:
            task.result()  # raises the error

    async def _list_models(self) -> list[dict[str, Any]]:
        """Entries of the served models; TEI, which has no list, describes its only model beside the API."""
        async with self._client() as client:
            try:
                response = await self._response(client.get("/models", cast_to=httpx2.Response))
                return list(response.json()["data"])
            except NotFoundError:
                info_url = f"{self.base_url.removesuffix('/v1')}/info"
                info = (await self._response(client.get(info_url, cast_to=httpx2.Response))).json()
                return [{**info, "id": info["model_id"], "revision": info["model_sha"]}]

    async def _send(
        self, client: AsyncOpenAI, number: int, request: dict[str, Any], parse: Callable[[Any], Reply]
    ) -> tuple[int, Reply | Refusal, float]:
        start = time.perf_counter()
        dropped_fields = _rejected_fields[self.base_url, self.model_id]
        body = {name: value for name, value in request.items() if name not in dropped_fields}
        result: Reply | Refusal
        try:
            response = await self._response(client.post(self.path, cast_to=httpx2.Response, body=body))
            result = parse(response.json())
        except _PARSE_ERRORS:
            raise self._no_reply(f"the reply contains none: {response.text[:60]!r}") from None
        except APIStatusError as error:
            message = self._error_message(error)
            if newly_rejected := {name for name in OPTIONAL_FIELDS if name in body and name in message}:
                dropped_fields |= newly_rejected
                return await self._send(client, number, request, parse)
            result = Refusal(error.status_code, message)
        return number, result, time.perf_counter() - start

    def _client(self) -> AsyncOpenAI:
        is_local = httpx2.URL(self.base_url).host in ("127.0.0.1", "localhost", "::1")  # bypass proxies
        return AsyncOpenAI(
            api_key=self._key or "none",  # the package requires a key
            base_url=self.base_url,
            max_retries=self.attempts - 1,
            timeout=httpx2.Timeout(self.timeout_seconds, connect=10.0),
            http_client=DefaultAsyncHttpxClient(trust_env=not is_local),
        )

    async def _response(self, call: Coroutine[Any, Any, httpx2.Response]) -> httpx2.Response:
        """Await a call. Errors other than a refused request become ModelUnavailable."""
        limit = 2 * self.attempts * self.timeout_seconds  # half of it for the pauses between attempts
        try:
            async with asyncio.timeout(limit):  # the client's own timeout applies between two bytes
                return await call
        except APIStatusError as error:
            status = error.status_code
            if status in (401, 403):
                problem = (
                    f"rejected the API key ({status}). Set the environment variable {self.api_key_env} to a valid one"
                )
                raise self._unavailable(problem) from None
            if status not in (408, 409, 429) and status < 500:
                raise
            reason = f"HTTP {status}: {self._error_message(error)}"
        except APIConnectionError as error:
            cause = error.__cause__
            reason = f"connection failed ({type(cause).__name__}: {cause})"
        except TimeoutError:
            reason = f"no complete reply in {limit:g} s"
        raise self._no_reply(reason)

    def _no_reply(self, reason: str) -> TemporarilyUnavailable:
        return TemporarilyUnavailable(
            f"the server at {self.base_url} returned no {self.reply_kind}: {reason}. Check that it is running, then "
            "retry; finished work is reused"
        )

    def _error_message(self, error: APIStatusError) -> str:
        """The server's error message without the API key."""
        message = error.body.get("message", error.body) if isinstance(error.body, dict) else error.body
        message = str(message).replace(self._key, "[key]") if self._key else str(message)
        return " ".join(message.split())[:300]

    def _unavailable(self, problem: str) -> ModelUnavailable:
        return ModelUnavailable(f"the server at {self.base_url} {problem}")
