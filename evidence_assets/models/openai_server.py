"""A language model behind any server that speaks the OpenAI chat protocol (vLLM, Ollama, llama.cpp, a paid one).

Belongs here: which requests are under way, and how the shape of a reply is asked for on the wire. What is asked and what a
reply means belongs to ``reasoning``, patience to ``openai_http``.

What goes wrong is the server's fault, which ends as ``openai_http`` says, or a request's own (refused with 4xx, such as a
prompt that is too long): that gives a completion whose finish reason begins with ``refused``, one failed row.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import aiohttp

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.ids import content_id
from evidence_assets.models.openai_http import OpenAIServer, TryAgain, revision_in, to_its_end
from evidence_assets.models.protocols import ANSWER, REFUSED, Completion, Kept, Request, object_schema

CONSTRAINTS = ("json_schema", "structured_outputs", "none")


@dataclass
class _Round:
    """The requests of one call; ``gone`` says why the server counts as unavailable, once a request has found it so."""

    requests: Sequence[Request]
    give: Callable[[tuple[int, Completion]], None]
    gone: ModelUnavailable | None = None
    stop: Callable[[], object] = lambda: None
    """Breaks off what is under way; may be called from another thread."""


class OpenAIGenerator(OpenAIServer):
    """Asks a served model, several requests at once.

    ``model_id``: Name under which the server serves the model.
    ``base_url``: Root of the protocol, usually ending in ``/v1``.
    ``api_key_env``, ``concurrency``, ``timeout_seconds``, ``attempts``: See :class:`OpenAIServer`.
    ``revision``: What tells this model's weights from others of the same name, where the server does not say; see
        :meth:`settle_revision`.
    ``constrain``: How the server is told the shape of the reply: ``json_schema`` by ``response_format``, which all
        common servers honour; ``structured_outputs`` by vLLM's field of that name, which holds a reply to a bare label
        and JSON to no blanks; ``none`` not at all.
    """

    asked_for = "completion"

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str = "http://127.0.0.1:8000/v1",
        revision: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 32,
        timeout_seconds: float = 300.0,
        attempts: int = 6,
        constrain: str = "json_schema",
    ) -> None:
        if constrain not in CONSTRAINTS:
            raise BadInput(f"unknown constraint {constrain!r}; one of {', '.join(CONSTRAINTS)}")
        super().__init__(model_id, base_url, api_key_env, concurrency, timeout_seconds, attempts)
        self.revision = revision or "served"
        self.parameters: dict[str, object] = {"temperature": 0, "seed": 0, "constrain": constrain}
        self._constrain = constrain
        self._verified, self._pinned, self._settled = False, revision, False

    def settle_revision(self, kept: Kept) -> None:
        """Find out the revision, once: what the server's list of models says; else the pinned one; else its first reply.

        What a reply says (a dated name, a fingerprint of the server) may change with every restart, so what was said first
        holds. A server that cannot be reached now is taken at its last word, so that what is done already needs no server.
        """
        if self._settled:
            return
        key = content_id("revision", self._url, self.model_id, self._pinned)
        last = kept.get(key)
        try:
            said = revision_in(self.listed(), self.model_id)
            if not said and not self._pinned:
                said = last.text if last else self._said_in_reply()
        except ModelUnavailable:
            if last is None and not self._pinned:
                raise
            said = last.text if last else ""
        self.revision = said or self._pinned or self.revision
        kept.put(key, Completion(self.revision, 0, 0, 0.0, "stop"))
        self._settled = True

    def _said_in_reply(self) -> str:
        """What the shortest reply says of the model besides its name."""

        async def ask() -> tuple[int, bytes]:
            payload = self.payload(Request("", "Hello", 1))
            async with self._session() as session:
                return await self._patiently(lambda: self._exchange(session, "/chat/completions", payload))

        _, reply = to_its_end(ask())
        with contextlib.suppress(ValueError, RecursionError):
            body = json.loads(reply)
            if isinstance(body, dict):
                told = [body.get("model"), body.get("system_fingerprint")]
                return "-".join(str(t) for t in told if t and t != self.model_id)
        return ""

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Completions in the order asked."""
        completions = dict(self.generate_each(requests))
        return [completions[number] for number in range(len(requests))]

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """(number of the request, completion) as they arrive, so that what is paid for can be kept at once.

        If the server gives out, what is still under way is waited for and yielded before the error is raised.
        """
        if not requests:
            return
        arrived: SimpleQueue[tuple[int, Completion] | None] = SimpleQueue()
        current = _Round(requests, arrived.put)
        with ThreadPoolExecutor(1, thread_name_prefix="ask") as thread:
            asking = thread.submit(asyncio.run, self._ask_all(current))
            asking.add_done_callback(lambda _: arrived.put(None))
            try:
                while (completed := arrived.get()) is not None:
                    yield completed
            finally:
                if not asking.done():  # whoever read the replies has left
                    current.gone = ModelUnavailable("nobody waits for the replies")
                    with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                        current.stop()
            asking.result()

    def payload(self, request: Request) -> dict[str, Any]:
        """Body of a chat request."""
        body: dict[str, Any] = {
            "model": self.model_id,
            "messages": request.messages,
            "max_tokens": request.most_tokens,
            "temperature": request.temperature,
            "seed": 0,
        }
        schema = json.loads(request.json_schema) if request.json_schema else None
        if request.choices and self._constrain == "json_schema":  # a bare label is no JSON document to most servers
            schema = object_schema(**{ANSWER: {"type": "string", "enum": list(request.choices)}})
        if self._constrain == "structured_outputs":
            if request.choices:
                body["structured_outputs"] = {"choice": list(request.choices)}
            elif schema:
                body["structured_outputs"] = {"json": schema, "disable_any_whitespace": True}
        elif self._constrain == "json_schema" and schema:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": schema},
            }
        return body

    async def _ask_all(self, current: _Round) -> None:
        """Ask a round's requests in their order, as many at once as may be."""
        waiting, this = iter(enumerate(current.requests)), asyncio.current_task()
        assert this is not None
        current.stop = functools.partial(asyncio.get_running_loop().call_soon_threadsafe, this.cancel)

        async def work(session: aiohttp.ClientSession) -> None:
            for number, request in waiting:
                try:
                    current.give((number, await self._ask(session, request, current)))
                except ModelUnavailable as error:
                    current.gone = current.gone or error
                if current.gone:
                    return

        async with self._session() as session:
            if not self._verified:
                await self._verify(session)
            workers = min(self._concurrency, len(current.requests))
            await asyncio.gather(*(work(session) for _ in range(workers)))
        if current.gone:
            raise current.gone

    async def _verify(self, session: aiohttp.ClientSession) -> None:
        """Make sure, once, that the server speaks this protocol and serves the model."""
        served = [str(row["id"]) for row in await self._served(session)]
        if self.model_id not in served:
            raise ModelUnavailable(
                f"the server at {self._url} does not serve {self.model_id!r} but {', '.join(served[:5]) or 'none'}; "
                f"name one of these, or start the server with the model"
            )
        self._verified = True

    async def _ask(self, session: aiohttp.ClientSession, request: Request, current: _Round) -> Completion:
        payload = self.payload(request)

        async def attempt() -> Completion:
            started = time.perf_counter()
            status, reply = await self._exchange(session, "/chat/completions", payload)
            seconds = time.perf_counter() - started
            if status == 404:
                raise ModelUnavailable(f"the server at {self._url} has no chat completions for {self.model_id!r} (404)")
            if status >= 400:
                reason = f"{REFUSED} by the server ({status}): {self._message(reply)}"
                return Completion("", 0, 0, seconds, reason)
            wrapped = bool(request.choices) and "response_format" in payload
            return completion_of(reply.decode(errors="replace"), seconds, wrapped=wrapped)

        return await self._patiently(attempt, lambda: current.gone)


