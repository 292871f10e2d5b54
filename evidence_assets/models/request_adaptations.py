"""Changes of requests for servers and models that refuse them as they are.

The protocol is one, but not its fields: OpenAI's newer models want ``max_completion_tokens`` and their own temperature,
Gemini's server knows no ``seed``, Gemma's chat template has no system role. The message of a refusal says what to
change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Body = dict[str, Any]
"""The fields of a request."""
_REJECTED = (
    r"unsupported|(?:not|n't) support|unknown|unrecogni[sz]ed|unexpected|invalid|unavailable|deprecated|not enabled|"
    r"not permitted|not allowed|cannot find|extra_forbidden"
)
"""How servers say that they do not take a field. A limit that is too large for the model's context is none of these."""
NO_SYSTEM_ROLE = re.compile(
    r"system role|role\W.{0,60}\bsystem\b|roles must alternate|only user.{0,40}roles are supported|"
    r"developer instruction|'literal_error'.{0,200}'system'",
    re.IGNORECASE | re.DOTALL,
)
"""Messages of chat templates and models without a system role; llama.cpp's have the status of a server error."""


@dataclass(frozen=True)
class Adaptation:
    """A change of requests, and the refusals after which it is made."""

    description: str
    refusal: re.Pattern[str]
    change: Callable[[Body], Body]
    """Returns an equal body if there is nothing to change."""


def _drop(*fields: str, other_refusals: str = "(?!)") -> Adaptation:
    """The request without these fields; ``other_refusals`` matches messages that do not name them."""
    names = "|".join(fields)
    return Adaptation(
        f"sent without {' and '.join(fields)}",
        re.compile(rf"(?=.*\b(?:{names})\b).*(?:{_REJECTED})|{other_refusals}", re.IGNORECASE | re.DOTALL),
        lambda body: {name: value for name, value in body.items() if name not in fields},
    )


def _rename_token_limit(body: Body) -> Body:
    return {("max_completion_tokens" if name == "max_tokens" else name): value for name, value in body.items()}


def _prepend_system_text(body: Body) -> Body:
    """The messages without the system's, whose text precedes that of the first other message."""
    messages = body.get("messages", [])
    system_texts = [message["content"] for message in messages if message["role"] == "system"]
    others = [message for message in messages if message["role"] != "system"]
    if not system_texts or not others:
        return body
    first = others[0] | {"content": "\n\n".join([*system_texts, others[0]["content"]])}
    return body | {"messages": [first, *others[1:]]}


ADAPTATIONS = (
    _drop("seed"),
    _drop("temperature"),
    _drop("structured_outputs", other_refusals="grammar"),
    _drop("response_format", other_refusals="response format|json_schema|json schema|json mode|grammar"),
    _drop("logprobs", "top_logprobs"),
    Adaptation(
        "sent with max_completion_tokens instead of max_tokens",
        re.compile(rf"(?=.*\bmax_tokens\b)(?=.*\bmax_completion_tokens\b).*(?:{_REJECTED})", re.IGNORECASE | re.DOTALL),
        _rename_token_limit,
    ),
    Adaptation("sent with the system's text before the user's", NO_SYSTEM_ROLE, _prepend_system_text),
)


def adapt(body: Body, adaptations: Iterable[Adaptation]) -> Body:
    """The request after these changes."""
    for adaptation in adaptations:
        body = adaptation.change(body)
    return body


def find_adaptations(message: str, body: Body) -> list[Adaptation]:
    """What the message of a refusal calls for, and the refused request does not have yet."""
    return [each for each in ADAPTATIONS if each.refusal.search(message) and each.change(body) != body]
