"""BERT's encoder, with the same bits as ``transformers.BertModel``, whose import takes half of a first answer."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch.nn import Embedding, LayerNorm, Linear, Module, ModuleDict, ModuleList
from torch.nn.functional import gelu, scaled_dot_product_attention


class HiddenLayers(NamedTuple):
    """Token vectors of the last layer, batch × tokens × width, and of all from the embeddings on if requested."""

    last_hidden_state: torch.Tensor
    hidden_states: tuple[torch.Tensor, ...] | None


class Bert(Module):
    """The network without pooler, for texts of equal length; modules are named as in the weights."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        super().__init__()
        self.config = config = SimpleNamespace(**json.loads((folder / "config.json").read_text(encoding="utf-8")))
        width = config.hidden_size
        inner = config.intermediate_size
        eps = config.layer_norm_eps
        weights = {name: weight.to(dtype) for name, weight in load_file(folder / "model.safetensors").items()}
        tables = [f"{name}_embeddings" for name in ("word", "position", "token_type")]
        # not on the device "meta": initializing it there imports torch's compiler
        embed: Any = Embedding.from_pretrained
        self.embeddings = ModuleDict({name: embed(weights[f"embeddings.{name}.weight"]) for name in tables})
        with torch.device("meta"):
            self.embeddings["LayerNorm"] = LayerNorm(width, eps)
            self.layers = [_layer(width, inner, eps) for _ in range(config.num_hidden_layers)]
            self.encoder = ModuleDict({"layer": ModuleList(self.layers)})
        self.load_state_dict({name: weights[name] for name in self.state_dict()}, assign=True)

    def forward(self, input_ids: torch.Tensor, output_hidden_states: bool = False) -> HiddenLayers:
        """The hidden layers of texts, a row of token ids each."""
        modules: Any = self.embeddings.values()
        words, positions, types, norm = modules
        hidden = norm(words(input_ids) + types.weight[0] + positions.weight[: input_ids.shape[1]])
        states = [hidden]
        for layer in self.layers:
            hidden = self._apply_layer(layer, hidden)
            states.append(hidden)
        return HiddenLayers(hidden, tuple(states) if output_hidden_states else None)

    def _apply_layer(self, layer: Any, hidden: torch.Tensor) -> torch.Tensor:
        by_head = (*hidden.shape[:-1], self.config.num_attention_heads, -1)
        query, key, value = (linear(hidden).view(by_head).transpose(1, 2) for linear in layer.attention.self.values())
        context = scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        context = layer.attention.output.LayerNorm(layer.attention.output.dense(context) + hidden)
        inner = gelu(layer.intermediate.dense(context))
        result: torch.Tensor = layer.output.LayerNorm(layer.output.dense(inner) + context)
        return result


def _layer(width: int, inner: int, eps: float) -> ModuleDict:
    def output(n_inputs: int) -> ModuleDict:
        return ModuleDict({"dense": Linear(n_inputs, width), "LayerNorm": LayerNorm(width, eps)})

    projections = ModuleDict({name: Linear(width, width) for name in ("query", "key", "value")})
    return ModuleDict(
        {
            "attention": ModuleDict({"self": projections, "output": output(width)}),
            "intermediate": ModuleDict({"dense": Linear(width, inner)}),
            "output": output(inner),
        }
    )
