"""Would the answer stand without the evidence it cites, and does that evidence alone give it?

For an answer a = A(E) from all evidence E that cites C ⊆ E:

    necessary:          A(E ∖ C) ≠ a        (what is cited was needed)
    sufficient:         A(C) = a            (what is cited was enough)
    needed, for c ∈ C:  A(E ∖ {c}) ≠ a      (this one was needed by itself)

A label is whatever the answering function returns; an abstention is a label like any other, so that an answer which
turns `insufficient` has changed. The function must be deterministic, or the flags mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Label = TypeVar("Label", bound=Hashable)


@dataclass(frozen=True)
class Case:
    """One answered question: the ids of all its evidence in their order, and the ids that the answer cites."""

    question_id: str
    evidence: tuple[str, ...]
    cited: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.evidence)) < len(self.evidence):
            raise ValueError(f"question {self.question_id}: an evidence id comes twice")
        absent = [one for one in self.cited if one not in set(self.evidence)]
        if absent:
            raise ValueError(
                f"question {self.question_id}: {absent[0]!r} is cited but not among the evidence; "
                "verify citations before this check"
            )


@dataclass(frozen=True)
class Verdict:
    """What the counterfactuals say of one answer.

    ``necessary``, ``sufficient``: None where nothing is cited: then there is nothing to take away or to keep.
    ``needed``: For each cited id, in the order of citing, whether the answer changes without it alone.
    ``without``, ``alone``: The answers without what is cited, and from that alone.
    """

    question_id: str
    necessary: bool | None = None
    sufficient: bool | None = None
    needed: Mapping[str, bool] = field(default_factory=dict)
    without: Hashable = field(default=None, compare=False)
    alone: Hashable = field(default=None, compare=False)


def check_batch(
    answer: Callable[[Sequence[tuple[str, tuple[str, ...]]]], Sequence[Label]], cases: Sequence[Case]
) -> list[Verdict]:
    """Necessity and sufficiency of citations: `answer` takes (question id, evidence ids) pairs, each asked once."""
    plans = [_plan(case) for case in cases]
    requests = list(
        dict.fromkeys((case.question_id, ids) for case, plan in zip(cases, plans, strict=True) for ids in plan)
    )
    labels = answer(requests)
    if len(labels) != len(requests):
        raise ValueError(f"asked {len(requests)} times, got {len(labels)} answers")
    said = dict(zip(requests, labels, strict=True))
    verdicts = []
    for case, plan in zip(cases, plans, strict=True):
        if not plan:
            verdicts.append(Verdict(case.question_id))
            continue
        original, without, alone, *each = (said[case.question_id, ids] for ids in plan)
        needed = {one: label != original for one, label in zip(dict.fromkeys(case.cited), each, strict=True)}
        verdicts.append(Verdict(case.question_id, without != original, alone == original, needed, without, alone))
    return verdicts


def _plan(case: Case) -> list[tuple[str, ...]]:
    """Evidence subsets to ask with: all, all but the cited, the cited alone, and all but each cited one."""
    if not case.cited:
        return []
    cited = set(case.cited)
    return [
        case.evidence,
        tuple(one for one in case.evidence if one not in cited),
        tuple(one for one in case.evidence if one in cited),
        *(tuple(one for one in case.evidence if one != left_out) for left_out in dict.fromkeys(case.cited)),
    ]
