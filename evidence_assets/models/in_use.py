"""The models that a profile names: by which backend each is loaded, once a process, and shared by every asset in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from huggingface_hub import hf_hub_download

from evidence_assets.lake.atomic import replacing_file
from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.protocols import (
    Encoder,
    FloatArray,
    Generator,
    LayeredEncoder,
    Named,
    Reranker,
    Tokenizer,
    TokenVectors,
)
from evidence_assets.models.rerankers import MAXSIM, CrossEncoderReranker, MaxSimReranker
from evidence_assets.models.running import loading
from evidence_assets.profiles import EncoderSettings, GeneratorSettings, ModelSettings

if TYPE_CHECKING:  # these import torch, which takes seconds that reading a lake need not wait for
    from evidence_assets.models.masked import HFMaskedLM
    from evidence_assets.models.text_writing import PermutedLM, SentenceWriter, TextLikelihood

SAMPLE_MASKED_LM = "sample-masked-lm"
"""Name by which a profile asks for the model that its lake trained."""
MASKED_LM = "models/masked_lm"
"""The asset that trains or names the masked language model in use."""
RELEVANCE_CLASSIFIER = "models/relevance_classifier"
"""The asset that tunes a cross-encoder on triples; see ``TunedClassifier``."""
REMEMBERED = 50_000
"""Sentence vectors kept in memory: the variants of a system read the same sentences again and again."""


class RememberingEncoder:
    """An encoder that keeps the vectors of the texts it met last; possible because no vector depends on its batch."""

    def __init__(self, inner: Encoder) -> None:
        self.inner = inner
        self._known: dict[str, FloatArray] = {}
        self.model_id, self.revision = inner.model_id, inner.revision
        self.dimensions, self.max_tokens = inner.dimensions, inner.max_tokens

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.inner.count_tokens(texts)

    def tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        return self.inner.tokens(texts)

    def pieces(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        if not isinstance(self.inner, Tokenizer):
            raise BadInput(f"{self.model_id} does not say what the tokens of a text are: choose another token_encoder")
        return self.inner.pieces(texts)

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        return self._layered.token_layers(texts, layers)

    def count_words(self, texts: Sequence[str]) -> list[int]:
        return self._layered.count_words(texts)

    @property
    def _layered(self) -> LayeredEncoder:
        if not isinstance(self.inner, LayeredEncoder):
            raise BadInput(f"{self.model_id} gives its last layer alone: use another token_encoder")
        return self.inner

    def sentences(self, texts: Sequence[str]) -> FloatArray:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        found = dict(zip(new, self.inner.sentences(new), strict=True)) if new else {}
        made = np.zeros((len(texts), self.dimensions), np.float32)
        for i, text in enumerate(texts):
            made[i] = found[text] if text in found else self._known[text]
        for text, vector in found.items():
            self._known[text] = vector
        for text in list(self._known)[: max(0, len(self._known) - REMEMBERED)]:
            del self._known[text]
        return made


@lru_cache
def encoder(settings: EncoderSettings) -> RememberingEncoder:
    """The encoder that these settings name."""
    if settings.base_url:
        from evidence_assets.models.served_models import ServedEncoder

        return RememberingEncoder(
            ServedEncoder(
                settings.name, **settings.model_dump(include={"base_url", "revision", "api_key_env", "max_tokens"})
            )
        )
    loaded = load_encoder(settings.name, revision=settings.revision, device=settings.device, dtype=settings.dtype)
    return RememberingEncoder(loaded)


def model_key(model: Named) -> str:
    """Name and revision, as tables keep them."""
    return f"{model.model_id}@{model.revision}"


def masked_lm(lake: Lake, settings: ModelSettings) -> HFMaskedLM:
    """The masked language model that these settings name; ``sample-masked-lm`` is the one that this lake trained."""
    if settings.name != SAMPLE_MASKED_LM:
        return _masked_lm(pinned(lake, settings), "", 0)
    folder = lake.index_folder(MASKED_LM)
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ModelUnavailable(f"the sample's masked language model is not trained yet: materialize {MASKED_LM}")
    return _masked_lm(settings, str(folder), weights.stat().st_mtime_ns)


def pinned(lake: Lake, settings: ModelSettings) -> ModelSettings:
    """The settings with a revision: where none is stated, the one that the hub gave when the lake first used the model.

    A hub's name stands for what lies there today; what a lake holds was made by one revision, also where it is made
    again.
    """
    if settings.revision or Path(settings.name).exists():
        return settings
    kept = lake.cache / "revisions" / content_id("revision", settings.name)
    if not kept.exists():
        with loading(f"the model {settings.name!r}"):
            commit = Path(hf_hub_download(settings.name, "config.json")).parent.name
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(kept) as temporary:
            temporary.write_text(commit, encoding="utf-8")
    return settings.model_copy(update={"revision": kept.read_text(encoding="utf-8")})


@lru_cache(maxsize=2)
def _masked_lm(settings: ModelSettings, folder: str, stamp: int) -> HFMaskedLM:
    from evidence_assets.models.masked import HFMaskedLM

    with loading(f"the masked language model {settings.name!r}"):
        return HFMaskedLM.load(
            folder or settings.name,
            model_id=settings.name,
            revision=None if folder else settings.revision,
            device=settings.device,
        )


def tuned_classifier(lake: Lake) -> Reranker:
    folder = lake.index_folder(RELEVANCE_CLASSIFIER)
    weights = folder / "model.safetensors"
    if not weights.exists():
        raise ModelUnavailable(f"the relevance classifier is not tuned yet: materialize {RELEVANCE_CLASSIFIER}")
    return _tuned_classifier(str(folder), weights.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _tuned_classifier(folder: str, stamp: int) -> Reranker:
    made = CrossEncoderReranker(folder)
    made.model_id = RELEVANCE_CLASSIFIER  # where the lake lies is no part of what decides a score
    return made


@lru_cache(maxsize=2)
def text_likelihood(settings: ModelSettings) -> TextLikelihood:
    """The language model that rates given texts."""
    from evidence_assets.models.text_writing import TextLikelihood

    return TextLikelihood.load(settings.name, revision=settings.revision, device=settings.device)


@lru_cache(maxsize=1)
def sentence_writer(settings: ModelSettings) -> SentenceWriter:
    """The model that writes sentences out of keywords."""
    from evidence_assets.models.text_writing import SentenceWriter

    return SentenceWriter.load(settings.name, revision=settings.revision, device=settings.device)


@lru_cache(maxsize=1)
def substitute_proposer(settings: ModelSettings) -> PermutedLM:
    """The model that proposes other words for a prompt's."""
    from evidence_assets.models.text_writing import PermutedLM

    return PermutedLM.load(settings.name, revision=settings.revision, device=settings.device)


@lru_cache
def reranker(settings: ModelSettings, tokens: EncoderSettings) -> Reranker:
    """The reranker that these settings name; ``tokens`` is the encoder whose token vectors ``maxsim`` compares."""
    if settings.name == MAXSIM:
        return MaxSimReranker(encoder(tokens))
    return CrossEncoderReranker(settings.name, revision=settings.revision, device=settings.device)


SERVED = {"base_url", "revision", "api_key_env", "concurrency", "timeout_seconds", "constrain"}
"""Settings of a model behind a server."""


def load_generator(settings: GeneratorSettings) -> Generator:
    """Make the generator that a profile names; settings that its backend has no use for are ignored."""
    if settings.backend == "openai":
        from evidence_assets.models.served_models import OpenAIGenerator

        return OpenAIGenerator(settings.name, **settings.model_dump(include=SERVED))
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
