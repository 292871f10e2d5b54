"""Which assets fill the cells of a printed table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks, benchmarks
from evidence_assets.cli.run_selection import (
    RunSelection,
    enable_presets,
    join_selections,
    required_presets,
    select_evidence_scores,
    select_harvest_scores,
    select_upstream,
)
from evidence_assets.experiment.methods import combine_models
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.reproduction.cells import Cell, CellSource
from evidence_assets.reproduction.presets import presets
from evidence_assets.systems.baselines import recorded_answers
from evidence_assets.systems.four_step_focus.published_vectors import FOLDER
from evidence_assets.systems.four_step_focus.system import PublishedVectorsMethod


def runnable_sources(cells: Iterable[Cell]) -> list[CellSource]:
    """The sources of these cells that can run here: some need files that only users have.

    Questions are answered only for sources that fill a cell with scores of answers.
    """
    raw = find_lake() / "raw"
    distinct: dict[tuple[str, str], CellSource] = {}
    for cell in cells:
        for source in cell.sources:
            key = (source.score_asset, source.benchmark)
            has_answers = source.needs_answers(cell.figure) or (key in distinct and distinct[key].has_answers)
            distinct[key] = replace(source, has_answers=has_answers)
    return [
        source
        for source in distinct.values()
        if not (folder := _user_folder(source))
        or (raw / folder / all_benchmarks()[source.benchmark].base_name).exists()
    ]


def _user_folder(source: CellSource) -> str:
    """Folder below ``raw`` with files of recorded answers or published vectors; empty for what needs neither."""
    if source.is_recorded:
        return recorded_answers.FOLDER
    return FOLDER if source.variant.method == PublishedVectorsMethod.name else ""


def table_presets(sources: Iterable[CellSource], table: str) -> list[str]:
    """The presets that load the variants of these cells: those of the table (``thesis 7.5``), if they suffice."""
    names: set[str] = set()
    for source in sources:
        of_table = {name for name in source.variant.printed.presets if table in presets()[name].all_tables}
        names |= of_table if _is_loaded_by(source.variant, of_table) else required_presets([source.variant])
    return sorted(names)


def _is_loaded_by(variant: Variant, names: Collection[str]) -> bool:
    """Whether one of these presets loads a variant with its models."""
    method = systems.open_method(variant.model_copy(update={"active_models": {}}))
    return bool(names) and variant.key in {each.variant.key for each in combine_models(method, frozenset(names))}


def select_cells(graph: Any, sources: Sequence[CellSource]) -> RunSelection:
    """The scores that fill these cells, and everything upstream that they need, and no more."""
    targets: dict[tuple[str, bool], set[str]] = defaultdict(set)
    harvests: set[str] = set()
    for source in sources:
        scores = harvests if source.scope else targets[source.benchmark, source.has_answers]
        scores.add(source.score_asset)
    selections = []
    for (name, has_answers), assets in targets.items():
        select = select_upstream if has_answers else select_evidence_scores
        selections.append(select(graph, benchmarks()[name], sorted(assets)))
    if harvests:
        collections = {source.collection for source in sources if source.scope}
        selections.append(select_harvest_scores(graph, sorted(harvests), collections))
    selection = join_selections(selections)
    selected = {"/".join(key.path) for key in selection.keys or ()}
    missing = sorted({source.score_asset for source in sources} - selected)
    if missing:
        raise BadInput(f"no enabled preset has {missing[0]}: name one of `evidence presets` in EVIDENCE_PRESETS")
    return selection


def load_selection(sources: Sequence[CellSource], table: str) -> RunSelection:
    """Enable the presets of a table's cells for this process, and select what they need."""
    enable_presets(table_presets(sources, table))
    from evidence_assets.assets.definitions import load_definitions

    return select_cells(load_definitions().resolve_asset_graph(), sources)
