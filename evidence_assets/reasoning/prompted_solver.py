"""The solver that prompts a language model, in the default style or a paper's, and the prompts of the default style.

Requests for the same question share a long prefix, so that a server can reuse its prefix cache.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request, object_schema
from evidence_assets.reasoning import table_prompts
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask, find_cut
from evidence_assets.reasoning.reply_parsing import parse_answer, parse_json_object
from evidence_assets.reasoning.table_prompts import is_table_task
from evidence_assets.reasoning.tasks import (
    NOT_ENOUGH_INFORMATION,
    Chain,
    ChainStep,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Failure,
)
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template, fence, fenced_question, negation_field

VERSION = "11"
"""Raise it whenever equal replies may be parsed differently."""
MAX_STEPS = 40
EXPLAIN = Template.load(__package__, "explain", "question evidence none answer negated")
_CHOICE = "question answers evidence reasoning negated insufficient labels"
CHOOSE, CHOOSE_CLOSED = (Template.load(__package__, name, _CHOICE) for name in ("choose", "choose_closed"))
INSUFFICIENT = "INSUFFICIENT"
"""The reply of a model that finds the evidence insufficient."""

EXPLAIN_TOKENS = 1024
CHOOSE_TOKENS = 32

MAX_CONSTRAINED_STEPS = 6
MAX_CONSTRAINED_CITED = 4
"""Evidence that a step may cite where a server constrains the reply: a small model counts on to its limit of tokens."""
_STEP = object_schema(
    text={"type": "string"},
    evidence={"type": "array", "items": {"type": "integer"}, "maxItems": MAX_CONSTRAINED_CITED},
    quotes={"type": "array", "items": {"type": "string"}, "maxItems": MAX_CONSTRAINED_CITED},
)
EXPLAIN_SCHEMA = json.dumps(
    object_schema(steps={"type": "array", "items": _STEP, "maxItems": MAX_CONSTRAINED_STEPS}), sort_keys=True
)


def explain_request(task: ExplainOption, prompts: Prompts = PACKAGED) -> Request:
    """Request the chain that links a question to one option; evidence is numbered from 1."""
    if is_table_task(task):
        return table_prompts.explain_request(task, prompts)
    kind = "label of the claim" if task.question.is_claim else "proposed answer"
    evidence = [fence(f"evidence {number}", item.text) for number, item in enumerate(task.evidence, start=1)]
    return prompts.customize(EXPLAIN).request(
        prompts.explanation_tokens or EXPLAIN_TOKENS,
        (),
        EXPLAIN_SCHEMA,
        question=fenced_question(task.question),
        answer=fence(kind, task.option),
        evidence="\n\n".join(evidence),
        none="" if evidence else "none",
        negated=negation_field(task.question),
    )


def choose_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request one label from the chains of all options and their cited evidence; without chains, from all evidence."""
    if is_table_task(task):
        return table_prompts.choose_request(task, prompts)
    cited = {identifier for chain in task.chains for step in chain.steps for identifier in step.cited}
    evidence = _number_evidence(task.evidence, cited if task.chains else None)
    question = task.question
    options = [] if question.is_claim else question.hypotheses
    answers = [fence(f"answer {label}", option) for label, option in options]
    blocks = {number: fence(f"evidence {number}", item.text) for item, number in evidence.values()}
    chains = [fence(f"reasoning towards {chain.hypothesis}", _numbered_steps(chain, evidence)) for chain in task.chains]
    insufficient = "" if question.is_claim or INSUFFICIENT in question.labels else INSUFFICIENT
    names = (*question.labels, *filter(None, [insufficient]))
    template = CHOOSE if task.chains or blocks else CHOOSE_CLOSED
    return prompts.customize(template).request(
        CHOOSE_TOKENS,
        names,
        question=fenced_question(task.question),
        answers="\n\n".join(answers),
        evidence="\n\n".join(blocks.values()),
        reasoning="\n\n".join(chains),
        negated=negation_field(task.question),
        insufficient=insufficient,
        labels=", ".join(names),
    )


