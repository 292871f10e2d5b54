"""Language models and encoders behind a server of the OpenAI protocol, such as vLLM or Ollama, through ``openai``. What
goes wrong there is retried and then raises :class:`ModelUnavailable`; a refused request is one failed row.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache, cached_property
from itertools import islice
from typing import Any, NoReturn

import httpx2
import numpy as np
from openai import APIConnectionError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient
from tokenizers import Tokenizer

from evidence_assets.lake.errors import BadInput, ModelUnavailable, TemporarilyUnavailable
from evidence_assets.lake.ids import content_id
from evidence_assets.models.inference import find_minilm_folder
from evidence_assets.models.protocols import (
    ANSWER_FIELD,
    REFUSED_PREFIX,
    Completion,
    CompletionStore,
    FloatArray,
    Request,
    object_schema,
)
from evidence_assets.models.vectors import unit_rows

MAX_REPLY_BYTES = 8 << 20
"""Bytes of a reply that are read; whatever sends more is no server of models."""
TEXTS_PER_REQUEST = 64
"""Texts of one request for vectors."""
OPTIONAL_FIELDS = ("seed", "structured_outputs")
"""Fields of a request that not every server takes; what a model at a server rejected is sent to it no more."""
_REJECTED: dict[tuple[str, str], set[str]] = defaultdict(set)
_UNSAID = "served"
_ANOTHER_SHAPE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
_certificates = cache(httpx2.create_ssl_context)  # read once, as it takes 30 ms


@dataclass(eq=False)
class OpenAIServer:
    """A server of which one model is asked, ``concurrency`` requests at once."""

    model_id: str
    _: KW_ONLY
    base_url: str = "http://127.0.0.1:8000/v1"
    revision: str = _UNSAID
    """What tells this model's weights from others of the same name, where the server does not say."""
    api_key_env: str = "OPENAI_API_KEY"
    concurrency: int = 8
    timeout_seconds: float = 300.0
    """Longest that one attempt may take, from connecting to the last byte of the reply."""
    attempts: int = 6

    path, asked_for = "", "reply"

    def __post_init__(self) -> None:
        self.base_url = self.base_url.rstrip("/")
        self._key = os.environ.get(self.api_key_env, "")

    def read(self, reply: Any) -> object:
        """What the JSON of a reply holds; a ``LookupError``, ``TypeError`` … where that is not what was asked for."""
        raise NotImplementedError

    @cached_property
    def listed(self) -> dict[str, Any]:
        """What the server's list of models says of this one; refuses a server that does not serve it."""
        try:
            served = {str(row["id"]): row for row in asyncio.run(self._list_models())["data"]}
        except (APIStatusError, *_ANOTHER_SHAPE) as error:
            asked = f"GET {self.base_url}/models answers {getattr(error, 'status_code', 200)} without a list of models"
            remedy = "set base_url to the root of the protocol, which usually ends in /v1"
            raise self._unusable(f"is not an OpenAI-compatible one: {asked}; {remedy}") from None
        if self.model_id not in served:
            found = ", ".join([*served][:5]) or "none"
            raise self._unusable(f"does not serve {self.model_id!r} but {found}; name one of these, or serve it")
        return dict(served[self.model_id])

    def listed_revision(self) -> str:
        """What the list says of the model besides its name: a revision, or what is served under that name."""
        root = str(self.listed.get("root") or "").rstrip("/")
        served = "" if root == self.model_id else root.rpartition("/")[2]
        return str(self.listed.get("revision") or self.listed.get("digest") or served)

    def ask_each(self, payloads: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Any, float]]:
        """(number, what the reply holds or as a text why it is refused, seconds) as the replies arrive.

        If the server gives out, what is under way is waited for and yielded before the error is raised.
        """
        if not payloads:
            return
        model = self.listed["id"]
        failed: set[asyncio.Task[Any]] = set()
        with asyncio.Runner() as runner:
            client, loop = self._client(), runner.get_loop()
            bodies = enumerate({"model": model, **payload} for payload in payloads)
            calls = (loop.create_task(self._ask(client, *each)) for each in bodies)
            under_way = set(islice(calls, self.concurrency))
            try:
                while under_way:
                    done, under_way = runner.run(asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED))
                    failed |= {call for call in done if call.exception()}
                    yield from (call.result() for call in done - failed)
                    if not failed:
                        under_way |= set(islice(calls, len(done)))
            finally:
                for call in under_way:
                    call.cancel()
                runner.run(client.close())
        for call in failed:
            call.result()  # raises what went wrong

    async def _list_models(self) -> Any:
        async with self._client() as client:
            return await self._call(client.get("/models", cast_to=httpx2.Response))

    async def _ask(self, client: AsyncOpenAI, number: int, payload: dict[str, Any]) -> tuple[int, Any, float]:
        started = time.perf_counter()
        rejected = _REJECTED[self.base_url, self.model_id]
        body = {name: value for name, value in payload.items() if name not in rejected}
        try:
            reply = self.read(await self._call(client.post(self.path, cast_to=httpx2.Response, body=body)))
        except APIStatusError as error:
            reply = f"({error.status_code}): {self._said(error)}"
            if named := {name for name in OPTIONAL_FIELDS if name in body and name in reply}:
                rejected |= named
                return await self._ask(client, number, payload)
        return number, reply, time.perf_counter() - started

    def _client(self) -> AsyncOpenAI:
        local = httpx2.URL(self.base_url).host in ("127.0.0.1", "localhost", "::1")  # no proxy can reach these
        return AsyncOpenAI(
            api_key=self._key or "none",  # the package insists on one
            base_url=self.base_url,
            max_retries=self.attempts - 1,
            timeout=httpx2.Timeout(None, connect=10.0),
            http_client=_WholeReplies(self, verify=_certificates(), trust_env=not local),
        )

    async def _call(self, calling: Coroutine[Any, Any, httpx2.Response]) -> Any:
        """The JSON that a call of ``openai`` gives; its errors in our own words, but for a refused request."""
        try:
            return (await calling).json()
        except APIStatusError as error:
            status, failed = error.status_code, error.request
            if status in (401, 403):
                remedy = f"set the environment variable {self.api_key_env} to a valid one"
                raise self._unusable(f"refuses the key ({status}); {remedy}") from None
            if status not in (408, 409, 429) and status < 500:
                raise
            reason = f"it answers {status}: {self._said(error)}"
            if wait := error.response.headers.get("retry-after"):
                reason += f" and asks to wait {wait} s"
        except APIConnectionError as error:
            failed, cause = error.request, error.__cause__
            told = isinstance(cause, httpx2.DecodingError)
            reason = str(cause) if told else f"the connection failed ({type(cause).__name__}: {cause})"
        attempts = 1 + int(failed.headers["x-stainless-retry-count"])
        raise TemporarilyUnavailable(
            f"the server at {self.base_url} gives no {self.asked_for} after {attempts} attempt{'s' * (attempts > 1)}: "
            f"{reason}; see that it runs, then retry: what is finished is kept"
        )

    def _said(self, error: APIStatusError) -> str:
        """What the server says of an error, without the key."""
        said = error.body.get("message", error.body) if isinstance(error.body, dict) else error.body
        said = str(said).replace(self._key, "[key]") if self._key else str(said)
        return " ".join(said.split())[:300]

    def _unusable(self, why: str) -> ModelUnavailable:
        return ModelUnavailable(f"the server at {self.base_url} {why}")


