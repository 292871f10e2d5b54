"""Language models on a server with the OpenAI protocol, such as vLLM or Ollama.

A request that the server refuses fails one row only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evidence_assets.models.openai_client import Refusal, ServedModel
from evidence_assets.models.protocols import ANSWER_FIELD, REFUSED_PREFIX, Completion, Request, object_schema

_END_OF_THOUGHTS = "</think>"
"""Precedes the reply of a model that thinks, on a server that does not separate the two."""
TOP_TOKENS = 20
"""Most probable tokens that a server is asked for at each position; the protocol allows no more."""


@dataclass(frozen=True)
class WrittenToken:
    """A token of a reply, and the log probabilities of the most probable tokens at its position."""

    text: str
    log_probs: Mapping[str, float]


@dataclass(frozen=True)
class ServedReply:
    """A completion and its tokens, if the server gives their log probabilities."""

    completion: Completion
    tokens: tuple[WrittenToken, ...] = ()


@dataclass(eq=False, kw_only=True)
class OpenAIGenerator(ServedModel):
    """A served language model."""

    constrain: str = "json_schema"
    """How to constrain replies: ``json_schema`` uses ``response_format``; ``structured_outputs`` uses vLLM's field of
    that name, which allows bare labels and JSON without whitespace; ``none`` does not constrain them."""
    thinking_tokens: int = 0
    """Added to each limit, for a model that thinks before it replies."""

    path: ClassVar[str] = "/chat/completions"
    reply_kind: ClassVar[str] = "completion"

    @property
    def parameters(self) -> dict[str, object]:
        thinking = {"thinking_tokens": self.thinking_tokens} if self.thinking_tokens else {}
        return {"temperature": 0, "seed": 0, "constrain": self.constrain, **thinking}

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield (number of the request, completion) as they arrive, so that each can be stored at once.

        After a failure, requests in flight are awaited and yielded before the error is raised.
        """
        bodies = [self._payload(request) for request in requests]
        with closing(self.send_each(bodies, _parse_reply)) as replies:
            for number, reply, seconds in replies:
                yield number, replace(self._build_completion(requests[number], reply), seconds=seconds)

    def _build_completion(self, request: Request, reply: ServedReply | Refusal) -> Completion:
        if isinstance(reply, Refusal):
            return Completion("", 0, 0, 0.0, f"{REFUSED_PREFIX} by the server {reply}")
        completion = reply.completion
        if self._rates_choices(request):
            return rate_choices(completion, request.choices, reply.tokens)
        if request.choices and self.constrain == "json_schema":
            return replace(completion, text=_unwrap_choice(completion.text))
        return completion

    def _rates_choices(self, request: Request) -> bool:
        """Whether to ask for log probabilities: a model that thinks writes its letter after its thoughts."""
        return request.rates_choices and not self.thinking_tokens

    def _payload(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model_id,
            "messages": request.messages,
            "max_tokens": request.max_reply_tokens + self.thinking_tokens,
            "temperature": request.temperature,
            "seed": 0,
        }
        if self._rates_choices(request):
            return body | {"max_tokens": request.max_tokens, "logprobs": True, "top_logprobs": TOP_TOKENS}
        schema = json.loads(request.json_schema) if request.json_schema else None
        if self.constrain == "structured_outputs" and request.choices:
            body["structured_outputs"] = {"choice": list(request.choices)}
        elif self.constrain == "structured_outputs" and schema:
            body["structured_outputs"] = {"json": schema, "disable_any_whitespace": True}
        elif self.constrain == "json_schema" and (schema or request.choices):
            # most servers accept only objects, not bare labels
            schema = schema or object_schema(**{ANSWER_FIELD: {"type": "string", "enum": list(request.choices)}})
            named_schema = {"name": "reply", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named_schema}
        return body


def _parse_reply(reply: Any) -> ServedReply:
    """The completion in a decoded reply; see ``ServedModel.send_each``."""
    choice = reply["choices"][0]
    text = choice["message"].get("content") or ""
    refusal = choice["message"].get("refusal")
    if not isinstance(text, str):
        raise TypeError("the content is not text")
    text = text.rpartition(_END_OF_THOUGHTS)[2].lstrip() if _END_OF_THOUGHTS in text else text
    finish_reason = str(choice.get("finish_reason") or "unknown")
    if refusal and not text:
        finish_reason = f"{REFUSED_PREFIX} by the model: {' '.join(str(refusal).split())[:300]}"
    usage = reply.get("usage") or {}
    tokens_in, tokens_out = (int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens"))
    return ServedReply(Completion(text, tokens_in, tokens_out, 0.0, finish_reason), _parse_tokens(choice))


def _parse_tokens(choice: Any) -> tuple[WrittenToken, ...]:
    """The tokens of a reply with their log probabilities; none if the server gives none."""
    entries = (choice.get("logprobs") or {}).get("content") or ()
    return tuple(
        WrittenToken(entry["token"], {each["token"]: float(each["logprob"]) for each in entry["top_logprobs"]})
        for entry in entries
    )


def rate_choices(completion: Completion, choices: Sequence[str], tokens: Sequence[WrittenToken]) -> Completion:
    """The completion with the log probability of each choice, and the most probable one as its text.

    The first token that is a choice decides, else the first token of the reply: a model may write ``(`` before ``B``.
    A choice that is not among the most probable tokens gets the lowest of their log probabilities, which is an upper
    bound of its own. Without log probabilities of a choice, the completion is unchanged.

    >>> tokens = [WrittenToken("B", {"B": -0.1, " B": -3.0, "A": -2.5})]
    >>> rate_choices(Completion("B.", 9, 2, 0.0, "length"), ["A", "B"], tokens).text
    'B'
    """
    position = next((token for token in tokens if token.text.strip() in choices), tokens[0] if tokens else None)
    if position is None or not any(text.strip() in choices for text in position.log_probs):
        return completion
    floor = min(position.log_probs.values())
    ratings = []
    for choice in choices:
        values = [value for text, value in position.log_probs.items() if text.strip() == choice]
        ratings.append(math.log(math.fsum(map(math.exp, values))) if values else floor)
    best = choices[ratings.index(max(ratings))]
    return replace(completion, text=best, finish_reason="stop", choice_log_probs=tuple(ratings))


def _unwrap_choice(text: str) -> str:
    """The choice in a JSON object with the answer field; any other text unchanged."""
    try:
        [(name, answer)] = json.loads(text).items()
    except (ValueError, AttributeError, RecursionError):
        return text
    return answer if name == ANSWER_FIELD and isinstance(answer, str) else text
