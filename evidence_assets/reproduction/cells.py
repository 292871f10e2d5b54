"""Printed cells: what would fill each, why nothing can fill others, and our scores beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.dataset_info import datasets
from evidence_assets.benchmarks.declarations import instances
from evidence_assets.benchmarks.declared_benchmarks import SEEDED, Benchmark, declared, every_raw_files
from evidence_assets.experiment.evidence.sources import lacking
from evidence_assets.experiment.scores import published_figures
from evidence_assets.experiment.scores.published_figures import (
    RECORDED,
    Figure,
    Key,
    PrintedAs,
    TimedAs,
    figures,
    part_of,
)
from evidence_assets.experiment.system import OwnStages, Scope, answers_by_model, crossings
from evidence_assets.experiment.variants import Variant, presets, variants
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.rows import prepare_rows

SCORES_OF_CELLS = r"""
    WITH compared AS (
        SELECT *, regexp_replace(asset, '_(judged|on_\w+)$', '') AS made_by, string_split(selector, '+') AS recorded
        FROM scores
        WHERE scope_kind IN ('benchmark', 'collection') AND published IS NOT NULL AND value IS NOT NULL
    )
    SELECT DISTINCT asset, printed_for, replace(regexp_replace(made_by, '^scores/[^/]+/', ''), '/', '@') AS variant,
           scope_id, model_id, s.value, low, high, n, reasoner, differs
    FROM compared AS s
    JOIN names ON place = regexp_extract(made_by, '^scores/([^/]+/[^/]+)', 1)
         AND (scope_kind = 'benchmark' OR (system = 'bertnet') = starts_with(selector, 'bertnet'))
    JOIN printed ON printed_for = CASE WHEN names.system <> ''
         THEN figure_key(scope_id, names.system, names.variant, names.model, model_id, s.metric)
         ELSE figure_key(scope_id, recorded[1], coalesce(recorded[2], ''), model_id, model_id, s.metric) END
    ORDER BY ALL
"""
"""The lake's scores beside the printed figures, each under every name that its variant's figures are printed under.

