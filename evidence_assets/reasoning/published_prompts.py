"""Prompts of the published systems: the printed parts in the printed order, with the printed form of reply.

The option that the model selects is the answer; the verdicts of its citations are recorded and never overrule it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import PromptedTask
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE, MAX_STEPS, AnswerTask, PromptStyle, build_choice
from evidence_assets.reasoning.reply_parsing import parse_answer, parse_label
from evidence_assets.reasoning.table_prompts import STANCES, fenced_table, is_table_task, stance_fields
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.reasoning.templates import (
    PACKAGED,
    Prompts,
    Template,
    fence,
    fenced_options,
    fenced_question,
    is_claim,
    negation_field,
)

CHAIN = Template.load(__package__, "published_chain", "question answer evidence negated")
CHOICE = Template.load(__package__, "published_choice", "question answers chains negated labels")
CASE = Template.load(__package__, "published_case", "question table option", *STANCES.values())
VERDICT = Template.load(__package__, "published_verdict", "question table options cases labels")
PASSAGES = Template.load(__package__, "published_passages", "question answers passages none negated labels")
QUESTION = Template.load(__package__, "published_question", "question answers negated labels")

EXPLAIN_TOKENS = 1024
"""The printed limit for tables; the other papers state none."""
VERDICT_TOKENS = 32
_MARK = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+")
_CITED = re.compile(r"\[(?:E|Passage\s*)(\d+)\]", re.IGNORECASE)
_REPLY = re.compile(
    r"^[\s*_]*Answer[\s*_]*:(?P<answer>.*?)^[\s*_]*Explanation[\s*_]*:(?P<why>.*)\Z", re.S | re.M | re.I
)
_INSUFFICIENT = "insufficient"


def _numbered_evidence(name: str, evidence: Sequence[EvidenceItem]) -> str:
    return "\n".join(f"[{name}{number}] {' '.join(item.text.split())}" for number, item in enumerate(evidence, 1))


def parse_explanation(text: str, evidence: Sequence[EvidenceItem]) -> tuple[ChainStep, ...]:
    """Parse the lines of an explanation, with the evidence that each cites by number.

    An unknown evidence number becomes a citation of ``evidence N``, for which the citation check returns ``absent``.
    """
    lines = [_MARK.sub("", line).strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MAX_STEPS:
        raise UnusableReply(f"it has {len(lines)} steps, more than {MAX_STEPS}")
    steps = []
    for line in lines:
        numbers = [int(number) for number in _CITED.findall(line)]
        cited = (evidence[n - 1].evidence_id if 0 < n <= len(evidence) else f"evidence {n}" for n in numbers)
        steps.append(ChainStep(line, tuple(dict.fromkeys(cited))))
    return tuple(steps)


# Chapter 7: a chain for each option, then one choice from all chains -------------------------------------------------


def chain_request(task: ExplainOption, prompts: Prompts = PACKAGED) -> Request:
    """Request the chain from a question to one option; texts and triples share one numbering."""
    return prompts.customize(CHAIN).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task),
        answer=fence("proposed answer", task.option),
        evidence=fence("evidence", _numbered_evidence("E", task.evidence) or "none"),
        negated=negation_field(task),
    )


def choice_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request one option from question, options and chains; without chains, from the evidence."""
    if not task.chains:
        return passages_request(task, prompts)
    chains = [
        fence(f"chain for {chain.hypothesis}", "\n".join(f"{n}) {s.text}" for n, s in enumerate(chain.steps, 1)))
        for chain in task.chains
    ]
    return prompts.customize(CHOICE).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task),
        answers=fenced_options(task),
        chains="\n\n".join(chains),
        negated=negation_field(task),
        labels=" or ".join(task.labels),
    )


def _parse_option(reply: str, task: ChooseAnswer) -> Choice:
    return build_choice(task, parse_answer(reply, task.labels, task.options))


def _parse_choice(reply: str, task: ChooseAnswer) -> Choice:
    return _parse_option(reply, task) if task.chains else parse_answer_and_explanation(reply, task)[0]


