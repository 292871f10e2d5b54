"""Rerankers: how well each text answers to its query, judged on the two together, by late interaction over an encoder's
token vectors or by a cross-encoder, and the tuning of one on pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.encoders import EMBEDDED_ENCODER
from evidence_assets.models.inference import (
    equal_length_batches,
    explain_load_errors,
    find_hub_revision,
    find_minilm_folder,
    kernel_fingerprint,
    map_single_threaded,
    pretrained_options,
    resolve_device,
)
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.models.vectors import unit_rows

MAXSIM = "maxsim"
PAIRS_PER_BLOCK = 4096
"""Texts whose token vectors are held in memory together."""
_LEAST_PAIRS = 8


class MaxSimReranker:
    r"""Late interaction: each token of the query finds its nearest token in the text.

    .. math:: s(q, t) = \frac{1}{|q|} \sum_{i \in q} \max_{j \in t} \cos(w_i, w_j)

    Tokens of the query without a letter or digit do not count. A text without tokens scores −1; a query without tokens
    scores 0 on all others.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.model_id, self.revision = f"{MAXSIM}-{encoder.model_id}", encoder.revision
        self._encoder = encoder

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """One score a pair; every distinct text is encoded once for each block of pairs."""
        blocks = [
            self._block(pairs[start : start + PAIRS_PER_BLOCK]) for start in range(0, len(pairs), PAIRS_PER_BLOCK)
        ]
        return np.concatenate([np.empty(0, dtype=np.float32), *blocks])

    def _block(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        queries = dict.fromkeys(query for query, _ in pairs)
        texts = list(dict.fromkeys([*queries, *(text for _, text in pairs)]))
        found = dict(zip(texts, self._encoder.encode_tokens(texts), strict=True))
        unit = {text: unit_rows(tokens.vectors) for text, tokens in found.items()}
        telling = {
            query: unit[query][[any(char.isalnum() for char in query[a:b]) for a, b in found[query].offsets]]
            for query in queries
        }
        scores = np.empty(len(pairs), dtype=np.float32)
        for row, (query, text) in enumerate(pairs):
            mine, theirs = telling[query], unit[text]
            if not len(theirs):
                scores[row] = -1.0
            else:
                scores[row] = (mine @ theirs.T).max(axis=1).mean() if len(mine) else 0.0
        return scores


class CrossEncoderReranker:
    """A sequence classifier with one output, read on query and text together; the score is its raw output.

    Pairs are run in batches of equal token count without padding, each on one thread and of at least eight pairs, so
    that on a CPU no score depends on its neighbours; a pair longer than the model reads is refused.
    """

    def __init__(self, name: str, *, revision: str | None = None, device: str = "auto") -> None:
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        options, revision = pretrained_options(name, revision)
        with explain_load_errors(f"the reranker {name!r}"):
            self._tokenizer = AutoTokenizer.from_pretrained(name, **options)
            self._model = AutoModelForSequenceClassification.from_pretrained(name, dtype=torch.float32, **options)
        config = self._model.config
        if config.num_labels != 1:
            raise ModelUnavailable(
                f"{name!r} is no reranker: it has {config.num_labels} outputs and a reranker has one; name a "
                f"cross-encoder"
            )
        self._device = resolve_device(device)
        self._model.to(self._device).eval()
        self._longest = min(int(self._tokenizer.model_max_length), int(getattr(config, "max_position_embeddings", 512)))
        self.model_id = name
        self.revision = f"{revision or find_hub_revision(name) or 'unknown'}-float32"
        probe = self.score([("fever", "pain"), ("fever", "what it treats is not said here")])
        self.revision += f"-{kernel_fingerprint(probe, self._device)}"

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        import torch

        if not pairs:
            return np.empty(0, dtype=np.float32)
        queries, texts = [query for query, _ in pairs], [text for _, text in pairs]
        read = self._tokenizer(queries, texts, truncation=False, padding=False, verbose=False)
        lengths = [len(ids) for ids in read["input_ids"]]
        for row, length in enumerate(lengths):
            if length > self._longest:
                raise BadInput(
                    f"a query and text of {length} tokens are longer than the {self._longest} that {self.model_id} "
                    f"reads; cut the text into chunks first (it begins {pairs[row][1][:60]!r})"
                )
        scores = np.empty(len(pairs), dtype=np.float32)
        tokens, most = (16384, len(pairs)) if self._device.startswith("cuda") else (2048, 32)

        def run(rows: list[int]) -> FloatArray:
            # fewer rows take other kernels, in the head that reads one vector of each, whose last digits differ
            padded = [*rows, *[rows[0]] * (_LEAST_PAIRS - len(rows))]
            features: dict[str, Any] = {
                name: torch.tensor([values[row] for row in padded], device=self._device)
                for name, values in read.items()
            }
            with torch.inference_mode():
                logits: FloatArray = self._model(**features).logits[: len(rows), 0].float().cpu().numpy()
            return logits

        batches = list(equal_length_batches(lengths, lambda length: max(1, min(most, tokens // length))))
        for rows, found in zip(batches, map_single_threaded(run, batches, self._device), strict=True):
            scores[rows] = found
        if not np.isfinite(scores).all():
            raise ModelUnavailable(f"{self.model_id} gives scores that are not numbers; fetch its weights again")
        return scores


@dataclass(frozen=True)
class TuningSettings:
    """Rate and size of a batch are those printed for Attention2Query; how often it saw its 1,000 pairs is not said."""

    epochs: int = 3
    batch: int = 16
    rate: float = 1e-5
    longest: int = 128
    seed: int = 0


@dataclass(frozen=True)
class LabelledPair:
    """A query and a text, and whether the text answers to it."""

    query: str
    text: str
    relevant: bool


def tune_reranker(
    base: str, pairs: Sequence[LabelledPair], folder: Path, settings: TuningSettings = TuningSettings()
) -> list[float]:
    """Train the cross-encoder ``base`` on ``pairs``, save it to ``folder``, and return the mean loss of each epoch.

    A ``base`` that is a plain encoder, as the embedded MiniLM, gets a new output. The loss is the cross-entropy of
    relevant and not, each kind weighing half in all.
    """
    relevant = sum(pair.relevant for pair in pairs)
    if not 0 < relevant < len(pairs):
        raise ValueError(
            f"{relevant} of {len(pairs)} pairs are relevant: tuning needs some that are and some that are not"
        )
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    place = str(find_minilm_folder()) if base == EMBEDDED_ENCODER else base
    torch.manual_seed(settings.seed)
    with explain_load_errors(f"the cross-encoder {base!r}"):
        tokenizer = AutoTokenizer.from_pretrained(place)
        model = AutoModelForSequenceClassification.from_pretrained(place, num_labels=1, ignore_mismatched_sizes=True)
    device = resolve_device("auto")
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate)
    weight = torch.tensor((len(pairs) - relevant) / relevant, device=device)
    order = torch.Generator().manual_seed(settings.seed)
    losses = []
    for _ in range(settings.epochs):
        total = 0.0
        mixed = torch.randperm(len(pairs), generator=order).tolist()
        for start in range(0, len(pairs), settings.batch):
            batch = [pairs[row] for row in mixed[start : start + settings.batch]]
            texts = [pair.query for pair in batch], [pair.text for pair in batch]
            read = tokenizer(*texts, truncation=True, max_length=settings.longest, padding=True, return_tensors="pt")
            wanted = torch.tensor([float(p.relevant) for p in batch], device=device)
            scores = model(**read.to(device)).logits[:, 0]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, wanted, pos_weight=weight)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            total += float(loss.detach()) * len(batch)
        losses.append(total / len(pairs))
    if not math.isfinite(losses[-1]):
        raise ValueError(f"tuning {base} did not settle (loss {losses[-1]}): lower the rate")
    model.eval().to("cpu").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return losses