BertNet is harvested beside K-Bloom by the same variants; recorded answers say themselves what they are printed as.
"""


@dataclass(frozen=True)
class CellSource:
    """A variant with its models on a benchmark, or a harvest on a collection of relations."""

    variant: Variant
    benchmark: str
    model_id: str
    """The language model, as scores name it, or the masked one of a harvest; empty where none answers."""
    scope: Scope | None = None
    """Of a harvest, the collection."""

    def fills(self) -> set[Key]:
        """The keys of the figures that its scores, and the times of its steps, are compared with."""
        names: list[PrintedAs | TimedAs] = [*self.variant.published, *self.variant.timed]
        compared = [f for name in names for f in published_figures.figures_of(self.benchmark, name, self.model_id)]
        return {f.key for f in compared if self.scope is None or f.metric_and_label in self.scope.metrics}


@dataclass(frozen=True)
class MeasuredScore:
    """A score in the lake, or a time of steps, that a printed figure is compared with."""

    variant: str
    benchmark: str
    model_id: str
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
    sources: Sequence[CellSource] = ()
    reason: str = ""
    lacks: str = ""
    ours: Sequence[MeasuredScore] = ()

    @property
    def from_records(self) -> bool:
        """Whether only a file of what a system of others once answered can fill it."""
        return bool(self.sources) and all(c.variant.method == RECORDED for c in self.sources)

    @property
    def filled(self) -> bool:
        """Whether a score in the lake is of the same part of the benchmark."""
        return any(part_of(score.benchmark) == self.figure.part for score in self.ours)

    @property
    def fillable(self) -> bool:
        """Whether a declared variant would fill it, or the lake fills it already."""
        return not self.reason


def find_cell_sources(chosen: Iterable[Variant] | None = None) -> list[CellSource]:
    """Each variant that has printed figures, with each model that its presets name, on all that it can be scored on."""
    able = []
    for variant in variants() if chosen is None else chosen:
        if not variant.published:
            continue
        system = systems.load(variant.system)
        method = system.method_of(variant)
        settings = method.settings_of(variant)
        prompted = answers_by_model(variant) or "generator" in method.models(settings)
        for crossed in crossings(system, variant, frozenset(presets())):
            if isinstance(method, OwnStages):
                masked = crossed.profile.masked_model.name
                able += [CellSource(crossed, scope.name, masked, scope) for scope in method.scored_on(settings)]
                continue
            generator = crossed.profile.generator
            model = generator.name if prompted and generator.backend != "extractive" else ""
            for b in declared().values():
                if b.runs_in() and b.family == variant.family and not lacking(method.reads, b):
                    able.append(CellSource(crossed, b.name, model))
    return able


def build_cells(able: Sequence[CellSource]) -> list[Cell]:
    """Every printed figure with the candidates that would fill it, or why none can."""
    filling: dict[Key, list[CellSource]] = defaultdict(list)
    for candidate in able:
        for key in candidate.fills():
            filling[key].append(candidate)
    for figure in figures():
        if figure.key not in filling and (recorded := _recorded_sources(figure)):
            filling[figure.key] = recorded
    scored = {b.name for b in declared().values() if b.runs_in()} | {c.benchmark for c in able}
    cells = []
    for figure in figures():
        sides = figure.sides if figure.comparable else ()
        missing = [key for key in sides if key not in filling]
        if figure.key in filling:
            cells.append(Cell(figure, filling[figure.key]))
        elif sides and not missing:
            cells.append(Cell(figure, [candidate for key in sides for candidate in filling[key]]))
        elif missing and figure.ours:
            lacks = " ".join(filter(None, missing[0]))
            cells.append(Cell(figure, (), "What it is the difference or the average of cannot be filled.", lacks))
        else:
            cells.append(Cell(figure, (), *_reason(figure, scored)))
    return cells


def _recorded_sources(figure: Figure) -> list[CellSource]:
    """What recorded answers would fill: figures of systems that no variant is, and of models that no profile names."""
    foreign = figure.system not in _systems() or (figure.model and not _profiles_with_model(figure.model))
    if not foreign or not figure.comparable:
        return []
    named = PrintedAs(figure.system, figure.variant, figure.model)
    scoring = {v.family: v.model_copy(update={"published": (named,)}) for v in variants() if v.method == RECORDED}
    return [
        CellSource(scoring[b.family], b.name, figure.model)
        for b in declared().values()
        if b.runs_in() and b.family in scoring and (b.whole, part_of(b.name)) == (figure.benchmark, figure.part)
    ]


def _systems() -> set[str]:
    """The systems that variants are printed as."""
    return {name.system for variant in variants() for name in variant.published}


@cache
def _profiles_with_model(model: str) -> list[str]:
    """The packaged profiles that name a printed model."""
    named = {name: profiles.load(name).generators.values() for name in profiles.available()}
    fits = published_figures.printed_model
    return [name for name, of in named.items() if any(fits(g.name, [model]) == model for g in of)]


def _reason(figure: Figure, scored: Collection[str]) -> tuple[str, str]:
    """The first thing that is missing for a figure which nothing fills, and what of it.

    ``scored`` are the benchmarks and collections that there are scores of in the profile in use.
    """
    name, profile = figure.benchmark, profiles.load().name
    if not figure.comparable:
        return "Printed are a count or a time: only scores are compared with.", f"{figure.metric} in {figure.scale}"
    if figure.system not in _systems():
        return "No variant is printed as the system of others that the document compares with.", figure.system
    if not name:
        return "No benchmark is named in print.", figure.metric
    if name not in scored:
        return f"The benchmark is not declared{f' for the profile {profile}' if name in declared() else ''}.", name
    if figure.model and (
        elsewhere := " and ".join(other for other in _profiles_with_model(figure.model) if other != profile)
    ):
        return f"The profile {profile} names no model that is printed, but {elsewhere} does.", figure.model
    lacks = " ".join(filter(None, figure.key))
    return "No variant, part of the benchmark, model and metric of this name are declared together.", lacks


def cell_rows(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """The cells as rows of ``published_figures``."""
    return [
        {name: value for name, value in asdict(cell.figure).items() if name not in ("follows", "of", "less")}
        | {
            "figure_id": content_id("figure", cell.figure.document, cell.figure.table, cell.figure.key),
            "printed_for": "|".join(cell.figure.key),
            "fraction": cell.figure.fraction,
            "filled_by": sorted({f"scores/{c.variant.place} {c.benchmark}" for c in cell.sources}),
            "reason": cell.reason or None,
            "lacks": cell.lacks or None,
        }
        for cell in cells
    ]


def load_scores(connection: duckdb.DuckDBPyConnection, cells: Sequence[Cell]) -> dict[Key, list[MeasuredScore]]:
    """The lake's scores that have a printed figure beside them, by what that is printed for."""
    names = [
        {"place": f"{v.family}/{v.name}", "differs": v.differs, **asdict(p)}
        for v in variants()
        for p in ([PrintedAs("")] if v.method == RECORDED else v.published)
    ]
    connection.register("names", pa.Table.from_pylist(names))
    connection.register("printed", prepare_rows("published_figures", cell_rows(cells)))
    connection.create_function("figure_key", _figure_key)
    found: dict[Key, list[MeasuredScore]] = defaultdict(list)
    for _, printed_for, *score in connection.execute(SCORES_OF_CELLS).fetchall():
        found[tuple(printed_for.split("|"))].append(MeasuredScore(*score))
    return dict(found)


