"""The models of a profile, each loaded once per process by its backend and shared by all assets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.inference import WEIGHTS_FILE, kernel_name, resolve_device
from evidence_assets.models.protocols import (
    Encoder,
    FloatArray,
    Generator,
    LocalEncoder,
    NamedModel,
    Reranker,
    TokenVectors,
)
from evidence_assets.models.rerankers import MAXSIM, CrossEncoderReranker, MaxSimReranker
from evidence_assets.profiles import EncoderSettings, GeneratorSettings, ModelSettings, RerankerSettings

if TYPE_CHECKING:  # these import torch, which takes seconds and is not needed to read a lake
    from evidence_assets.models.masked import HFMaskedLM

SAMPLE_MASKED_LM = "sample-masked-lm"
"""A profile's name for the masked language model trained in the lake."""
MASKED_LM_ASSET = "models/masked_lm"
"""Asset of the masked language model in use."""
RELEVANCE_CLASSIFIER_ASSET = "models/relevance_classifier"
"""Asset of the cross-encoder that Attention2Query tunes on triples."""
MAX_CACHED_VECTORS = 50_000
MAX_CACHED_SHORT = 4096
"""Sentence vectors, and short texts with their tokens, in memory, as the variants of a system read the same texts."""
MAX_SHORT_LENGTH = 200
"""Characters of the longest short text; 4,096 texts of 12 tokens each have 75 MB of vectors."""
SERVER_OPTIONS = {"base_url", "revision", "api_key_env", "concurrency", "timeout_seconds"}
"""Settings that all models on servers have."""
Value = TypeVar("Value")