def completion_of(reply: str, seconds: float = 0.0, *, wrapped: bool = False) -> Completion:
    """The completion that a reply of the protocol holds; ``seconds`` is what it took.

    Where a choice was asked for as a JSON object (``wrapped``), the bare choice is taken out of it; a text that is no
    such object is left as it is.
    """
    try:
        body = json.loads(reply)
    except (ValueError, RecursionError):
        raise TryAgain(f"its reply is not JSON: {reply[:60]!r}") from None
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content") or "", message.get("refusal")
        if not isinstance(text, str):
            raise TypeError
    except (LookupError, TypeError, AttributeError):
        raise TryAgain(f"its reply has no completion in it: {str(body)[:60]!r}") from None
    reason = str(choice.get("finish_reason") or "unknown")
    if refusal and not text:
        reason = f"{REFUSED} by the model: {' '.join(str(refusal).split())[:300]}"
    usage = body.get("usage")
    prompt_tokens, completion_tokens = (
        _counted(usage.get(name) if isinstance(usage, dict) else None)
        for name in ("prompt_tokens", "completion_tokens")
    )
    return Completion(_bare(text) if wrapped else text, prompt_tokens, completion_tokens, seconds, reason)


def _bare(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    answer = value.get(ANSWER) if isinstance(value, dict) and len(value) == 1 else None
    return answer if isinstance(answer, str) else text


def _counted(stated: object) -> int:
    """A number of tokens as the server counts them; 0 where it states none that is a number."""
    return int(stated) if isinstance(stated, int | float) and math.isfinite(stated) else 0