def _figure_key(scope: str, system: str, variant: str, model: str, model_id: str, metric: str) -> str:
    figure = published_figures.figure_for(scope, PrintedAs(system, variant, model), model_id, metric)
    return "|".join(figure.key) if figure else ""


def add_scores(cells: Sequence[Cell], ours: Mapping[Key, Sequence[MeasuredScore]]) -> list[Cell]:
    """The cells with our scores, or with what follows from them; what the lake fills lacks nothing."""
    cells = [replace(cell, ours=ours.get(cell.figure.key, ()) or _derived_scores(cell.figure, ours)) for cell in cells]
    return [replace(cell, reason="", lacks="") if cell.filled else cell for cell in cells]


def _derived_scores(figure: Figure, ours: Mapping[Key, Sequence[MeasuredScore]]) -> list[MeasuredScore]:
    """What our scores give for a figure that follows from others: once for each of our models, without interval.

    All are of the same part of the benchmark, and by the same language model where one answered.
    """
    derived = []
    for first in ours.get(figure.sides[0], ()) if figure.comparable and figure.follows else ():
        scores = {figure.sides[0]: first}
        for key in figure.sides[1:]:
            for score in ours.get(key, ()):
                same_part = part_of(score.benchmark) == part_of(first.benchmark)
                if same_part and score.model_id in (first.model_id, ""):
                    scores.setdefault(key, score)
        value = figure.value_from({key: score.value for key, score in scores.items()})
        if value is not None:
            names = " and ".join(dict.fromkeys(score.variant for score in scores.values()))
            n = sum(score.n for score in scores.values()) if figure.follows == "mean" else first.n
            score = replace(first, variant=names, value=value, low=None, high=None, n=n, reasoner="")
            derived.append(score)
    return derived


def describe_differences(figure: Figure, ours: MeasuredScore) -> list[str]:
    """Where a score of ours was made otherwise than the figure beside it, as far as declarations and notes tell."""
    differences = []
    own, part, benchmark = ours.model_id.partition("@")[0], part_of(ours.benchmark), declared().get(ours.benchmark)
    if own.lower().rpartition("/")[2] != figure.model:  # another form, such as a quantized one, is told
        differences.append(f"model {own or 'none'}, printed {figure.model or 'without a model'}")
    if figure.metric in ("precision", "noisy_percent") and ours.reasoner:
        differences.append(f"judged by {ours.reasoner.partition('@')[0]}, printed for Gemini")
    if ours.differs:
        differences.append(ours.differs)
    if figure.follows == "mean":
        return differences
    if figure.less is not None:
        differences.append("less the best baseline as printed")
    if figure.metric.startswith("f1") and figure.system in ("kaping", "kaping_background"):
        differences.append("F1 by the gold answers among the ends of the triples; print does not say how it counts")
    if part != figure.part:
        differences.append(f"answered {part or 'whole'}, printed for {figure.part or 'the whole'}")
    elif benchmark and (seed := ours.benchmark.partition(SEEDED)[2]):
        differences.append(f"drawn with seed {seed}; which questions are printed for is not stated")
    if benchmark and benchmark.expected.questions not in (0, ours.n):
        differences.append(f"{ours.n:,} of {benchmark.expected.questions:,} questions")
    for source in (benchmark.corpus, benchmark.graph, benchmark.background_graph) if benchmark else ():
        if source:
            other = next((str(stated["differs"]) for stated in _declarations(source) if stated.get("differs")), "")
            differences.append(f"answered from our {source}" + (f" ({other})" if other else ""))
    return differences


def required_data(able: Sequence[CellSource]) -> dict[str, str]:
    """What these candidates need, each with what its files hold and where they are obtained."""
    needed: dict[str, str] = {}
    for candidate in able:
        if candidate.scope:
            needed[candidate.benchmark] = candidate.scope.holds
        elif candidate.benchmark not in needed:
            needed |= data_sources(declared()[candidate.benchmark])
    vectors = {f"embeddings/{c.variant.parameters.get('embedding', '')}" for c in able}
    return needed | {files.name: files.holds for files in every_raw_files() if files.name in vectors}


def data_sources(benchmark: Benchmark) -> dict[str, str]:
    """What a benchmark's answers need, each with what its files hold and where they are obtained."""
    own = datasets()[benchmark.reader].wanted(benchmark.split) if benchmark.reader in datasets() else ""
    sources = (benchmark.corpus, benchmark.graph, benchmark.background_graph, benchmark.taxonomy)
    stated = {name: str(made.get("holds", "")) for name in sources for made in _declarations(name)}
    return {benchmark.name: benchmark.holds or own} | stated


def _declarations(name: str) -> list[dict[str, Any]]:
    """What is stated of the corpus, graph or knowledge base of this name."""
    makers = (made for component in ("Corpus", "Graph", "KnowledgeBase") for made in instances(component))
    return [made.attributes for made in makers if name and made.attributes.get("name") == name]
