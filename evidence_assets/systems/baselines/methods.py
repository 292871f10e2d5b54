"""BM25 and embedding cosine, over chunks and over cells, how they are opened; and recorded answers of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evidence_assets.experiment.inputs import Bm25Chunks, chunks_in, tables_of
from evidence_assets.experiment.scores.published_figures import RECORDED
from evidence_assets.experiment.selection import Selector
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.system import Method, NoSettings, OwnStages, System
from evidence_assets.models.in_use import encoder
from evidence_assets.profiles import Kind, Profile
from evidence_assets.systems.baselines import VERSION
from evidence_assets.systems.baselines.recorded import recorded_stages
from evidence_assets.systems.baselines.system import CellSelector, CosineChunks, bm25_cells, cosine_cells


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


def _cosine_cells(name: str, step: Step, settings: BaselineSettings) -> Selector:
    model = encoder(step.profile.encoder)
    version = f"cosine:{model.model_id}:{model.revision}"
    return CellSelector(name, tables_of(step), cosine_cells(model), settings.k, version)


def _method(opened: Any, source: Any, *models: Kind) -> Method[BaselineSettings]:
    return Method(
        settings=BaselineSettings, open=opened, reads=(source,), defaults=_defaults, models=lambda settings: models
    )


SYSTEM = System(
    "baselines",
    VERSION,
    {
        "bm25": Method(
            settings=Bm25Settings,
            open=lambda name, step, own: Bm25Chunks(name, chunks_in(step), own.k, VERSION, titles=own.titles),
            reads=("corpus",),
            defaults=_defaults,
        ),
        "cosine": _method(
            lambda name, step, own: CosineChunks(name, chunks_in(step), encoder(step.profile.encoder), own.k),
            "corpus",
            "encoder",
        ),
        "bm25_cells": _method(
            lambda name, step, own: CellSelector(name, tables_of(step), bm25_cells, own.k, "bm25"), "tables"
        ),
        "cosine_cells": _method(_cosine_cells, "tables", "encoder"),
        RECORDED: OwnStages(settings=NoSettings, stages=recorded_stages),
    },
)
