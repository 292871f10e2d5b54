"""Small models for tests, whose vectors, scores and replies can be computed by hand."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import Completion, Encoder, Request, TokenVectors
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver, PromptStyle
from evidence_assets.reasoning.templates import PACKAGED, Prompts
from evidence_assets.text.words import word_key, words_with_offsets


@cache
def load_minilm() -> Encoder:
    """The embedded encoder, loaded once per process. Do not modify it."""
    return load_encoder(EMBEDDED_ENCODER, device="cpu")


class WordEncoder:
    """Encodes a text as the sum of its words' vectors, so texts with the same words are similar."""

    model_id, revision, dimensions, max_tokens = "words", "1", 64, 64

    def __init__(self) -> None:
        self.encoded_texts: list[str] = []

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(words_with_offsets(text)) for text in texts]

    def encode_sentences(self, texts: Sequence[str]) -> np.ndarray:
        assert all(count <= self.max_tokens for count in self.count_tokens(texts))
        self.encoded_texts += texts
        return np.array([self._vector(text) for text in texts], np.float32).reshape(len(texts), self.dimensions)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        raise NotImplementedError

    def _vector(self, text: str) -> np.ndarray:
        total = np.zeros(self.dimensions)
        for word, _, _ in words_with_offsets(text):
            seed = int.from_bytes(word_key(word).encode()[:8].ljust(8, b"_"), "little")
            total += np.random.default_rng(seed).normal(size=self.dimensions)
        norm = np.linalg.norm(total)
        return (total / norm if norm else total).astype(np.float32)


class SharedWordReranker:
    """A reranker that counts shared words."""

    model_id, revision = "shared-words", "1"

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        words = [[{word_key(w) for w, _, _ in words_with_offsets(text)} for text in pair] for pair in pairs]
        return np.array([len(a & b) for a, b in words], dtype=np.float32)


class ScriptedGenerator:
    """A generator with one reply, or a function of the request."""

    revision = "1"

    def __init__(
        self, reply: str | Callable[[Request], str], finish_reason: str = "stop", model_id: str = "scripted"
    ) -> None:
        self._reply, self._finish_reason, self.model_id = reply, finish_reason, model_id
        self.requests: list[Request] = []
        self.parameters: dict[str, object] = {}

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        self.requests += requests
        replies = [self._reply if isinstance(self._reply, str) else self._reply(request) for request in requests]
        return [Completion(reply, 7, 3, 0.0, self._finish_reason) for reply in replies]

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        return enumerate(self.generate(requests))


def scripted_solver(
    reply: str | Callable[[Request], str], style: PromptStyle | None = None, prompts: Prompts = PACKAGED
) -> PromptedSolver:
    """A prompted solver over a scripted generator, without a cache."""
    return PromptedSolver(LanguageModel(ScriptedGenerator(reply), prompts=prompts), style)


class CompletionStore(dict[str, Completion]):
    """A completion cache in memory."""

    def put(self, key: str, completion: Completion) -> None:
        self[key] = completion
