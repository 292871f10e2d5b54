"""UCRET and UCRET-JS: how the selector is opened, with or without text beside the table."""

from __future__ import annotations

from evidence_assets.experiment.inputs import Bm25Chunks, chunks_in, tables_of
from evidence_assets.experiment.selection import Selector
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, System
from evidence_assets.models.in_use import encoder
from evidence_assets.systems.ucret import VERSION
from evidence_assets.systems.ucret.settings import BridgeSettings, UcretSettings
from evidence_assets.systems.ucret.system import BridgedTable, CollapsedTable


def _collapsed(name: str, step: Step, settings: UcretSettings) -> CollapsedTable:
    return CollapsedTable(name, tables_of(step), settings, encoder(step.profile.encoder))


def _bridged(name: str, step: Step, settings: BridgeSettings) -> Selector:
    outside = Bm25Chunks(name, chunks_in(step), settings.passages, VERSION) if step.benchmark.corpus else None
    return BridgedTable(_collapsed(name, step, settings), outside)


SYSTEM = System(
    "ucret",
    VERSION,
    {
        "ucret": Method(
            settings=UcretSettings,
            open=_collapsed,
            reads=("tables",),
            models=lambda settings: ("encoder",),
            published="cases",
        ),
        "ucret_bridge": Method(
            settings=BridgeSettings,
            open=_bridged,
            reads=("tables", "corpus"),
            own_encoder=True,
            models=lambda settings: ("encoder",),
            published="cases",
        ),
    },
)