def _number_evidence(
    evidence: Mapping[str, Sequence[EvidenceItem]], included: set[str] | None
) -> dict[str, tuple[EvidenceItem, int]]:
    """Evidence with its number, by id; the same fact has the same number for all options."""
    numbers: dict[str, int] = {}
    numbered: dict[str, tuple[EvidenceItem, int]] = {}
    for items in evidence.values():
        for item in items:
            if included is None or item.evidence_id in included:
                numbered[item.evidence_id] = (item, numbers.setdefault(item.content_hash, len(numbers) + 1))
    return numbered


def _numbered_steps(chain: Chain, evidence: Mapping[str, tuple[EvidenceItem, int]]) -> str:
    """A chain as numbered lines; citations of unknown evidence are marked."""
    lines = []
    for number, step in enumerate(chain.steps, start=1):
        cited = [str(evidence[id_][1]) if id_ in evidence else "one that does not exist" for id_ in step.cited]
        lines.append(f"{number}. {step.text}" + (f" [evidence {', '.join(cited)}]" if cited else ""))
    return "\n".join(lines) or "Nothing in the evidence leads here."


def parse_steps(reply: str, task: ExplainOption) -> tuple[ChainStep, ...]:
    """Parse the steps of an explanation; a reply in another script than the question is unusable.

    An unknown evidence number becomes a citation of ``evidence N``, for which the citation check returns ``absent``.
    """
    if is_table_task(task):
        return table_prompts.parse_steps(reply, task)
    steps = _parse_complete_steps(reply).get("steps")
    if not isinstance(steps, list):
        raise UnusableReply("it is no JSON object with a list of steps")
    if len(steps) > MAX_STEPS:
        raise UnusableReply(f"it has {len(steps)} steps, more than {MAX_STEPS}")
    parsed = tuple(_parse_step(number, step, task.evidence) for number, step in enumerate(steps, start=1))
    expected = _script(task.question.text)
    script = _script(" ".join(step.text for step in parsed))
    if expected and script and expected != script:
        raise UnusableReply(f"it is written in {script.title()} script, the question in {expected.title()}")
    return tuple(dict.fromkeys(parsed))  # a small model may repeat itself until it is cut off


def _parse_complete_steps(reply: str) -> dict[str, Any]:
    """The JSON object of a reply; of one that is cut off, the steps before the cut."""
    value = parse_json_object(reply)
    if "steps" in value or '"steps"' not in reply:
        return value
    return parse_json_object(reply[: reply.rfind("}") + 1] + "]}")  # the first object is a step


def parse_choice(reply: str, task: ChooseAnswer) -> str | None:
    """Parse the label of a choice; None if the model finds the evidence insufficient."""
    labels = list(task.question.labels)
    options = list(task.question.options)
    if not task.question.is_claim and INSUFFICIENT not in labels:
        labels.append(INSUFFICIENT)
        options.append("the material is insufficient")
    answer = parse_answer(reply, labels, options)
    return None if answer == INSUFFICIENT and INSUFFICIENT not in task.question.labels else answer


def _parse_step(number: int, step: Any, evidence: Sequence[EvidenceItem]) -> ChainStep:
    if not isinstance(step, dict) or not isinstance(step.get("text"), str) or not step["text"].strip():
        raise UnusableReply(f"its step {number} has no text")
    quotes = step.get("quotes", [])
    quotes = [quotes] if isinstance(quotes, str) else quotes
    if not isinstance(quotes, list) or not all(isinstance(item, str) for item in quotes):
        raise UnusableReply(f"the quotes of its step {number} are no list of texts")
    # Models without constrained decoding also write 1, "1" or ["evidence 1"].
    numbers = map(int, re.findall(r"(?<!\d)[0-9]{1,6}(?!\d)", json.dumps(step.get("evidence", []))))
    cited = (evidence[item - 1].evidence_id if 0 < item <= len(evidence) else f"evidence {item}" for item in numbers)
    return ChainStep(step["text"].strip(), tuple(dict.fromkeys(cited)), tuple(q for q in quotes if q.strip()))


