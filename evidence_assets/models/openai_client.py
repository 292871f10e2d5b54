"""A model on a server with the OpenAI protocol, such as vLLM, Ollama or TEI, called through ``openai``.

Failed requests are retried, then raise :class:`ModelUnavailable`. A refused request is sent again as the server wants
it, which is remembered (:mod:`~evidence_assets.models.request_adaptations`), or its result is a :class:`Refusal`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import httpx2
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient, NotFoundError

from evidence_assets.lake.errors import ModelUnavailable, TemporarilyUnavailable
from evidence_assets.lake.ids import file_fingerprint
from evidence_assets.models.request_adaptations import NO_SYSTEM_ROLE, Adaptation, adapt, find_adaptations
from evidence_assets.profiles.model_source import SERVED_MODEL

_log = logging.getLogger(__name__)
_adaptations: dict[tuple[str, str], list[Adaptation]] = defaultdict(list)
"""What the refusals of a model on a server have called for, in their order."""
_NO_MODEL = re.compile(r"\bmodel\b.{0,200}\b(?:not exist|not found)\b|(?:invalid|unknown) model\b", re.IGNORECASE)
_LISTED_NAMES = ("{}", "{}:latest", "models/{}")
"""How lists name a model that requests call ``{}``; Ollama's add the tag, Gemini's a folder."""
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
LLAMA_CPP = "llamacpp"
"""Owner of the models in llama.cpp's list."""
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

    Without a name, it is the only model that the server lists.
    Its revision is the one that the server reports. Raises ModelUnavailable if the server lists models, but not this
    one; without a list, the first request does.
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
        self._key = os.environ.get(self.api_key_env, "").strip()
        self._entry = self._find_entry()
        self.revision = self._reported_revision() or self.revision

    @property
    def is_listed(self) -> bool:
        """Whether the server's list of models has this one; some have no list, or another protocol for it."""
        return bool(self._entry)

    def _find_entry(self) -> dict[str, Any]:
        """This model's entry in the list of models, empty without a list; raises ModelUnavailable if it is missing."""
        entries = self._read_list()
        if self.model_id == SERVED_MODEL:
            return self._take_only_model(entries or {})
        if entries is None:
            return {}
        for listed_name in _LISTED_NAMES:
            if entry := entries.get(listed_name.format(self.model_id)):
                return entry
        names = ", ".join([*entries][:5]) or "no model"
        raise self._unavailable(f"does not serve {self.model_id!r}. It serves {names}. Choose one, or serve it")

    def _read_list(self) -> dict[str, dict[str, Any]] | None:
        """Entries of the list of models by name; None without a list, or with one of another protocol."""
        try:
            return {str(entry["id"]): dict(entry) for entry in asyncio.run(self._list_models())}
        except APIStatusError as error:
            if error.status_code in (401, 403) and not self._key:
                raise self._key_rejected(error) from None
            return None  # Anthropic's list wants other headers than its requests
        except _PARSE_ERRORS:
            return None

    def _take_only_model(self, entries: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """The only entry, whose id becomes this model's name; raises ModelUnavailable if there is not exactly one."""
        if len(entries) != 1:
            names = ", ".join([*entries][:5]) or "no list of models"
            raise self._unavailable(f"has {names}. Name the model to use, with --model or `name` in the profile")
        [(self.model_id, entry)] = entries.items()
        return entry

    def _reported_revision(self) -> str:
        """The revision in the list of models, else what is known of the served weights; empty if nothing is."""
        root = str(self._entry.get("root") or "").rstrip("/")
        weights = "" if root == self.model_id else root.rpartition("/")[2]
        return str(self._entry.get("revision") or self._entry.get("digest") or weights or self._read_fingerprint())

    def _read_fingerprint(self) -> str:
        """The fingerprint of the GGUF file that llama.cpp on this machine serves; empty for other servers."""
        if self._entry.get("owned_by") != LLAMA_CPP or not self._is_local:
            return ""
        try:
            file = Path(asyncio.run(self._read_properties())["model_path"])
        except (APIStatusError, *_PARSE_ERRORS):
            return ""
        if file.suffix != ".gguf":
            return ""
        if file.is_file():
            return file_fingerprint(file)[:12]
        if not file.is_absolute():
            _warn_of_relative_path(self.base_url, file)
        return ""

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

    async def _read_properties(self) -> dict[str, Any]:
        """What llama.cpp says about its model, beside the API."""
        async with self._client() as client:
            url = f"{self.base_url.removesuffix('/v1')}/props"
            response = await self._response(client.get(url, cast_to=httpx2.Response))
            return dict(response.json())

    @property
    def _is_local(self) -> bool:
        return httpx2.URL(self.base_url).host in LOCAL_HOSTS

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
        adaptations = _adaptations[self.base_url, self.model_id]
        while True:
            body = adapt(request, adaptations)
            try:
                response = await self._response(client.post(self.path, cast_to=httpx2.Response, body=body))
                return number, parse(response.json()), time.perf_counter() - start
            except _PARSE_ERRORS:
                raise self._no_reply(f"the reply contains none: {response.text[:60]!r}") from None
            except APIStatusError as error:
                self._raise_if_all_fail(error)
                message = self._error_message(error)
                if not (newly_required := find_adaptations(message, body)):
                    return number, Refusal(error.status_code, message), time.perf_counter() - start
                for adaptation in newly_required:
                    if adaptation not in adaptations:  # a request in flight at the same time may have added it
                        adaptations.append(adaptation)
                        _log.warning(
                            "requests for %s at %s are %s: %s",
                            *(self.model_id, self.base_url, adaptation.description, message),
                        )

    def _raise_if_all_fail(self, error: APIStatusError) -> None:
        """Raise ModelUnavailable for a refusal that no other request would escape."""
        if error.status_code in (401, 403):
            raise self._key_rejected(error) from None
        message = self._error_message(error)
        if error.status_code in (404, 405) or _NO_MODEL.search(message):
            raise self._unavailable(
                f"has no model {self.model_id!r} at {self.path} ({error.status_code}: {message}). Correct the name, or "
                "set base_url to the root of the API, which usually ends in /v1"
            ) from None

    def _client(self) -> AsyncOpenAI:
        return AsyncOpenAI(
            api_key=self._key or "none",  # the package requires a key
            base_url=self.base_url,
            max_retries=self.attempts - 1,
            timeout=httpx2.Timeout(self.timeout_seconds, connect=10.0),
            http_client=DefaultAsyncHttpxClient(trust_env=not self._is_local),  # bypass proxies
        )

    async def _response(self, call: Coroutine[Any, Any, httpx2.Response]) -> httpx2.Response:
        """Await a call. Errors other than a refused request become TemporarilyUnavailable."""
        limit = 2 * self.attempts * self.timeout_seconds  # half of it for the pauses between attempts
        try:
            async with asyncio.timeout(limit):  # the client's own timeout applies between two bytes
                return await call
        except APIStatusError as error:
            status = error.status_code
            is_temporary = status in (408, 409, 429) or status >= 500
            if not is_temporary or NO_SYSTEM_ROLE.search(self._error_message(error)):
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
        message = str(_find_message(error.body))
        if self._key:
            message = message.replace(self._key, "[key]")
        return " ".join(message.split())[:300]

    def _key_rejected(self, error: APIStatusError) -> ModelUnavailable:
        remedy = f"Set the environment variable {self.api_key_env} to a valid one"
        return self._unavailable(f"rejected the API key ({error.status_code}). {remedy}")

    def _unavailable(self, problem: str) -> ModelUnavailable:
        return ModelUnavailable(f"the server at {self.base_url} {problem}")


@cache
def _warn_of_relative_path(base_url: str, file: Path) -> None:
    """Say once why the revision of a served file is unknown, and how to make it known."""
    _log.warning(
        "the server at %s has the file %s, which is not in this folder, so that its revision is unknown. Start the "
        "server with the absolute path of the file",
        *(base_url, file),
    )


def _find_message(body: object) -> object:
    """The message in an error's body; Gemini's is a list, Mistral's is nested."""
    if isinstance(body, list) and body:
        return _find_message(body[0])
    if isinstance(body, dict):
        for name in ("error", "message", "detail"):
            if body.get(name):
                return _find_message(body[name])
    return body
