"""How the published systems ask a language model: their prompts' parts in their order, their form of reply, no more.

The option that the model names is the answer; what its citations are worth stands beside it and overrules nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import PromptedTask
from evidence_assets.reasoning.prompted_solver import MOST_STEPS, OURS, Once, Style, judged
from evidence_assets.reasoning.reply_parsing import one_of, parse_answer
from evidence_assets.reasoning.table_prompts import STANCES, is_table_task, shown_table, stances
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.reasoning.templates import PACKAGED, Template, Words, asked, fenced, is_claim, listed, negated

CHAIN = Template.load(__package__, "published_chain", "question answer evidence negated")
CHOICE = Template.load(__package__, "published_choice", "question answers chains negated labels")
CASE = Template.load(__package__, "published_case", "question table option", *STANCES.values())
VERDICT = Template.load(__package__, "published_verdict", "question table options cases labels")
PASSAGES = Template.load(__package__, "published_passages", "question answers passages none negated labels")
QUESTION = Template.load(__package__, "published_question", "question answers negated labels")

EXPLAIN_TOKENS = 1024
"""As printed for tables; the other papers state no limit."""
VERDICT_TOKENS = 32
_MARK = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+")
_CITED = re.compile(r"\[(?:E|Passage\s*)(\d+)\]", re.IGNORECASE)
_REPLY = re.compile(
    r"^[\s*_]*Answer[\s*_]*:(?P<answer>.*?)^[\s*_]*Explanation[\s*_]*:(?P<why>.*)\Z", re.S | re.M | re.I
)
_INSUFFICIENT = "insufficient"


def _pieces(name: str, evidence: Sequence[EvidenceItem]) -> str:
    return "\n".join(f"[{name}{number}] {' '.join(item.text.split())}" for number, item in enumerate(evidence, 1))


def steps_of(text: str, evidence: Sequence[EvidenceItem]) -> tuple[ChainStep, ...]:
    """The lines of an explanation, each with the pieces of evidence that it names by number.

    A number that no evidence has is kept as a citation of ``evidence N``, which the citation check finds absent.
    """
    lines = [_MARK.sub("", line).strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MOST_STEPS:
        raise UnusableReply(f"it has {len(lines)} steps, more than {MOST_STEPS}")
    steps = []
    for line in lines:
        numbers = [int(number) for number in _CITED.findall(line)]
        cited = (evidence[n - 1].evidence_id if 0 < n <= len(evidence) else f"evidence {n}" for n in numbers)
        steps.append(ChainStep(line, tuple(dict.fromkeys(cited))))
    return tuple(steps)


# Chapter 7: a chain for each option, then one choice from all chains -------------------------------------------------


def chain_request(task: ExplainOption, words: Words = PACKAGED) -> Request:
    """Ask for the chain from a question to one option; texts and triples are numbered together."""
    return words.of(CHAIN).request(
        EXPLAIN_TOKENS,
        question=asked(task),
        answer=fenced("proposed answer", task.option),
        evidence=fenced("evidence", _pieces("E", task.evidence) or "none"),
        negated=negated(task),
    )


def choice_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    """Ask for one option, from question, options and chains; a question without chains is asked from its evidence."""
    if not task.chains:
        return passages_request(task, words)
    chains = [
        fenced(f"chain for {chain.hypothesis}", "\n".join(f"{n}) {s.text}" for n, s in enumerate(chain.steps, 1)))
        for chain in task.chains
    ]
    return words.of(CHOICE).request(
        EXPLAIN_TOKENS,
        question=asked(task),
        answers=listed(task),
        chains="\n\n".join(chains),
        negated=negated(task),
        labels=" or ".join(task.labels),
    )


def _named(reply: str, task: ChooseAnswer) -> Choice:
    return judged(task, parse_answer(reply, task.labels, task.options))


def _choice(reply: str, task: ChooseAnswer) -> Choice:
    return _named(reply, task) if task.chains else answer_of(reply, task)[0]


# Chapters 3 and 4: an explanation for each label or option, then one label -------------------------------------------


def case_request(task: ExplainOption, words: Words = PACKAGED) -> Request:
    """Ask for the explanation of one label or option from the collapsed table."""
    if not is_table_task(task):
        raise ValueError("there are no cells to explain from")
    return words.of(CASE).request(
        EXPLAIN_TOKENS,
        question=asked(task),
        table=shown_table(task.evidence, marked=False),
        option="" if is_claim(task) else fenced("option", task.option),
        **stances(task),
    )


def verdict_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    """Ask for exactly one label, given the collapsed table and the explanations that there are."""
    items = {item.evidence_id: item for group in task.evidence.values() for item in group}
    if not is_table_task(task):
        raise ValueError("there are no cells to decide from")
    cases = [
        fenced(f"explanation {chain.hypothesis}", "\n".join(step.text for step in chain.steps)) for chain in task.chains
    ]
    return words.of(VERDICT).request(
        VERDICT_TOKENS,
        task.labels,
        question=asked(task),
        table=shown_table(tuple(items.values()), marked=False),
        options=listed(task),
        cases="\n\n".join(cases),
        labels=", ".join(task.labels),
    )


# Chapter 6: one call that gives answer and explanation; without retrieval, a plain question --------------------------


def passages_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    """Ask for answer and explanation at once, from the passages of all options together."""
    passages = task.facts
    return words.of(PASSAGES).request(
        EXPLAIN_TOKENS,
        question=asked(task),
        answers=listed(task),
        passages=fenced("passages", _pieces("Passage ", passages)) if passages else "",
        none="" if passages else "none",
        negated=negated(task),
        labels=" or ".join(task.labels),
    )


def answer_of(reply: str, task: ChooseAnswer) -> tuple[Choice, Chain]:
    """Answer and explanation of one reply; ``insufficient`` is the one thing besides an option that it may answer."""
    found = _REPLY.search(reply)
    if found is None or not found["why"].strip():
        raise UnusableReply("it has no line that begins with Answer: and one after it that begins with Explanation:")
    said = found["answer"].strip()
    none = said.strip("*_.\"'()[] ").casefold().removeprefix("the evidence is ") == _INSUFFICIENT
    answer = None if none else parse_answer(said, task.labels, task.options)
    chain = Chain(answer or "", steps_of(found["why"], task.facts))
    return judged(replace(task, chains=(chain,), evidence={chain.hypothesis: task.facts}), answer), chain


def question_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    return words.of(QUESTION).request(
        VERDICT_TOKENS,
        task.labels,
        question=asked(task),
        answers=listed(task),
        negated=negated(task),
        labels=", ".join(task.labels),
    )


_Explaining = PromptedTask[ExplainOption, Chain]
_Choosing = PromptedTask[ChooseAnswer, Choice]

STYLES = {
    "": OURS,
    "chains": Style(
        _Explaining(
            "published_chain",
            (CHAIN,),
            chain_request,
            lambda reply, task: Chain(task.hypothesis, steps_of(reply, task.evidence)),
        ),
        _Choosing("published_choice", (CHOICE, PASSAGES), choice_request, _choice),
    ),
    "cases": Style(
        _Explaining(
            "published_case", (CASE,), case_request, lambda reply, task: Chain(task.hypothesis, steps_of(reply, ()))
        ),
        _Choosing(
            "published_verdict",
            (VERDICT,),
            verdict_request,
            lambda reply, task: judged(task, one_of(reply, task.labels)),
        ),
    ),
    "passages": Style(None, None, Once("published_answer", (PASSAGES,), passages_request, answer_of)),
    "question": Style(None, _Choosing("published_question", (QUESTION,), question_request, _named)),
}
"""By the name that a method gives to how its paper asks; empty for our own way."""
