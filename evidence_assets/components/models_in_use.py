"""The models that a profile names, loaded once a process and shared by every asset in it."""

from __future__ import annotations

from functools import lru_cache

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.lake.store import Lake
from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.masked import HFMaskedLM, MaskedLM
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.weights import loading
from evidence_assets.profiles import ModelSettings

SAMPLE_MASKED_LM = "sample-masked-lm"
"""The masked language model that a lake trains on the sample corpus."""
MASKED_LM = "models/masked_lm"
"""The asset that trains or names the masked language model in use."""


@lru_cache
def encoder(settings: ModelSettings) -> Encoder:
    """The encoder that these settings name."""
    return load_encoder(settings.name, revision=settings.revision, device=settings.device, dtype=settings.dtype)


def model_key(model: Encoder | MaskedLM) -> str:
    """Name and revision, as tables keep them."""
    return f"{model.model_id}@{model.revision}"


def masked_lm(lake: Lake, settings: ModelSettings) -> HFMaskedLM:
    """The masked language model that these settings name; ``sample-masked-lm`` is the one that this lake trained."""
    if settings.name != SAMPLE_MASKED_LM:
        return _masked_lm(settings, "", 0)
    folder = lake.index_folder(MASKED_LM)
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ModelUnavailable(f"the sample's masked language model is not trained yet: materialize {MASKED_LM}")
    return _masked_lm(settings, str(folder), weights.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _masked_lm(settings: ModelSettings, folder: str, stamp: int) -> HFMaskedLM:
    with loading(f"the masked language model {settings.name!r}"):
        return HFMaskedLM.load(
            folder or settings.name,
            model_id=settings.name,
            revision=None if folder else settings.revision,
            device=settings.device,
        )
