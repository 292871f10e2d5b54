"""Tunes a cross-encoder on pairs that are known to belong together or not.

Belongs here: the training loop and the saving. The result is an ordinary Hugging Face folder that
``rerankers.CrossEncoderReranker`` loads like any other model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evidence_assets.models.encoders import EMBEDDED
from evidence_assets.models.running import device_of
from evidence_assets.models.weights import loading, minilm_folder


@dataclass(frozen=True)
class TuningSettings:
    """Rate and size of a batch are those printed for Attention2Query; it does not say how often it saw its 1,000 pairs.

    ``longest`` is the number of tokens of a pair that are read; what is beyond is not seen while training.
    """

    epochs: int = 3
    batch: int = 16
    rate: float = 1e-5
    longest: int = 128
    seed: int = 0


@dataclass(frozen=True)
class Labelled:
    """A query and a text, and whether the text answers to it."""

    query: str
    text: str
    relevant: bool


def tune_reranker(
    base: str, pairs: Sequence[Labelled], folder: Path, settings: TuningSettings = TuningSettings()
) -> list[float]:
    """Train the cross-encoder ``base`` on ``pairs``, save it to ``folder``, and return the mean loss of each epoch.

    ``base`` is a cross-encoder or a plain encoder, by folder or name; the latter, as the embedded MiniLM, gets a new
    output. The loss is the cross-entropy of relevant and not, each kind weighing half in all:
    ``−mean(w · y · log σ(s) + (1 − y) · log(1 − σ(s)))`` with ``w`` the number of other pairs for each relevant one.
    """
    relevant = sum(pair.relevant for pair in pairs)
    if not 0 < relevant < len(pairs):
        raise ValueError(
            f"{relevant} of {len(pairs)} pairs are relevant: tuning needs some that are and some that are not"
        )
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    place = str(minilm_folder()) if base == EMBEDDED else base
    torch.manual_seed(settings.seed)
    with loading(f"the cross-encoder {base!r}"):
        tokenizer = AutoTokenizer.from_pretrained(place)
        model = AutoModelForSequenceClassification.from_pretrained(place, num_labels=1, ignore_mismatched_sizes=True)
    device = device_of("auto")
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
            read = tokenizer(
                [p.query for p in batch],
                [p.text for p in batch],
                truncation=True,
                max_length=settings.longest,
                padding=True,
                return_tensors="pt",
            ).to(device)
            wanted = torch.tensor([float(p.relevant) for p in batch], device=device)
            scores = model(**read).logits[:, 0]
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
