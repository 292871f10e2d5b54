"""Language models on a server with the OpenAI protocol, such as vLLM or Ollama.

A request that the server refuses fails one row only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evidence_assets.models.openai_client import Refusal, ServedModel
from evidence_assets.models.protocols import ANSWER_FIELD, REFUSED_PREFIX, Completion, Request, object_schema

_END_OF_THOUGHTS = "</think>"
"""Precedes the reply of a model that thinks, on a server that does not separate the two."""


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

    def _build_completion(self, request: Request, reply: Completion | Refusal) -> Completion:
        if isinstance(reply, Refusal):
            return Completion("", 0, 0, 0.0, f"{REFUSED_PREFIX} by the server {reply}")
        if request.choices and self.constrain == "json_schema":
            return replace(reply, text=_unwrap_choice(reply.text))
        return reply

    def _payload(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model_id,
            "messages": request.messages,
            "max_tokens": request.max_reply_tokens + self.thinking_tokens,
            "temperature": request.temperature,
            "seed": 0,
        }
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


def _parse_reply(reply: Any) -> Completion:
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
    return Completion(text, tokens_in, tokens_out, 0.0, finish_reason)


def _unwrap_choice(text: str) -> str:
    """The choice in a JSON object with the answer field; any other text unchanged."""
    try:
        [(name, answer)] = json.loads(text).items()
    except (ValueError, AttributeError, RecursionError):
        return text
    return answer if name == ANSWER_FIELD and isinstance(answer, str) else text
