"""Language models and encoders behind any server of the OpenAI protocol: how the shape of a reply is asked for on the
wire, and what a reply holds. A refused request gives a completion whose finish reason begins with ``refused``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.ids import content_id
from evidence_assets.models.openai_server import OpenAIServer, RefusedRequest, revision_in
from evidence_assets.models.protocols import (
    ANSWER,
    REFUSED,
    Completion,
    FloatArray,
    Kept,
    Request,
    TokenVectors,
    object_schema,
)
from evidence_assets.models.running import minilm_folder
from evidence_assets.models.vectors import unit_rows


class OpenAIGenerator(OpenAIServer):
    """Asks a served language model; ``limits`` are those of :class:`OpenAIServer`.

    ``revision``: What tells this model's weights from others of the same name, where the server does not say.
    ``constrain``: How the server is told the shape of the reply: ``json_schema`` by ``response_format``, which all
        common servers honour; ``structured_outputs`` by vLLM's field of that name, which holds a reply to a bare label
        and JSON to no blanks; ``none`` not at all.
    """

    path, asked_for = "/chat/completions", "completion"

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str = "http://127.0.0.1:8000/v1",
        revision: str | None = None,
        constrain: str = "json_schema",
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 32,
        **limits: Any,
    ) -> None:
        super().__init__(model_id, base_url, api_key_env, concurrency, **limits)
        self.revision = revision or "served"
        self.parameters: dict[str, object] = {"temperature": 0, "seed": 0, "constrain": constrain}
        self._constrain, self._pinned, self._settled = constrain, revision, False

    def settle_revision(self, kept: Kept) -> None:
        """Find out the revision, once: what the server's list of models says, else the pinned one, else what its first
        reply said, as that may change with every restart. One that cannot be reached is taken at its last word.
        """
        if self._settled:
            return
        key = content_id("revision", self.url, self.model_id, self._pinned)
        last = kept.get(key)
        try:
            said = revision_in(self.list_models(), self.model_id)
        except ModelUnavailable:
            if last is None and not self._pinned:
                raise
            said = last.text if last else ""
        said = said or self._pinned or (last.text if last else self._said_in_reply())
        self.revision = said or self.revision
        kept.put(key, Completion(self.revision, 0, 0, 0.0, "stop"))
        self._settled = True

    def _said_in_reply(self) -> str:
        """What the shortest reply says of the model besides its name."""
        [(_, reply, _)] = self.ask_each([self.payload(Request("", "Hello", 1))])
        names = [] if isinstance(reply, RefusedRequest) else [reply.get("model"), reply.get("system_fingerprint")]
        return "-".join(str(name) for name in names if name and name != self.model_id)

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        completions = dict(self.generate_each(requests))
        return [completions[number] for number in range(len(requests))]

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """(number of the request, completion) as they arrive, so that what is paid for can be kept at once."""
        if not requests:
            return
        for number, reply, seconds in self.ask_each([self.payload(request) for request in requests]):
            if isinstance(reply, RefusedRequest):
                yield number, Completion("", 0, 0, seconds, f"{REFUSED} by the server {reply}")
            else:
                wrapped = bool(requests[number].choices) and self._constrain == "json_schema"
                yield number, completion_of(reply, seconds, wrapped=wrapped)

    def payload(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model_id,
            "messages": request.messages,
            "max_tokens": request.most_tokens,
            "temperature": request.temperature,
            "seed": 0,
        }
        schema = json.loads(request.json_schema) if request.json_schema else None
        if self._constrain == "structured_outputs" and request.choices:
            body["structured_outputs"] = {"choice": list(request.choices)}
        elif self._constrain == "structured_outputs" and schema:
            body["structured_outputs"] = {"json": schema, "disable_any_whitespace": True}
        elif self._constrain == "json_schema" and (schema or request.choices):
            # a bare label is no JSON document to most servers
            schema = schema or object_schema(**{ANSWER: {"type": "string", "enum": list(request.choices)}})
            held = {"name": "reply", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": held}
        return body

    def check(self, reply: Any) -> Completion:
        return completion_of(reply)


def completion_of(reply: Any, seconds: float = 0.0, *, wrapped: bool = False) -> Completion:
    """The completion that the JSON of a reply holds; a choice that was asked for ``wrapped`` as JSON is taken out."""
    choice = reply["choices"][0]
    message = choice["message"]
    text, refusal = message.get("content") or "", message.get("refusal")
    if not isinstance(text, str):
        raise TypeError("the content is no text")
    reason = str(choice.get("finish_reason") or "unknown")
    if refusal and not text:
        reason = f"{REFUSED} by the model: {' '.join(str(refusal).split())[:300]}"
    usage = reply.get("usage") or {}
    prompt_tokens, completion_tokens = (int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
    return Completion(_bare(text) if wrapped else text, prompt_tokens, completion_tokens, seconds, reason)


def _bare(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    answer = value.get(ANSWER) if isinstance(value, dict) and len(value) == 1 else None
    return answer if isinstance(answer, str) else text


TOGETHER = 64
"""Texts of one request."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class ServedEncoder(OpenAIServer):
    """Asks a served encoder for the vectors of texts, :data:`TOGETHER` a request and several requests at once.

    ``revision``: What tells this model's weights from others of the same name, where the server does not say.
    ``max_tokens``: Longest text that the model reads. Some servers cut in silence, so texts are counted here: by the
        embedded encoder's tokenizer, and as at least a token for every four bytes.
    """

    path, asked_for = "/embeddings", "vectors"

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str,
        revision: str | None = None,
        max_tokens: int = 512,
        api_key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        timeout_seconds: float = 60.0,
        **limits: Any,
    ) -> None:
        super().__init__(model_id, base_url, api_key_env, concurrency, timeout_seconds, **limits)
        self.max_tokens = max_tokens
        self.revision = revision_in(self.list_models(), model_id) or revision or "served"

    @cached_property
    def dimensions(self) -> int:
        return int(self.sentences(["fever"]).shape[1])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """About how many tokens each text has; see ``max_tokens``."""
        read = self._tokenizer.encode_batch_fast(list(map(_plain, texts)), add_special_tokens=False)
        return [
            max(len(pieces), math.ceil(len(_plain(text).encode()) / 4))
            for pieces, text in zip(read, texts, strict=True)
        ]

    def sentences(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of unit length, n × d."""
        for text, count in zip(texts, self.count_tokens(texts), strict=True):
            if not text.strip():
                raise BadInput(f"an empty text has no vector with {self.model_id}")
            if count > self.max_tokens:
                raise BadInput(
                    f"a text of {count} tokens is longer than the {self.max_tokens} that {self.model_id} reads; cut it "
                    f"into chunks first (it begins {text[:60]!r})"
                )
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        plain = list(map(_plain, texts))
        requests = [plain[i : i + TOGETHER] for i in range(0, len(plain), TOGETHER)]
        payloads = [{"model": self.model_id, "input": block, "encoding_format": "float"} for block in requests]
        blocks = [np.empty((0, 0))] * len(requests)
        for number, reply, _ in self.ask_each(payloads):
            if isinstance(reply, RefusedRequest):
                longest = max(requests[number], key=len)
                raise BadInput(f"the server at {self.url} refuses texts {reply}; the longest begins {longest[:60]!r}")
            blocks[number] = self.check(reply)
        if len({block.shape[1] for block in blocks}) > 1 or sum(map(len, blocks)) != len(texts):
            raise ModelUnavailable(
                f"the server at {self.url} gives vectors of several lengths, or not one a text: is it one model?"
            )
        return np.asarray(unit_rows(np.concatenate(blocks)), dtype=np.float32)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        raise BadInput(f"{self.model_id} is served and gives no vectors of tokens: name another token_encoder")

    def check(self, reply: Any) -> np.ndarray[Any, Any]:
        """The vectors of a reply, in the order of the texts."""
        rows = sorted(reply["data"], key=lambda row: int(row["index"]))
        vectors = np.array([row["embedding"] for row in rows], dtype=np.float64)
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise ValueError("its vectors are not numbers, or nothing but zeros")
        return vectors


def _plain(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which cannot be sent."""
    return _LONE_SURROGATE.sub("\ufffd", text)
