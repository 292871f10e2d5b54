"""The printed figures, a row of ``published_figures.csv`` each, and which of them a score is compared with.

Notes begin with ``erratum:`` where another number contradicts a figure, ``check:`` where its arithmetic does not close,
``alt:`` where another number is printed for the same; they say where print swaps or omits metric or benchmark.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass

from evidence_assets.benchmarks.declared_benchmarks import SEED_SEPARATOR

FILE = Path(__file__).with_suffix(".csv")
COMPARABLE_SCALES = ("percent", "fraction", "score")
"""Scales of figures that a score can be compared with; times are not scores, and most counts are not."""
TIME_METRICS = ("hours", "minutes", "minutes_per_question")
"""Metrics of figures that are compared with the time that steps took."""
TIME_COMPARISONS = ("runtime_share", "latency_increase")
"""Metrics of figures that compare times, and are no scores either."""
COUNT_METRICS = ("tuples", "fact_count", "diversity", "correct_of_10", "pairs_with_higher_bartscore")
"""Counts that are scored: how much a harvest yields, and how many of its best tuples hold."""
LABELS = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFORMATION": "nei"}
"""Printed names of the classes in metrics such as ``recall:SUPPORTS``."""
RECORDED_ANSWERS = "recorded"
"""Method, and reasoner, of scores of recorded answers; see ``systems.baselines.recorded_answers``."""
RECALLED_SUFFIX = "_with_recalled"
"""Ends the names of metrics that count what a language model recalled; see ``retrieval_scores``."""
SYSTEMS_COUNTING_RECALLED = ("kaping_background",)
"""Systems whose printed hits and F1 count it."""
Key = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PublishedName:
    """The name under which a variant's figures are printed; ``model`` unless it is that of the predictions."""

    system: str
    variant: str = ""
    model: str = ""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PublishedTiming:
    """The name under which the time of some steps of a variant is printed."""

    system: str
    variant: str
    steps: tuple[Literal["evidence", "chains", "predictions"], ...]
    differs: str = "on the machine at hand"
    model: str = ""


@dataclass(frozen=True)
class Figure:
    """One printed number; an empty text is what the document does not state.

    ``part`` is the part of the benchmark that it is printed for, as ``benchmarks.declared_benchmarks`` names
    subsets but for the seed, which no document prints; empty for the whole split. ``variant`` is an ablation, a
    setting or a stage, two of them joined by ``;``; ``label`` a class, a comparator or a qualifier such as ``min``;
    ``ours`` marks the document's own method, ``reproduced`` a baseline that it ran itself.
    """

    document: str
    table: str
    benchmark: str
    part: str
    system: str
    variant: str
    model: str
    metric: str
    label: str
    value: float
    std: float | None
    scale: Literal["percent", "fraction", "count", "minutes", "hours", "score"]
    reproduced: bool
    ours: bool
    note: str
    follows: Literal["", "mean", "difference", "gain"] = ""
    """How it follows from other figures: their mean; the first less the smallest of the rest, or less ``less``; or
    that difference as a share of what is subtracted."""
    of: str = ""
    """The keys of these figures."""
    less: float | None = None
    """A printed number of others that is subtracted."""

    @property
    def is_erratum(self) -> bool:
        """Whether the number is contradicted by another printed number or by public data."""
        return "erratum:" in self.note

    @property
    def scope(self) -> str:
        """The benchmark with its part: ``tabmcq.first150``."""
        return ".".join(filter(None, (self.benchmark, self.part)))

    @cached_property
    def key(self) -> Key:
        """What it is printed for: the same in every table that prints it, if with another value."""
        return self.scope, self.system, self.variant, self.model, self.metric, self.label

    @cached_property
    def operands(self) -> tuple[Key, ...]:
        """The keys of the figures that it follows from; none where it is measured itself."""
        return tuple(cast(Key, tuple(key.split("|"))) for key in self.of.split(" & ") if key)

    def value_from(self, values: Mapping[Key, float]) -> float | None:
        """What it is by the values of its sides; None where one is missing, or a gain would divide by 0."""
        if any(key not in values for key in self.operands):
            return None
        first, *rest = (values[key] for key in self.operands)
        if self.follows == "mean":
            return (first + sum(rest)) / len(self.operands)
        base = min(rest) if self.less is None else self.less
        if self.follows == "difference":
            return first - base
        return (first - base) / base if base else None

    @property
    def source(self) -> str:
        """Where it is printed, as a score row cites it: ``thesis, Table 3.3``."""
        return f"{self.document}, {self.table if self.table.startswith(('text', 'Fig')) else f'Table {self.table}'}"

    @property
    def fraction(self) -> float:
        """The value with percents as fractions, as our scores are: 63.60 % is 0.636."""
        return round(self.value / 100, 10) if self.scale == "percent" else self.value

    @property
    def metric_and_label(self) -> str:
        return ":".join(filter(None, (self.metric, self.label)))

    @property
    def is_comparable(self) -> bool:
        """Whether a score can be compared with it: not with a time."""
        if self.metric in TIME_COMPARISONS:
            return False
        counted = self.metric.removesuffix("_delta") in COUNT_METRICS
        return self.scale == "count" if counted else self.scale in COMPARABLE_SCALES