def _script(text: str) -> str:
    """The most frequent script of a text's letters, by the first word of their Unicode names."""
    scripts = [unicodedata.name(char, "?").split()[0] for char in text if char.isalpha()]
    return max(sorted(set(scripts)), key=scripts.count) if len(scripts) >= 10 else ""


def build_choice(task: ChooseAnswer, answer: str | None, *, requires_support: bool = False) -> Choice:
    """A model's choice with the verdicts of its citations; ``requires_support`` withholds unsupported answers."""
    verified_labels = {
        chain.hypothesis
        for chain in task.chains
        for citation in check_citations(chain, task.evidence.get(chain.hypothesis, ()))
        if citation.verdict == "verified"
    }
    supported = tuple(label for label in task.question.labels if label in verified_labels)
    if requires_support and answer == NOT_ENOUGH_INFORMATION and task.question.is_claim:
        # "Not enough information" is an answer that needs no citation.
        return Choice(answer, (answer,), "insufficient")
    is_unsupported = requires_support and bool(task.chains) and any(task.evidence.values()) and not supported
    if answer is None or is_unsupported:
        return Choice(None, supported, "insufficient")
    return Choice(answer, supported, "answered")


AnswerTask = PromptedTask[ChooseAnswer, tuple[Choice, Chain]]


@dataclass(frozen=True)
class PromptStyle:
    """The prompts for a question with options: an explanation of each and a choice, or one ``answer`` with both.

    A style without explanations chooses from the evidence, or from the question alone. ``facts``: Facts of a question
    that a choice from evidence reads, the best first; 0 for all.
    """

    explain: PromptedTask[ExplainOption, Chain] | None
    choose: PromptedTask[ChooseAnswer, Choice] | None
    answer: AnswerTask | None = None
    facts: int = 0

    @property
    def tasks(self) -> tuple[PromptedTask[Any, Any], ...]:
        return tuple(task for task in (self.explain, self.choose, self.answer) if task is not None)


class PromptedSolver:
    """Answers the typed tasks with a language model, in the default style or a paper's.

    The model selects the label. An option is supported if its chain has a verified citation. In the default style, the
    status is ``insufficient`` if there is evidence but no chain has a verified citation.
    """

    name = "prompted"

    def __init__(self, model: LanguageModel, style: PromptStyle | None = None) -> None:
        self._model = model
        self.model_id = model.model_id
        self._style = style or DEFAULT_STYLE
        self.version = content_id(VERSION, model.version, *(t.version_with(model.prompts) for t in self._style.tasks))

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        assert self._style.explain is not None, "this style has no explanation task"
        chains: list[Chain | Failure] = []
        for result, reply in self._style.explain.ask_with_cost(self._model, tasks):
            outcome = replace(result, reply=reply)
            if isinstance(outcome, Chain) and reply:
                outcome = replace(outcome, prompt_hash=reply.prompt_hash, omissions=find_cut(reply, "end"))
            chains.append(outcome)
        return chains

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label per question, with weights if the model rates the choices."""
        assert self._style.choose is not None, "this style has no choice task"
        outcomes = self._style.choose.ask_with_cost(self._model, tasks)
        choices: list[Choice | Failure] = []
        for task, (result, reply) in zip(tasks, outcomes, strict=True):
            outcome = replace(result, reply=reply)
            if isinstance(outcome, Choice) and reply and reply.choice_log_probs:
                weights = dict(zip(task.question.labels, reply.choice_log_probs, strict=True))
                outcome = replace(outcome, weights=weights)
            choices.append(outcome)
        return choices


EXPLAIN_TASK = PromptedTask(
    "explain",
    (EXPLAIN, table_prompts.EXPLAIN),
    explain_request,
    lambda reply, task: Chain(task.hypothesis, parse_steps(reply, task)),
    accepts_truncated=True,
)
CHOOSE_TASK = PromptedTask(
    "choose",
    (CHOOSE, CHOOSE_CLOSED, table_prompts.CHOOSE),
    choose_request,
    lambda reply, task: build_choice(task, parse_choice(reply, task), requires_support=True),
)
DEFAULT_STYLE = PromptStyle(EXPLAIN_TASK, CHOOSE_TASK)
