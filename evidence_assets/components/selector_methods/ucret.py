"""UCRET and UCRET-JS: cells of the collapsed table."""

from __future__ import annotations

from typing import Any

from evidence_assets import profiles
from evidence_assets.components.models_in_use import encoder
from evidence_assets.components.selector_methods.baselines import tables_of
from evidence_assets.components.selector_methods.method import Method
from evidence_assets.components.table_asset import Step
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems import ucret
from evidence_assets.systems.selection import Selector
from evidence_assets.systems.table_selection import CollapsedTable


def _ucret(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    variant = str(parameters.get("variant", name))
    if variant not in ucret.VARIANTS:
        raise BadInput(f"selector {name}: there is no UCRET variant {variant!r}; known: {', '.join(ucret.VARIANTS)}")
    return CollapsedTable(name, tables_of(step), ucret.VARIANTS[variant], encoder(profiles.load().encoder))


METHODS: dict[str, Method] = {"ucret": Method(_ucret, ("tables",), ("variant",), ucret.VERSION)}