@cache
def figures() -> tuple[Figure, ...]:
    """All printed numbers, in the order of their documents and tables."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [row | {name: row[name] or None for name in ("std", "less")} for row in csv.DictReader(file)]
    return TypeAdapter(tuple[Figure, ...]).validate_python(rows)


@cache
def figures_by_key() -> dict[Key, list[Figure]]:
    """Every number by what it is printed for: no erratum first, then tables before prose, originals before re-runs."""
    grouped: dict[Key, list[Figure]] = defaultdict(list)
    for figure in sorted(figures(), key=lambda f: (f.is_erratum, f.table.startswith(("text", "Fig")), f.reproduced)):
        grouped[figure.key].append(figure)
    return dict(grouped)


@cache
def _measured_figures(scope: str, system: str, variant: str, model: str) -> list[Figure]:
    """The numbers measured of a variant and a model on a benchmark or part, the one that counts of each metric."""
    measured = (same[0] for same in figures_by_key().values() if not same[0].follows)
    return [figure for figure in measured if figure.key[:4] == (scope, system, variant, model)]


@cache
def _printed_models(scope: str, system: str) -> frozenset[str]:
    """Models that numbers of a system on a benchmark or part are printed for; the empty text where one is not named."""
    return frozenset(f.model for f in figures() if (f.scope, f.system) == (scope, system))


@cache
def _printed_scopes(benchmark: str, system: str) -> tuple[str, ...]:
    """The benchmark and those parts of it that numbers of a system are printed for, the whole first."""
    return tuple(sorted({f.scope for f in figures() if (f.benchmark, f.system) == (benchmark, system)}))


def printed_model(model_id: str, known: Iterable[str]) -> str:
    """The longest of the ``known`` printed models that a model's own name contains as whole words, else an empty text.

    >>> printed_model("Qwen/Qwen2.5-72B-Instruct-AWQ@rev", ["qwen2.5-72b", "qwen2.5-7b"])
    'qwen2.5-72b'
    """
    # The reader is named before the encoder, where an id names both.
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
        if name.endswith(RECALLED_SUFFIX) != (system in SYSTEMS_COUNTING_RECALLED):
            return "", ""
        name = name.removesuffix(RECALLED_SUFFIX).replace("answer_f1", "f1")
    return name, LABELS.get(label, label)


def part_of(scope: str) -> str:
    """The part of a benchmark that a score is of, as figures name it: without the seed, which no document prints.

    >>> part_of("webqsp.sample1215-seed0"), part_of("webqsp")
    ('sample1215', '')
    """
    return scope.partition(".")[2].partition(SEED_SEPARATOR)[0]


def figures_of(scope: str, printed_as: PublishedName | PublishedTiming, model_id: str) -> list[Figure]:
    """The figures, one of each metric, that scores or times on this part of a benchmark are compared with.

    A figure printed for another model is never taken; one printed without naming a model is where none names ours.
    """
    place = ".".join(filter(None, (scope.partition(".")[0], part_of(scope))))
    system, metrics = printed_as.system, TIME_METRICS if isinstance(printed_as, PublishedTiming) else None
    model = printed_as.model or printed_model(model_id, _printed_models(place, system))
    named: dict[str, Figure] = {}
    for candidate in dict.fromkeys((model, "")):
        for figure in _measured_figures(place, system, printed_as.variant, candidate):
            if figure.metric in metrics if metrics else figure.is_comparable:
                named.setdefault(figure.metric_and_label, figure)
    return list(named.values())


def figure_for(scope: str, printed_as: PublishedName, model_id: str, metric: str) -> Figure | None:
    """The printed figure that a score is compared with: one for the same part first, then those for other parts."""
    wanted = ":".join(filter(None, printed_metric(metric, printed_as.system)))
    places = dict.fromkeys((scope, *_printed_scopes(scope.partition(".")[0], printed_as.system)))
    found = (figure for place in places for figure in figures_of(place, printed_as, model_id))
    return next((figure for figure in found if figure.metric_and_label == wanted), None)


def add_published_figures(rows: list[dict[str, Any]], printed_as: Sequence[PublishedName]) -> list[dict[str, Any]]:
    """Score rows with ``published`` and ``published_source``: one for the same part first, then of the first name."""
    made = []
    for row in rows:
        part = part_of(row["scope_id"])
        found = [figure_for(row["scope_id"], name, row["model_id"], row["metric"]) for name in printed_as]
        figure = min(filter(None, found), key=lambda one: one.part != part, default=None)
        if figure is not None:
            said = [figure.source]
            said += [] if figure.model else ["model not stated"]
            said += [] if figure.part == part else [f"printed for {figure.part or 'the whole'}"]
            said += [figure.note] if figure.is_erratum else []
            row = row | {"published": figure.fraction, "published_source": "; ".join(said)}
        made.append(row)
    return made
