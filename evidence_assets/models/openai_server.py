"""A language model behind any server that speaks the OpenAI chat protocol (vLLM, Ollama, llama.cpp, a paid one).

Belongs here: HTTP, concurrency, patience. What is asked and what a reply means belongs to ``reasoning``.

What goes wrong ends in one of two ways. The server's fault (not reached, cut off, 429, 5xx, not this protocol) is tried
again with growing pauses and then raises :class:`ModelUnavailable`: the step fails, and a retry resumes from the cache.
A request's own fault (refused with 4xx, such as a prompt that is too long) gives a completion whose finish reason
begins with ``refused``: one failed row.
"""

from __future__ import annotations

import email.utils
import json
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import httpx

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.protocols import REFUSED, Completion, Request

LARGEST_REPLY = 8 << 20
"""Bytes of a response that are read; whatever sends more is no chat server."""
T = TypeVar("T")
_TRY_AGAIN = {408, 409, 425, 429, 500, 502, 503, 504, 507, 529}
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _TryAgain(Exception):
    """Something that may pass; ``wait`` is how long the server asks to wait, if it does."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


class OpenAIGenerator:
    """Asks a served model, several requests at once.

    Parameters
    ----------
    model_id
        Name under which the server serves the model.
    base_url
        Root of the protocol, usually ending in ``/v1``.
    revision
        What tells this model's weights from others of the same name; a server does not say, so state it.
    api_key_env
        Environment variable that holds the key; the key is in no message.
    concurrency
        Requests under way at once.
    timeout_seconds
        Longest wait for one reply.
    attempts
        Times that a request is tried before the server counts as unavailable.
    pause_seconds, longest_pause_seconds
        First pause between attempts, doubled each time, and its limit; a longer ``Retry-After`` is not waited for.
    constrain
        ``json_schema`` sends choices and schemas as ``response_format``, which all common servers honour; ``none``
        sends none, for servers that refuse the field.
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
        attempts: int = 7,
        pause_seconds: float = 1.0,
        longest_pause_seconds: float = 120.0,
        constrain: str = "json_schema",
    ) -> None:
        if constrain not in ("json_schema", "none"):
            raise BadInput(f"unknown constraint {constrain!r}; json_schema or none")
        self.model_id, self.revision = model_id, revision or "served"
        self.parameters: dict[str, object] = {"temperature": 0, "seed": 0, "constrain": constrain}
        self._constrain = constrain
        self._url = base_url.rstrip("/")
        self._key = os.environ.get(api_key_env, "")
        self._key_env = api_key_env
        self._timeout, self._attempts = timeout_seconds, attempts
        self._pause, self._longest_pause = pause_seconds, longest_pause_seconds
        self._concurrency = concurrency
        self._verified = False
        self._lock = threading.Lock()
        host = httpx.URL(self._url).host
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx.Timeout(timeout_seconds, connect=min(10.0, timeout_seconds)),
            limits=httpx.Limits(max_connections=concurrency),
            trust_env=host not in _LOOPBACK,  # a proxy cannot reach this machine's own ports
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Completions in the order asked."""
        found = dict(self.generate_each(requests))
        return [found[number] for number in range(len(requests))]

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """(number of the request, completion) as they arrive, so that what is paid for can be kept at once.

        If the server gives out, what is still under way is waited for and yielded before the error is raised.
        """
        if not requests:
            return
        self._verify()
        stop = threading.Event()
        failure: ModelUnavailable | None = None
        pool = ThreadPoolExecutor(max_workers=self._concurrency, thread_name_prefix="ask")
        try:
            futures: dict[Future[Completion], int] = {
                pool.submit(self._ask, request, stop): number for number, request in enumerate(requests)
            }
            for future in as_completed(futures):
                try:
                    completion = future.result()
                except CancelledError:
                    continue
                except ModelUnavailable as error:
                    failure = failure or error
                    stop.set()
                    for waiting in futures:
                        waiting.cancel()
                    continue
                yield futures[future], completion
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        if failure is not None:
            raise failure

    def _verify(self) -> None:
        """Make sure, once, that the server speaks this protocol and serves the model."""
        with self._lock:
            if self._verified:
                return
            status, body = self._patiently(lambda: self._exchange("GET", "/models", None), threading.Event())
            if status in (401, 403):
                raise ModelUnavailable(
                    f"the server at {self._url} refuses the key ({status}); set the environment variable "
                    f"{self._key_env} to a valid one"
                )
            rows = body.get("data") if isinstance(body, dict) else None
            if status != 200 or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                raise ModelUnavailable(
                    f"the server at {self._url} is not an OpenAI-compatible one: GET {self._url}/models answers "
                    f"{status} without a list of models; set base_url to the root of the protocol, which usually ends "
                    f"in /v1"
                )
            served = [str(row.get("id")) for row in rows]
            if self.model_id not in served:
                some = ", ".join(served[:5]) or "none"
                raise ModelUnavailable(
                    f"the server at {self._url} does not serve {self.model_id!r} but {some}; name one of these, or "
                    f"start the server with the model"
                )
            self._verified = True

    def _ask(self, request: Request, stop: threading.Event) -> Completion:
        payload = self.payload(request)

        def attempt() -> Completion:
            started = time.perf_counter()
            status, body = self._exchange("POST", "/chat/completions", payload)
            seconds = time.perf_counter() - started
            if status in (401, 403):
                raise ModelUnavailable(
                    f"the server at {self._url} refuses the key ({status}); set the environment variable "
                    f"{self._key_env} to a valid one"
                )
            if status == 404:
                raise ModelUnavailable(f"the server at {self._url} has no chat completions for {self.model_id!r} (404)")
            if 400 <= status < 500:
                return Completion("", 0, 0, seconds, f"{REFUSED} by the server ({status}): {self._message(body)}")
            return _completion(body, seconds)

        return self._patiently(attempt, stop)

    def payload(self, request: Request) -> dict[str, Any]:
        """Body of a chat request."""
        messages = [{"role": "system", "content": request.system}] if request.system else []
        body: dict[str, Any] = {
            "model": self.model_id,
            "messages": [*messages, {"role": "user", "content": request.user}],
            "max_tokens": request.max_tokens,
            "temperature": 0,
            "seed": 0,
        }
        schema: Any = None
        if request.choices:
            answer = {"type": "string", "enum": list(request.choices)}
            schema = {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
            schema["additionalProperties"] = False
        elif request.json_schema:
            schema = json.loads(request.json_schema)
        if schema is not None and self._constrain == "json_schema":
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "strict": True, "schema": schema},
            }
        return body

    def _exchange(self, method: str, path: str, payload: dict[str, Any] | None) -> tuple[int, Any]:
        """One HTTP exchange: status and decoded body; what may pass raises :class:`_TryAgain`."""
        deadline = time.monotonic() + self._timeout
        received = bytearray()
        try:
            with self._client.stream(method, f"{self._url}{path}", json=payload) as response:
                for block in response.iter_bytes():
                    received += block
                    if len(received) > LARGEST_REPLY:
                        raise ModelUnavailable(
                            f"the server at {self._url} sends more than {LARGEST_REPLY >> 20} MiB for one reply; it is "
                            f"not a chat server, check base_url"
                        )
                    if time.monotonic() > deadline:
                        raise _TryAgain(f"no complete reply within {self._timeout:g} s")
                status, headers = response.status_code, response.headers
        except httpx.TimeoutException:
            raise _TryAgain(f"no reply within {self._timeout:g} s") from None
        except httpx.TransportError as error:
            raise _TryAgain(f"the connection failed ({type(error).__name__}: {self._hidden(str(error))})") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelUnavailable(f"the server at {self._url} cannot be asked: {self._hidden(str(error))}") from None
        try:
            body = json.loads(received)
        except (ValueError, RecursionError):
            body = None
        if status in _TRY_AGAIN:
            raise _TryAgain(f"it answers {status}: {self._message(body)}", _retry_after(headers))
        if status == 200 and body is None and method == "POST":
            raise _TryAgain(f"its reply is not JSON: {self._hidden(received[:60].decode(errors='replace'))!r}")
        return status, body

    def _patiently(self, attempt: Callable[[], T], stop: threading.Event) -> T:
        """Try until it works, the attempts are used up, or another request has found the server gone."""
        for number in range(1, self._attempts + 1):
            if stop.is_set():
                raise CancelledError
            try:
                return attempt()
            except _TryAgain as error:
                pause = min(self._longest_pause, self._pause * 2 ** (number - 1)) * random.uniform(0.75, 1)
                asked = error.wait or 0.0
                if number == self._attempts or asked > self._longest_pause:
                    patience = f" and asks to wait {asked:.0f} s" if asked > self._longest_pause else ""
                    raise ModelUnavailable(
                        f"the server at {self._url} gives no completion after {number} "
                        f"{'attempt' if number == 1 else 'attempts'}: {error}{patience}; see that it runs, then retry: "
                        f"finished requests are cached"
                    ) from None
                stop.wait(max(pause, asked))
        raise AssertionError("unreachable")

    def _message(self, body: Any) -> str:
        error = body.get("error", body.get("message", "")) if isinstance(body, dict) else ""
        text = error.get("message") if isinstance(error, dict) else error
        return self._hidden(" ".join(str(text).split())[:300])

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds that a ``Retry-After`` header asks to wait: a number, or a date."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if 0 <= seconds < float("inf") else None


def _completion(body: Any, seconds: float) -> Completion:
    """The completion in a body of the protocol; any other body is the server's fault."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text = message.get("content") or ""
        if not isinstance(text, str):
            raise TypeError
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _TryAgain(f"its reply has no completion in it: {str(body)[:60]!r}") from None
    return Completion(
        text=text,
        prompt_tokens=_counted(body, "prompt_tokens"),
        completion_tokens=_counted(body, "completion_tokens"),
        seconds=seconds,
        finish_reason=str(choice.get("finish_reason") or "unknown"),
    )


def _counted(body: dict[str, Any], name: str) -> int:
    """A number of tokens as the server counts them; 0 where it states none that is a number."""
    usage = body.get("usage")
    stated = usage.get(name) if isinstance(usage, dict) else None
    return int(stated) if isinstance(stated, int | float) and math.isfinite(stated) else 0
