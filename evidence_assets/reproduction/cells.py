"""Printed cells: which variants fill each, why others cannot be filled, and our scores for them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.declared_benchmarks import (
    LISTED_SUFFIX,
    SEED_SEPARATOR,
    Benchmark,
    all_benchmarks,
    declarations_of,
)
from evidence_assets.experiment.evidence.sources import missing_source_reason
from evidence_assets.experiment.methods import (
    AnyMethod,
    ScoreTarget,
    StagesMethod,
    combine_models,
    is_answered_by_model,
)
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.ids import content_id
from evidence_assets.reproduction import published_figures
from evidence_assets.reproduction.data_files import DataFiles, RequiredData, sort_data
from evidence_assets.reproduction.presets import presets
from evidence_assets.reproduction.published_figures import (
    EVIDENCE_METRICS,
    RECORDED_ANSWERS,
    RUN_SEPARATOR,
    TRIPLE_METRICS,
    Figure,
    Key,
    PublishedName,
    part_of,
)

SCORES_QUERY = r"""
    SELECT DISTINCT asset, figure_key(scope_id, selector, system, variant, model, model_id, metric) AS printed_for,
           array_to_string(path[3:], '@') AS label, scope_id, model_id, value, low, high, n, reasoner,
           -- The selector of recorded answers names the run, if a model has answered in several.
           concat_ws('; ', nullif(difference_note, ''), 'run ' || nullif(split_part(selector, '~', 2), ''))
    FROM (SELECT *, string_split(regexp_replace(asset, '_(judged|on_\w+)$', ''), '/') AS path FROM scores)
    JOIN names ON path[2] = family AND path[3] = name
         -- The same variants harvest K-Bloom and BertNet.
         AND (scope_kind = 'benchmark' OR (system = 'bertnet') = starts_with(selector, 'bertnet'))
    WHERE scope_kind IN ('benchmark', 'collection') AND published IS NOT NULL AND value IS NOT NULL
          AND printed_for <> ''
    ORDER BY ALL
"""
"""Joins the lake's scores with the printed figures, by every name under which a variant's figures are printed."""


@dataclass(frozen=True)
class CellSource:
    """A variant with its models on a benchmark, or a harvest on a collection of relations."""

    variant: Variant
    benchmark: str
    model_id: str
    """The language model, or a harvest's masked model, as scores name it; empty without a model."""
    scope: ScoreTarget | None = None
    """A harvest's collection."""
    recorded_name: PublishedName | None = None
    """The printed system whose answers are recorded."""
    has_answers: bool = True
    """Whether its questions are answered; otherwise only their evidence is scored."""

    @property
    def is_recorded(self) -> bool:
        """Whether it is recorded answers of another system."""
        return self.variant.method == RECORDED_ANSWERS

    @property
    def score_asset(self) -> str:
        """The asset with its scores."""
        return self.scope.asset if self.scope else f"scores/{self.variant.key}"

    @property
    def collection(self) -> str:
        """The collection of relations that a harvest is scored on; empty for questions."""
        return self.scope.collection if self.scope else ""

    @property
    def names(self) -> tuple[PublishedName, ...]:
        """The printed names that its scores are compared with."""
        return (self.recorded_name,) if self.recorded_name else self.variant.printed.figures

    def figure_keys(self) -> set[Key]:
        """The figures that its scores and step times are compared with."""
        names: list[PublishedName | published_figures.PublishedTiming] = [*self.names, *self.variant.printed.times]
        compared = [f for name in names for f in published_figures.figures_of(self.benchmark, name, self.model_id)]
        return {f.key for f in compared if self.scope is None or f.metric_and_label in self.scope.metrics}

    def needs_answers(self, figure: Figure) -> bool:
        """Whether it fills a figure with scores of answers, not of evidence alone."""
        keys = self.figure_keys() & {figure.key, *figure.operands}
        return not all(self._is_scored_from_evidence(key) for key in keys)

    def _is_scored_from_evidence(self, key: Key) -> bool:
        """Whether the metric of a figure needs no answer. Without answers, scores name no language model."""
        _, _, _, model, metric, label = key
        if self.is_recorded or self.scope or self.variant.reader or label:
            return False
        metrics = TRIPLE_METRICS if self.variant.has_triple_metrics else EVIDENCE_METRICS
        return metric in metrics and model in {"", *(name.model for name in self.names)}


