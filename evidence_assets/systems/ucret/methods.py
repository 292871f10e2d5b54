"""UCRET and UCRET-JS: how the selector is opened, with or without text beside the table."""

from __future__ import annotations

from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.evidence.sources import Bm25Chunks, chunks_in, tables_of
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.system import Method, System
from evidence_assets.models.in_use import encoder
from evidence_assets.systems.ucret import VERSION
from evidence_assets.systems.ucret.settings import BridgeSettings, UcretSettings
from evidence_assets.systems.ucret.system import BridgedTable, CollapsedTable


def _collapsed(context: StageContext, settings: UcretSettings) -> CollapsedTable:
    return CollapsedTable(tables_of(context), settings, encoder(context.profile.encoder))


def _bridged(context: StageContext, settings: BridgeSettings) -> Selector:
    outside = Bm25Chunks(chunks_in(context), settings.passages, VERSION) if context.benchmark.corpus else None
    return BridgedTable(_collapsed(context, settings), outside)


SYSTEM = System(
    "ucret",
    VERSION,
    {
        "ucret": Method(
            settings=UcretSettings,
            open=_collapsed,
            reads=("tables",),
            uses=("encoder",),
            published="cases",
        ),
        "ucret_bridge": Method(
            settings=BridgeSettings,
            open=_bridged,
            reads=("tables", "corpus"),
            own_encoder=True,
            uses=("encoder",),
            published="cases",
        ),
    },
)
