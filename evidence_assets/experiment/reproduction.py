"""Printed cells: which a declared variant, benchmark and model would fill, which the lake fills, and why others stay empty.

A cell can be filled where ``scores.published_figures.figure_for``, which puts printed figures beside scores, would find
it for a score that the declarations lead to. Nothing is listed by hand: what no declaration leads to says the first
thing that is missing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, product

import duckdb
import polars as pl

from evidence_assets import profiles
from evidence_assets.benchmarks.declared import Benchmark
from evidence_assets.experiment.derived_figures import Key, Ours, sum_of, summed
from evidence_assets.experiment.scores.published import Figure, figures
from evidence_assets.experiment.scores.published_figures import (
    LABELS,
    RECORDED,
    TIMES,
    PrintedAs,
    TimedAs,
    comparable,
    figure_for,
    part_of,
    printed_metric,
    printed_model,
)
from evidence_assets.experiment.scores.retrieval_scores import retrieval_metrics
from evidence_assets.experiment.scores.scoring import score_rows
from evidence_assets.experiment.system import Method, System, answers_by_model, crossings, lacking
from evidence_assets.experiment.variants import Variant, presets
from evidence_assets.lake.rows import prepare

AFTER_HARVEST = r"_(judged|on_\w+)$"
"""Ends the keys of a harvest's further scores: by judges, and on a reference."""
BASELINES = ("bertnet",)
"""Systems that are harvested beside another one, by the same variants."""


@dataclass(frozen=True)
class Candidate:
    """A variant with its models on a benchmark, and the names of the metrics that its scores would have."""

    variant: Variant
    benchmark: Benchmark
    model_id: str
    """The language model, as scores name it, or the masked one of a harvest; empty where none answers."""
    metrics: frozenset[str]

    def beside(self) -> set[Key]:
        """What its scores would stand beside."""
        name = self.benchmark.name
        found = (
            figure_for(name, printed_as, self.model_id, metric)
            for printed_as in self.variant.published
            for metric in self.metrics
        )
        own = {figure.key for figure in found if figure is not None and figure.part == part_of(name)}
        return own | {figure.key for _, figure in self.timed()}

    def timed(self) -> Iterator[tuple[TimedAs, Figure]]:
        """The printed times that what its steps take is compared with."""
        for timed, metric in product(self.variant.timed, TIMES):
            name = PrintedAs(timed.system, timed.variant)
            figure = figure_for(self.benchmark.name, name, self.model_id, metric, timed=True)
            if figure is not None and figure.part == part_of(self.benchmark.name):
                yield timed, figure


@dataclass(frozen=True)
class Cell:
    """A printed figure with who would fill it, who filled it, or why nobody can."""

    figure: Figure
    candidates: tuple[Candidate, ...] = ()
    ours: tuple[Ours, ...] = ()
    reason: str = ""
    """Why it cannot be filled, for all such cells; empty where it can."""
    lacks: str = ""
    """What of this cell it is that is lacking."""

    @property
    def from_records(self) -> bool:
        """Whether only a file of what a system of others once answered can fill it."""
        return bool(self.candidates) and all(c.variant.method == RECORDED for c in self.candidates)

    @property
    def filled(self) -> bool:
        """Whether a score in the lake stands beside it that is of the same part of the benchmark."""
        return any(part_of(score.benchmark) == self.figure.part for score in self.ours)


