"""Talking to a server of the OpenAI protocol (vLLM, Ollama, llama.cpp, a paid one), whatever it is asked for.

Belongs here: HTTP, patience, the key, and which revision of a model is served. What goes wrong on the server's side (not
reached, too slow, cut off, 429, 5xx, not this protocol) is tried again with growing pauses and then raises
:class:`ModelUnavailable`: the step fails, and a retry goes on from what is kept.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import os
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp

from evidence_assets.lake.errors import ModelUnavailable, TryLater

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


class TryAgain(Exception):
    """Something that may pass; ``wait`` is how long the server asks to wait."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class OpenAIServer:
    """A server at ``base_url``, usually ending in ``/v1``, of which one model is asked, several requests at once.

    ``api_key_env``: Environment variable that holds the key, if the server wants one; the key is in no message.
    ``concurrency``: Requests under way at once.
    ``timeout_seconds``: Longest that one attempt may take, from connecting to the last byte of the reply.
    ``attempts``: Times that a request is tried before the server counts as unavailable, with pauses of 0.5 s, then
        twice as long each time up to 8 s, or as long as ``Retry-After`` asks if that is at most two minutes. A server
        that is down for longer than these pauses takes (15 s) is for the retry of the step.
    """

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
        self.model_id, self._url, self._concurrency = model_id, base_url.rstrip("/"), concurrency
        self._timeout, self._attempts = timeout_seconds, attempts
        self._key, self._key_env = os.environ.get(api_key_env, ""), api_key_env

    def served(self) -> list[str]:
        """Names of the models that the server serves."""
        return [str(row["id"]) for row in self.listed()]

    def listed(self) -> list[dict[str, Any]]:
        """What it says of the models that it serves."""

        async def ask() -> list[dict[str, Any]]:
            async with self._session() as session:
                return await self._served(session)

        return to_its_end(ask())

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._concurrency),
            headers={"Authorization": f"Bearer {self._key}"} if self._key else None,
            timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=min(10.0, self._timeout)),
            trust_env=urlsplit(self._url).hostname not in _LOOPBACK,  # a proxy cannot reach this machine's own ports
        )

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

        return await self._patiently(attempt)

    async def _exchange(
        self, session: aiohttp.ClientSession, path: str, payload: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """One HTTP exchange: status and body; what may pass raises :class:`TryAgain`."""
        received = bytearray()
        try:
            async with session.request("POST" if payload else "GET", self._url + path, json=payload) as response:
                status, wait = response.status, _retry_after(response.headers)
                async for block in response.content.iter_any():
                    received += block
                    if len(received) > LARGEST_REPLY:
                        raise ModelUnavailable(
                            f"the server at {self._url} sends more than {LARGEST_REPLY >> 20} MiB for one reply; it is "
                            f"no such server, check base_url"
                        )
        except aiohttp.InvalidURL as error:
            raise ModelUnavailable(f"the server at {self._url} cannot be asked: {error}") from None
        except TimeoutError:
            raise TryAgain(f"no whole reply within {self._timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise TryAgain(f"the connection failed ({type(error).__name__}: {self._hidden(str(error))})") from None
        if status in (401, 403):
            raise ModelUnavailable(
                f"the server at {self._url} refuses the key ({status}); set the environment variable {self._key_env} "
                f"to a valid one"
            )
        if status in _TRY_AGAIN or status >= 500:
            raise TryAgain(f"it answers {status}: {self._message(received)}", wait)
        return status, bytes(received)

    async def _patiently(
        self, attempt: Callable[[], Coroutine[Any, Any, T]], gone: Callable[[], ModelUnavailable | None] = lambda: None
    ) -> T:
        """Try until it works, the attempts are used up, or another request has found the server gone."""
        for number in range(1, self._attempts + 1):
            if error := gone():
                raise error
            try:
                return await attempt()
            except TryAgain as passing:
                reason, wait = self._hidden(str(passing)), passing.wait
            if wait > PATIENCE:
                reason += f" and asks to wait {wait:.0f} s"
            if wait > PATIENCE or number == self._attempts:
                break
            own = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (number - 1)) * random.uniform(0.75, 1)
            await pause(max(wait, own))
        raise TryLater(
            f"the server at {self._url} gives no {self.asked_for} after {number} {'attempt' if number == 1 else 'attempts'}: "
            f"{reason}; see that it runs, then retry: what is finished is kept"
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


def to_its_end(asking: Coroutine[Any, Any, T]) -> T:
    """Run in a thread of its own, as the caller's may have a loop already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asking).result()


def revision_in(models: Sequence[Mapping[str, Any]], name: str) -> str:
    """What a list of models says of one besides its name: a revision, or what is served under that name."""
    for row in models:
        if row["id"] == name:
            root = str(row.get("root") or "").rstrip("/")
            served = root.rpartition("/")[2] if root not in ("", name) else ""
            return str(row.get("revision") or row.get("digest") or served)
    return ""


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
