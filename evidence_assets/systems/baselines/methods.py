"""BM25 and embedding cosine, over chunks and over cells, how they are opened; and recorded answers of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evidence_assets.experiment.chunk_search import Bm25Chunks, chunks_in
from evidence_assets.experiment.inputs import tables_of
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.selection import Selector
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, NoSettings, OwnStages, System
from evidence_assets.models.in_use import encoder
from evidence_assets.profiles import Kind, Profile
from evidence_assets.systems.baselines import VERSION
from evidence_assets.systems.baselines import system as baselines
from evidence_assets.systems.baselines.recorded import recorded_stages


@dataclass(frozen=True)
class BaselineSettings:
    """``k`` pieces of evidence are kept for each question and option."""

    k: int = 5


@dataclass(frozen=True)
class Bm25Settings(BaselineSettings):
    """``titles`` says whether the words of its title are words of each chunk."""

    titles: bool = False


def _defaults(profile: Profile) -> Mapping[str, Any]:
    return {"k": profile.retrieval.k}


def _bm25(name: str, step: Step, settings: Bm25Settings) -> Selector:
    return Bm25Chunks(name, chunks_in(step), settings.k, VERSION, titles=settings.titles)


def _cosine(name: str, step: Step, settings: BaselineSettings) -> Selector:
    return baselines.CosineChunks(name, chunks_in(step), encoder(step.profile.encoder), settings.k)


def _bm25_cells(name: str, step: Step, settings: BaselineSettings) -> Selector:
    return baselines.CellSelector(name, tables_of(step), baselines.bm25_cells, settings.k, "bm25")


def _cosine_cells(name: str, step: Step, settings: BaselineSettings) -> Selector:
    model = encoder(step.profile.encoder)
    version = f"cosine:{model.model_id}:{model.revision}"
    return baselines.CellSelector(name, tables_of(step), baselines.cosine_cells(model), settings.k, version)


def _method(opened: Any, source: Any, *models: Kind) -> Method[BaselineSettings]:
    return Method(
        settings=BaselineSettings, open=opened, reads=(source,), defaults=_defaults, models=lambda settings: models
    )


SYSTEM = System(
    "baselines",
    VERSION,
    {
        "bm25": Method(settings=Bm25Settings, open=_bm25, reads=("corpus",), defaults=_defaults),
        "cosine": _method(_cosine, "corpus", "encoder"),
        "bm25_cells": _method(_bm25_cells, "tables"),
        "cosine_cells": _method(_cosine_cells, "tables", "encoder"),
        RECORDED: OwnStages(settings=NoSettings, stages=recorded_stages),
    },
)