class _WholeReplies(DefaultAsyncHttpxClient):
    """Reads a reply whole, within limits of time and size; a late or unreadable one is tried again like a cut one."""

    def __init__(self, server: OpenAIServer, **options: Any) -> None:
        super().__init__(**options)
        self._server = server

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        server, body = self._server, bytearray()
        try:
            async with asyncio.timeout(server.timeout_seconds):
                response = await super().send(request, **{**options, "stream": True})
                async for block in response.aiter_bytes():
                    body += block
                    if len(body) > MAX_REPLY_BYTES:
                        most = f"{MAX_REPLY_BYTES >> 20} MiB"
                        raise server._unusable(f"sends over {most} for one reply; it is no such server, check base_url")
        except TimeoutError:
            late = f"no whole reply within {server.timeout_seconds:g} s"
            raise httpx2.DecodingError(late, request=request) from None
        try:
            if response.is_success and request.method == "POST":
                server.read(json.loads(body))
        except _ANOTHER_SHAPE as error:
            lacking = "is not JSON" if isinstance(error, json.JSONDecodeError) else f"has no {server.asked_for} in it"
            shown = body[:60].decode(errors="replace")
            raise httpx2.DecodingError(f"its reply {lacking}: {shown!r}", request=request) from None
        headers = {name: value for name, value in response.headers.items() if name != "content-encoding"}
        return httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)


