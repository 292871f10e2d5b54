"""The network of a trained reader: an encoder whose upper layers and linear head are trained, on inputs of two texts.

The lower layers stay as they are, so their output is computed once and stored for the training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.utils.rnn import pad_sequence

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.encoders import encoder_folder
from evidence_assets.models.inference import PretrainedModel, fill_batches, fill_up, map_batches, max_input_tokens
from evidence_assets.models.protocols import FloatArray

HalfArray = npt.NDArray[np.float16]
QUERY_SHARE = 2 / 3
"""Largest share of the tokens for question and option; the beginning of a longer question is cut."""


@dataclass(frozen=True)
class EncoderName:
    """The encoder that a reader is trained from."""

    name: str
    revision: str | None = None


@dataclass(frozen=True)
class OptionInput:
    """A question with one of its options, and the facts found for both, nearest first.

    ``weight``: Log odds of the option without the reader, which its score is added to.
    """

    question: str
    option: str
    facts: tuple[str, ...] = ()
    weight: float = 0.0

    @property
    def query(self) -> str:
        return f"{self.question} {self.option}".strip()


@dataclass(frozen=True)
class EncodedInput:
    """Token ids of an input with those of its segments, and whether a text was cut."""

    ids: list[int]
    segments: list[int]
    is_cut: bool


class _PassThrough(torch.nn.Module):
    """Replaces the embeddings of a network that continues from hidden states."""

    def forward(self, *_: Any, inputs_embeds: torch.Tensor, **__: Any) -> torch.Tensor:
        return inputs_embeds


class ReaderNetwork:
    """The lower layers of an encoder, its ``layers`` upper layers, and a linear head over pooled vector and weight.

    Any encoder with a list of layers ``encoder.layer`` works: BERT, RoBERTa, MPNet and their descendants.
    """

    def __init__(self, base: EncoderName, *, layers: int = 2, max_tokens: int = 192, device: str = "auto") -> None:
        from transformers import AutoModel  # here, because the definitions import this module

        options: dict[str, Any] = {"revision": base.revision, "device": device, "dtype": torch.float32}
        loaded = PretrainedModel(AutoModel, encoder_folder(base.name), **options)
        network = loaded.network
        tokenizer = loaded.tokenizer
        blocks = getattr(getattr(network, "encoder", None), "layer", None)
        if blocks is None or not hasattr(network, "embeddings") or not getattr(tokenizer, "is_fast", False):
            raise ModelUnavailable(
                f"a reader cannot be trained on {base.name!r}: it needs a BERT, RoBERTa or MPNet with a fast tokenizer"
            )
        self._tokenizer = tokenizer.backend_tokenizer
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        self._uses_segments = "token_type_ids" in tokenizer.model_input_names
        self.max_tokens = max_input_tokens(network.config, max_tokens)
        self._n_special = tokenizer.num_special_tokens_to_add(pair=True)
        self.device = torch.device(loaded.device)
        self.dimensions: int = network.config.hidden_size
        self.head = torch.nn.Linear(self.dimensions + 1, 1).to(self.device)
        self.lower, self.upper = _split_layers(network, layers, base.name)

    @property
    def trained(self) -> torch.nn.ModuleDict:
        """The trained part: upper layers and head."""
        return torch.nn.ModuleDict({"layers": self.upper.encoder.layer, "head": self.head})

    def encode(self, inputs: Sequence[OptionInput]) -> list[EncodedInput]:
        """Token ids of question and option, then of the facts; texts above the limit are cut."""
        room = self.max_tokens - self._n_special
        queries = self._tokenizer.encode_batch([each.query for each in inputs], add_special_tokens=False)
        facts = self._tokenizer.encode_batch([" ".join(each.facts) for each in inputs], add_special_tokens=False)
        results = []
        for query, fact in zip(queries, facts, strict=True):
            query_room = max(int(room * QUERY_SHARE), room - len(fact))
            is_cut = len(query) > query_room or len(fact) > room - min(len(query), query_room)
            query.truncate(query_room, direction="left")
            fact.truncate(room - len(query))
            encoding = self._tokenizer.post_process(query, fact)
            results.append(EncodedInput(encoding.ids, encoding.type_ids, is_cut))
        return results

    def _run_lower(self, encoded: Sequence[EncodedInput]) -> torch.Tensor:
        """Hidden states below the upper layers, of inputs with equally many tokens."""
        features = {"input_ids": torch.tensor([each.ids for each in encoded], device=self.device)}
        if self._uses_segments:
            features["token_type_ids"] = torch.tensor([each.segments for each in encoded], device=self.device)
        hidden: torch.Tensor = self.lower(**features).last_hidden_state
        return hidden

    def pool(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Mean of the upper layers' token vectors."""
        states = self.upper(inputs_embeds=hidden, attention_mask=mask).last_hidden_state.float()
        weights = mask[..., None].float()
        pooled: torch.Tensor = (states * weights).sum(1) / weights.sum(1)
        return pooled

    def lower_states(self, encoded: Sequence[EncodedInput]) -> list[HalfArray]:
        """Output of the lower layers for each input, in half precision."""
        states = [np.zeros((0, self.dimensions), np.float16)] * len(encoded)

        def run(rows: list[int]) -> HalfArray:
            with torch.inference_mode(), fast_products(self.device):
                values: HalfArray = self._run_lower([encoded[row] for row in rows]).half().cpu().numpy()
            return values

        for rows, hidden in map_batches([len(each.ids) for each in encoded], run, self.device.type):
            for row, values in zip(rows, hidden, strict=True):
                states[row] = values
        return states

    def scores(self, encoded: Sequence[EncodedInput], weights: FloatArray) -> FloatArray:
        """The head's output for each input, independent of the other inputs on a CPU."""
        scores = np.empty(len(encoded), np.float32)

        def run(rows: list[int]) -> FloatArray:
            padded = fill_up(rows)
            with torch.inference_mode():
                hidden = self._run_lower([encoded[row] for row in padded])
                pooled = self.pool(hidden, torch.ones(hidden.shape[:2], device=self.device))
                values: FloatArray = self.head(self._join(pooled, weights[padded]))[: len(rows), 0].cpu().numpy()
            return values

        fill_batches(scores, [len(each.ids) for each in encoded], run, self.device.type, "the reader")
        return scores

    def _join(self, pooled: torch.Tensor, weights: FloatArray) -> torch.Tensor:
        return torch.cat([pooled, torch.from_numpy(weights[:, None]).to(self.device)], dim=-1)

    def train_scores(self, states: Sequence[HalfArray], weights: FloatArray) -> torch.Tensor:
        """The head's output for inputs with these lower states, padded to the longest, with gradients."""
        hidden = pad_sequence([torch.from_numpy(values).float() for values in states], batch_first=True)
        mask = pad_sequence([torch.ones(len(values)) for values in states], batch_first=True)
        with fast_products(self.device):
            pooled = self.pool(hidden.to(self.device), mask.to(self.device))
        scores: torch.Tensor = self.head(self._join(pooled, weights))[:, 0]
        return scores


