"""The models that a profile names: by which backend each is loaded, once a process, and shared by every asset in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.store import Lake
from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.inference import explain_load_errors
from evidence_assets.models.protocols import Encoder, FloatArray, Generator, NamedModel, Reranker, TokenVectors
from evidence_assets.models.rerankers import MAXSIM, CrossEncoderReranker, MaxSimReranker
from evidence_assets.profiles import EncoderSettings, GeneratorSettings, ModelSettings

if TYPE_CHECKING:  # these import torch, which takes seconds that reading a lake need not wait for
    from evidence_assets.models.masked import HFMaskedLM
    from evidence_assets.models.sequence_models import SequenceModel

    Writing = TypeVar("Writing", bound=SequenceModel)

SAMPLE_MASKED_LM = "sample-masked-lm"
"""Name by which a profile asks for the model that its lake trained."""
MASKED_LM_ASSET = "models/masked_lm"
"""The asset that trains or names the masked language model in use."""
RELEVANCE_CLASSIFIER_ASSET = "models/relevance_classifier"
"""The asset that tunes a cross-encoder on triples; see ``TunedClassifier``."""
MAX_CACHED_VECTORS = 50_000
"""Sentence vectors kept in memory: the variants of a system read the same sentences again and again."""


class CachingEncoder:
    """An encoder that keeps the vectors of the texts it met last; possible because no vector depends on its batch.

    What else the encoder may give of tokens is asked of ``inner``.
    """

    def __init__(self, inner: Encoder) -> None:
        self.inner = inner
        self._known: dict[str, FloatArray] = {}
        self.model_id, self.revision = inner.model_id, inner.revision
        self.dimensions, self.max_tokens = inner.dimensions, inner.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.inner.count_tokens(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return self.inner.encode_tokens(texts)

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        found = dict(zip(new, self.inner.encode_sentences(new), strict=True)) if new else {}
        made = np.zeros((len(texts), self.dimensions), np.float32)
        for i, text in enumerate(texts):
            made[i] = found[text] if text in found else self._known[text]
        for text, vector in found.items():
            self._known[text] = vector
        for text in list(self._known)[: max(0, len(self._known) - MAX_CACHED_VECTORS)]:
            del self._known[text]
        return made


@lru_cache
def get_encoder(settings: EncoderSettings) -> CachingEncoder:
    """The encoder that these settings name."""
    if settings.base_url:
        from evidence_assets.models.served_models import ServedEncoder

        stated = settings.model_dump(include=SERVER_SETTINGS | {"max_tokens"}, exclude_none=True)
        return CachingEncoder(ServedEncoder(settings.name, **stated))
    loaded = load_encoder(settings.name, revision=settings.revision, device=settings.device, dtype=settings.dtype)
    return CachingEncoder(loaded)


def model_key(model: NamedModel) -> str:
    """Name and revision, as tables keep them."""
    return f"{model.model_id}@{model.revision}"


def get_masked_lm(lake: Lake, settings: ModelSettings) -> HFMaskedLM:
    """The masked language model that these settings name; ``sample-masked-lm`` is the one that this lake trained."""
    if settings.name != SAMPLE_MASKED_LM:
        return _masked_lm(settings, settings.name, 0)
    return _masked_lm(settings, *_made_here(lake, MASKED_LM_ASSET))


def get_tuned_classifier(lake: Lake) -> Reranker:
    return _tuned_classifier(*_made_here(lake, RELEVANCE_CLASSIFIER_ASSET))


def _made_here(lake: Lake, asset: str) -> tuple[str, int]:
    """Folder of a model that the lake trained, and when its weights were written."""
    folder = lake.index_folder(asset)
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ModelUnavailable(f"the model is not trained yet: materialize {asset}")
    return str(folder), weights.stat().st_mtime_ns


@lru_cache(maxsize=2)
def _masked_lm(settings: ModelSettings, place: str, stamp: int) -> HFMaskedLM:
    from evidence_assets.models.masked import HFMaskedLM

    with explain_load_errors(f"the masked language model {settings.name!r}"):
        return HFMaskedLM.load(place, model_id=settings.name, revision=settings.revision, device=settings.device)


@lru_cache(maxsize=1)
def _tuned_classifier(folder: str, stamp: int) -> Reranker:
    made = CrossEncoderReranker(folder)
    made.model_id = RELEVANCE_CLASSIFIER_ASSET  # where the lake lies is no part of what decides a score
    return made


def get_sequence_model(kind: type[Writing], settings: ModelSettings) -> Writing:
    """The model of these settings that rates texts, writes sentences, or proposes other words."""
    model: Writing = _writing_model(cast(Any, kind), settings)
    return model


@lru_cache(maxsize=3)
def _writing_model(kind: Any, settings: ModelSettings) -> Any:
    return kind.load(settings.name, revision=settings.revision, device=settings.device)


@lru_cache
def get_reranker(settings: ModelSettings, tokens: EncoderSettings) -> Reranker:
    """The reranker that these settings name; ``tokens`` is the encoder whose token vectors ``maxsim`` compares."""
    if settings.name == MAXSIM:
        return MaxSimReranker(get_encoder(tokens))
    return CrossEncoderReranker(settings.name, revision=settings.revision, device=settings.device)


SERVER_SETTINGS = {"base_url", "revision", "api_key_env", "concurrency", "timeout_seconds", "constrain"}
"""Settings of a model behind a server."""


def load_generator(settings: GeneratorSettings) -> Generator:
    """Make the generator that a profile names; settings that its backend has no use for are ignored."""
    if settings.backend == "openai":
        from evidence_assets.models.served_models import OpenAIGenerator

        return OpenAIGenerator(settings.name, **settings.model_dump(include=SERVER_SETTINGS, exclude_none=True))
    if settings.backend == "replay":
        from evidence_assets.models.completions import ReplayGenerator

        return ReplayGenerator(settings.folder, model_id=settings.name)
    options = {**settings.model_dump(include={"revision", "four_bit"}), "constrained": settings.constrain != "none"}
    if settings.backend == "transformers":
        from evidence_assets.models.local_generators import TransformersGenerator

        return TransformersGenerator(settings.name, **options)
    if settings.backend == "vllm":
        from evidence_assets.models.local_generators import VLLMGenerator

        return VLLMGenerator(settings.name, **options)
    raise BadInput(f"the backend {settings.backend} needs no language model")
