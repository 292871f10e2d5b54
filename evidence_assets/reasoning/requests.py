"""How the typed tasks are put to a language model, in this project's own words.

Belongs here: the fences around material and the shape asked of the reply; the words stand in ``prompts/``. Questions,
options, evidence and chains are material: each stands between marks that hold a hash of its own text, which no text can
foresee and so none can close. Requests on one question begin alike as far as they can, question and evidence before
what differs, so that a server reads the common part once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request, object_schema
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.reasoning.templates import PACKAGED, Template, Words

EXPLAIN = Template.load(__package__, "explain", "question evidence none answer negated")
_CHOICE = "question answers evidence reasoning negated insufficient labels"
CHOOSE, CHOOSE_CLOSED = (Template.load(__package__, name, _CHOICE) for name in ("choose", "choose_closed"))
REPAIR = Template.load(__package__, "repair", "system request reason reply")
_SALT = "2"
"""Part of every code of a fence: another one would ask all that is cached anew."""
INSUFFICIENT = "INSUFFICIENT"
"""What a model replies where the material settles nothing."""

EXPLAIN_TOKENS = 1024
CHOOSE_TOKENS = 32
EXCERPT = 400
"""Characters of an unusable reply that are shown to the model again."""

_STEP = object_schema(
    text={"type": "string"},
    evidence={"type": "array", "items": {"type": "integer"}},
    quotes={"type": "array", "items": {"type": "string"}},
)
EXPLAIN_SCHEMA = json.dumps(object_schema(steps={"type": "array", "items": _STEP}), sort_keys=True)


def explain_request(task: ExplainOption, words: Words = PACKAGED) -> Request:
    """Ask for the chain that links a question to one option; evidence is numbered from 1 in the order given."""
    kind = "label of the claim" if is_claim(task) else "proposed answer"
    evidence = [fenced(f"evidence {number}", item.text) for number, item in enumerate(task.evidence, start=1)]
    return words.of(EXPLAIN).request(
        EXPLAIN_TOKENS,
        (),
        EXPLAIN_SCHEMA,
        question=asked(task),
        answer=fenced(kind, task.option),
        evidence="\n\n".join(evidence),
        none="" if evidence else "none",
        negated=negated(task),
    )


def choose_request(task: ChooseAnswer, words: Words = PACKAGED) -> Request:
    """Ask for one label, given the chains of all options and the evidence that they cite.

    Without chains all evidence is shown; without evidence the question is asked as it is.
    """
    cited = {identifier for chain in task.chains for step in chain.steps for identifier in step.cited}
    shown = _numbered(task.evidence, cited if task.chains else None)
    texts = [item.text for item, _ in shown.values()]
    answers = (
        []
        if is_claim(task)
        else [fenced(f"answer {label}", option) for label, option in zip(task.labels, task.options, strict=True)]
    )
    once = {number: fenced(f"evidence {number}", item.text) for item, number in shown.values()}
    chains = [fenced(f"reasoning towards {chain.hypothesis}", _written(chain, shown)) for chain in task.chains]
    insufficient = "" if is_claim(task) or INSUFFICIENT in task.labels else INSUFFICIENT
    names = (*task.labels, *filter(None, [insufficient]))
    template = CHOOSE if task.chains or texts else CHOOSE_CLOSED
    return words.of(template).request(
        CHOOSE_TOKENS,
        names,
        question=asked(task),
        answers="\n\n".join(answers),
        evidence="\n\n".join(once.values()),
        reasoning="\n\n".join(chains),
        negated=negated(task),
        insufficient=insufficient,
        labels=", ".join(names),
    )


def repair_request(request: Request, reply: str, reason: str, words: Words = PACKAGED) -> Request:
    """Ask once more, after a reply that could not be used; a long reply is shown by its beginning only."""
    shown = reply[:EXCERPT] + (f" [{len(reply) - EXCERPT} more characters]" if len(reply) > EXCERPT else "")
    return words.of(REPAIR).request(
        request.max_tokens,
        request.choices,
        request.json_schema,
        system=request.system,
        request=request.user,
        reason=reason,
        reply=fenced("reply", shown),
    )


def fenced(name: str, text: str) -> str:
    """Material between marks that it cannot close."""
    code = content_id(_SALT, text)[:12]
    return f"<<< {name} {code}\n{text}\n>>> {code}"


def is_claim(task: ExplainOption | ChooseAnswer) -> bool:
    """Whether what is asked is a claim to verify, whose options are the labels themselves."""
    return task.task == "verification"


def asked(task: ExplainOption | ChooseAnswer) -> str:
    """The question or claim between marks."""
    return fenced("claim" if is_claim(task) else "question", task.question)


def listed(task: ChooseAnswer) -> str:
    """The options as a lettered list between marks; claims have none besides their labels."""
    lines = (f"{label}) {option}" for label, option in zip(task.labels, task.options, strict=True))
    return "" if is_claim(task) else fenced("options", "\n".join(lines))


def negated(task: ExplainOption | ChooseAnswer) -> str:
    """The field of a template that stands where the exception is asked for."""
    return "negated" if task.negated else ""


def _numbered(
    evidence: Mapping[str, Sequence[EvidenceItem]], wanted: set[str] | None
) -> dict[str, tuple[EvidenceItem, int]]:
    """Evidence by id with its number; the same fact has the same number, whichever option it was found for."""
    numbers: dict[str, int] = {}
    found: dict[str, tuple[EvidenceItem, int]] = {}
    for items in evidence.values():
        for item in items:
            if wanted is None or item.evidence_id in wanted:
                found[item.evidence_id] = (item, numbers.setdefault(item.content_hash, len(numbers) + 1))
    return found


def _written(chain: Chain, shown: Mapping[str, tuple[EvidenceItem, int]]) -> str:
    """A chain as numbered lines; citations of evidence that was never given are said to be so."""
    lines = []
    for number, step in enumerate(chain.steps, start=1):
        cited = [str(shown[each][1]) if each in shown else "one that does not exist" for each in step.cited]
        lines.append(f"{number}. {step.text}" + (f" [evidence {', '.join(cited)}]" if cited else ""))
    return "\n".join(lines) or "Nothing in the evidence leads here."
