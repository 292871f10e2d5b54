"""Encoders of sentences on a server with the OpenAI protocol: TEI, vLLM, Ollama, llama.cpp and hosted ones.

A server returns one vector per text. The profile's ``token_encoder``, which is loaded locally, has the token vectors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from tokenizers import Tokenizer

from evidence_assets.lake.errors import BadInput
from evidence_assets.models.inference import find_minilm_folder, require_numbers
from evidence_assets.models.openai_client import Refusal, ServedModel
from evidence_assets.models.protocols import FloatArray, TokenVectors
from evidence_assets.models.vectors import Array, unit_rows

TEXTS_PER_REQUEST = 32
"""The largest request that TEI accepts by default."""
_BYTES_PER_TOKEN = 4
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_LIMIT_FIELDS = ("max_input_length", "max_model_len")
"""Names of the longest input in TEI's description of a model, and in vLLM's."""


@dataclass(eq=False, kw_only=True)
class ServedEncoder(ServedModel):
    """A served encoder. Whether a vector depends on the other texts of a request is up to the server."""

    max_tokens: int = 512
    """Longest text that the model reads, or what the server reports, if that is less.

    Some servers truncate silently, so longer texts are refused before they are sent. Tokens are those of the embedded
    encoder, and at least one for every four bytes.
    """

    path: ClassVar[str] = "/embeddings"
    reply_kind: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        reported_limits = [int(self._entry[name]) for name in _LIMIT_FIELDS if self._entry.get(name)]
        self.max_tokens = min([self.max_tokens, *reported_limits])

    @cached_property
    def dimensions(self) -> int:
        return int(self._request_vectors(["dimensions"]).shape[1])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(find_minilm_folder() / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        return tokenizer

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Estimated tokens of each text; see ``max_tokens``."""
        sent_texts = [_LONE_SURROGATE.sub("\ufffd", text) for text in texts]
        encodings = self._tokenizer.encode_batch_fast(sent_texts, add_special_tokens=False)
        estimates = [math.ceil(len(text.encode()) / _BYTES_PER_TOKEN) for text in sent_texts]
        return [max(len(encoding), estimate) for encoding, estimate in zip(encodings, estimates, strict=True)]

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of unit length, n × d."""
        for text, count in zip(texts, self.count_tokens(texts), strict=True):
            if count > self.max_tokens:
                raise BadInput(
                    f"a text of about {count} tokens is longer than the {self.max_tokens} that {self.model_id} reads. "
                    f"Split it into chunks (it begins {text[:60]!r})"
                )
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        vectors = self._request_vectors(texts)
        if vectors.shape[1] != self.dimensions:
            raise self._unavailable(
                f"returned vectors of {vectors.shape[1]} numbers for {self.model_id}, and of {self.dimensions} before: "
                "another model is served under this name. Set `revision` in the profile to tell them apart"
            )
        return np.asarray(unit_rows(vectors), dtype=np.float32)

    def _request_vectors(self, texts: Sequence[str]) -> Array:
        """The server's vectors in the order of the texts."""
        starts = range(0, len(texts), TEXTS_PER_REQUEST)
        batches = [[_make_sendable(text) for text in texts[start : start + TEXTS_PER_REQUEST]] for start in starts]
        bodies = [{"model": self.model_id, "input": batch} for batch in batches]
        vectors: dict[int, Array] = {}
        with closing(self.send_each(bodies, _parse_vectors)) as replies:
            for number, reply, _ in replies:
                if isinstance(reply, Refusal):
                    longest = max(batches[number], key=len)
                    raise BadInput(
                        f"the server at {self.base_url} refused texts {reply}. Shorten the one that begins "
                        f"{longest[:60]!r}, or lower max_tokens of the encoder in the profile"
                    )
                vectors[number] = reply
        counts = [len(vectors[number]) for number in range(len(batches))]
        lengths = {rows.shape[1] for rows in vectors.values()}
        if counts != [len(batch) for batch in batches] or len(lengths) > 1:
            raise self._unavailable(
                "returned vectors of different lengths, or not one for each text. Serve one embedding model"
            )
        rows = np.concatenate([vectors[number] for number in range(len(batches))])
        require_numbers(rows, self.model_id)
        return rows

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Raises BadInput: the protocol has no token vectors."""
        if not texts:
            return []
        raise BadInput(f"{self.model_id} is served and returns no token vectors. Choose a local encoder")

    def pool_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Raises BadInput: servers return vectors of unit length."""
        raise BadInput(
            f"{self.model_id} is served and returns vectors of unit length only. Choose a local encoder, or a variant "
            "with `normalize: true`"
        )


def _make_sendable(text: str) -> str:
    """The text without halves of characters; servers refuse an empty one."""
    return _LONE_SURROGATE.sub("\ufffd", text) or " "


def _parse_vectors(reply: Any) -> Array:
    """The vectors in a decoded reply, in the order of the texts; see ``ServedModel.send_each``."""
    rows = sorted(reply["data"], key=lambda row: int(row["index"]))
    vectors = np.array([row["embedding"] for row in rows], dtype=np.float64)
    if vectors.ndim != 2 or not vectors.any(axis=1).all():
        raise ValueError("no vectors, vectors of different lengths, or zero")
    return vectors
