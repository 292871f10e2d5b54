"""UCRET and UCRET-JS: cells of the collapsed table, with or without a bridge to text outside it."""

from __future__ import annotations

from typing import Any

from evidence_assets import profiles
from evidence_assets.assets.benchmark import benchmarks
from evidence_assets.assets.models_in_use import encoder
from evidence_assets.assets.selector_methods.baselines import chunks_in, tables_of
from evidence_assets.assets.selector_methods.method import Method
from evidence_assets.assets.table_asset import Step
from evidence_assets.experiment.selection import Selector
from evidence_assets.systems.baselines.system import Bm25Chunks
from evidence_assets.systems.ucret import system as ucret
from evidence_assets.systems.ucret.selector import BridgedTable, CollapsedTable

PASSAGES = 3


def _collapsed(name: str, step: Step, parameters: dict[str, Any]) -> CollapsedTable:
    grid = {key: parameters[key] for key in ucret.GRID_PARAMETERS if key in parameters}
    variant = ucret.variant_with(str(parameters.get("variant", name)), grid)
    return CollapsedTable(name, tables_of(step), variant, encoder(profiles.load().encoder))


def _ucret(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    return _collapsed(name, step, parameters)


def _bridged(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    kept = int(parameters.get("passages", PASSAGES))
    outside = Bm25Chunks(name, chunks_in(step), kept) if benchmarks()[step.benchmark].corpus else None
    return BridgedTable(_collapsed(name, step, parameters), outside)


_PARAMETERS = ("variant", *ucret.GRID_PARAMETERS)
METHODS: dict[str, Method] = {
    "ucret": Method(_ucret, ("tables",), _PARAMETERS, ucret.VERSION),
    "ucret_bridge": Method(_bridged, ("tables", "corpus"), (*_PARAMETERS, "passages"), ucret.VERSION),
}
