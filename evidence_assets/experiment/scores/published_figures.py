"""Which printed figure stands beside a score of ours: the same benchmark, system, variant, model and metric, or none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from evidence_assets.benchmarks.declared import SEEDED
from evidence_assets.experiment.scores.published import Figure, models_printed, published, scopes_printed

COMPARABLE = ("percent", "fraction", "score")
"""Scales of figures that a score can be compared with; times are not scores, and most counts are not."""
TIMES = ("hours", "minutes", "minutes_per_question")
"""Metrics of figures that are no scores: what steps took is compared with them."""
OF_TIMES = ("runtime_share", "latency_increase")
"""Metrics of figures that say how times compare, and are no scores either."""
COUNTED = ("tuples", "fact_count", "diversity", "correct_of_10", "pairs_with_higher_bartscore")
"""Counts that are scored: how much a harvest yields, and how many of its best tuples hold."""
LABELS = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFORMATION": "nei"}
"""Printed names of the classes in metrics such as ``recall:SUPPORTS``."""
RECORDED = "recorded"
"""Method, and reasoner, of scores of what systems of others once answered; see ``systems.baselines.recorded``."""
RECALLED = "_with_recalled"
"""Ends the names of metrics that count what a language model recalled; see ``retrieval_scores``."""
COUNTING_RECALLED = ("kaping_background",)
"""Systems whose printed hits and F1 count it."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PrintedAs:
    """The name under which a variant's figures are printed.

    ``system``, ``variant``: As ``experiment.scores.published`` names them.
    ``model``: The printed model; where none is given, the one that the model of the predictions is a form of.
    """

    system: str
    variant: str = ""
    model: str = ""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class TimedAs:
    """The name under which the time of some steps of a variant is printed."""

    system: str
    variant: str
    steps: tuple[Literal["evidence", "chains", "predictions"], ...]
    differs: str = "on the machine at hand"


def comparable(figure: Figure) -> bool:
    """Whether a score can be compared with a figure: not with a time."""
    if figure.metric in OF_TIMES:
        return False
    counted = figure.metric.removesuffix("_delta") in COUNTED
    return figure.scale == "count" if counted else figure.scale in COMPARABLE


def printed_model(model_id: str, known: Iterable[str]) -> str:
    """The longest of the ``known`` printed models that a model's own name contains as whole words, else an empty text.

    >>> printed_model("Qwen/Qwen2.5-72B-Instruct-AWQ@rev", ["qwen2.5-72b", "qwen2.5-7b"])
    'qwen2.5-72b'
    """
    # Who reads stands before the encoder, where an id names both.
    name = model_id.lower().partition("+")[0].partition("@")[0].rpartition("/")[2]
    fits = [m for m in known if m and re.search(rf"(?<![a-z0-9.]){re.escape(m)}(?![a-z0-9.])", name)]
    return max(fits, key=len, default="")


def printed_metric(metric: str, system: str) -> tuple[str, str]:
    """Name and label under which a metric of ours is printed for a system; no name where it is not what is printed.

    >>> printed_metric("recall:NOT ENOUGH INFORMATION", "ucret")
    ('recall', 'nei')
    """
    name, _, label = metric.partition(":")
    if name.startswith(("hit@", "answer_f1")):
        if name.endswith(RECALLED) != (system in COUNTING_RECALLED):
            return "", ""
        name = name.removesuffix(RECALLED).replace("answer_f1", "f1")
    return name, LABELS.get(label, label)


def part_of(scope: str) -> str:
    """The part of a benchmark that a score is of, as figures name it: without the seed, which no document prints.

    >>> part_of("webqsp.sample1215-seed0"), part_of("webqsp")
    ('sample1215', '')
    """
    return scope.partition(".")[2].partition(SEEDED)[0]


def figure_for(scope: str, printed_as: PrintedAs, model_id: str, metric: str, *, timed: bool = False) -> Figure | None:
    """The printed figure that a score of this metric on a benchmark, or on a part of one, is compared with; with ``timed``
    that of a time.

    One that is printed for the same part comes first, then those for other parts of the benchmark. A figure printed for
    another model is never taken; one printed without naming a model stands where none names ours.
    """
    name, label = printed_metric(metric, printed_as.system)
    benchmark, part = scope.partition(".")[0], part_of(scope)
    same = f"{benchmark}.{part}" if part else benchmark
    for place in dict.fromkeys((same, *scopes_printed(benchmark, printed_as.system))):
        model = printed_as.model or printed_model(model_id, models_printed(place, printed_as.system))
        for candidate in dict.fromkeys((model, "")):
            found = published(place, printed_as.system, printed_as.variant, candidate, name, label)
            if found is not None and (timed or comparable(found)):
                return found
    return None


def beside(rows: list[dict[str, Any]], printed_as: Sequence[PrintedAs]) -> list[dict[str, Any]]:
    """Score rows with ``published`` and ``published_source`` where a figure is printed, on the scale of the scores.

    Where figures are printed under several names, one for the same part of the benchmark comes first, then the first
    name.
    """
    made = []
    for row in rows:
        found = [figure_for(row["scope_id"], name, row["model_id"], row["metric"]) for name in printed_as]
        figures = sorted(filter(None, found), key=lambda figure: figure.part != part_of(row["scope_id"]))
        if figures:
            figure = figures[0]
            said = [figure.source]
            said += [] if figure.model else ["model not stated"]
            said += [] if figure.part == part_of(row["scope_id"]) else [f"printed for {figure.part or 'the whole'}"]
            said += [figure.note] if figure.erratum else []
            # As printed: 63.60 % is 0.636, without the noise of the division.
            row = row | {"published": round(figure.fraction, 10), "published_source": "; ".join(said)}
        made.append(row)
    return made
