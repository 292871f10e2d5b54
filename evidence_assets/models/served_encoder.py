"""An encoder behind any server that speaks the OpenAI protocol of embeddings: sentence vectors, such as those of Ada-002.

What it does not give are vectors of tokens, for which the profile names a ``token_encoder``, and a promise that a vector does
not depend on what else is asked: that is for the server to keep.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import aiohttp
import numpy as np
from tokenizers import Tokenizer

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.openai_http import OpenAIServer, TryAgain, revision_in, to_its_end
from evidence_assets.models.protocols import FloatArray, TokenVectors
from evidence_assets.models.vectors import unit_rows
from evidence_assets.models.weights import minilm_folder

TOGETHER = 64
"""Texts of one request."""
_BYTES_A_TOKEN = 4
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class ServedEncoder(OpenAIServer):
    """Asks a served encoder for the vectors of texts, :data:`TOGETHER` a request and several requests at once.

    ``revision``: What tells this model's weights from others of the same name, where the server's list of models does
        not say.
    ``max_tokens``: Longest text that the model reads. Servers do not count, and some cut in silence, so texts are
        counted here: by the embedded encoder's tokenizer, and as at least a token for every four bytes.
    """

    asked_for = "vectors"

    def __init__(
        self,
        model_id: str,
        *,
        base_url: str,
        revision: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        max_tokens: int = 512,
        concurrency: int = 8,
        timeout_seconds: float = 60.0,
        attempts: int = 6,
    ) -> None:
        super().__init__(model_id, base_url, api_key_env, concurrency, timeout_seconds, attempts)
        self.max_tokens = max_tokens
        self.revision = revision_in(self.listed(), model_id) or revision or "served"

    @cached_property
    def dimensions(self) -> int:
        """Numbers of a vector, as the first reply has them."""
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
            max(len(pieces), -(-len(_plain(text).encode()) // _BYTES_A_TOKEN))
            for pieces, text in zip(read, texts, strict=True)
        ]

    def sentences(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of unit length, n × d.

        Raises BadInput if a text is empty, too long, or refused by the server.
        """
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
        blocks = to_its_end(self._ask_all(requests))
        if len({block.shape[1] for block in blocks}) > 1:
            raise ModelUnavailable(f"the server at {self._url} gives vectors of several lengths: is it one model?")
        return np.asarray(unit_rows(np.concatenate(blocks)), dtype=np.float32)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        raise BadInput(f"{self.model_id} is served and gives no vectors of tokens: name another token_encoder")

    async def _ask_all(self, blocks: Sequence[list[str]]) -> list[np.ndarray[Any, Any]]:
        limit = asyncio.Semaphore(self._concurrency)

        async def work(session: aiohttp.ClientSession, texts: list[str]) -> np.ndarray[Any, Any]:
            async with limit:
                return await self._patiently(lambda: self._ask(session, texts))

        async with self._session() as session:
            return await asyncio.gather(*(work(session, texts) for texts in blocks))

    async def _ask(self, session: aiohttp.ClientSession, texts: list[str]) -> np.ndarray[Any, Any]:
        payload = {"model": self.model_id, "input": texts, "encoding_format": "float"}
        status, reply = await self._exchange(session, "/embeddings", payload)
        if status == 404:
            raise ModelUnavailable(f"the server at {self._url} has no embeddings of {self.model_id!r} (404)")
        if status >= 400:
            raise BadInput(
                f"the server at {self._url} refuses texts ({status}): {self._message(reply)}; the longest begins "
                f"{max(texts, key=len)[:60]!r}"
            )
        try:
            rows = {int(row["index"]): row["embedding"] for row in json.loads(reply)["data"]}
            vectors = np.array([rows[number] for number in range(len(texts))], dtype=np.float64)
        except (ValueError, LookupError, TypeError, RecursionError):
            raise TryAgain(f"its reply is no list of {len(texts)} vectors: {bytes(reply[:60])!r}") from None
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise TryAgain("its vectors are not numbers, or nothing but zeros")
        return vectors


def _plain(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which cannot be sent."""
    return _LONE_SURROGATE.sub("\ufffd", text)
