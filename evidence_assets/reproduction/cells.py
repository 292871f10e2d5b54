"""Printed cells: which declared variant, benchmark and model would fill each, and why nothing can fill others.

A cell can be filled where ``figure_for`` finds its figure for a score that the declarations lead to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from typing import Any

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.declared import Benchmark, declared
from evidence_assets.experiment.evidence.sources import lacking
from evidence_assets.experiment.scores.published_figures import (
    LABELS,
    RECALLED,
    RECORDED,
    TIMES,
    Figure,
    Key,
    PrintedAs,
    TimedAs,
    figure_for,
    figures,
    part_of,
    printed_model,
)
from evidence_assets.experiment.system import Method, answers_by_model, crossings
from evidence_assets.experiment.variants import Variant, presets, variants
from evidence_assets.lake.ids import content_id

METRICS = {
    "verification": {f"{name}:{label}" for name, label in product(("precision", "recall", "f1"), LABELS)},
    "kgqa": {"answer_f1"},
    "skb_search": {"hit@1", "hit@5", "hit@10", "recall@20", "mrr"},
}
"""Scores of a task that figures are printed for, besides accuracy and coverage."""
OF_TRIPLES = {"hit@1", "hit@10", "answer_f1"}


@dataclass(frozen=True)
class Candidate:
    """A variant with its models on a benchmark, or on a collection of relations, and the metrics of its scores."""

    variant: Variant
    benchmark: str
    model_id: str
    """The language model, as scores name it, or the masked one of a harvest; empty where none answers."""
    metrics: Collection[str]
    holds: str = ""
    """Of a harvest, what its reference holds and where it is obtained."""

    def beside(self) -> set[Key]:
        """The keys of the figures that its scores, and the times of its steps, are compared with."""
        compared = [self._figure(name, metric) for name, metric in product(self.variant.published, self.metrics)]
        return {figure.key for figure in [*compared, *(figure for _, figure in self.timed())] if figure}

    def timed(self) -> list[tuple[TimedAs, Figure]]:
        """The printed times that its steps are compared with."""
        named = product(self.variant.timed, TIMES)
        return [(timed, figure) for timed, metric in named if (figure := self._figure(timed, metric))]

    def _figure(self, printed_as: PrintedAs | TimedAs, metric: str) -> Figure | None:
        figure = figure_for(self.benchmark, printed_as, self.model_id, metric)
        return figure if figure and figure.part == part_of(self.benchmark) else None


@dataclass(frozen=True)
class Ours:
    """A score in the lake, or a time of steps, that a printed figure is compared with."""

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
class Cell:
    """A printed figure with what would fill it, what fills it, or why nothing can.

    ``reason`` is the same sentence for all cells that lack the same; ``lacks`` says what it is of this one.
    """

    figure: Figure
    candidates: Sequence[Candidate] = ()
    reason: str = ""
    lacks: str = ""
    ours: Sequence[Ours] = ()

    @property
    def from_records(self) -> bool:
        """Whether only a file of what a system of others once answered can fill it."""
        return bool(self.candidates) and all(c.variant.method == RECORDED for c in self.candidates)

    @property
    def filled(self) -> bool:
        """Whether a score in the lake is of the same part of the benchmark."""
        return any(part_of(score.benchmark) == self.figure.part for score in self.ours)

    @property
    def fillable(self) -> bool:
        """Whether a declared variant would fill it, or the lake fills it already."""
        return self.filled or not self.reason


def candidates(chosen: Iterable[Variant] | None = None) -> list[Candidate]:
    """Each variant that has printed figures, with each model that its presets name, on all that it can be scored on."""
    scopes: list[tuple[str, Collection[str], str]]
    found, runnable = [], [b for b in declared().values() if b.runs_in()]
    for variant in variants() if chosen is None else chosen:
        if not variant.published:
            continue
        system = systems.load(variant.system)
        method = system.method_of(variant)
        settings = method.settings_of(variant)
        if isinstance(method, Method):
            recalls = bool(method.more_reads(variant, settings))
            prompted = answers_by_model(variant) or "generator" in method.models(settings)
            own = [b for b in runnable if b.family == variant.family and not lacking(method.reads, b)]
            scopes = [(b.name, metrics_of(variant, b.task, recalls), "") for b in own]
        else:
            scopes = [(scope.name, scope.metrics, scope.holds) for scope in method.scored_on(settings)]
        for crossed in crossings(system, variant, frozenset(presets())) if scopes else ():
            generator = crossed.profile.generator
            model = generator.name if generator.backend != "extractive" else ""
            if not isinstance(method, Method):
                model = crossed.profile.masked_model.name
            elif not prompted:
                model = ""
            found += [Candidate(crossed, scope, model, metrics, holds) for scope, metrics, holds in scopes]
    return found


def metrics_of(variant: Variant, task: str, recalls: bool = False) -> set[str]:
    """Names of the metrics that figures may be printed for and a variant's scores on a task have."""
    names = {"accuracy", "coverage", *METRICS.get(task, ())}
    if variant.retrieval or variant.family == "graph":
        names |= OF_TRIPLES | {name + RECALLED for name in OF_TRIPLES if recalls}
    return names | ({"bertscore"} if variant.bertscore or variant.family == "graph" else set())


