"""Encoders as an axis: of whose vectors, besides those of the profile's first encoder, there are assets.

Belongs here: which further encoders a corpus or a graph is encoded with. Their assets have the encoder's name after their
keys; only what a loaded variant reads is made.
"""

from __future__ import annotations

from dataclasses import replace

from evidence_assets import profiles, systems
from evidence_assets.assets.system import MODEL_TAG
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import all_stages
from evidence_assets.experiment.variants import Variant, crossed_with, opted_in, variants
from evidence_assets.lake.ids import with_model


def _crossed(variant: Variant) -> bool:
    """Whether it is part of the graph and names encoders; told without importing its system."""
    return variant.loaded and "encoder" in crossed_with(variant.models, variant.presets, opted_in())


def further_encoders(key: str) -> list[str]:
    """The encoders besides the profile's first whose vectors of this asset a loaded variant reads."""
    names = profiles.load().names("encoder")[1:]
    if not names:
        return []
    crossed = [variant for variant in variants() if _crossed(variant)]
    read = {
        r.key for variant in crossed for stage in all_stages(systems.load(variant.system), variant) for r in stage.reads
    }
    return [name for name in names if with_model(key, name) in read]


def version_of_encoder(name: str) -> str:
    """What the code version of vectors says of an encoder; nothing of the profile's first, whose vectors say it themselves."""
    if not name:
        return ""
    settings = profiles.load().encoders[name]
    return f":{settings.name}@{settings.revision}"


def tags_of(name: str) -> dict[str, str]:
    """Tags of assets of an encoder."""
    return {f"{MODEL_TAG}{name}": ""} if name else {}


def encoding(step: StageContext, name: str) -> StageContext:
    return replace(step, models={"encoder": name} if name else {})
