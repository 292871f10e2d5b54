"""A language model behind any server that speaks the OpenAI chat protocol (vLLM, Ollama, llama.cpp, a paid one).

Belongs here: HTTP, which requests are under way, patience, and how the shape of a reply is asked for on the wire. What
is asked and what a reply means belongs to ``reasoning``.

What goes wrong ends in one of two ways. The server's fault (not reached, too slow, cut off, 429, 5xx, not this protocol)
is tried again with growing pauses and then raises :class:`ModelUnavailable`: the step fails, and a retry resumes from the
cache. A request's own fault (refused with 4xx, such as a prompt that is too long) gives a completion whose finish reason
begins with ``refused``: one failed row.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import functools
import json
import math
import os
import random
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp

from evidence_assets.lake.errors import BadInput, ModelUnavailable, TryLater
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import ANSWER, REFUSED, Completion, Kept, Request

CONSTRAINTS = ("json_schema", "structured_outputs", "none")
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
"""Seconds between two attempts: doubled each time, up to the longest."""
PATIENCE = 120.0
"""Longest ``Retry-After`` that is waited for, in seconds."""
LARGEST_REPLY = 8 << 20
"""Bytes of a reply that are read; whatever sends more is no chat server."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TRY_AGAIN = (408, 409, 425, 429)
"""Statuses below 500 that may pass."""
T = TypeVar("T")
pause = asyncio.sleep
"""How the time between two attempts passes."""


class _TryAgain(Exception):
    """Something that may pass; ``wait`` is how long the server asks to wait."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass
class _Round:
    """The requests of one call; ``gone`` says why the server counts as unavailable, once a request has found it so."""

    requests: Sequence[Request]
    give: Callable[[tuple[int, Completion]], None]
    gone: ModelUnavailable | None = None
    stop: Callable[[], object] = lambda: None
    """Breaks off what is under way; may be called from another thread."""


class OpenAIGenerator:
    """Asks a served model, several requests at once.

    Parameters
    ----------
    model_id
        Name under which the server serves the model.
    base_url
        Root of the protocol, usually ending in ``/v1``.
    revision
        What tells this model's weights from others of the same name, where the server does not say; see
        :meth:`settle_revision`.
    api_key_env
        Environment variable that holds the key, if the server wants one; the key is in no message.
    concurrency
        Requests under way at once.
    timeout_seconds
        Longest that one attempt may take, from connecting to the last byte of the reply.
    attempts
        Times that a request is tried before the server counts as unavailable, with pauses of 0.5 s, then twice as long
        each time up to 8 s, or as long as ``Retry-After`` asks if that is at most two minutes. A server that is down for
        longer than these pauses takes (15 s) is for the retry of the step.
    constrain
        How the server is told the shape of the reply: ``json_schema`` by ``response_format``, which all common servers
        honour; ``structured_outputs`` by vLLM's field of that name, which holds a reply to a bare label and JSON to no
        blanks; ``none`` not at all.
    """

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
        self.model_id, self.revision = model_id, revision or "served"
        self.parameters: dict[str, object] = {"temperature": 0, "seed": 0, "constrain": constrain}
        self._constrain, self._concurrency = constrain, concurrency
        self._timeout, self._attempts = timeout_seconds, attempts
        self._url = base_url.rstrip("/")
        self._key, self._key_env = os.environ.get(api_key_env, ""), api_key_env
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
            said = _revision_in(self._list(), self.model_id)
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
                return await self._patiently(
                    lambda: self._exchange(session, "/chat/completions", payload), _Round([], lambda _: None)
                )

        _, reply = _to_its_end(ask())
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

    def served(self) -> list[str]:
        """Names of the models that the server serves."""
        return [str(row["id"]) for row in self._list()]

    def _list(self) -> list[dict[str, Any]]:
        async def ask() -> list[dict[str, Any]]:
            async with self._session() as session:
                return await self._served(session)

        return _to_its_end(ask())

    def payload(self, request: Request) -> dict[str, Any]:
        """Body of a chat request."""
        messages = [{"role": "system", "content": request.system}] if request.system else []
        body: dict[str, Any] = {
            "model": self.model_id,
            "messages": [*messages, {"role": "user", "content": request.user}],
            "max_tokens": request.most_tokens,
            "temperature": request.temperature,
            "seed": 0,
        }
        schema = json.loads(request.json_schema) if request.json_schema else None
        if self._constrain == "structured_outputs":
            if request.choices:
                body["structured_outputs"] = {"choice": list(request.choices)}
            elif schema:
                body["structured_outputs"] = {"json": schema, "disable_any_whitespace": True}
        elif self._constrain == "json_schema" and (request.choices or schema):
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": schema or _schema_of(request.choices)},
            }
        return body

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._concurrency),
            headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
            timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=min(10.0, self._timeout)),
            trust_env=urlsplit(self._url).hostname not in _LOOPBACK,  # a proxy cannot reach this machine's own ports
        )

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

    async def _served(self, session: aiohttp.ClientSession) -> list[dict[str, Any]]:
        async def attempt() -> list[dict[str, Any]]:
            status, reply = await self._exchange(session, "/models")
            try:
                return [{**row, "id": row["id"]} for row in json.loads(reply)["data"]]
            except (ValueError, LookupError, TypeError):
                raise ModelUnavailable(
                    f"the server at {self._url} is not an OpenAI-compatible one: GET {self._url}/models answers "
                    f"{status} without a list of models; set base_url to the root of the protocol, which usually ends "
                    f"in /v1"
                ) from None

        return await self._patiently(attempt, _Round([], lambda _: None))

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

        return await self._patiently(attempt, current)

    async def _exchange(
        self, session: aiohttp.ClientSession, path: str, payload: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """One HTTP exchange: status and body; what may pass raises :class:`_TryAgain`."""
        received = bytearray()
        try:
            async with session.request("POST" if payload else "GET", self._url + path, json=payload) as response:
                status, wait = response.status, _retry_after(response.headers)
                async for block in response.content.iter_any():
                    received += block
                    if len(received) > LARGEST_REPLY:
                        raise ModelUnavailable(
                            f"the server at {self._url} sends more than {LARGEST_REPLY >> 20} MiB for one reply; it is "
                            f"no chat server, check base_url"
                        )
        except aiohttp.InvalidURL as error:
            raise ModelUnavailable(f"the server at {self._url} cannot be asked: {error}") from None
        except TimeoutError:
            raise _TryAgain(f"no whole reply within {self._timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _TryAgain(f"the connection failed ({type(error).__name__}: {self._hidden(str(error))})") from None
        if status in (401, 403):
            raise ModelUnavailable(
                f"the server at {self._url} refuses the key ({status}); set the environment variable {self._key_env} "
                f"to a valid one"
            )
        if status in _TRY_AGAIN or status >= 500:
            raise _TryAgain(f"it answers {status}: {self._message(received)}", wait)
        return status, bytes(received)

    async def _patiently(self, attempt: Callable[[], Coroutine[Any, Any, T]], current: _Round) -> T:
        """Try until it works, the attempts are used up, or another request has found the server gone."""
        for number in range(1, self._attempts + 1):
            if current.gone:
                raise current.gone
            try:
                return await attempt()
            except _TryAgain as error:
                reason, wait = self._hidden(str(error)), error.wait
            if wait > PATIENCE:
                reason += f" and asks to wait {wait:.0f} s"
            if wait > PATIENCE or number == self._attempts:
                break
            own = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (number - 1)) * random.uniform(0.75, 1)
            await pause(max(wait, own))
        raise TryLater(
            f"the server at {self._url} gives no completion after {number} {'attempt' if number == 1 else 'attempts'}: "
            f"{reason}; see that it runs, then retry: finished requests are cached"
        )

    def _message(self, reply: bytes | bytearray) -> str:
        """What the server says of an error."""
        try:
            body = json.loads(reply)
        except (ValueError, RecursionError):
            return ""
        error = body.get("error", body.get("message", "")) if isinstance(body, dict) else ""
        text = error.get("message") if isinstance(error, dict) else error
        return self._hidden(" ".join(str(text).split())[:300])

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


def _to_its_end(asking: Coroutine[Any, Any, T]) -> T:
    """Run in a thread of its own, as the caller's may have a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asking).result()


