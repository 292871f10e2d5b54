"""Reading a model's chain of steps strictly: what it says is kept as it says it, what is unclear is refused.

Belongs here: replies of a shape (JSON, one of some labels), and those to the explaining and the choosing task. Which
label prose names is read in ``answers``.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.answers import parse_answer
from evidence_assets.reasoning.requests import INSUFFICIENT
from evidence_assets.reasoning.tasks import ChooseAnswer, EvidenceItem, ExplainOption, Step

MOST_STEPS = 40

_FENCE = re.compile(r"^```(?:json)?\s*\n(.*)\n```$", re.DOTALL)


def parse_steps(reply: str, task: ExplainOption) -> tuple[Step, ...]:
    """The steps of a reply to the explaining task.

    A number that no evidence has is kept as a citation of ``evidence N``, which the citation check finds absent.

    Raises UnusableReply with the reason, when the reply is not the JSON object that was asked for, or in another script
    than the question.
    """
    steps = json_object(reply).get("steps")
    if not isinstance(steps, list):
        raise UnusableReply("it is no JSON object with a list of steps")
    if len(steps) > MOST_STEPS:
        raise UnusableReply(f"it has {len(steps)} steps, more than {MOST_STEPS}")
    found = tuple(_step(number, step, task.evidence) for number, step in enumerate(steps, start=1))
    _refuse_other_script(task.question, " ".join(step.text for step in found))
    return found


def parse_choice(reply: str, task: ChooseAnswer) -> str | None:
    """The label of a reply to the choosing task; None where the model finds the material insufficient."""
    labels, options = list(task.labels), list(task.options)
    if task.task != "verification" and INSUFFICIENT not in labels:
        labels.append(INSUFFICIENT)
        options.append("the material is insufficient")
    answer = parse_answer(reply, labels, options)
    return None if answer == INSUFFICIENT and INSUFFICIENT not in task.labels else answer


def json_object(reply: str) -> dict[str, Any]:
    """The JSON object that a reply consists of, alone or in one fenced block.

    Raises UnusableReply with the reason, when it is anything else.
    """
    fenced = _FENCE.match(reply.strip())
    try:
        value = json.loads(fenced[1] if fenced else reply)
    except (ValueError, RecursionError):
        raise UnusableReply(f"it is not valid JSON: {reply[:60]!r}") from None
    if not isinstance(value, dict):
        raise UnusableReply(f"it is no JSON object: {reply[:60]!r}")
    return value


def one_of(reply: str, labels: Sequence[str]) -> str:
    """The one label that a reply consists of; case, quotes and a closing full stop are forgiven, nothing else.

    Raises UnusableReply if the reply is not exactly one of the labels.

    >>> one_of(" refutes.", ("SUPPORTS", "REFUTES"))
    'REFUTES'
    """
    bare = " ".join(reply.strip().strip("\"'“”`*().:").split()).casefold()
    matches = [label for label in labels if label.casefold() == bare]
    if len(matches) != 1:
        raise UnusableReply(f"the reply {reply.strip()[:80]!r} is not exactly one of {', '.join(labels)}")
    return matches[0]


def _step(number: int, step: Any, evidence: Sequence[EvidenceItem]) -> Step:
    if not isinstance(step, dict) or not isinstance(step.get("text"), str) or not step["text"].strip():
        raise UnusableReply(f"its step {number} has no text")
    numbers, quotes = step.get("evidence", []), step.get("quotes", [])
    if not isinstance(numbers, list) or not all(
        isinstance(each, int) and not isinstance(each, bool) for each in numbers
    ):
        raise UnusableReply(f"the evidence of its step {number} is no list of numbers")
    if not isinstance(quotes, list) or not all(isinstance(each, str) for each in quotes):
        raise UnusableReply(f"the quotes of its step {number} are no list of texts")
    cited = (evidence[each - 1].evidence_id if 0 < each <= len(evidence) else f"evidence {each}" for each in numbers)
    return Step(step["text"].strip(), tuple(dict.fromkeys(cited)), tuple(quote for quote in quotes if quote.strip()))


def _script(text: str) -> str:
    """The commonest script among a text's letters, by the first word of their Unicode names."""
    scripts = [unicodedata.name(char, "?").split()[0] for char in text if char.isalpha()]
    return max(sorted(set(scripts)), key=scripts.count) if len(scripts) >= 10 else ""


def _refuse_other_script(question: str, reply: str) -> None:
    asked, given = _script(question), _script(reply)
    if asked and given and asked != given:
        raise UnusableReply(f"it is written in {given.title()} script, the question in {asked.title()}")
