"""Language models on a server with the OpenAI protocol, such as vLLM or Ollama, called through ``openai``.

Failed requests are retried, then raise :class:`ModelUnavailable`. A request that the server refuses fails one row only.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import islice
from typing import Any

import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient

from evidence_assets.lake.errors import ModelUnavailable, TemporarilyUnavailable
from evidence_assets.models.protocols import ANSWER_FIELD, REFUSED_PREFIX, Completion, Request, object_schema

OPTIONAL_FIELDS = ("seed", "structured_outputs", "response_format")
"""Request fields that some servers reject, as Gemini's does ``seed``; OpenAI has ``response_format`` with a schema only
for models since August 2024."""
_rejected_fields: dict[tuple[str, str], set[str]] = defaultdict(set)
_PARSE_ERRORS = (LookupError, TypeError, ValueError, AttributeError, RecursionError)


@dataclass(eq=False)
class OpenAIGenerator:
    """A language model on a server, with up to ``concurrency`` requests in flight.

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
    constrain: str = "json_schema"
    """How to constrain replies: ``json_schema`` uses ``response_format``; ``structured_outputs`` uses vLLM's field of
    that name, which allows bare labels and JSON without whitespace; ``none`` does not constrain them."""

    def __post_init__(self) -> None:
        self.base_url = self.base_url.rstrip("/")
        self._key = os.environ.get(self.api_key_env, "")
        self.revision = self._reported_revision() or self.revision

    def _reported_revision(self) -> str:
        """The revision in the server's list of models, else the name of the served weights; empty if neither is given.

        Raises ModelUnavailable if the list does not have this model.
        """
        try:
            entries = {str(entry["id"]): entry for entry in asyncio.run(self._list_models())["data"]}
        except (APIStatusError, *_PARSE_ERRORS):
            raise self._unavailable(
                "is not OpenAI-compatible: its path /models gives no list of models. Set base_url to the root of the "
                "API, which usually ends in /v1"
            ) from None
        if self.model_id not in entries:
            names = ", ".join([*entries][:5]) or "no model"
            raise self._unavailable(f"does not serve {self.model_id!r}. It serves {names}. Choose one, or serve it")
        entry = entries[self.model_id]
        root = str(entry.get("root") or "").rstrip("/")
        weights = "" if root == self.model_id else root.rpartition("/")[2]
        return str(entry.get("revision") or entry.get("digest") or weights)

    @property
    def parameters(self) -> dict[str, object]:
        return {"temperature": 0, "seed": 0, "constrain": self.constrain}

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield (number of the request, completion) as they arrive, so that each can be stored at once.

        After a failure, requests in flight are awaited and yielded before the error is raised.
        """
        if not requests:
            return
        failed: set[asyncio.Task[Any]] = set()
        with asyncio.Runner() as runner:
            client = self._client()
            loop = runner.get_loop()
            tasks = (loop.create_task(self._send(client, *numbered)) for numbered in enumerate(requests))
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

    def _payload(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model_id,
            "messages": request.messages,
            "max_tokens": request.max_reply_tokens,
            "temperature": request.temperature,
            "seed": 0,
        }
        schema = json.loads(request.json_schema) if request.json_schema else None
        if self.constrain == "structured_outputs" and request.choices:
            body["structured_outputs"] = {"choice": list(request.choices)}
        elif self.constrain == "structured_outputs" and schema:
            body["structured_outputs"] = {"json": schema, "disable_any_whitespace": True}
        elif self.constrain == "json_schema" and (schema or request.choices):
            # most servers accept only objects, not bare labels
            schema = schema or object_schema(**{ANSWER_FIELD: {"type": "string", "enum": list(request.choices)}})
            named_schema = {"name": "reply", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named_schema}
        return body

    async def _list_models(self) -> Any:
        async with self._client() as client:
            return (await self._response(client.get("/models", cast_to=httpx2.Response))).json()

    async def _send(self, client: AsyncOpenAI, number: int, request: Request) -> tuple[int, Completion]:
        start = time.perf_counter()
        dropped_fields = _rejected_fields[self.base_url, self.model_id]
        body = {name: value for name, value in self._payload(request).items() if name not in dropped_fields}
        try:
            response = await self._response(client.post("/chat/completions", cast_to=httpx2.Response, body=body))
            completion = _parse_reply(response.json())
        except _PARSE_ERRORS:
            raise self._no_reply(f"the reply contains none: {response.text[:60]!r}") from None
        except APIStatusError as error:
            message = self._error_message(error)
            if newly_rejected := {name for name in OPTIONAL_FIELDS if name in body and name in message}:
                dropped_fields |= newly_rejected
                return await self._send(client, number, request)
            completion = Completion("", 0, 0, 0.0, f"{REFUSED_PREFIX} by the server ({error.status_code}): {message}")
        if request.choices and self.constrain == "json_schema":
            completion = replace(completion, text=_unwrap_choice(completion.text))
        return number, replace(completion, seconds=time.perf_counter() - start)

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
            f"the server at {self.base_url} returned no completion: {reason}. Check that it is running, then "
            "retry; finished work is reused"
        )

    def _error_message(self, error: APIStatusError) -> str:
        """The server's error message without the API key."""
        message = error.body.get("message", error.body) if isinstance(error.body, dict) else error.body
        message = str(message).replace(self._key, "[key]") if self._key else str(message)
        return " ".join(message.split())[:300]

    def _unavailable(self, problem: str) -> ModelUnavailable:
        return ModelUnavailable(f"the server at {self.base_url} {problem}")


def _parse_reply(reply: Any) -> Completion:
    """The completion in a decoded reply; raises one of ``_PARSE_ERRORS`` if it has another structure."""
    choice = reply["choices"][0]
    text = choice["message"].get("content") or ""
    refusal = choice["message"].get("refusal")
    if not isinstance(text, str):
        raise TypeError("the content is not text")
    finish_reason = str(choice.get("finish_reason") or "unknown")
    if refusal and not text:
        finish_reason = f"{REFUSED_PREFIX} by the model: {' '.join(str(refusal).split())[:300]}"
    usage = reply.get("usage") or {}
    tokens_in, tokens_out = (int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
    return Completion(text, tokens_in, tokens_out, 0.0, finish_reason)


def _unwrap_choice(text: str) -> str:
    """The choice in a JSON object with the answer field; any other text unchanged."""
    try:
        [(name, answer)] = json.loads(text).items()
    except (ValueError, AttributeError, RecursionError):
        return text
    return answer if name == ANSWER_FIELD and isinstance(answer, str) else text