@dataclass(frozen=True)
class PrintedTable:
    """A table, a figure or a passage with its cells, as printed."""

    document: str
    table: str
    cells: list[Cell] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As it is asked for: ``thesis-7.3``, ``thesis-fig-3.4``."""
        return f"{self.document}-{self.table}".lower().replace(" ", "-")

    @property
    def title(self) -> str:
        """What is printed of what, from its cells."""
        metrics, benchmarks = (
            list(dict.fromkeys(filter(None, names)))
            for names in ((c.figure.metric for c in self.cells), (c.figure.benchmark for c in self.cells))
        )
        own = list(dict.fromkeys(c.figure.system for c in self.cells if c.figure.ours))
        return f"{', '.join(metrics)} of {', '.join(own) or 'others'}" + (
            f" on {', '.join(benchmarks)}" if benchmarks else ""
        )

    @property
    def presets(self) -> list[str]:
        return [p.name for p in presets().values() if f"{self.document} {self.table}" in (*p.tables, *p.beside)]

    @property
    def fillable(self) -> list[Cell]:
        """The cells that a declared variant would fill, or that the lake fills already."""
        return [cell for cell in self.cells if not cell.reason]

    @property
    def filled(self) -> list[Cell]:
        """The cells that a score in the lake of the same part of the benchmark stands beside."""
        return [cell for cell in self.cells if cell.filled]

    @property
    def reasons(self) -> dict[str, Counter[str]]:
        """Why the others cannot be filled, and how many cells lack what."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for cell in self.cells:
            if cell.reason:
                found[cell.reason][cell.lacks] += 1
        return dict(found)

    @property
    def benchmarks(self) -> dict[str, Benchmark]:
        """The benchmarks that its cells can be filled from."""
        return {c.benchmark.name: c.benchmark for cell in self.fillable for c in cell.candidates}

    @property
    def harvests(self) -> list[Variant]:
        """The harvests that fill cells of it, each once."""
        found = {c.variant.place: c.variant for cell in self.fillable for c in cell.candidates}
        return [variant for _, variant in sorted(found.items()) if variant.family == "knowledge"]

    @property
    def models(self) -> list[str]:
        """The language models that it takes."""
        return sorted(
            {c.model_id for cell in self.fillable for c in cell.candidates if c.variant.method != RECORDED} - {""}
        )

    @property
    def runs(self) -> dict[str, list[str]]:
        """The variants that fill it, with their models, by benchmark; harvests and records answer none."""
        found: dict[str, set[str]] = defaultdict(set)
        for cell in self.fillable:
            for c in cell.candidates:
                if c.variant.family != "knowledge" and c.variant.method != RECORDED:
                    found[c.benchmark.name].add(c.variant.label)
        return {benchmark: sorted(names) for benchmark, names in sorted(found.items())}

    @property
    def recorded(self) -> list[str]:
        """The benchmarks of which files of recorded answers fill cells of it."""
        return sorted({c.benchmark.name for cell in self.cells if cell.from_records for c in cell.candidates})


def candidates(variant: Variant, system: System, benchmarks: Iterable[Benchmark]) -> list[Candidate]:
    """The variant, with each model that its presets cross it with, on each of these benchmarks that it can answer."""
    method = system.method_of(variant)
    if not variant.published:
        return []
    if not isinstance(method, Method):
        scopes = [
            (Benchmark(name=s.name, task="kgqa", holds=s.holds), s)
            for s in method.scored_on(method.settings_of(variant))
        ]
        return [
            Candidate(crossed, benchmark, crossed.profile.masked_model.name, scope.metrics)
            for crossed in (crossings(system, variant, frozenset(presets())) if scopes else ())
            for benchmark, scope in scopes
        ]
    settings = method.settings_of(variant)
    prompted = answers_by_model(variant) or "generator" in method.models(settings)
    recalls = bool(method.more_reads and method.more_reads(variant, settings))
    own = [b for b in benchmarks if b.family == variant.family and not lacking(method.reads, b)]
    found = []
    for crossed in crossings(system, variant, frozenset(presets())) if own else ():
        generator = crossed.profile.generator
        model = generator.name if prompted and generator.backend != "extractive" else ""
        found += [Candidate(crossed, b, model, metrics_of(variant, b, recalls)) for b in own]
    return found


def metrics_of(variant: Variant, benchmark: Benchmark, recalls: bool = False) -> frozenset[str]:
    """Names of the metrics that a variant's scores on a benchmark have."""
    names = _metrics(benchmark.task, benchmark.reader == "own", variant.retrieval or variant.family == "graph", recalls)
    matched = variant.bertscore or variant.family == "graph"
    return names | {"bertscore"} if matched else names


