"""The models that a profile names, loaded once a process and shared by every asset in it."""

from __future__ import annotations

from functools import lru_cache

from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.models.rerankers import MAXSIM, load_reranker
from evidence_assets.profiles import ModelSettings


@lru_cache
def encoder(settings: ModelSettings) -> Encoder:
    """The encoder that these settings name."""
    return load_encoder(settings.name, revision=settings.revision, device=settings.device, dtype=settings.dtype)


def model_key(model: Encoder) -> str:
    """Name and revision, as tables keep them."""
    return f"{model.model_id}@{model.revision}"


@lru_cache
def reranker(settings: ModelSettings, tokens: ModelSettings) -> Reranker:
    """The reranker that these settings name; ``tokens`` is the encoder whose token vectors ``maxsim`` compares."""
    own = encoder(tokens) if settings.name == MAXSIM else None
    return load_reranker(settings.name, encoder=own, revision=settings.revision, device=settings.device)