def _split_layers(network: Any, n_upper: int, name: str) -> tuple[Any, Any]:
    """The layers of an encoder below its ``n_upper`` upper ones, which are not trained, and those."""
    blocks = list(network.encoder.layer)
    if not 1 <= n_upper <= len(blocks):
        raise BadInput(f"{name} has {len(blocks)} layers. Train 1 to {len(blocks)} of them, not {n_upper}")
    network.pooler = None
    upper = deepcopy(network)
    upper.embeddings = _PassThrough()
    upper.encoder.layer = torch.nn.ModuleList(blocks[-n_upper:])
    network.encoder.layer = torch.nn.ModuleList(blocks[:-n_upper])
    return network.requires_grad_(False), upper


def fast_products(device: torch.device) -> torch.autocast:
    """Products in bfloat16 during training, where the hardware has it."""
    is_native = device.type == "cuda" or bool(torch.cpu.get_capabilities().get("avx512_bf16"))
    return torch.autocast(device.type, torch.bfloat16, enabled=is_native)


def similar_length_batches(order: Sequence[int], lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Batches of ``size`` items of similar length, which need little padding; ``order`` is a random order of all.

    >>> list(similar_length_batches([2, 0, 3, 1], [5, 1, 5, 1], 2))
    [[3, 1], [2, 0]]
    """
    pool = 16 * size
    for start in range(0, len(order), pool):
        items = sorted(order[start : start + pool], key=lambda item: lengths[item])
        batches = [items[i : i + size] for i in range(0, len(items), size)]
        yield from sorted(batches, key=lambda batch: order.index(batch[0], start, start + pool))
