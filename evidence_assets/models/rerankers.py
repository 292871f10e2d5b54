"""Rerankers score texts against queries: late interaction over token vectors, and cross-encoders, with fine-tuning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.encoders import encoder_folder
from evidence_assets.models.inference import (
    PretrainedModel,
    fill_batches,
    fill_up,
    kernel_name,
    max_input_tokens,
    save_model,
    train_epoch,
)
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import unit_rows

if TYPE_CHECKING:
    import torch

MAXSIM = "maxsim"
PAIRS_PER_BLOCK = 4096
"""Pairs whose token vectors are in memory at once."""


class MaxSimReranker:
    r"""Late interaction: the mean similarity of each query token to its nearest token in the text.

    .. math:: s(q, t) = \frac{1}{|q|} \sum_{i \in q} \max_{j \in t} \cos(w_i, w_j)

    Query tokens without a letter or digit do not count. A text without tokens scores −1, a query without tokens 0.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.model_id = f"{MAXSIM}-{encoder.model_id}"
        self.revision = encoder.revision
        self._encoder = encoder

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """One score per pair; each distinct text of a block of pairs is encoded once."""
        blocks = [self._score_block(pairs[i : i + PAIRS_PER_BLOCK]) for i in range(0, len(pairs), PAIRS_PER_BLOCK)]
        return np.concatenate([np.empty(0, dtype=np.float32), *blocks])

    def _score_block(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        queries = dict.fromkeys(query for query, _ in pairs)
        texts = list(dict.fromkeys([*queries, *(text for _, text in pairs)]))
        encoded = dict(zip(texts, self._encoder.encode_tokens(texts), strict=True))
        unit_vectors = {text: unit_rows(tokens.vectors) for text, tokens in encoded.items()}
        query_vectors = {
            query: unit_vectors[query][[any(map(str.isalnum, query[a:b])) for a, b in encoded[query].offsets]]
            for query in queries
        }
        scores = np.empty(len(pairs), dtype=np.float32)
        for row, (query, text) in enumerate(pairs):
            query_rows = query_vectors[query]
            text_rows = unit_vectors[text]
            if not len(text_rows):
                scores[row] = -1.0
            else:
                scores[row] = (query_rows @ text_rows.T).max(axis=1).mean() if len(query_rows) else 0.0
        return scores


class CrossEncoderReranker(PretrainedModel):
    """A sequence classifier with one output for query and text; the score is its raw output.

    Batches have pairs of equal token count without padding, at least eight of them, and run on one thread each, so that
    scores do not depend on other pairs on a CPU. Pairs longer than the model's maximum are refused, or their longer
    text is cut if ``truncate`` is set.
    """

    def __init__(self, name: str, *, revision: str | None = None, device: str = "auto", truncate: bool = False) -> None:
        import torch
        from transformers import AutoModelForSequenceClassification as AutoClassifier

        super().__init__(AutoClassifier, name, revision=revision, device=device, dtype=torch.float32)
        config = self.network.config
        if config.num_labels != 1:
            raise ModelUnavailable(
                f"{name!r} has {config.num_labels} outputs, but a reranker has one. Choose a cross-encoder"
            )
        self._max_tokens = max_input_tokens(config, int(self.tokenizer.model_max_length))
        self.model_id = name
        limit = {"truncation": "longest_first", "max_length": self._max_tokens} if truncate else {"truncation": False}
        self._tokenizer_options: dict[str, Any] = {"padding": False, "verbose": False, **limit}
        self.revision = f"{self.revision}-float32-{kernel_name(self.device)}{'-truncated' if truncate else ''}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        import torch

        scores = np.empty(len(pairs), dtype=np.float32)
        if not pairs:
            return scores
        queries, texts = map(list, zip(*pairs, strict=True))
        encodings = self.tokenizer(queries, texts, **self._tokenizer_options)
        lengths = [len(ids) for ids in encodings["input_ids"]]
        for text, length in zip(texts, lengths, strict=True):
            if length > self._max_tokens:
                raise BadInput(
                    f"a query and text of {length} tokens are longer than the {self._max_tokens} that {self.model_id} "
                    f"reads. Split the text into chunks (it begins {text[:60]!r})"
                )

        def run(rows: list[int]) -> FloatArray:
            features: dict[str, Any] = {
                name: torch.tensor([values[row] for row in fill_up(rows)], device=self.device)
                for name, values in encodings.items()
            }
            with torch.inference_mode():
                logits: FloatArray = self.network(**features).logits[: len(rows), 0].float().cpu().numpy()
            return logits

        fill_batches(scores, lengths, run, self.device, self.model_id)
        return scores


@dataclass(frozen=True)
class TuningSettings:
    """Settings of the tuning. Rate and batch size are published for Attention2Query; the epochs are not."""

    epochs: int = 3
    batch: int = 16
    rate: float = 1e-5
    longest: int = 128
    seed: int = 0


@dataclass(frozen=True)
class LabelledPair:
    """A query, a text, and whether the text is relevant to the query."""

    query: str
    text: str
    relevant: bool


def tune_reranker(
    base: str,
    pairs: Sequence[LabelledPair],
    folder: Path,
    settings: TuningSettings = TuningSettings(),
    *,
    device: str = "auto",
) -> list[float]:
    """Train the cross-encoder ``base`` on ``pairs``, save it to ``folder``, and return the mean loss of each epoch.

    A plain encoder such as the packaged MiniLM gets a new output layer. The loss is the cross-entropy; relevant and
    irrelevant pairs have equal total weight.
    """
    relevant = sum(pair.relevant for pair in pairs)
    if not 0 < relevant < len(pairs):
        raise ValueError(f"{relevant} of {len(pairs)} pairs are relevant: tuning needs relevant and irrelevant pairs")
    import torch
    from transformers import AutoModelForSequenceClassification

    torch.manual_seed(settings.seed)
    options: dict[str, Any] = {"num_labels": 1, "ignore_mismatched_sizes": True}
    model = PretrainedModel(AutoModelForSequenceClassification, encoder_folder(base), device=device, **options)
    model.network.train()
    losses = _train_on_pairs(model, pairs, settings)
    if not math.isfinite(losses[-1]):
        raise ValueError(f"tuning {base} diverged (loss {losses[-1]}): lower the rate")
    save_model(model.network.eval().to("cpu"), model.tokenizer, folder)
    return losses


def _train_on_pairs(model: PretrainedModel, pairs: Sequence[LabelledPair], settings: TuningSettings) -> list[float]:
    """Train a classifier; returns the mean loss of each epoch."""
    import torch

    relevant = sum(pair.relevant for pair in pairs)
    weight = torch.tensor((len(pairs) - relevant) / relevant, device=model.device)
    compute_loss = partial(_tuning_loss, model, settings.longest, weight)
    optimizer = torch.optim.AdamW(model.network.parameters(), lr=settings.rate)
    generator = torch.Generator().manual_seed(settings.seed)
    losses = []
    for _ in range(settings.epochs):
        shuffled = [pairs[row] for row in torch.randperm(len(pairs), generator=generator).tolist()]
        batches = (shuffled[start : start + settings.batch] for start in range(0, len(pairs), settings.batch))
        losses.append(train_epoch(batches, compute_loss, optimizer))
    return losses


def _tuning_loss(
    model: PretrainedModel, max_length: int, weight: torch.Tensor, pairs: Sequence[LabelledPair]
) -> torch.Tensor:
    """Mean cross-entropy; relevant pairs count ``weight`` times."""
    import torch

    texts = [pair.query for pair in pairs], [pair.text for pair in pairs]
    inputs = model.tokenizer(*texts, truncation=True, max_length=max_length, padding=True, return_tensors="pt")
    scores = model.network(**inputs.to(model.device)).logits[:, 0]
    targets = torch.tensor([float(pair.relevant) for pair in pairs], device=model.device)
    return torch.nn.functional.binary_cross_entropy_with_logits(scores, targets, pos_weight=weight)
