"""What a model must be able to do, whichever backend fulfils it. What it makes is keyed by its name and revision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.errors import ModelUnavailable

FloatArray = npt.NDArray[np.float32]

REFUSED_PREFIX = "refused"
"""How the finish reason begins where the model cannot take the request, such as a prompt that is too long for it."""
ANSWER_FIELD = "answer"
"""The only field of the JSON object that holds a choice where a server knows no other way to hold a model to one."""


@dataclass(frozen=True)
class TokenVectors:
    """Contextual vectors of one text's tokens, special tokens left out."""

    vectors: FloatArray
    """n × d."""
    offsets: npt.NDArray[np.int32]
    """Character positions in the text, n × 2."""
    words: npt.NDArray[np.int32]
    """Which word of the text each token belongs to, from 0."""
    tokens: tuple[str, ...]
    """Surface forms."""


class NonFiniteVectors(ModelUnavailable):
    """An encoder gave vectors that are not numbers for some texts; ``vectors`` are those of all."""

    def __init__(self, message: str, vectors: FloatArray) -> None:
        super().__init__(message)
        self.vectors = vectors


@runtime_checkable
class NamedModel(Protocol):
    """A model by its name and revision."""

    @property
    def model_id(self) -> str: ...
    @property
    def revision(self) -> str: ...


@runtime_checkable
class Encoder(NamedModel, Protocol):
    """Texts in, vectors out; a vector never depends on the other texts of the call."""

    @property
    def dimensions(self) -> int: ...
    @property
    def max_tokens(self) -> int:
        """Longest text that it reads, without special tokens; longer ones are refused, never cut."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]: ...
    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Pooled, L2-normalised vectors, n × d."""
        ...

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]: ...


@runtime_checkable
class Tokenizer(Protocol):
    """Says what the tokens of a text are without computing their vectors."""

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """The same surface forms as ``Encoder.tokens`` gives."""
        ...


@runtime_checkable
class LayeredEncoder(Protocol):
    """An encoder that gives more than its last hidden layer, and counts words without computing vectors."""

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        """As ``Encoder.tokens``, with the last ``layers`` hidden layers side by side, in order: n × (layers · d)."""
        ...

    def count_words(self, texts: Sequence[str]) -> list[int]:
        """Different words that the tokens of each text belong to, as ``TokenVectors.words`` tells them apart."""
        ...


@dataclass(frozen=True)
class Request:
    """One thing to ask a generator, and the shape of the reply: free text, one of ``choices``, or JSON of a schema.

    A backend holds the model to the shape where it can, and gives a choice back as its bare text.
    """

    system: str
    user: str
    max_tokens: int = 512
    choices: tuple[str, ...] = ()
    json_schema: str = ""
    """As text, valid by the strict rules of the OpenAI API: no further properties, all of them required."""
    temperature: float = 0.0
    """At 0 the likeliest token each time; above, tokens are drawn, from the same seed for every request."""

    def __post_init__(self) -> None:
        if self.choices and self.json_schema:
            raise ValueError("a reply is one of the choices or JSON, not both")

    @property
    def messages(self) -> list[dict[str, str]]:
        """The two texts as a chat, of which the system's part may be missing."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.user}]

    @property
    def max_reply_tokens(self) -> int:
        """Tokens that the reply may take: ``max_tokens``, or what the longest choice as a JSON object takes at most.

        A token holds at least one byte; one more ends the reply.
        """
        longest = max((len(json.dumps({ANSWER_FIELD: choice})) for choice in self.choices), default=0)
        return max(self.max_tokens, longest + 1)


def object_schema(**fields: object) -> dict[str, object]:
    """The JSON schema of an object of these fields, all of them required and no others allowed."""
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


@dataclass(frozen=True)
class Completion:
    """A generator's reply and what it cost."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    finish_reason: str

    @property
    def is_refused(self) -> bool:
        """Whether this is no reply but the reason why there is none."""
        return self.finish_reason.startswith(REFUSED_PREFIX)


@runtime_checkable
class Generator(NamedModel, Protocol):
    """A generative language model: batch in, batch out, in the order asked."""

    @property
    def parameters(self) -> dict[str, object]:
        """What besides the request decides the reply; part of the completion cache's key."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[Completion]: ...


class CompletionStore(Protocol):
    """Completions by key."""

    def get(self, key: str) -> Completion | None: ...
    def put(self, key: str, completion: Completion) -> None: ...


@runtime_checkable
class HasServedRevision(Protocol):
    """A generator that has to ask, once, which revision it is; ``kept`` remembers what was said."""

    def resolve_revision(self, kept: CompletionStore) -> None: ...


@runtime_checkable
class Reranker(NamedModel, Protocol):
    """Scores how well each text answers to its query; larger is better."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray: ...


WordContext = Literal["both", "left"]


@dataclass(frozen=True)
class WordVectors:
    """The words of one text, punctuation left out, and their contextual vectors (n × d)."""

    words: tuple[str, ...]
    vectors: FloatArray


@dataclass(frozen=True)
class WordLogProbs:
    """The words of one text, punctuation left out, and the natural log-probability of each."""

    words: tuple[str, ...]
    log_probs: FloatArray


@runtime_checkable
class MaskedLM(NamedModel, Protocol):
    """A model that fills masked words. No result depends on the other texts of the call."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words that one mask can stand for: whole-word pieces only."""
        ...

    def slot_log_probs(
        self, texts: Sequence[str], slots: Sequence[int], words: npt.NDArray[np.intp] | None = None
    ) -> FloatArray:
        """Row i is log P(word | text i), normalised over all pieces, at slot ``slots[i]``, from 0, of those that text i
        holds; ``words`` are positions in ``vocabulary`` (all by default).
        """
        ...

    def fill_log_probs(
        self, texts: Sequence[str], words: Sequence[Sequence[str]], slots: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        """Log-probabilities of words that are filled into all slots of each text, one after the other: word j of
        ``words[i]`` into slot ``slots[i][j]``, those before it filled in and those after it masked.
        """
        ...

    def word_vectors(self, texts: Sequence[str]) -> list[WordVectors]: ...
    def word_log_probs(self, texts: Sequence[str], context: WordContext = "both") -> list[WordLogProbs]:
        """Log-probability of every word of unmasked texts: ``both`` masks the word alone (pseudo-log-likelihood),
        ``left`` all that follows, too, as a left-to-right model would see it.
        """
        ...

    def find_unknown_words(self, text: str) -> tuple[str, ...]:
        """The words of ``text`` that the tokenizer only knows as unknown."""
        ...
