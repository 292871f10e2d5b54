"""Printed figures that follow from others (differences, relative gains, averages), and how each is worked out.

Applied to printed figures the arithmetic shows that it is the document's own; applied to our scores it gives what is
compared with the document's figure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from evidence_assets.experiment.scores.published_figures import Figure, Key, figures

AVERAGES = {
    "mmlu_med_average": (
        "mmlu_anatomy",
        "mmlu_clinical_knowledge",
        "mmlu_college_biology",
        "mmlu_college_medicine",
        "mmlu_medical_genetics",
        "mmlu_professional_medicine",
    )
}
"""Averages over benchmarks that are printed as if they were one; each benchmark counts alike."""
COSTS = ("cost_jsd", "cost_moverscore", "cost_euclidean", "cost_cosine")
_AGAINST = re.compile(r"vs (?:(?P<system>[a-z_0-9]+):)?(?P<variant>[\w=.]*)(?=;|$)")
"""How labels and notes name what a difference is to: ``vs cost_cosine``, ``vs bertnet:initial_prompt``."""
_PUBLISHED = re.compile(r"vs the published \w+, (?P<percent>[\d.]+) in")
"""How a note names a number of others that a gain is over."""


@dataclass(frozen=True)
class Sum:
    """How a figure follows from others.

    ``mean``: of ``of``. ``difference``: the first of ``of`` less the smallest of the rest, or less ``printed`` where
    the rest is of others. ``gain``: that difference as a share of what is subtracted.
    """

    kind: Literal["mean", "difference", "gain"]
    of: tuple[Key, ...]
    printed: float | None = None

    def value(self, values: Mapping[Key, float]) -> float | None:
        """The result from the values of ``of``; None where one is missing, or a gain would divide by 0."""
        if any(key not in values for key in self.of):
            return None
        first, *rest = (values[key] for key in self.of)
        if self.kind == "mean":
            return (first + sum(rest)) / len(self.of)
        base = min(rest) if self.printed is None else self.printed
        if self.kind == "difference":
            return first - base
        return (first - base) / base if base else None


def sum_of(figure: Figure) -> Sum | None:
    """How a figure follows from others; None where it is measured itself, or the document does not say how."""
    name, _, _ = figure.metric.partition("_relative_gain")
    own = replace(figure, metric=re.sub(r"_(delta|drop)\w*$", "", name), label="")
    if figure.benchmark in AVERAGES:
        return Sum("mean", tuple(replace(figure, benchmark=b).key for b in AVERAGES[figure.benchmark]))
    if own.metric == figure.metric or not figure.benchmark:
        return None
    if figure.metric.endswith("_vs_worst_cost"):
        return Sum("difference", (own.key, *(replace(own, variant=v).key for v in COSTS)))
    if figure.metric.endswith("_vs_best_baseline"):
        place = (own.document, own.table, own.scope, own.metric)
        others = [f.fraction for f in figures() if not f.ours and (f.document, f.table, f.scope, f.metric) == place]
        return Sum("difference", (own.key,), max(others)) if others else None
    if figure.metric.endswith("_drop"):
        return Sum("difference", (replace(own, variant="full").key, own.key))
    if theirs := _PUBLISHED.search(figure.note):
        return Sum("gain", (own.key,), float(theirs["percent"]) / 100)
    against = _AGAINST.search(figure.label) or _AGAINST.search(figure.note)
    if against is None:
        return None
    other = replace(own, system=against["system"] or own.system, variant=against["variant"])
    if name != figure.metric:  # the retriever compared with asks no language model
        return Sum("gain", (own.key, replace(other, model="").key))
    return Sum("difference", (own.key, other.key))
