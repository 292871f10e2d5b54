"""A language model behind any server that speaks the OpenAI chat protocol (vLLM, Ollama, llama.cpp, a paid one).

Belongs here: which requests are under way, and what an error of the client means. Pauses, time-outs and connections
are the ``openai`` client's; what is asked and what a reply means belongs to ``reasoning``.

What goes wrong ends in one of two ways. The server's fault (not reached, cut off, 429, 5xx, not this protocol) is tried
again with growing pauses and then raises :class:`ModelUnavailable`: the step fails, and a retry resumes from the cache.
A request's own fault (refused with 4xx, such as a prompt that is too long) gives a completion whose finish reason
begins with ``refused``: one failed row.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.protocols import REFUSED, Completion, Request

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NOT_THE_REQUEST = (401, 403, 408, 409, 429)
"""Statuses below 500 that say nothing of the request itself."""


class _NoCompletion(httpx2.RemoteProtocolError):
    """The server answers 200 with something that is no completion; the client tries again, as after a broken line."""


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
        Longest silence of the server while a reply is awaited.
    attempts
        Times that a request is tried before the server counts as unavailable. The client pauses between them for 0.5 s,
        twice as long each time up to 8 s, or as long as ``Retry-After`` asks if that is at most two minutes.
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
        attempts: int = 12,
        constrain: str = "json_schema",
    ) -> None:
        if constrain not in ("json_schema", "none"):
            raise BadInput(f"unknown constraint {constrain!r}; json_schema or none")
        self.model_id, self.revision = model_id, revision or "served"
        self.parameters: dict[str, object] = {"temperature": 0, "seed": 0, "constrain": constrain}
        self._constrain, self._concurrency, self._timeout = constrain, concurrency, timeout_seconds
        self._url = base_url.rstrip("/")
        self._key, self._key_env = os.environ.get(api_key_env, ""), api_key_env
        self._verified = False
        self._gone = ""
        """Why the server counts as unavailable, once a request has found it so."""
        self._client = openai.OpenAI(
            api_key=self._key or "none",  # the client insists on one; servers without keys ignore it
            base_url=self._url,
            max_retries=attempts - 1,
            timeout=openai.Timeout(timeout_seconds, connect=min(10.0, timeout_seconds)),
            http_client=openai.DefaultHttpxClient(
                trust_env=urlsplit(self._url).hostname
                not in _LOOPBACK,  # a proxy cannot reach this machine's own ports
                event_hooks={"request": [self._refuse_if_gone], "response": [_refuse_other_bodies]},
            ),
        )

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
        self._gone = ""
        self._verify()
        with ThreadPoolExecutor(max_workers=self._concurrency, thread_name_prefix="ask") as pool:
            futures: dict[Future[Completion], int] = {
                pool.submit(self._ask, request): number for number, request in enumerate(requests)
            }
            try:
                for future in as_completed(futures):
                    try:
                        completion = future.result()
                    except ModelUnavailable as error:
                        self._gone = self._gone or str(error)
                    else:
                        yield futures[future], completion
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        if self._gone:
            raise ModelUnavailable(self._gone)

    def served(self) -> list[str]:
        """Names of the models that the server serves."""
        response = self._sent(lambda: self._client.get("/models", cast_to=httpx2.Response))
        try:
            return [str(row["id"]) for row in response.json()["data"]]
        except (ValueError, LookupError, TypeError):
            raise ModelUnavailable(
                f"the server at {self._url} is not an OpenAI-compatible one: GET {self._url}/models answers "
                f"{response.status_code} without a list of models; set base_url to the root of the protocol, which "
                f"usually ends in /v1"
            ) from None

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

    def _verify(self) -> None:
        """Make sure, once, that the server speaks this protocol and serves the model."""
        if self._verified:
            return
        served = self.served()
        if self.model_id not in served:
            raise ModelUnavailable(
                f"the server at {self._url} does not serve {self.model_id!r} but {', '.join(served[:5]) or 'none'}; "
                f"name one of these, or start the server with the model"
            )
        self._verified = True

    def _ask(self, request: Request) -> Completion:
        payload = self.payload(request)
        response = self._sent(lambda: self._client.post("/chat/completions", cast_to=httpx2.Response, body=payload))
        if response.status_code == 404:
            raise ModelUnavailable(f"the server at {self._url} has no chat completions for {self.model_id!r} (404)")
        if response.is_client_error:
            reason = f"{REFUSED} by the server ({response.status_code}): {self._message(response)}"
            return Completion("", 0, 0, response.elapsed.total_seconds(), reason)
        return completion_of(response.text, response.elapsed.total_seconds())

    def _sent(self, send: Callable[[], httpx2.Response]) -> httpx2.Response:
        """The server's answer, which may be that it refuses the request; its own faults are told in a sentence."""
        try:
            return send()
        except openai.APIError as error:
            status = error.status_code if isinstance(error, openai.APIStatusError) else 0
            if isinstance(error, openai.APIStatusError) and 400 <= status < 500 and status not in _NOT_THE_REQUEST:
                return error.response
            sentence = self._sentence(error, status)
        raise ModelUnavailable(sentence)  # out here, because the client's error may show the key

    def _sentence(self, error: openai.APIError, status: int) -> str:
        """What a lasting fault of the server is, and what to do about it."""
        if status in (401, 403):
            return (
                f"the server at {self._url} refuses the key ({status}); set the environment variable {self._key_env} "
                f"to a valid one"
            )
        attempts = 1 + int(error.request.headers.get("x-stainless-retry-count", 0))
        cause = error.__cause__
        if isinstance(error, openai.APIStatusError):
            reason = f"it answers {status}: {self._message(error.response)}"
            if attempts <= self._client.max_retries:
                reason += f" and asks to wait {error.response.headers.get('retry-after', 'longer')} s"
        elif isinstance(error, openai.APITimeoutError):
            reason = f"no reply within {self._timeout:g} s"
        elif isinstance(cause, _NoCompletion):
            reason = self._hidden(str(cause))
        else:
            reason = f"the connection failed ({type(cause).__name__}: {self._hidden(str(cause))})"
        return (
            f"the server at {self._url} gives no completion after {attempts} "
            f"{'attempt' if attempts == 1 else 'attempts'}: {reason}; see that it runs, then retry: finished requests "
            f"are cached"
        )

    def _message(self, response: httpx2.Response) -> str:
        """What the server says of an error."""
        try:
            body = response.json()
        except ValueError:
            return ""
        error = body.get("error", body.get("message", "")) if isinstance(body, dict) else ""
        text = error.get("message") if isinstance(error, dict) else error
        return self._hidden(" ".join(str(text).split())[:300])

    def _hidden(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text

    def _refuse_if_gone(self, _: httpx2.Request) -> None:
        """Before each attempt: give up at once when another request has found the server gone."""
        if self._gone:
            raise ModelUnavailable(self._gone)


def _refuse_other_bodies(response: httpx2.Response) -> None:
    """After each attempt: what is no completion counts as a broken connection, which the client tries again."""
    if response.request.method == "POST" and response.is_success:
        response.read()
        completion_of(response.text)


def completion_of(reply: str, seconds: float = 0.0) -> Completion:
    """The completion that a reply of the protocol holds; ``seconds`` is what it took."""
    try:
        body = json.loads(reply)
    except (ValueError, RecursionError):
        raise _NoCompletion(f"its reply is not JSON: {reply[:60]!r}") from None
    try:
        choice = body["choices"][0]
        text = choice["message"].get("content") or ""
        if not isinstance(text, str):
            raise TypeError
    except (LookupError, TypeError, AttributeError):
        raise _NoCompletion(f"its reply has no completion in it: {str(body)[:60]!r}") from None
    usage = body.get("usage")
    prompt_tokens, completion_tokens = (
        _counted(usage.get(name) if isinstance(usage, dict) else None)
        for name in ("prompt_tokens", "completion_tokens")
    )
    return Completion(text, prompt_tokens, completion_tokens, seconds, str(choice.get("finish_reason") or "unknown"))


def _counted(stated: object) -> int:
    """A number of tokens as the server counts them; 0 where it states none that is a number."""
    return int(stated) if isinstance(stated, int | float) and math.isfinite(stated) else 0