@dataclass(eq=False)
class OpenAIGenerator(OpenAIServer):
    """A served language model."""

    constrain: str = "json_schema"
    """How the server is told the shape of a reply: ``json_schema`` by ``response_format``, ``structured_outputs`` by
    vLLM's field of that name, which holds a reply to a bare label and JSON to no blanks, or ``none``."""

    path, asked_for = "/chat/completions", "completion"
    _settled = False

    @property
    def parameters(self) -> dict[str, object]:
        return {"temperature": 0, "seed": 0, "constrain": self.constrain}

    def resolve_revision(self, kept: CompletionStore) -> None:
        """Find out the revision, once: what the server's list of models says, else the pinned one. A server that cannot
        be reached is taken at its last word.
        """
        if self._settled:
            return
        pinned = None if self.revision == _UNSAID else self.revision
        key = content_id("revision", self.base_url, self.model_id, pinned)
        last = kept.get(key)
        known = last.text if last else pinned
        try:
            self.revision = self.listed_revision() or pinned or known or _UNSAID
        except ModelUnavailable:
            if known is None:
                raise
            self.revision = known
        kept.put(key, Completion(self.revision, 0, 0, 0.0, "stop"))
        self._settled = True

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        completions = dict(self.generate_each(requests))
        return [completions[number] for number in range(len(requests))]

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """(number of the request, completion) as they arrive, so that what is paid for can be kept at once."""
        for number, reply, seconds in self.ask_each([self.payload(request) for request in requests]):
            if isinstance(reply, str):
                reply = Completion("", 0, 0, 0.0, f"{REFUSED_PREFIX} by the server {reply}")
            elif requests[number].choices and self.constrain == "json_schema":
                reply = replace(reply, text=_bare(reply.text))
            yield number, replace(reply, seconds=seconds)

    def payload(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
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
            # a bare label is no JSON document to most servers
            schema = schema or object_schema(**{ANSWER_FIELD: {"type": "string", "enum": list(request.choices)}})
            held = {"name": "reply", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": held}
        return body

    def read(self, reply: Any) -> Completion:
        choice = reply["choices"][0]
        text, refusal = choice["message"].get("content") or "", choice["message"].get("refusal")
        if not isinstance(text, str):
            raise TypeError("the content is no text")
        reason = str(choice.get("finish_reason") or "unknown")
        if refusal and not text:
            reason = f"{REFUSED_PREFIX} by the model: {' '.join(str(refusal).split())[:300]}"
        usage = reply.get("usage") or {}
        tokens_in, tokens_out = (int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
        return Completion(text, tokens_in, tokens_out, 0.0, reason)


def _bare(text: str) -> str:
    """The choice in a JSON object; a text that is no such object as it is."""
    try:
        [(name, answer)] = json.loads(text).items()
    except (ValueError, AttributeError, RecursionError):
        return text
    return answer if name == ANSWER_FIELD and isinstance(answer, str) else text


@dataclass(eq=False)
class ServedEncoder(OpenAIServer):
    """A served encoder, which is sent :data:`TOGETHER` texts a request."""

    max_tokens: int = 512
    """Longest text that the model reads. Some servers cut in silence, so texts are counted here: by the embedded
    encoder's tokenizer, and as at least a token for every four bytes."""

    path, asked_for = "/embeddings", "vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.revision = self.listed_revision() or self.revision

    @cached_property
    def dimensions(self) -> int:
        return int(self.encode_sentences(["fever"]).shape[1])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(find_minilm_folder() / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """About how many tokens each text has; see ``max_tokens``."""
        read = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [max(len(pieces), math.ceil(len(text.encode()) / 4)) for pieces, text in zip(read, texts, strict=True)]

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of unit length, n × d."""
        for text, count in zip(texts, self.count_tokens(texts), strict=True):
            if count > self.max_tokens:
                raise BadInput(
                    f"a text of {count} tokens is longer than the {self.max_tokens} that {self.model_id} reads; cut it "
                    f"into chunks first (it begins {text[:60]!r})"
                )
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        blocks = [list(texts[start : start + TEXTS_PER_REQUEST]) for start in range(0, len(texts), TEXTS_PER_REQUEST)]
        vectors = [np.empty((0, 0))] * len(blocks)
        payloads = [{"input": block, "encoding_format": "float"} for block in blocks]
        for number, reply, _ in self.ask_each(payloads):
            if isinstance(reply, str):
                longest = max(blocks[number], key=len)
                raise BadInput(f"the server at {self.base_url} refuses texts {reply}; one begins {longest[:60]!r}")
            vectors[number] = reply
        if len({each.shape[1] for each in vectors}) > 1 or sum(map(len, vectors)) != len(texts):
            raise self._unusable("gives vectors of several lengths, or not one a text: is it one model?")
        return np.asarray(unit_rows(np.concatenate(vectors)), dtype=np.float32)

    def encode_tokens(self, texts: Sequence[str]) -> NoReturn:
        raise BadInput(f"{self.model_id} is served and gives no vectors of tokens: name another token_encoder")

    def read(self, reply: Any) -> np.ndarray[Any, Any]:
        """The vectors of a reply, in the order of the texts."""
        rows = sorted(reply["data"], key=lambda row: int(row["index"]))
        vectors = np.array([row["embedding"] for row in rows], dtype=np.float64)
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise ValueError("its vectors are not numbers, or nothing but zeros")
        return vectors
