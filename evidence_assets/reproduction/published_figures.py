"""Published figures, one per row of ``published_figures.csv``, and their matching with scores.

Notes start with ``erratum:`` if another number contradicts a figure, ``check:`` if its arithmetic does not add up and
``alt:`` if another number is given for the same result. They also report swapped or missing metrics and benchmarks.
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

from evidence_assets.benchmarks.declared_benchmarks import LISTED_SUFFIX, SEED_SEPARATOR
from evidence_assets.reasoning.tasks import NOT_ENOUGH_INFORMATION

FILE = Path(__file__).with_suffix(".csv")
COMPARABLE_SCALES = ("percent", "fraction", "score")
"""Scales of figures that are comparable with scores; times and most counts are not."""
TIME_METRICS = ("hours", "minutes", "minutes_per_question")
"""Metrics of figures that are compared with the run time of stages."""
TIME_COMPARISONS = ("runtime_share", "latency_increase")
"""Metrics of figures that compare times; these are not scores."""
COUNT_METRICS = ("tuples", "fact_count", "diversity", "correct_of_10", "pairs_with_higher_bartscore")
"""Counts that are scores: the yield of a harvest, and the correct ones of its best tuples."""
LABELS = {"SUPPORTS": "supports", "REFUTES": "refutes", NOT_ENOUGH_INFORMATION: "nei"}
"""Published names of classes in metrics such as ``recall:SUPPORTS``."""
RECORDED_ANSWERS = "recorded"
"""Method, and reasoner, of scores of recorded answers; see ``systems.baselines.recorded_answers``."""
RUN_SEPARATOR = "~"
"""Separates the name of recorded answers from that of the run, where a model has answered more than once."""
RECALLED_SUFFIX = "_with_recalled"
"""Suffix of metrics that include facts recalled by a language model; see ``retrieval_scores``."""
INCLUDED_SUFFIX = "_included"
"""Suffix of hits by triples that include an answer rather than end in it; see ``retrieval_scores``."""
EVIDENCE_METRICS = frozenset({"bertscore", "coverage"})
"""Published metrics that are scored from the evidence of every variant; all others need answers."""
TRIPLE_METRICS = EVIDENCE_METRICS | {"f1", "hit@1", "hit@10"}
"""Published metrics that are scored from evidence where its triples are scored."""
SYSTEMS_COUNTING_RECALLED = ("kaping_background",)
"""Systems whose published hits and F1 include recalled facts."""
Key = tuple[str, str, str, str, str, str]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PublishedName:
    """The name of a variant in published figures; ``model`` defaults to the model of the predictions."""

    system: str
    variant: str = ""
    model: str = ""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PublishedTiming:
    """The name of a variant in published times, and the stages that the time covers."""

    system: str
    variant: str
    steps: tuple[Literal["chunk_rankings", "evidence", "chains", "predictions"], ...]
    difference_note: str = "on the machine at hand"
    model: str = ""


@dataclass(frozen=True)
class Figure:
    """One published number; an empty text means that the document does not give the value.

    ``part`` is the subset of the benchmark, named as in ``benchmarks.declared_benchmarks`` without the seed, which no
    document gives; empty for the whole split. ``variant`` is an ablation, setting or stage, joined by ``;``; ``label``
    is a class, comparator or qualifier such as ``min``; ``ours`` marks the document's own method, ``reproduced`` a
    baseline that the document ran itself.
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
    """How it derives from other figures: their mean; the first minus the smallest other, or minus ``less``; or that
    difference relative to the subtrahend."""
    of: str = ""
    """Keys of these figures."""
    less: float | None = None
    """A published number of another document to subtract."""

    @property
    def is_erratum(self) -> bool:
        """Whether another published number or public data contradicts it."""
        return "erratum:" in self.note

    @property
    def scope(self) -> str:
        """The benchmark with its part: ``tabmcq.first150``."""
        return ".".join(filter(None, (self.benchmark, self.part)))

    @cached_property
    def key(self) -> Key:
        """What the number measures; equal in every table, even if the value differs."""
        return self.scope, self.system, self.variant, self.model, self.metric, self.label

    @cached_property
    def operands(self) -> tuple[Key, ...]:
        """Keys of the figures that it derives from; empty for a measured figure."""
        return tuple(cast(Key, tuple(key.split("|"))) for key in self.of.split(" & ") if key)

    def value_from(self, values: Mapping[Key, float]) -> float | None:
        """Derive it from the values of its operands; None if one is missing or a gain would divide by 0."""
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
        """Document and table, as cited in score rows: ``thesis, Table 3.3``."""
        return f"{self.document}, {self.table if self.table.startswith(('text', 'Fig')) else f'Table {self.table}'}"

    @property
    def fraction(self) -> float:
        """The value on the scale of scores: 63.60 % is 0.636."""
        return round(self.value / 100, 10) if self.scale == "percent" else self.value

    @property
    def metric_and_label(self) -> str:
        return ":".join(filter(None, (self.metric, self.label)))

    @property
    def is_comparable(self) -> bool:
        """Whether it is comparable with a score; times are not."""
        if self.metric in TIME_COMPARISONS:
            return False
        is_count = self.metric.removesuffix("_delta") in COUNT_METRICS
        return self.scale == "count" if is_count else self.scale in COMPARABLE_SCALES


@cache
def figures() -> tuple[Figure, ...]:
    """All published figures, by document and table."""
    with FILE.open(encoding="utf-8", newline="") as file:
        rows = [row | {name: row[name] or None for name in ("std", "less")} for row in csv.DictReader(file)]
    return TypeAdapter(tuple[Figure, ...]).validate_python(rows)


