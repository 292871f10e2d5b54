"""Prompts of the published systems: the printed parts in the printed order, with the printed form of reply.

The option that the model selects is the answer; the verdicts of its citations are recorded and never overrule it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import PromptedTask
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE, AnswerTask, PromptStyle, build_choice
from evidence_assets.reasoning.reply_parsing import ANSWER_LINE, INSUFFICIENT_EVIDENCE, parse_answer, parse_answers
from evidence_assets.reasoning.table_prompts import STANCES, fenced_table, stance_fields
from evidence_assets.reasoning.tables.alignment import cite_named_cells
from evidence_assets.reasoning.tasks import (
    Chain,
    ChainStep,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Omission,
)
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template, fence, fenced_options, fenced_question

CHAIN = Template.load(__package__, "published_chain", "question answer evidence")
CHOICE = Template.load(__package__, "published_choice", "question answers chains labels")
CASE = Template.load(__package__, "published_case", "question table claim option", *STANCES.values())
CLAIM_VERDICT = Template.load(__package__, "published_claim_verdict", "question table cases bare labels")
VERDICT = Template.load(__package__, "published_verdict", "question table options cases bare labels")
SEVERAL = Template.load(__package__, "published_verdict_several", "question table options cases labels")
PASSAGES = Template.load(__package__, "published_passages", "question answers passages none labels")
QUESTION = Template.load(__package__, "published_question", "question answers labels")

EXPLAIN_TOKENS = 1024
"""The printed limit for tables; the other papers state none."""
VERDICT_TOKENS = 32
_MARK = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+")
_NUMBER = r"(?:(?:see|passages?|evidence|E)\s*)*\d{1,3}(?!\w)"
_NUMBERS = rf"{_NUMBER}(?:\s*(?:[,;&/–-]|and)+\s*{_NUMBER})*"
_CITED = re.compile(
    rf"[\[【]{_NUMBERS}[\]】]|\((?=[^)\d]*[a-z]){_NUMBERS}\)|\b(?:passages?|evidence)\s+{_NUMBERS}"
    r"|(?:^|\*\*)E\d{1,3}(?!\w)",
    re.IGNORECASE,
)
"""Numbers of evidence in brackets or after its name: ``[E1, E2]``, ``[1]``, ``(Passage 1)``, ``Passages 1 and 2``. A
number with its letter alone counts at the start of a line or in bold: ``**E1**: …``. Elsewhere it may be a name."""
_RANGE = re.compile(r"(\d+)(?:\s*[–-]\s*\D*(\d+))?")
_EXPLANATION = re.compile(
    r"^[^\w\n]*explanation\b[^\w\n]*(?::|$)[*_\s]*|\b(?-i:Explanation)[\"'*_]*:[\"'*_\s]*", re.MULTILINE | re.IGNORECASE
)


def _numbered_evidence(name: str, evidence: Sequence[EvidenceItem]) -> str:
    return "\n".join(f"[{name}{number}] {' '.join(item.text.split())}" for number, item in enumerate(evidence, 1))


def parse_explanation(text: str, evidence: Sequence[EvidenceItem]) -> tuple[ChainStep, ...]:
    """Parse the lines of an explanation, with the evidence that each cites by number.

    An unknown evidence number becomes a citation of ``evidence N``, for which the citation check returns ``absent``.

    >>> parse_explanation("It does [Passages 1 and 2].", ())[0].cited
    ('evidence 1', 'evidence 2')
    """
    steps = []
    for line in _lines(text):
        numbers = _cited_numbers(line)
        cited = (evidence[n - 1].evidence_id if 0 < n <= len(evidence) else f"evidence {n}" for n in numbers)
        steps.append(ChainStep(line, tuple(dict.fromkeys(cited))))
    return tuple(steps)


def _lines(text: str) -> list[str]:
    """The lines with words, without list marks."""
    return [_MARK.sub("", line).strip() for line in text.splitlines() if re.search(r"\w", line)]


def _cited_numbers(line: str) -> Iterator[int]:
    for citation in _CITED.finditer(line):
        for first, last in _RANGE.findall(citation[0]):
            yield from range(int(first), int(last or first) + 1)


# Chapter 7: a chain for each option, then one choice from all chains -------------------------------------------------


def chain_request(task: ExplainOption, prompts: Prompts = PACKAGED) -> Request:
    """Request the chain from a question to one option; texts and triples share one numbering."""
    return prompts.customize(CHAIN).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task.question),
        answer=fence("proposed answer", task.option),
        evidence=fence("evidence", _numbered_evidence("E", task.evidence) or "none"),
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
        question=fenced_question(task.question),
        answers=fenced_options(task.question),
        chains="\n\n".join(chains),
        labels=" or ".join(task.question.labels),
    )


def _parse_option(reply: str, task: ChooseAnswer) -> Choice:
    return build_choice(task, parse_answer(reply, task.question.labels, task.question.options))


def _parse_choice(reply: str, task: ChooseAnswer) -> Choice:
    return _parse_option(reply, task) if task.chains else parse_answer_and_explanation(reply, task)[0]


# Chapters 3 and 4: an explanation for each label or option, then one label -------------------------------------------


def case_request(task: ExplainOption, prompts: Prompts = PACKAGED) -> Request:
    """Request the explanation of one label or option from the collapsed table, which may be a caption only."""
    return prompts.customize(CASE).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task.question),
        table=fenced_table(task.evidence, with_ids=False),
        claim="claim" if task.question.is_claim else "",
        option="" if task.question.is_claim else fence("option", task.option),
        **stance_fields(task),
    )


def parse_case(reply: str, task: ExplainOption) -> Chain:
    """The lines of an explanation; the print asks for no citations, so each cites the cells that it names."""
    return Chain(task.hypothesis, tuple(cite_named_cells(line, task.evidence) for line in _lines(reply)))


def verdict_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request exactly one label from the collapsed table and the explanations."""
    fields = _verdict_fields(task)
    bare = "" if fields["cases"] else "bare"
    if task.question.is_claim:
        # Chapter 3 ends with NOT ENOUGH INFORMATION, REFUTES, SUPPORTS.
        labels = ", ".join(reversed(task.question.labels))
        template = prompts.customize(CLAIM_VERDICT)
        return template.request(VERDICT_TOKENS, task.question.labels, **fields, bare=bare, labels=labels)
    template = prompts.customize(VERDICT)
    labels = ", ".join(task.question.labels)
    return template.request(
        VERDICT_TOKENS, task.question.labels, **fields, bare=bare, options=fenced_options(task.question), labels=labels
    )