@dataclass(frozen=True)
class MeasuredScore:
    """A score in the lake, or a step time, that a printed figure is compared with."""

    variant: str
    benchmark: str
    model_id: str
    value: float
    low: float | None
    high: float | None
    n: int
    reasoner: str = ""
    difference_note: str = ""


@dataclass(frozen=True)
class Cell:
    """A printed figure with the sources that can fill it or our scores, or the reason why nothing can.

    ``reason`` is a sentence that many cells share; ``lacks`` names what this cell lacks.
    """

    figure: Figure
    sources: Sequence[CellSource] = ()
    reason: str = ""
    lacks: str = ""
    scores: Sequence[MeasuredScore] = ()

    @property
    def from_records(self) -> bool:
        """Whether only recorded answers of another system can fill it."""
        return bool(self.sources) and all(source.is_recorded for source in self.sources)

    @property
    def filled(self) -> bool:
        """Whether the lake has a score for the same part of the benchmark."""
        return any(part_of(score.benchmark) == self.figure.part for score in self.scores)


def find_cell_sources() -> list[CellSource]:
    """Each variant with printed figures, with each model of its presets, on everything it can be scored on."""
    sources = []
    for variant in variants():
        if variant.printed.figures and not (variant.reader and profiles.load().reader is None):
            for method in combine_models(systems.open_method(variant), frozenset(presets())):
                sources += _sources_of_method(method)
    return sources


def _sources_of_method(method: AnyMethod) -> list[CellSource]:
    variant = method.variant
    generator = variant.profile.generator
    if isinstance(method, StagesMethod):
        model = variant.profile.masked_model.name
        return [CellSource(variant, scope.name, model, scope) for scope in method.score_targets]
    is_prompted = is_answered_by_model(variant) or "generator" in method.model_kinds
    model = generator.name if is_prompted and generator.backend != "extractive" else ""
    benchmarks = [benchmark for benchmark in _profile_benchmarks() if benchmark.family == variant.family]
    return [CellSource(variant, b.name, model) for b in benchmarks if not missing_source_reason(method.sources, b)]


def build_cells(sources: Sequence[CellSource]) -> list[Cell]:
    """Every printed figure with the sources that can fill it, or the reason why none can."""
    by_key: dict[Key, list[CellSource]] = defaultdict(list)
    for source in sources:
        for key in source.figure_keys():
            by_key[key].append(source)
    for figure in published_figures.figures():
        if figure.key not in by_key and (recorded_sources := _recorded_sources(figure)):
            by_key[figure.key] = recorded_sources
    scored = {benchmark.name for benchmark in _profile_benchmarks()} | {source.benchmark for source in sources}
    cells = []
    for figure in published_figures.figures():
        is_derived = figure.operands and figure.is_comparable and figure.key not in by_key
        keys = figure.operands if is_derived else (figure.key,)
        missing = [key for key in keys if key not in by_key]
        if missing:
            cells.append(Cell(figure, (), *_find_reason(figure, missing[0], scored)))
        else:
            cells.append(Cell(figure, [source for key in keys for source in by_key[key]]))
    return cells


def _recorded_sources(figure: Figure) -> list[CellSource]:
    """Recorded answers that can fill a figure of a system without variants, or of a model in no profile."""
    is_foreign = figure.system not in _systems() or (figure.model and not _profiles_with_model(figure.model))
    if not is_foreign or not figure.is_comparable:
        return []
    name = PublishedName(figure.system, figure.variant, figure.model)
    return [
        CellSource(variant, benchmark.name, figure.model, recorded_name=name)
        for benchmark in _profile_benchmarks()
        if (benchmark.base_name, part_of(benchmark.name)) == (figure.benchmark, figure.part)
        for variant in variants()
        if variant.method == RECORDED_ANSWERS and variant.family == benchmark.family
    ]