# Chapters 3 and 4: an explanation for each label or option, then one label -------------------------------------------


def case_request(task: ExplainOption, prompts: Prompts = PACKAGED) -> Request:
    """Request the explanation of one label or option from the collapsed table."""
    if not is_table_task(task):
        raise ValueError("there are no cells to explain from")
    return prompts.customize(CASE).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task),
        table=fenced_table(task.evidence, with_ids=False),
        option="" if is_claim(task) else fence("option", task.option),
        **stance_fields(task),
    )


def verdict_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request exactly one label from the collapsed table and the explanations."""
    items = {item.evidence_id: item for group in task.evidence.values() for item in group}
    if not is_table_task(task):
        raise ValueError("there are no cells to decide from")
    cases = [fence(f"explanation {c.hypothesis}", "\n".join(s.text for s in c.steps)) for c in task.chains]
    return prompts.customize(VERDICT).request(
        VERDICT_TOKENS,
        task.labels,
        question=fenced_question(task),
        table=fenced_table(tuple(items.values()), with_ids=False),
        options=fenced_options(task),
        cases="\n\n".join(cases),
        labels=", ".join(task.labels),
    )


# Chapter 6: one call that gives answer and explanation; without retrieval, a plain question --------------------------


def passages_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request answer and explanation in one reply, from the passages of all options."""
    passages = task.facts
    return prompts.customize(PASSAGES).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task),
        answers=fenced_options(task),
        passages=fence("passages", _numbered_evidence("Passage ", passages)) if passages else "",
        none="" if passages else "none",
        negated=negation_field(task),
        labels=" or ".join(task.labels),
    )


def parse_answer_and_explanation(reply: str, task: ChooseAnswer) -> tuple[Choice, Chain]:
    """Parse answer and explanation of a reply; the answer is an option or ``insufficient``."""
    match = _REPLY.search(reply)
    if match is None or not match["why"].strip():
        raise UnusableReply("it has no line that begins with Answer: and one after it that begins with Explanation:")
    answer_text = match["answer"].strip()
    is_insufficient = answer_text.strip("*_.\"'()[] ").casefold().removeprefix("the evidence is ") == _INSUFFICIENT
    answer = None if is_insufficient else parse_answer(answer_text, task.labels, task.options)
    chain = Chain(answer or "", parse_explanation(match["why"], task.facts))
    return build_choice(replace(task, chains=(chain,), evidence={chain.hypothesis: task.facts}), answer), chain


def question_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    return prompts.customize(QUESTION).request(
        VERDICT_TOKENS,
        task.labels,
        question=fenced_question(task),
        answers=fenced_options(task),
        negated=negation_field(task),
        labels=", ".join(task.labels),
    )


_ExplainTask = PromptedTask[ExplainOption, Chain]
_ChooseTask = PromptedTask[ChooseAnswer, Choice]

STYLES = {
    "": DEFAULT_STYLE,
    "chains": PromptStyle(
        _ExplainTask(
            "published_chain",
            (CHAIN,),
            chain_request,
            lambda reply, task: Chain(task.hypothesis, parse_explanation(reply, task.evidence)),
        ),
        _ChooseTask("published_choice", (CHOICE, PASSAGES), choice_request, _parse_choice),
    ),
    "cases": PromptStyle(
        _ExplainTask(
            "published_case",
            (CASE,),
            case_request,
            lambda reply, task: Chain(task.hypothesis, parse_explanation(reply, ())),
        ),
        _ChooseTask(
            "published_verdict",
            (VERDICT,),
            verdict_request,
            lambda reply, task: build_choice(task, parse_label(reply, task.labels)),
        ),
    ),
    "passages": PromptStyle(
        None, None, AnswerTask("published_answer", (PASSAGES,), passages_request, parse_answer_and_explanation)
    ),
    "question": PromptStyle(None, _ChooseTask("published_question", (QUESTION,), question_request, _parse_option)),
}
"""Prompt styles by name; the empty name is the default style."""