def several_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request all options that the table supports; exactly one label of a claim."""
    if task.question.is_claim:
        return verdict_request(task, prompts)
    return prompts.customize(SEVERAL).request(
        VERDICT_TOKENS,
        **_verdict_fields(task),
        options=fenced_options(task.question),
        labels=", ".join(task.question.labels),
    )


def _verdict_fields(task: ChooseAnswer) -> dict[str, str]:
    """Claim or question, table, and explanations in the order of the labels."""
    items = {item.evidence_id: item for group in task.evidence.values() for item in group}
    chains = sorted(task.chains, key=lambda c: (*task.question.labels, c.hypothesis).index(c.hypothesis))
    cases = [fence(f"explanation {c.hypothesis}", "\n".join(s.text for s in c.steps)) for c in chains]
    return {
        "question": fenced_question(task.question),
        "table": fenced_table(tuple(items.values()), with_ids=False),
        "cases": "\n\n".join(cases),
    }


def parse_verdict(reply: str, task: ChooseAnswer) -> Choice:
    """Parse one label; if a question's reply names several options, the first one is the ambiguous answer."""
    try:
        return _parse_option(reply, task)
    except UnusableReply:
        labels = () if task.question.is_claim else parse_answers(reply, task.question.labels, task.question.options)
        if len(labels) < 2:
            raise
        return replace(build_choice(task, labels[0]), status="ambiguous", supported=labels)


# Chapter 6: one call that gives answer and explanation; without retrieval, a plain question --------------------------


def passages_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    """Request answer and explanation in one reply, from the passages of all options."""
    passages = task.facts
    return prompts.customize(PASSAGES).request(
        EXPLAIN_TOKENS,
        question=fenced_question(task.question),
        answers=fenced_options(task.question),
        passages=fence("passages", _numbered_evidence("Passage ", passages)) if passages else "",
        none="" if passages else "none",
        labels=" or ".join(task.question.labels),
    )


def parse_answer_and_explanation(reply: str, task: ChooseAnswer) -> tuple[Choice, Chain]:
    """Parse answer and explanation, in any order; the answer is an option, or None if the reply names none.

    The printed form has an option even where the explanation finds the evidence insufficient; a reply with no option
    must say so. A missing explanation is an omission of the chain.
    """
    heading = _EXPLANATION.search(reply)
    answer_text = reply[: heading.start()] if heading else reply
    explanation = reply[heading.end() :] if heading else reply
    if not answer_text.strip():
        answer_text = explanation
    answer: str | None
    try:
        answer = parse_answer(answer_text, task.question.labels, task.question.options)
    except UnusableReply:
        if not INSUFFICIENT_EVIDENCE.search(answer_text):
            raise
        answer = None
    lines = [line for line in explanation.splitlines() if _CITED.search(line) or not ANSWER_LINE.match(line)]
    steps = parse_explanation("\n".join(lines), task.facts)
    omissions = () if steps else (Omission("missing", "text", "the reply has no explanation"),)
    chain = Chain(answer or "", steps, omissions=omissions)
    return build_choice(replace(task, chains=(chain,), evidence={chain.hypothesis: task.facts}), answer), chain


def question_request(task: ChooseAnswer, prompts: Prompts = PACKAGED) -> Request:
    return prompts.customize(QUESTION).request(
        VERDICT_TOKENS,
        task.question.labels,
        question=fenced_question(task.question),
        answers=fenced_options(task.question),
        labels=", ".join(task.question.labels),
    )


_ExplainTask = PromptedTask[ExplainOption, Chain]
_ChooseTask = PromptedTask[ChooseAnswer, Choice]

STYLES: dict[str, PromptStyle] = {
    "": DEFAULT_STYLE,
    "chains": PromptStyle(
        _ExplainTask(
            "published_chain",
            (CHAIN,),
            chain_request,
            lambda reply, task: Chain(task.hypothesis, parse_explanation(reply, task.evidence)),
            accepts_truncated=True,
        ),
        _ChooseTask("published_choice", (CHOICE, PASSAGES), choice_request, _parse_choice),
    ),
    "cases": PromptStyle(
        _ExplainTask("published_case", (CASE,), case_request, parse_case, accepts_truncated=True),
        _ChooseTask("published_verdict", (CLAIM_VERDICT, VERDICT), verdict_request, parse_verdict),
    ),
    "passages": PromptStyle(
        None,
        None,
        AnswerTask(
            "published_answer", (PASSAGES,), passages_request, parse_answer_and_explanation, accepts_truncated=True
        ),
    ),
    "question": PromptStyle(None, _ChooseTask("published_question", (QUESTION,), question_request, _parse_option)),
}
"""Prompt styles by name; the empty name is the default style."""
_SEVERAL_TASK = _ChooseTask("published_verdict_several", (SEVERAL, CLAIM_VERDICT), several_request, parse_verdict)
STYLES["cases_several"] = PromptStyle(STYLES["cases"].explain, _SEVERAL_TASK)
