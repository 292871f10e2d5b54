"""Interfaces of models, independent of the backend. Results are keyed by a model's name and revision."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

FloatArray = npt.NDArray[np.float32]

REFUSED_PREFIX = "refused"
"""Start of the finish reason if the model cannot process a request, such as a prompt that is too long."""
ANSWER_FIELD = "answer"
"""The only field of the JSON object with a choice, for servers that constrain replies by a JSON schema only."""


@dataclass(frozen=True)
class TokenVectors:
    """Contextual vectors of one text's tokens, without special tokens."""

    vectors: FloatArray
    """n × d."""
    offsets: npt.NDArray[np.int32]
    """Character positions in the text, n × 2."""
    tokens: tuple[str, ...]
    """Surface forms."""
    on_device: torch.Tensor | None = None
    """The vectors in float16 on the encoder's card, if it has one and the caller may rank texts there."""


class NamedModel(Protocol):
    """A model with a name and a revision."""

    @property
    def model_id(self) -> str: ...
    @property
    def revision(self) -> str: ...


class Encoder(NamedModel, Protocol):
    """Encodes texts as vectors that never depend on the other texts of the call."""

    @property
    def dimensions(self) -> int: ...
    @property
    def max_tokens(self) -> int:
        """Longest text that it reads, without special tokens. Longer texts are refused, never truncated."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]: ...
    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Pooled, L2-normalised vectors, n × d."""

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]: ...


class LocalEncoder(Encoder, Protocol):
    """An encoder that is loaded from a folder or the hub, as those of profiles are."""

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The surface forms that ``encode_tokens`` returns, without computing vectors."""

    def pool_sentences(self, texts: Sequence[str]) -> FloatArray:
        """As ``encode_sentences``, before vectors are scaled to unit length."""

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[FloatArray, list[TokenVectors]]:
        """The results of ``encode_sentences`` and ``encode_tokens``, in one pass."""

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        """As ``encode_tokens``, with the last ``layers`` hidden layers concatenated: n × (layers · d)."""


@dataclass(frozen=True)
class Request:
    """A request to a generator and the format of its reply: free text, one of ``choices``, or JSON of a schema.

    Backends constrain the reply to the format if they can, and return a choice as its bare text.
    """

    system: str
    user: str
    max_tokens: int = 512
    choices: tuple[str, ...] = ()
    json_schema: str = ""
    """JSON schema by the strict rules of the OpenAI API: no additional properties, all properties required."""
    temperature: float = 0.0
    """0 selects the most probable token; above 0, tokens are sampled with the same seed for every request."""
    rates_choices: bool = False
    """Also ask for the log probability of each choice. The choices are single letters; the reply is not constrained."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The request as chat messages; an empty system prompt is left out."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.user}]

    @property
    def max_reply_tokens(self) -> int:
        """Token limit of the reply: ``max_tokens``, or more if the longest choice as a JSON object needs more.

        A token has at least one byte; one more token ends the reply.
        """
        longest = max((len(json.dumps({ANSWER_FIELD: choice})) for choice in self.choices), default=0)
        return max(self.max_tokens, longest + 1)


def object_schema(**fields: object) -> dict[str, object]:
    """The JSON schema of an object with exactly these fields."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


@dataclass(frozen=True)
class Completion:
    """A generator's reply and its cost."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    finish_reason: str
    choice_log_probs: tuple[float, ...] = ()
    """Log probability of each choice of the request, in order; empty if the backend gives none."""

    @property
    def is_refused(self) -> bool:
        """Whether the request was refused; ``finish_reason`` says why."""
        return self.finish_reason.startswith(REFUSED_PREFIX)


class Generator(NamedModel, Protocol):
    """A generative language model."""

    @property
    def parameters(self) -> dict[str, object]:
        """Parameters other than the request that affect replies; part of the completion cache's key."""

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Numbers of requests with their completions, each as soon as it is there."""


class CompletionStore(Protocol):
    """Completions by key."""

    def get(self, key: str) -> Completion | None: ...
    def put(self, key: str, completion: Completion) -> None: ...


class Reranker(NamedModel, Protocol):
    """Scores the relevance of each text to its query; larger is better."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray: ...


WordContext = Literal["both", "left"]


@dataclass(frozen=True)
class WordVectors:
    """The words of one text, without punctuation, and their contextual vectors (n × d)."""

    words: tuple[str, ...]
    vectors: FloatArray


class MaskedLM(NamedModel, Protocol):
    """A masked language model. No result depends on the other texts of the call."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words that can fill one mask: tokens that are whole words."""

    def slot_log_probs(
        self, texts: Sequence[str], slots: Sequence[int], words: npt.NDArray[np.intp] | None = None
    ) -> FloatArray:
        """Row i is log P(word | text i) at slot ``slots[i]`` of text i, counted from 0, normalised over all tokens.

        ``words`` are positions in ``vocabulary`` (default: all).
        """

    def fill_log_probs(
        self, texts: Sequence[str], words: Sequence[Sequence[str]], slots: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        """Log-probabilities of words filled into the slots of each text one after another.

        Word j of ``words[i]`` fills slot ``slots[i][j]``: earlier words are filled in, later ones masked.
        """

    def word_vectors(self, texts: Sequence[str]) -> list[WordVectors]: ...
    def word_log_probs(self, texts: Sequence[str], context: WordContext = "both") -> list[FloatArray]:
        """Natural log-probabilities of the words of unmasked texts, without punctuation.

        ``both`` masks the word alone (pseudo-log-likelihood); ``left`` also masks all later words, as a left-to-right
        model sees the text.
        """

    def find_unknown_words(self, text: str) -> tuple[str, ...]:
        """The words of ``text`` that the tokenizer maps to its unknown token."""