def declared_cells(able: Sequence[Candidate]) -> list[Cell]:
    """Every printed figure with the candidates that would fill it, or why none can."""
    filling: dict[Key, list[Candidate]] = defaultdict(list)
    for candidate in able:
        for key in candidate.beside():
            filling[key].append(candidate)
    filling |= _from_records(filling, [b for b in declared().values() if b.runs_in()])
    scopes = {name: b.runs_in() for name, b in declared().items()}
    scopes |= {c.benchmark: True for c in able if c.variant.family == "knowledge" and c.benchmark not in scopes}
    cells = []
    for figure in figures():
        direct = filling.get(figure.key, []) if figure.comparable or figure.metric in TIMES else []
        sides = figure.sides if figure.comparable and not direct else ()
        missing = [key for key in sides if key not in filling]
        if not missing:
            direct = direct or [candidate for key in sides for candidate in filling[key]]
        if direct:
            cells.append(Cell(figure, direct))
        elif missing and figure.ours:
            lacks = " ".join(filter(None, missing[0]))
            cells.append(Cell(figure, (), "What it is the difference or the average of cannot be filled.", lacks))
        else:
            cells.append(Cell(figure, (), *_reason(figure, scopes)))
    return cells


def _from_records(filled: Mapping[Key, object], benchmarks: Sequence[Benchmark]) -> dict[Key, list[Candidate]]:
    """What recorded answers would fill: figures of systems that no variant is, and of models that no profile names."""
    scoring = {v.family: v for v in variants() if v.method == RECORDED}
    here = {name.system for v in variants() for name in v.published}
    found: dict[Key, list[Candidate]] = defaultdict(list)
    for figure in {f.key: f for f in figures()}.values():
        foreign = figure.system not in here or (figure.model and not _naming(figure.model))
        if figure.key in filled or not figure.comparable or not foreign:
            continue
        for b in benchmarks:
            if b.family in scoring and (b.whole, part_of(b.name)) == (figure.benchmark, figure.part):
                named = PrintedAs(figure.system, figure.variant, figure.model)
                variant = scoring[b.family].model_copy(update={"published": (named,)})
                candidate = Candidate(variant, b.name, figure.model, metrics_of(variant, b.task))
                if figure.key in candidate.beside():
                    found[figure.key].append(candidate)
    return dict(found)


@cache
def _naming(model: str) -> list[str]:
    """The packaged profiles that name a printed model."""
    named = {name: profiles.load(name).generators.values() for name in profiles.available()}
    return [name for name, of in named.items() if any(printed_model(g.name, [model]) == model for g in of)]


def _reason(figure: Figure, scopes: Mapping[str, bool]) -> tuple[str, str]:
    """The first thing that is missing for a figure which nothing fills, and what of it.

    ``scopes`` are the benchmarks and harvested collections, each with whether it is made in the profile in use.
    """
    name, profile = figure.benchmark, profiles.load().name
    if not figure.comparable:
        return "Printed are a count or a time: only scores are compared with.", f"{figure.metric} in {figure.scale}"
    if all(printed_as.system != figure.system for v in variants() for printed_as in v.published):
        return "No variant is printed as the system of others that the document compares with.", figure.system
    if not name:
        return "No benchmark is named in print.", figure.metric
    if name not in scopes:
        return "The benchmark is not declared.", name
    if not scopes[name]:
        return f"The benchmark is not declared for the profile {profile}.", name
    if figure.model and (elsewhere := " and ".join(other for other in _naming(figure.model) if other != profile)):
        return f"The profile {profile} names no model that is printed, but {elsewhere} does.", figure.model
    lacks = " ".join(filter(None, figure.key))
    return "No variant, part of the benchmark, model and metric of this name are declared together.", lacks


def figure_rows(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """The cells as rows of ``published_figures``."""
    return [
        {name: value for name, value in asdict(cell.figure).items() if name not in ("follows", "of", "less")}
        | {
            "figure_id": content_id("figure", cell.figure.document, cell.figure.table, cell.figure.key),
            "printed_for": "|".join(cell.figure.key),
            "fraction": cell.figure.fraction,
            "filled_by": sorted({f"scores/{c.variant.place} {c.benchmark}" for c in cell.candidates}),
            "reason": cell.reason or None,
            "lacks": cell.lacks or None,
        }
        for cell in cells
    ]
