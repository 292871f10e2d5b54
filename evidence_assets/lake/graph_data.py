"""A knowledge graph of the lake as torch-geometric's HeteroData, to train your own models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

if TYPE_CHECKING:
    import polars as pl
    from torch_geometric.data import HeteroData

UNTYPED = "entity"
"""Type of nodes for which no source gives one."""


def graph(name: str, root: Path | str | None = None) -> HeteroData:
    """The graph ``name`` of the lake at ``root``, by default the lake that `find_lake` finds.

    Nodes have ``node_id``, ``name`` and, if passages of the nodes are materialized, ``x``: the mean vector of a node's
    passages. Edges have ``edge_id``; their types are (type of the head, relation, type of the tail).
    """
    import polars as pl
    import torch
    from torch_geometric.data import HeteroData

    lake, asset = Lake(find_lake() if root is None else root), f"knowledge/{name}"
    nodes = lake.read("kg_nodes", f"{asset}/nodes").select("node_id", "name", pl.col("type").fill_null(UNTYPED))
    if nodes.is_empty():
        raise BadInput(f"{lake.root} has no graph {name!r}. Materialize {asset}/nodes and {asset}/edges first")
    nodes = nodes.sort("node_id").with_columns(row=pl.int_range(pl.len()).over("type"))
    edges = lake.read("kg_edges", f"{asset}/edges").select("edge_id", "relation", "head_id", "tail_id").sort("edge_id")
    for end in ("head", "tail"):
        columns = nodes.select(pl.col("node_id").alias(f"{end}_id"), pl.col("type", "row").name.prefix(f"{end}_"))
        edges = edges.join(columns, on=f"{end}_id", how="left", maintain_order="left")
    vectors = _node_vectors(lake.read("kg_passages", f"{asset}/passages"), nodes["node_id"])

    data = HeteroData()
    for (node_type,), rows in nodes.with_row_index("number").group_by("type", maintain_order=True):
        data[node_type].num_nodes = rows.height
        data[node_type].node_id, data[node_type].name = rows["node_id"].to_list(), rows["name"].to_list()
        if vectors is not None:
            data[node_type].x = torch.from_numpy(vectors[rows["number"].to_numpy()])
    for edge_type, rows in edges.group_by("head_type", "relation", "tail_type", maintain_order=True):
        data[edge_type].edge_index = torch.from_numpy(rows.select("head_row", "tail_row").to_numpy().T.astype(np.int64))
        data[edge_type].edge_id = rows["edge_id"].to_list()
    return data


def _node_vectors(passages: pl.DataFrame, node_ids: pl.Series) -> npt.NDArray[np.float32] | None:
    """Mean vector of each node's passages, zero for a node without one; None if no node has a passage."""
    numbered_ids = node_ids.to_frame("owner_id").with_row_index("number")
    of_nodes = passages.filter(owner_kind="node").join(numbered_ids, on="owner_id")
    if of_nodes.is_empty():
        return None
    vectors, numbers = np.array(of_nodes["vector"].to_list(), dtype=np.float32), of_nodes["number"].to_numpy()
    sums = np.zeros((len(node_ids), vectors.shape[1]), np.float32)
    np.add.at(sums, numbers, vectors)
    counts = np.bincount(numbers, minlength=len(node_ids)).clip(min=1)
    sums /= counts[:, None].astype(np.float32)
    return sums