@cache
def _metrics(task: str, paths: bool, retrieval: bool, recalled: bool) -> frozenset[str]:
    """Metrics of a task, from scoring a question of it: whatever is scored, it has something of.

    With ``paths``, questions name gold paths; no official format that is read here does.
    """
    named = {"kind": "path", "source_id": "g", "locator": "", "text": "a b c"}
    asked = [
        {
            "question_id": gold,
            "benchmark": "b",
            "source_id": gold,
            "split": "test",
            "task": task,
            "text": "question",
            "options": [] if task in ("kgqa", "skb_search") else [*LABELS],
            "gold": [gold],
            "gold_aliases": [],
            "gold_evidence": [named] if paths else [],
            "table_id": None,
            "topic_entities": [],
            "negated": False,
        }
        for gold in (LABELS if task == "verification" else ["A"])
    ]
    row = {
        "evidence_id": "e",
        "question_id": asked[0]["question_id"],
        "benchmark": "b",
        "option": "",
        "selector": "s",
        "kind": "triple",
        "source_kind": "edge",
        "source_id": "x",
        "locator": "",
        "text": "a b c",
        "rank": 1,
        "score": 1.0,
        "why": '{"triple": ["a", "b", "c"]}',
        "content_hash": "h",
        "input_hash": "i",
    }
    questions, evidence, *empty = (
        pl.DataFrame(prepare(table, rows))
        for table, rows in (("questions", asked), ("evidence", [row]), ("predictions", []), ("citations", []))
    )
    more = retrieval_metrics(questions.to_dicts(), evidence, recalled=recalled) if retrieval else {}
    rows = score_rows("b", "s", "r", "", questions, empty[0], evidence, empty[1], more=more)
    return frozenset(row["metric"] for row in rows)


def scored(connection: duckdb.DuckDBPyConnection, variants: Iterable[Variant]) -> dict[Key, list[Ours]]:
    """The lake's scores that have a printed figure beside them, by what that is printed for."""
    known = {f"{v.family}/{v.name}": v for v in variants}
    rows = connection.execute(
        "SELECT asset, scope_kind, selector, scope_id, model_id, metric, value, low, high, n, reasoner FROM scores "
        "WHERE scope_kind IN ('benchmark', 'collection') AND published IS NOT NULL AND value IS NOT NULL ORDER BY ALL"
    ).fetchall()
    found: dict[Key, list[Ours]] = defaultdict(list)
    for asset, kind, selector, scope, model, metric, *numbers in rows:
        _, family, name, *models = (re.sub(AFTER_HARVEST, "", asset) if kind == "collection" else asset).split("/")
        variant = known.get(f"{family}/{name}")
        if variant is None:
            continue
        system, _, part = selector.partition("+")
        recorded = PrintedAs(system, part, model)
        for printed_as in [recorded] if variant.method == RECORDED else variant.published:
            of_baseline = selector.partition("@")[0] in BASELINES
            if kind == "collection" and of_baseline != (printed_as.system in BASELINES):
                continue
            figure = figure_for(scope, printed_as, model, metric)
            if figure is not None:
                score = Ours("@".join([name, *models]), scope, model, metric, *numbers)
                found[figure.key].append(replace(score, differs=variant.differs))
    return dict(found)


def printed_tables(
    able: Sequence[Candidate],
    variants: Collection[Variant],
    declared: Mapping[str, Benchmark],
    ours: Mapping[Key, Sequence[Ours]],
) -> list[PrintedTable]:
    """Every printed figure in its table; ``declared`` are the benchmarks of whatever profile."""
    filling: dict[Key, list[Candidate]] = defaultdict(list)
    for candidate in able:
        for key in candidate.beside():
            filling[key].append(candidate)
    for key, recorded in _from_records(filling, variants, declared).items():
        filling[key] = recorded
    found: dict[tuple[str, str], PrintedTable] = {}
    for figure in figures():
        measured = comparable(figure) or figure.metric in TIMES
        own = tuple(ours.get(figure.key, ())) if measured else ()
        fit = tuple(filling[figure.key]) if figure.key in filling and measured else ()
        table = found.setdefault((figure.document, figure.table), PrintedTable(figure.document, figure.table))
        total = sum_of(figure) if comparable(figure) else None
        lacking_part = ""
        if total is not None and not (own or fit):
            sides = [tuple(filling.get(key, ())) for key in total.of]
            fit = tuple(chain.from_iterable(sides)) if all(sides) else ()
            own = summed(total, ours)
            lacking_part = next(
                (" ".join(filter(None, k)) for k, side in zip(total.of, sides, strict=True) if not side), ""
            )
        cell = Cell(figure, fit, own)
        if not (fit or cell.filled):
            reason, lacks = _reason(figure, able, variants, declared)
            if lacking_part and figure.ours:
                reason, lacks = "What it is the difference or the average of cannot be filled.", lacking_part
            cell = Cell(figure, fit, own, reason, lacks)
        table.cells.append(cell)
    return list(found.values())


