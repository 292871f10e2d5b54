"""Node scorers from any convolution of torch-geometric: h ← h + ELU(conv(h)), S_v = cos(W_q h_v, h_q)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import elu

from evidence_assets.graphs.arrays import IntArray
from evidence_assets.lake.errors import BadInput
from evidence_assets.text.spelling import closest_name

CONVOLUTION_PATTERN = r"^[A-Z]\w*Conv$"
"""Names of scorers that are classes of torch_geometric.nn, such as GATv2Conv, RGATConv and GCNConv."""


def build_convolution(name: str, width: int, heads: int, relations: int) -> torch.nn.Module:
    """One layer of equal input and output width; its heads are concatenated, relation types have own weights.

    Raises BadInput if torch-geometric has no such class, or if it needs other arguments than the channels.
    """
    import torch_geometric.nn

    known_names = [each for each in torch_geometric.nn.conv.__all__ if each.endswith("Conv")]
    if name not in known_names:
        near = closest_name(name, known_names)
        raise BadInput(f"torch-geometric has no convolution {name!r}; did you mean {near!r}?", field="scorer")
    convolution = getattr(torch_geometric.nn, name)
    parameters = inspect.signature(convolution).parameters
    options: dict[str, Any] = {"heads": heads} if "heads" in parameters else {}
    if "num_relations" in parameters:
        options["num_relations"] = relations
    try:
        layer: torch.nn.Module = convolution(width, width // options.get("heads", 1), **options)
    except TypeError as error:
        raise BadInput(
            f"{name} needs more than input and output channels ({error}). Choose another, such as GATv2Conv",
            field="scorer",
        ) from error
    return layer


def convolution_network(
    convolutions: Sequence[torch.nn.Module], edges: IntArray, device: torch.device
) -> Callable[[Tensor], Tensor]:
    """The function from node features to hidden vectors.

    ``edges``: Head, tail and relation type of each edge, as three rows. Both directions of an edge are used; a reversed
        edge has a relation type of its own.
    """
    heads, tails, types = (row.astype(np.int64) for row in edges)
    inputs = {"edge_index": np.stack([np.append(heads, tails), np.append(tails, heads)])}
    if "edge_type" in inspect.signature(convolutions[0].forward).parameters:
        inputs["edge_type"] = np.append(types, types + types.max(initial=-1) + 1)
    tensors = {name: torch.from_numpy(array).to(device) for name, array in inputs.items()}

    def hidden_vectors(hidden: Tensor) -> Tensor:
        for convolution in convolutions:
            hidden = hidden + elu(convolution(hidden, **tensors))
        return hidden

    return hidden_vectors