def _find_reason(figure: Figure, missing: Key, scored: Collection[str]) -> tuple[str, str]:
    """Why nothing fills a figure, and what it lacks; ``scored`` are the profile's benchmarks and collections.

    ``missing``: The key that nothing fills: the figure's, or that of a figure that it is computed from.
    """
    name = figure.benchmark
    profile = profiles.load().name
    if not figure.is_comparable:
        return "The printed figure is a count or a time, not a score.", f"{figure.metric} in {figure.scale}"
    if figure.ours and figure.operands:
        reason = "The figures that this difference or average is computed from cannot be filled."
        return reason, " ".join(filter(None, missing))
    if figure.system not in _systems():
        return "No variant implements the printed system.", figure.system
    if not name:
        return "The document names no benchmark.", figure.metric
    if name not in scored:
        limit = f" for the profile {profile}" if name in all_benchmarks() else ""
        return f"The benchmark is not declared{limit}.", name
    if others := [other for other in _profiles_with_model(figure.model) if other != profile]:
        return f"The profile {profile} does not have the printed model; {' and '.join(others)} does.", figure.model
    lacks = " ".join(filter(None, figure.key))
    return "No declared variant matches the benchmark's part, the model and the metric.", lacks


def _profile_benchmarks() -> list[Benchmark]:
    """The profile's benchmarks and subsets; where the questions of a sample are listed, none are drawn instead."""
    by_name = all_benchmarks()
    return [
        benchmark
        for name, benchmark in by_name.items()
        if benchmark.is_in_profile()
        and (SEED_SEPARATOR not in name or f"{benchmark.base_name}.{part_of(name)}{LISTED_SUFFIX}" not in by_name)
    ]


def _systems() -> set[str]:
    """The printed names of our variants' systems."""
    return {name.system for variant in variants() for name in variant.printed.figures}


@cache
def _profiles_with_model(model: str) -> list[str]:
    """The packaged profiles that have a printed model."""
    generators = {name: profiles.load(name).generators.values() for name in profiles.available()}
    matches = published_figures.published_model
    return [name for name, models in generators.items() if any(matches(g.name, [model]) for g in models)]


def find_best_profile(figures: Iterable[Figure]) -> str:
    """The packaged profile with the models of most figures, paper if several have them."""
    counts = Counter({"paper": 0})
    for figure in figures:
        if figure.system in _systems() and figure.model:
            counts.update(profile for profile in _profiles_with_model(figure.model))
    return max(counts, key=lambda name: (counts[name], name == "paper"))