def _from_records(
    filled: Collection[Key], variants: Collection[Variant], declared: Mapping[str, Benchmark]
) -> dict[Key, list[Candidate]]:
    """What recorded answers would fill: figures of systems that no variant is, and of models that no profile names."""
    scoring = {v.family: v for v in variants if v.method == RECORDED}
    here = {name.system for v in variants for name in v.published}
    found: dict[Key, list[Candidate]] = {}
    for figure in figures():
        named = PrintedAs(figure.system, figure.variant, figure.model)
        foreign = figure.system not in here or (figure.model and not _naming(figure.model))
        if figure.key in filled or not comparable(figure) or not foreign:
            continue
        own = [b for b in declared.values() if (b.whole, part_of(b.name)) == (figure.benchmark, figure.part)]
        for benchmark in (b for b in own if b.family in scoring and b.runs_in()):
            variant = scoring[benchmark.family].model_copy(update={"published": (named,)})
            candidate = Candidate(variant, benchmark, figure.model, metrics_of(variant, benchmark))
            if figure.key in candidate.beside():
                found.setdefault(figure.key, []).append(candidate)
    return found


@cache
def _naming(model: str) -> list[str]:
    """The packaged profiles that name a printed model."""
    return [
        name
        for name in profiles.available()
        if model in {printed_model(g.name, [model]) for g in profiles.load(name).generators.values()}
    ]


def _reason(
    figure: Figure, able: Sequence[Candidate], variants: Collection[Variant], declared: Mapping[str, Benchmark]
) -> tuple[str, str]:
    """The first thing that is missing for a figure which nothing fills, and what of it."""
    if not comparable(figure):
        return "Printed are a count or a time: only scores are compared with.", f"{figure.metric} in {figure.scale}"
    of_system = [v for v in variants if any(name.system == figure.system for name in v.published)]
    if not of_system and figure.ours:
        return "No variant says that it is printed as the document's own system.", figure.system
    if not of_system:
        return "No variant is printed as the system of others that the document compares with.", figure.system
    if not figure.benchmark:
        return "No benchmark is named in print.", figure.metric
    printed_as = (figure.system, figure.variant)
    own = [v for v in of_system if any((name.system, name.variant) == printed_as for name in v.published)]
    if not own:
        return "No variant of the system is printed as this one.", f"{figure.system} {figure.variant or '(plain)'}"
    name = figure.benchmark
    harvested = {c.benchmark.name for c in able if c.variant.family == "knowledge"}
    if name not in {*declared, *harvested}:
        return "The benchmark is not declared.", name
    parts = {b for b in declared if (declared[b].whole, part_of(b)) == (name, figure.part)} | ({name} & harvested)
    if not parts:
        return "The subset of the benchmark is not declared.", figure.scope
    profile = profiles.load().name
    if name in declared and not declared[name].runs_in():
        return f"The benchmark is not declared for the profile {profile}.", name
    here = [
        c
        for c in able
        if c.benchmark.name in parts and c.variant.place.split("/")[:2] in [[v.family, v.name] for v in own]
    ]
    if not here:
        return "The variant cannot answer the benchmark: of another task, or without what it reads.", name
    printed = (figure.metric, figure.label)
    if not any(printed_metric(metric, figure.system) == printed for c in here for metric in c.metrics):
        return "The metric is not computed.", f"{figure.metric} on {name}"
    if not figure.model:
        return (
            "Printed without a model, where the model in use has a figure of its own.",
            figure.variant or figure.system,
        )
    elsewhere = _naming(figure.model)
    named = f", but {' and '.join(elsewhere)} does" if elsewhere else ""
    return f"The profile {profile} names no model that is printed{named}.", figure.model
