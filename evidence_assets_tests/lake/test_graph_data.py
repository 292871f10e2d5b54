"""Graphs of the lake as HeteroData: nodes, edges, vectors, and a convolution on them."""

from pathlib import Path

import numpy as np
import pytest
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.transforms import ToUndirected

from evidence_assets.lake import graph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import graph_edge, node

NODES = {"gout": "disease", "pain": "symptom", "aspirin": "drug", "fever": "symptom", "thing": None}
EDGES = [("aspirin", "may_treat", "pain"), ("gout", "has_symptom", "pain"), ("aspirin", "may_treat", "fever")]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.create(tmp_path / "data_lake")
    nodes = [node(name, type=kind) for name, kind in NODES.items()]
    lake.write("knowledge/small/nodes", "", {"kg_nodes": nodes})
    edges = [graph_edge(f"e{n}", *triple) for n, triple in enumerate(EDGES)]
    lake.write("knowledge/small/edges", "", {"kg_edges": edges})
    return lake


def write_passages(lake: Lake, vectors: dict[str, list[list[float]]]) -> None:
    rows = [
        {"passage_id": f"{name}{n}", "owner_kind": "node", "owner_id": name, "ordinal": n, "char_start": -1}
        | {"char_end": -1, "text": name, "vector": vector, "model_id": "m@1", "input_hash": ""}
        for name, of_node in vectors.items()
        for n, vector in enumerate(of_node)
    ]
    lake.write("knowledge/small/passages", "", {"kg_passages": rows})


def test_edges_connect_the_nodes_of_their_rows(lake: Lake) -> None:
    data = graph("small", lake.root)
    assert set(data.node_types) == {"disease", "symptom", "drug", "entity"}
    triples = {
        (data[head].node_id[i], relation, data[tail].node_id[j], edge_id)
        for head, relation, tail in data.edge_types
        for (i, j), edge_id in zip(
            data[head, relation, tail].edge_index.T.tolist(), data[head, relation, tail].edge_id, strict=True
        )
    }
    assert triples == {(*edge, f"e{n}") for n, edge in enumerate(EDGES)}
    with pytest.warns(UserWarning, match="{'entity'} are isolated"):
        assert data.validate()


def test_features_are_the_mean_of_a_nodes_passages_and_feed_a_convolution(lake: Lake) -> None:
    assert "x" not in graph("small", lake.root)["drug"]
    write_passages(lake, {"pain": [[1.0, 0.0], [0.0, 1.0]], "fever": [[0.0, 1.0]]})
    symptoms = graph("small", lake.root)["symptom"]
    features = dict(zip(symptoms.name, symptoms.x.tolist(), strict=True))
    assert features == {"pain": [0.5, 0.5], "fever": [0.0, 1.0]}
    data = graph("small", lake.root)
    np.testing.assert_array_equal(data["drug"].x, [[0.0, 0.0]])
    both_ways = ToUndirected()(data)
    convolution = HeteroConv({edge_type: SAGEConv((-1, -1), 3) for edge_type in both_ways.edge_types})
    assert convolution(both_ways.x_dict, both_ways.edge_index_dict)["symptom"].shape == (2, 3)


def test_a_missing_graph_is_reported(lake: Lake) -> None:
    with pytest.raises(BadInput, match=r"no graph 'medical'\. Materialize knowledge/medical/nodes"):
        graph("medical", lake.root)