@cache
def figures_by_key() -> dict[Key, list[Figure]]:
    """Figures by key: errata last, then tables before prose, then originals before reproductions."""
    grouped: dict[Key, list[Figure]] = defaultdict(list)
    for figure in sorted(figures(), key=lambda f: (f.is_erratum, f.table.startswith(("text", "Fig")), f.reproduced)):
        grouped[figure.key].append(figure)
    return dict(grouped)


@cache
def _measured_figures(benchmark: str, system: str) -> list[Figure]:
    """Measured figures of a system on a benchmark and its parts, the preferred one per key."""
    preferred = (group[0] for group in figures_by_key().values() if not group[0].follows)
    return [figure for figure in preferred if (figure.benchmark, figure.system) == (benchmark, system)]


def published_model(model_id: str, published_names: Iterable[str]) -> str:
    """The longest published model name that the model id contains as whole words, else an empty text.

    >>> published_model("Qwen/Qwen2.5-72B-Instruct-AWQ@rev", ["qwen2.5-72b", "qwen2.5-7b"])
    'qwen2.5-72b'
    """
    # An id with reader and encoder names the reader first.
    name = model_id.lower().partition("+")[0].partition("@")[0].rpartition("/")[2]
    fits = [m for m in published_names if m and re.search(rf"(?<![a-z0-9.]){re.escape(m)}(?![a-z0-9.])", name)]
    return max(fits, key=len, default="")


@cache
def _systems_of_a2q() -> frozenset[str]:
    """Systems in the tables of Attention2Query, whose hits include an answer and whose coverage is over all words."""
    return frozenset(figure.system for figure in figures() if figure.document == "a2q")


def published_name_of_metric(metric: str, system: str) -> tuple[str, str]:
    """Published name and label of a metric for a system; an empty name if it was not published.

    >>> published_name_of_metric("recall:NOT ENOUGH INFORMATION", "ucret")
    ('recall', 'nei')
    """
    name, _, label = metric.partition(":")
    if system in _systems_of_a2q():
        readings = {f"hit@{k}{INCLUDED_SUFFIX}": f"hit@{k}" for k in (1, 10)} | {"coverage_all_words": "coverage"}
        return readings.get(name, "" if name in readings.values() else name), label
    if name.startswith(("hit@", "answer_f1")):
        if name.endswith(RECALLED_SUFFIX) != (system in SYSTEMS_COUNTING_RECALLED):
            return "", ""
        name = name.removesuffix(RECALLED_SUFFIX).replace("answer_f1", "f1")
    return name, LABELS.get(label, label)


def part_of(scope: str) -> str:
    """The part in the scope of a score, without how its questions were chosen, which no document gives.

    >>> part_of("webqsp.sample1215-seed0"), part_of("webqsp.sample1215-listed"), part_of("webqsp")
    ('sample1215', 'sample1215', '')
    """
    return scope.partition(".")[2].partition(SEED_SEPARATOR)[0].removesuffix(LISTED_SUFFIX)


def figures_of(scope: str, published_name: PublishedName | PublishedTiming, model_id: str) -> list[Figure]:
    """The figures, one per metric, to compare scores or times on this part of a benchmark with.

    Figures for the same model come first, then figures that name no model; figures for another model never match.
    """
    benchmark = scope.partition(".")[0]
    published_scope = ".".join(filter(None, (benchmark, part_of(scope))))
    figures_of_scope = [f for f in _measured_figures(benchmark, published_name.system) if f.scope == published_scope]
    metrics = TIME_METRICS if isinstance(published_name, PublishedTiming) else None
    model = published_name.model or published_model(model_id, {figure.model for figure in figures_of_scope})
    by_metric: dict[str, Figure] = {}
    for candidate in dict.fromkeys((model, "")):
        for figure in figures_of_scope:
            if (figure.variant, figure.model) == (published_name.variant, candidate) and (
                figure.metric in metrics if metrics else figure.is_comparable
            ):
                by_metric.setdefault(figure.metric_and_label, figure)
    return list(by_metric.values())


def figure_for(scope: str, published_name: PublishedName, model_id: str, metric: str) -> Figure | None:
    """The published figure to compare a score with: preferably for the same part, else for another one."""
    published_metric = ":".join(filter(None, published_name_of_metric(metric, published_name.system)))
    measured = _measured_figures(scope.partition(".")[0], published_name.system)
    scopes = dict.fromkeys((scope, *sorted({figure.scope for figure in measured})))
    candidates = (figure for each in scopes for figure in figures_of(each, published_name, model_id))
    return next((figure for figure in candidates if figure.metric_and_label == published_metric), None)


def add_published_figures(rows: list[dict[str, Any]], names: Sequence[PublishedName]) -> list[dict[str, Any]]:
    """Fill ``published`` and ``published_source`` of score rows; figures for the same part come first."""
    completed = []
    for row in rows:
        part = part_of(row["scope_id"])
        candidates = [figure_for(row["scope_id"], name, row["model_id"], row["metric"]) for name in names]
        figure = min(filter(None, candidates), key=lambda candidate: candidate.part != part, default=None)
        if figure is not None:
            notes = [figure.source]
            notes += [] if figure.model else ["model not stated"]
            notes += [] if figure.part == part else [f"printed for {figure.part or 'the whole'}"]
            notes += [figure.note] if figure.is_erratum else []
            row = row | {"published": figure.fraction, "published_source": "; ".join(notes)}
        completed.append(row)
    return completed
