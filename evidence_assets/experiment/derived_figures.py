"""Printed figures that follow from others: differences, relative gains and averages, and how each is worked out.

The same arithmetic is done with printed figures, which shows that it is the document's own, and with scores of ours,
which are laid beside the document's figures here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from evidence_assets.benchmarks.declarations import instances
from evidence_assets.benchmarks.declared import SEEDED, Benchmark, RawFiles, every_raw_files
from evidence_assets.benchmarks.info import datasets
from evidence_assets.experiment.scores.published import Figure, figures
from evidence_assets.experiment.scores.published_figures import part_of
from evidence_assets.experiment.variants import Variant

Key = tuple[str, str, str, str, str, str]
"""What a figure is printed for; see ``Figure.key``."""
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
"""Averages over benchmarks that are printed as if they were one, each benchmark counting alike."""
COSTS = ("cost_jsd", "cost_moverscore", "cost_euclidean", "cost_cosine")
_AGAINST = re.compile(r"vs (?:(?P<system>[a-z_0-9]+):)?(?P<variant>[\w=.]*)(?=;|$)")
"""How labels and notes name what a difference is to: ``vs cost_cosine``, ``vs bertnet:initial_prompt``."""
_PUBLISHED = re.compile(r"vs the published \w+, (?P<percent>[\d.]+) in")
"""How a note names a number of others that a gain is over."""


@dataclass(frozen=True)
class Ours:
    """A score in the lake that a printed figure stands beside."""

    variant: str
    benchmark: str
    model_id: str
    metric: str
    value: float
    low: float | None
    high: float | None
    n: int
    reasoner: str = ""
    differs: str = ""


@dataclass(frozen=True)
class Sum:
    """How a figure follows from others.

    ``mean``: of ``of``. ``difference``: the first of ``of`` less the least of the rest, or less ``printed`` where the rest is
    of others. ``gain``: that difference as a share of what is taken away.
    """

    kind: Literal["mean", "difference", "gain"]
    of: tuple[Key, ...]
    printed: float | None = None

    def value(self, values: Mapping[Key, float]) -> float | None:
        """The result from the values of what it is of; None where one is missing, or nothing is there to gain on."""
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
    """How a figure follows from others; None where it is measured itself, or what it follows from is not said."""
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
    found = _AGAINST.search(figure.label) or _AGAINST.search(figure.note)
    if found is None:
        return None
    other = replace(own, system=found["system"] or own.system, variant=found["variant"])
    if name != figure.metric:  # the retriever compared with asks no language model
        return Sum("gain", (own.key, replace(other, model="").key))
    return Sum("difference", (own.key, other.key))


def summed(total: Sum, ours: Mapping[Key, Sequence[Ours]]) -> tuple[Ours, ...]:
    """What the scores in the lake give for a figure that follows from others: once for each of our models, without interval.

    All are of the same part of the benchmark, and by the same language model where one answered.
    """
    found = []
    for first in ours.get(total.of[0], ()):
        sides = {total.of[0]: first}
        for key in total.of[1:]:
            same = [
                score
                for score in ours.get(key, ())
                if part_of(score.benchmark) == part_of(first.benchmark) and score.model_id in (first.model_id, "")
            ]
            sides |= {key: same[0]} if same else {}
        value = total.value({key: score.value for key, score in sides.items()})
        if value is not None:
            names = dict.fromkeys(score.variant for score in sides.values())
            metric = f"{total.kind} of {first.metric}"
            asked = sum(s.n for s in sides.values()) if total.kind == "mean" else first.n
            score = Ours(" and ".join(names), first.benchmark, first.model_id, metric, value, None, None, asked)
            found.append(replace(score, differs=first.differs))
    return tuple(found)


def differences(figure: Figure, ours: Ours, benchmark: Benchmark | None) -> list[str]:
    """Where a score of ours was made otherwise than the figure beside it, as far as declarations and notes tell."""
    said = []
    own = ours.model_id.partition("@")[0]
    if (
        own.lower().rpartition("/")[2] != figure.model
    ):  # another form of the printed model, such as a quantized one, is told
        said.append(f"model {own or 'none'}, printed {figure.model or 'without a model'}")
    whole = benchmark.expected.questions if benchmark else 0
    if figure.metric in ("precision", "noisy_percent") and ours.reasoner:
        said.append(f"judged by {ours.reasoner.partition('@')[0]}, printed for Gemini")
    said += [ours.differs] if ours.differs else []
    part, total = part_of(ours.benchmark), sum_of(figure)
    if total is not None and total.kind == "mean":
        return said
    if total is not None and total.printed is not None:
        said.append("less the best baseline as printed")
    if figure.metric.startswith("f1") and figure.system in ("kaping", "kaping_background"):
        said.append("F1 by the gold answers among the ends of the triples; print does not say how it counts")
    if part != figure.part:
        said.append(f"answered {part or 'whole'}, printed for {figure.part or 'the whole'}")
    elif (seed := ours.benchmark.partition(SEEDED)[2]) and benchmark:
        said.append(f"drawn with seed {seed}; which questions are printed for is not stated")
    if whole and ours.n != whole:
        said.append(f"{ours.n:,} of {whole:,} questions")
    for source in (benchmark.corpus, benchmark.graph, benchmark.background_graph) if benchmark else ():
        if source:
            other = next((str(d["differs"]) for d in _declarations(source) if d.get("differs")), "")
            said.append(f"answered from our {source}" + (f" ({other})" if other else ""))
    return said


def obtained(benchmark: Benchmark) -> dict[str, str]:
    """What a benchmark's answers need, each with what its files hold and where they are obtained."""
    own = datasets()[benchmark.reader].wanted(benchmark.split) if benchmark.reader in datasets() else benchmark.holds
    needed = {benchmark.name: benchmark.holds or own}
    for name in (benchmark.corpus, benchmark.graph, benchmark.background_graph, benchmark.taxonomy):
        for stated in _declarations(name) if name else ():
            needed[name] = str(stated.get("holds", ""))
    return needed


def vectors_of(variant: Variant) -> list[RawFiles]:
    """The files of vectors that a variant reads beside what its benchmark needs."""
    name = f"embeddings/{variant.parameters.get('embedding', '')}"
    return [files for files in every_raw_files() if files.name == name]


def _declarations(name: str) -> list[dict[str, Any]]:
    """What is stated of the corpus, graph or knowledge base of this name."""
    makers = (made for component in ("Corpus", "Graph", "KnowledgeBase") for made in instances(component))
    return [made.attributes for made in makers if made.attributes.get("name") == name]