def _revision_in(models: Sequence[Mapping[str, Any]], name: str) -> str:
    """What a list of models says of one besides its name: a revision, or what is served under that name."""
    for row in models:
        if row["id"] == name:
            root = str(row.get("root") or "").rstrip("/")
            served = root.rpartition("/")[2] if root not in ("", name) else ""
            return str(row.get("revision") or row.get("digest") or served)
    return ""


def _schema_of(choices: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an object that holds one of the choices: a bare label is no JSON document to most servers."""
    answer = {"type": "string", "enum": list(choices)}
    return {"type": "object", "properties": {ANSWER: answer}, "required": [ANSWER], "additionalProperties": False}


def completion_of(reply: str, seconds: float = 0.0, *, wrapped: bool = False) -> Completion:
    """The completion that a reply of the protocol holds; ``seconds`` is what it took.

    Where a choice was asked for as a JSON object (``wrapped``), the bare choice is taken out of it; a text that is no
    such object is left as it is.
    """
    try:
        body = json.loads(reply)
    except (ValueError, RecursionError):
        raise _TryAgain(f"its reply is not JSON: {reply[:60]!r}") from None
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content") or "", message.get("refusal")
        if not isinstance(text, str):
            raise TypeError
    except (LookupError, TypeError, AttributeError):
        raise _TryAgain(f"its reply has no completion in it: {str(body)[:60]!r}") from None
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


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a ``Retry-After`` header asks to wait, a number or a date; 0 where there is none."""
    value = headers.get("Retry-After", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return 0.0
    return seconds if 0 <= seconds < math.inf else 0.0