def cell_rows(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """The cells as rows of ``published_figures``."""
    return [
        {name: value for name, value in asdict(cell.figure).items() if name not in ("follows", "of", "less")}
        | {
            "figure_id": content_id("figure", cell.figure.document, cell.figure.table, cell.figure.key),
            "printed_for": "|".join(cell.figure.key),
            "fraction": cell.figure.fraction,
            "filled_by": sorted({f"scores/{source.variant.key} {source.benchmark}" for source in cell.sources}),
            "reason": cell.reason or None,
            "lacks": cell.lacks or None,
        }
        for cell in cells
    ]


def load_scores(connection: duckdb.DuckDBPyConnection) -> dict[Key, list[MeasuredScore]]:
    """The lake's scores that a printed figure is compared with, by the figure's key."""
    names = [
        {"family": v.family, "name": v.name, "difference_note": v.printed.difference_note, **asdict(name)}
        for v in variants()
        for name in ([PublishedName("")] if v.method == RECORDED_ANSWERS else v.printed.figures)
    ]
    connection.register("names", pa.Table.from_pylist(names))
    connection.create_function("figure_key", _figure_key)
    scores: dict[Key, list[MeasuredScore]] = defaultdict(list)
    for _, printed_for, *score in connection.execute(SCORES_QUERY).fetchall():
        scores[tuple(printed_for.split("|"))].append(MeasuredScore(*score))
    return dict(scores)


def _figure_key(scope: str, selector: str, system: str, variant: str, model: str, model_id: str, metric: str) -> str:
    if not system:  # the selector of recorded answers names the printed system
        system, _, variant = selector.partition(RUN_SEPARATOR)[0].partition("+")
        model = model_id
    figure = published_figures.figure_for(scope, PublishedName(system, variant, model), model_id, metric)
    return "|".join(figure.key) if figure else ""


def add_scores(cells: Sequence[Cell], scores: Mapping[Key, Sequence[MeasuredScore]]) -> list[Cell]:
    """The cells with our scores, or with values computed from them; a filled cell needs no reason."""
    cells = [replace(cell, scores=scores.get(cell.figure.key, ()) or _derive(cell.figure, scores)) for cell in cells]
    return [replace(cell, reason="", lacks="") if cell.filled else cell for cell in cells]


def _derive(figure: Figure, scores: Mapping[Key, Sequence[MeasuredScore]]) -> list[MeasuredScore]:
    """Our value of a printed difference, gain or mean: one for each of our models, without an interval.

    All scores must be of the same part of the benchmark and of the same language model, if any.
    """
    derived = []
    for first in scores.get(figure.operands[0], ()) if figure.is_comparable and figure.operands else ():
        sides = {figure.operands[0]: first}
        for key in figure.operands[1:]:
            for score in scores.get(key, ()):
                is_same_part = part_of(score.benchmark) == part_of(first.benchmark)
                if is_same_part and score.model_id in (first.model_id, ""):
                    sides.setdefault(key, score)
        value = figure.value_from({key: score.value for key, score in sides.items()})
        if value is not None:
            names = " and ".join(dict.fromkeys(score.variant for score in sides.values()))
            n = sum(score.n for score in sides.values()) if figure.follows == "mean" else first.n
            derived.append(replace(first, variant=names, value=value, low=None, high=None, n=n, reasoner=""))
    return derived


def describe_differences(figure: Figure, score: MeasuredScore) -> list[str]:
    """How the conditions of our score differ from those of the printed figure."""
    differences = []
    model = score.model_id.partition("@")[0]
    if model.lower().rpartition("/")[2] != figure.model:  # reports other forms too, such as a quantized model
        differences.append(f"model {model or 'none'}, printed {figure.model or 'without a model'}")
    if figure.metric in ("precision", "noisy_percent") and score.reasoner:
        differences.append(f"judged by {score.reasoner.partition('@')[0]}, printed for Gemini")
    differences += [score.difference_note] if score.difference_note else []
    return differences if figure.follows == "mean" else differences + _describe_data_differences(figure, score)


def _describe_data_differences(figure: Figure, score: MeasuredScore) -> list[str]:
    """How the questions and sources of our score differ from those of the printed figure."""
    differences = []
    part = part_of(score.benchmark)
    benchmark = all_benchmarks().get(score.benchmark)
    if figure.less is not None:
        differences.append("minus the printed best baseline")
    if part != figure.part:
        differences.append(f"scored on {part or 'the whole benchmark'}, printed for {figure.part or 'the whole'}")
    elif benchmark and (seed := score.benchmark.partition(SEED_SEPARATOR)[2]):
        differences.append(f"sampled with seed {seed}; the document does not list its questions")
    if benchmark is None:
        return differences
    if benchmark.official_size not in (None, score.n):
        differences.append(f"{score.n:,} of {benchmark.official_size:,} questions")
    for source in _find_read_sources(score, benchmark):
        notes = [str(note) for attributes in _declarations(source) if (note := attributes.get("difference_note"))]
        differences.append(f"answered from our {source}" + (f" ({notes[0]})" if notes else ""))
    return differences


def _find_read_sources(score: MeasuredScore, benchmark: Benchmark) -> list[str]:
    """Names of the corpora and graphs that the variants of a score read."""
    labels = [label.replace("@", "/") for label in score.variant.split(" and ")]
    finder = RequiredData()
    upstream = [finder.find_upstream(f"scores/{benchmark.family}/{label}", benchmark) for label in labels]
    names = {key.partition("/")[2] for each in upstream for key, _ in each.inputs}
    return [name for name in (benchmark.corpus, benchmark.graph, benchmark.background_graph) if name and name in names]


def required_data(sources: Iterable[CellSource], finder: RequiredData) -> list[DataFiles]:
    """The files that these sources need, by name."""
    assets = {(source.score_asset, source.benchmark, source.collection) for source in sources}
    data = [finder.of_scores(asset, all_benchmarks().get(name), collection) for asset, name, collection in assets]
    return sort_data(files for each in data for files in each.values())


def _declarations(name: str) -> list[dict[str, Any]]:
    """Attributes of the declared corpus, graph or knowledge base with this name."""
    declarations = (item for component in ("Corpus", "Graph", "KnowledgeBase") for item in declarations_of(component))
    return [item.attributes for item in declarations if name and item.attributes.get("name") == name]