class CachingEncoder:
    """Caches an encoder's sentence vectors, and the tokens of short texts; neither depends on the batch.

    Questions and triples are short; :mod:`.token_cache` has the tokens of chunks.
    """

    def __init__(self, inner: Encoder) -> None:
        self.inner = inner
        self._sentences: dict[str, FloatArray] = {}
        self._tokens: dict[str, TokenVectors] = {}
        self.model_id = inner.model_id
        self.revision = inner.revision
        self.dimensions = inner.dimensions
        self.max_tokens = inner.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.inner.count_tokens(texts)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        short = [text for text in dict.fromkeys(texts) if len(text) <= MAX_SHORT_LENGTH]
        tokens = _look_up(self._tokens, short, self._encode_short, MAX_CACHED_SHORT)
        others = [text for text in dict.fromkeys(texts) if text not in tokens]
        tokens |= dict(zip(others, self.inner.encode_tokens(others), strict=True)) if others else {}
        return [tokens[text] for text in texts]

    def _encode_short(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Tokens whose vectors no card keeps, as the cache would never free its memory."""
        return [replace(tokens, on_device=None) for tokens in self.inner.encode_tokens(texts)]

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        return cast(LocalEncoder, self.inner).token_layers(texts, layers)

    def pool_sentences(self, texts: Sequence[str]) -> FloatArray:
        return cast(LocalEncoder, self.inner).pool_sentences(texts)

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        vectors = _look_up(self._sentences, texts, self.inner.encode_sentences, MAX_CACHED_VECTORS)
        return np.array([vectors[text] for text in texts], np.float32).reshape(len(texts), self.dimensions)


def _look_up(
    cache: dict[str, Value], texts: Sequence[str], encode: Callable[[Sequence[str]], Iterable[Value]], limit: int
) -> dict[str, Value]:
    """The cached values by text; those of new texts are computed, and the oldest beyond the limit deleted."""
    new = [text for text in dict.fromkeys(texts) if text not in cache]
    values = dict(zip(new, encode(new), strict=True)) if new else {}
    results = {text: values[text] if text in values else cache[text] for text in texts}
    cache |= values
    for text in list(cache)[: max(0, len(cache) - limit)]:
        del cache[text]
    return results


@lru_cache
def get_encoder(settings: EncoderSettings) -> CachingEncoder:
    """The encoder of these settings, with a cache."""
    if settings.base_url:
        from evidence_assets.models.served_encoder import ServedEncoder

        options = settings.model_dump(include=SERVER_OPTIONS | {"max_tokens"}, exclude_none=True)
        return CachingEncoder(ServedEncoder(settings.name, **options))
    return CachingEncoder(
        load_encoder(settings.name, revision=settings.revision, device=settings.device, dtype=settings.dtype)
    )


def model_key(model: NamedModel) -> str:
    """Name and revision, as stored in tables."""
    return f"{model.model_id}@{model.revision}"


def get_masked_lm(lake: Lake, settings: ModelSettings) -> HFMaskedLM:
    """The masked language model of these settings; ``sample-masked-lm`` is the one trained in this lake."""
    if settings.name != SAMPLE_MASKED_LM:
        return _load_masked_lm(settings, settings.name, 0)
    return _load_masked_lm(settings, *_find_trained_model(lake, MASKED_LM_ASSET))


def masked_lm_key(lake: Lake, settings: ModelSettings) -> str:
    """The `model_key` of `get_masked_lm`; a model trained in this lake is not loaded."""
    if settings.name != SAMPLE_MASKED_LM:
        return model_key(get_masked_lm(lake, settings))
    folder, _ = _find_trained_model(lake, MASKED_LM_ASSET)
    kernels = kernel_name(resolve_device(settings.device))
    return f"{settings.name}@{file_id(Path(folder) / WEIGHTS_FILE)}-{kernels}"


def get_tuned_classifier(lake: Lake) -> Reranker:
    return _load_tuned_classifier(*_find_trained_model(lake, RELEVANCE_CLASSIFIER_ASSET))


def _find_trained_model(lake: Lake, asset: str) -> tuple[str, int]:
    """Folder of a model trained in the lake, and the modification time of its weights."""
    folder = lake.index_folder(asset)
    return str(folder), _weights_time(folder, f"Materialize {asset}")


def _weights_time(folder: Path, remedy: str) -> int:
    weights = folder / WEIGHTS_FILE
    if not weights.exists():
        raise ModelUnavailable(f"the model is not trained yet. {remedy}")
    return weights.stat().st_mtime_ns


@lru_cache(maxsize=2)
def _load_masked_lm(settings: ModelSettings, path: str, mtime: int) -> HFMaskedLM:  # mtime: part of the cache key
    from evidence_assets.models.masked import HFMaskedLM

    return HFMaskedLM.load(path, model_id=settings.name, revision=settings.revision, device=settings.device)


@lru_cache(maxsize=1)
def _load_tuned_classifier(folder: str, mtime: int) -> Reranker:
    classifier = CrossEncoderReranker(folder)
    classifier.model_id = RELEVANCE_CLASSIFIER_ASSET  # scores do not depend on the path of the lake
    return classifier


@lru_cache(maxsize=5)
def get_sequence_model(model_class: Any, settings: ModelSettings) -> Any:
    """A sequence model of this class: it rates texts, writes sentences, proposes words or reads answers from texts."""
    return model_class(settings.name, revision=settings.revision, device=settings.device)


@lru_cache
def get_reranker(settings: RerankerSettings, token_encoder: EncoderSettings) -> Reranker:
    """The reranker of these settings; ``maxsim`` compares token vectors of the encoder ``token_encoder``."""
    if settings.name == MAXSIM:
        return MaxSimReranker(get_encoder(token_encoder))
    options = settings.model_dump(include={"revision", "device", "truncate"})
    return CrossEncoderReranker(settings.name, **options)


def load_generator(settings: GeneratorSettings) -> Generator:
    """Load the generator of these settings; settings of other backends are ignored."""
    if settings.backend == "openai":
        from evidence_assets.models.served_models import OpenAIGenerator

        options = settings.model_dump(include=SERVER_OPTIONS | {"constrain", "thinking_tokens"}, exclude_none=True)
        return OpenAIGenerator(settings.name, **options)
    if settings.backend == "transformers":
        from evidence_assets.models.local_generators import TransformersGenerator

        is_constrained = settings.constrain != "none"
        return TransformersGenerator(
            settings.name, revision=settings.revision, constrained=is_constrained, nf4=settings.quantization == "nf4"
        )
    if settings.backend == "vllm":
        from evidence_assets.models.vllm_generator import VllmGenerator, open_engine

        engine = open_engine(settings.name, settings.revision, settings.quantization)
        return VllmGenerator(engine, settings)
    raise BadInput(f"the backend {settings.backend} has no language model: choose openai, transformers or vllm")
