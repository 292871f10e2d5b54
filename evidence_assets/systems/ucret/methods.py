"""UCRET and UCRET-JS: settings of a variant, and how the selector is opened, with or without text beside the table."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from evidence_assets.experiment.selection import Selector
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, System
from evidence_assets.models.in_use import encoder
from evidence_assets.systems.baselines.methods import chunks_in, tables_of
from evidence_assets.systems.baselines.system import Bm25Chunks
from evidence_assets.systems.ucret import system as ucret
from evidence_assets.systems.ucret.selector import BridgedTable, CollapsedTable


@dataclass(frozen=True)
class UcretSettings:
    """A named selection of columns with some of its numbers set otherwise; see ``system.VARIANTS``.

    ``clusters`` is k, ``tau`` the threshold of words, ``theta`` that of meaning by cosine, ``eta`` by divergence, whose
    softmax has the ``temperature``.
    """

    variant: str = "ucret"
    clusters: int | None = None
    tau: float | None = None
    theta: float | None = None
    eta: float | None = None
    temperature: float | None = None

    def __post_init__(self) -> None:
        self.selection  # noqa: B018 - a variant or number that does not exist is refused where it is stated

    @property
    def selection(self) -> ucret.Variant:
        """The selection of columns that these settings name."""
        stated = {name: value for name, value in asdict(self).items() if name in ucret.GRID_PARAMETERS}
        return ucret.variant_with(self.variant, {name: v for name, v in stated.items() if v is not None})


@dataclass(frozen=True)
class BridgeSettings(UcretSettings):
    """The same with ``passages`` from outside the table."""

    passages: int = 3


def _collapsed(name: str, step: Step, settings: UcretSettings) -> CollapsedTable:
    return CollapsedTable(name, tables_of(step), settings.selection, encoder(step.profile.encoder))


def _bridged(name: str, step: Step, settings: BridgeSettings) -> Selector:
    outside = Bm25Chunks(name, chunks_in(step), settings.passages) if step.benchmark.corpus else None
    return BridgedTable(_collapsed(name, step, settings), outside)


SYSTEM = System(
    "ucret",
    ucret.VERSION,
    {
        "ucret": Method(settings=UcretSettings, open=_collapsed, reads=("tables",)),
        "ucret_bridge": Method(settings=BridgeSettings, open=_bridged, reads=("tables", "corpus")),
    },
)
