"""A knowledge graph of the lake as torch-geometric's HeteroData, to train your own models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    import torch
    from torch_geometric.data import HeteroData

    lake = Lake(find_lake() if root is None else root)
    asset = f"knowledge/{name}"
    nodes = _numbered_nodes(lake.read("kg_nodes", f"{asset}/nodes"))
    if nodes.is_empty():
        raise BadInput(f"{lake.root} has no graph {name!r}. Materialize {asset}/nodes and {asset}/edges first")
    vectors = _node_vectors(lake.read("kg_passages", f"{asset}/passages"), nodes)
    data = HeteroData()
    for (node_type,), rows in nodes.group_by("type", maintain_order=True):
        node_data = {"num_nodes": rows.height, "node_id": rows["node_id"].to_list(), "name": rows["name"].to_list()}
        data[node_type].update(node_data)
        if vectors is not None:
            data[node_type].x = torch.from_numpy(vectors[rows["number"].to_numpy()])
    for edge_type, rows in _typed_edges(lake.read("kg_edges", f"{asset}/edges"), nodes):
        positions = rows.select("head_row", "tail_row").to_numpy().T.astype(np.int64)
        data[edge_type].update({"edge_index": torch.from_numpy(positions), "edge_id": rows["edge_id"].to_list()})
    return data


def _numbered_nodes(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes by id, with their ``number`` among all and their ``row`` among those of their type."""
    import polars as pl

    nodes = nodes.select("node_id", "name", pl.col("type").fill_null(UNTYPED)).sort("node_id")
    return nodes.with_row_index("number").with_columns(row=pl.int_range(pl.len()).over("type"))


def _typed_edges(edges: pl.DataFrame, nodes: pl.DataFrame) -> Iterable[tuple[tuple[Any, ...], pl.DataFrame]]:
    """Edges in groups of (type of the head, relation, type of the tail), with the rows of their nodes."""
    edges = edges.select("edge_id", "relation", "head_id", "tail_id").sort("edge_id")
    for end in ("head", "tail"):
        ends = nodes.select("node_id", "type", "row").rename({"type": f"{end}_type", "row": f"{end}_row"})
        edges = edges.join(ends, left_on=f"{end}_id", right_on="node_id", how="left", maintain_order="left")
    return edges.group_by("head_type", "relation", "tail_type", maintain_order=True)


def _node_vectors(passages: pl.DataFrame, nodes: pl.DataFrame) -> npt.NDArray[np.float32] | None:
    """Mean vector of each node's passages, zero for a node without one; None if no node has a passage."""
    of_nodes = passages.filter(owner_kind="node").join(nodes, left_on="owner_id", right_on="node_id")
    if of_nodes.is_empty():
        return None
    vectors = np.array(of_nodes["vector"].to_list(), dtype=np.float32)
    numbers = of_nodes["number"].to_numpy()
    sums = np.zeros((len(nodes), vectors.shape[1]), np.float32)
    np.add.at(sums, numbers, vectors)
    counts = np.bincount(numbers, minlength=len(nodes)).clip(min=1)
    sums /= counts[:, None].astype(np.float32)
    return sums
