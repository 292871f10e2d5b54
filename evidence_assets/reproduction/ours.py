"""Our scores beside the printed figures, where they were made otherwise, and what making them needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import duckdb
import pyarrow as pa

from evidence_assets.benchmarks.declarations import instances
from evidence_assets.benchmarks.declared import SEEDED, Benchmark, declared, every_raw_files
from evidence_assets.benchmarks.info import datasets
from evidence_assets.experiment.scores.published_figures import (
    RECORDED,
    TIMES,
    Figure,
    Key,
    PrintedAs,
    figure_for,
    part_of,
)
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.rows import prepare
from evidence_assets.reproduction.cells import Candidate, Cell, Ours, figure_rows

BESIDE = r"""
    WITH compared AS (
        SELECT *, regexp_replace(asset, '_(judged|on_\w+)$', '') AS made_by, string_split(selector, '+') AS recorded
        FROM scores
        WHERE scope_kind IN ('benchmark', 'collection') AND published IS NOT NULL AND value IS NOT NULL
    )
    SELECT DISTINCT asset, printed_for, replace(regexp_replace(made_by, '^scores/[^/]+/', ''), '/', '@') AS variant,
           scope_id, model_id, s.metric, s.value, low, high, n, reasoner, differs
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


def scores_beside(connection: duckdb.DuckDBPyConnection, cells: Sequence[Cell]) -> dict[Key, list[Ours]]:
    """The lake's scores that have a printed figure beside them, by what that is printed for."""
    names = [
        {"place": f"{v.family}/{v.name}", "differs": v.differs, **asdict(p)}
        for v in variants()
        for p in ([PrintedAs("")] if v.method == RECORDED else v.published)
    ]
    connection.register("names", pa.Table.from_pylist(names))
    connection.register("printed", prepare("published_figures", figure_rows(cells)))
    connection.create_function("figure_key", _figure_key)
    found: dict[Key, list[Ours]] = defaultdict(list)
    for _, printed_for, *score in connection.execute(BESIDE).fetchall():
        found[tuple(printed_for.split("|"))].append(Ours(*score))
    return dict(found)


def _figure_key(scope: str, system: str, variant: str, model: str, model_id: str, metric: str) -> str:
    figure = figure_for(scope, PrintedAs(system, variant, model), model_id, metric)
    return "|".join(figure.key) if figure else ""


def with_ours(cells: Sequence[Cell], ours: Mapping[Key, Sequence[Ours]]) -> list[Cell]:
    """The cells with our scores, or with what follows from them; what the lake fills lacks nothing."""
    filled = []
    for cell in cells:
        figure = cell.figure
        own = ours.get(figure.key, ()) if figure.comparable or figure.metric in TIMES else ()
        cell = replace(cell, ours=own or (_derived(figure, ours) if figure.comparable and figure.follows else ()))
        filled.append(replace(cell, reason="", lacks="") if cell.filled else cell)
    return filled


def _derived(figure: Figure, ours: Mapping[Key, Sequence[Ours]]) -> list[Ours]:
    """What our scores give for a figure that follows from others: once for each of our models, without interval.

    All are of the same part of the benchmark, and by the same language model where one answered.
    """
    derived = []
    for first in ours.get(figure.sides[0], ()):
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
            metric = f"{figure.follows} of {first.metric}"
            score = replace(first, variant=names, metric=metric, value=value, low=None, high=None, n=n, reasoner="")
            derived.append(score)
    return derived


def differences(figure: Figure, ours: Ours, benchmark: Benchmark | None) -> list[str]:
    """Where a score of ours was made otherwise than the figure beside it, as far as declarations and notes tell."""
    said = []
    own, part = ours.model_id.partition("@")[0], part_of(ours.benchmark)
    if own.lower().rpartition("/")[2] != figure.model:  # another form, such as a quantized one, is told
        said.append(f"model {own or 'none'}, printed {figure.model or 'without a model'}")
    if figure.metric in ("precision", "noisy_percent") and ours.reasoner:
        said.append(f"judged by {ours.reasoner.partition('@')[0]}, printed for Gemini")
    said += [ours.differs] if ours.differs else []
    if figure.follows == "mean":
        return said
    if figure.less is not None:
        said.append("less the best baseline as printed")
    if figure.metric.startswith("f1") and figure.system in ("kaping", "kaping_background"):
        said.append("F1 by the gold answers among the ends of the triples; print does not say how it counts")
    if part != figure.part:
        said.append(f"answered {part or 'whole'}, printed for {figure.part or 'the whole'}")
    elif benchmark and (seed := ours.benchmark.partition(SEEDED)[2]):
        said.append(f"drawn with seed {seed}; which questions are printed for is not stated")
    if benchmark and benchmark.expected.questions not in (0, ours.n):
        said.append(f"{ours.n:,} of {benchmark.expected.questions:,} questions")
    for source in (benchmark.corpus, benchmark.graph, benchmark.background_graph) if benchmark else ():
        if source:
            other = next((str(d["differs"]) for d in _declarations(source) if d.get("differs")), "")
            said.append(f"answered from our {source}" + (f" ({other})" if other else ""))
    return said


def obtained(benchmark: Benchmark) -> dict[str, str]:
    """What a benchmark's answers need, each with what its files hold and where they are obtained."""
    own = datasets()[benchmark.reader].wanted(benchmark.split) if benchmark.reader in datasets() else ""
    needed = {benchmark.name: benchmark.holds or own}
    for name in (benchmark.corpus, benchmark.graph, benchmark.background_graph, benchmark.taxonomy):
        for stated in _declarations(name):
            needed[name] = str(stated.get("holds", ""))
    return needed


def _declarations(name: str) -> list[dict[str, Any]]:
    """What is stated of the corpus, graph or knowledge base of this name."""
    makers = (made for component in ("Corpus", "Graph", "KnowledgeBase") for made in instances(component))
    return [made.attributes for made in makers if name and made.attributes.get("name") == name]


def data_needed(able: Sequence[Candidate]) -> dict[str, str]:
    """What these candidates need, each with what its files hold and where they are obtained."""
    needed: dict[str, str] = {}
    for candidate in {c.benchmark: c for c in able}.values():
        known = declared().get(candidate.benchmark)
        needed |= obtained(known) if known else {candidate.benchmark: candidate.holds}
    vectors = {f"embeddings/{c.variant.parameters.get('embedding', '')}" for c in able}
    return needed | {files.name: files.holds for files in every_raw_files() if files.name in vectors}
