"""A user's own knowledge base, and every way in which its files can be wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence_assets.benchmarks.knowledge_bases import read_knowledge_base
from evidence_assets.graphs.merge import edge_id, edge_rows, node_rows
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.rows import decode_columns, prepare_rows

NODES = [
    {"node_id": "d1", "type": "drug", "name": "aspirin", "aliases": ["ASA"], "document": "Aspirin eases pain."},
    {"node_id": 7, "type": "disease", "name": "fever"},
    {"node_id": "d2", "type": "drug", "name": "ibuprofen", "aliases": None, "document": None},
]
EDGES = "head_id\ttype\ttail_id\nd1\ttreats\t7\nd2\ttreats\t7\nd1\ttreats\t7\nd2\tinteracts\td1\n"


def write_knowledge_base(folder: Path, nodes: list[object] = NODES, edges: str = EDGES) -> Path:
    text = "".join((n if isinstance(n, str) else json.dumps(n)) + "\n" for n in nodes)
    (folder / "nodes.jsonl").write_text(text, encoding="utf-8")
    (folder / "edges.tsv").write_text(edges, encoding="utf-8")
    return folder


def test_nodes_and_edges(tmp_path: Path) -> None:
    base = read_knowledge_base(write_knowledge_base(tmp_path), frozenset({"drug"}))
    assert base.nodes.rows() == [
        ("d1", "aspirin", ["ASA"], "drug", "Aspirin eases pain."),
        ("7", "fever", [], "disease", ""),
        ("d2", "ibuprofen", [], "drug", ""),
    ]
    assert base.edges.rows() == [("d1", "treats", "7"), ("d2", "treats", "7"), ("d2", "interacts", "d1")]
    nodes, edges = (
        node_rows(base.nodes, "mine", "folder/nodes.jsonl"),
        decode_columns(prepare_rows("kg_edges", edge_rows(base.edges, "mine", "folder/edges.tsv", "CC0"))),
    )
    assert nodes["node_id"].to_list() == ["mine:d1", "mine:7", "mine:d2"]
    assert prepare_rows("kg_nodes", nodes).num_rows == 3 and nodes["source"].unique().to_list() == [
        "folder/nodes.jsonl"
    ]
    declared_fields = {(row["head_id"], row["relation"], row["tail_id"]): row for row in edges.to_pylist()}
    assert declared_fields.keys() == {(f"mine:{head}", kind, f"mine:{tail}") for head, kind, tail in base.edges.rows()}
    for triple, row in declared_fields.items():
        assert row["edge_id"] == edge_id(*triple)
        assert (row["sources"], row["licences"], row["triple_ids"]) == (["folder/edges.tsv"], ["CC0"], [])


@pytest.mark.parametrize(
    ("nodes", "edges", "sentence"),
    [
        ([], EDGES, "nodes.jsonl: contains no nodes"),
        ([*NODES, {"node_id": "7", "type": "x", "name": "y"}], EDGES, "nodes.jsonl:4: node_id: '7' occurs twice"),
        ([{"node_id": "a", "type": "x"}], EDGES, "nodes.jsonl:1: name: missing"),
        ([{**NODES[0], "alias": []}], EDGES, "nodes.jsonl:1: alias: unknown field; did you mean 'aliases'"),
        ([{**NODES[0], "aliases": [3]}], EDGES, r"nodes.jsonl:1: aliases\[0\]: 3 is not a string"),
        (NODES, "head_id\ttype\ttail_id\nd1\ttreats\tnowhere\n", "edges.tsv:2: tail_id: 'nowhere' is not a node"),
        (NODES, "head_id\ttail_id\nd1\td2\n", "edges.tsv:1: the row has 2 fields; expected 3"),
    ],
)
def test_faults_are_named_by_file_line_and_field(
    tmp_path: Path, nodes: list[object], edges: str, sentence: str
) -> None:
    with pytest.raises(BadInput, match=sentence):
        read_knowledge_base(write_knowledge_base(tmp_path, nodes, edges))


def test_missing_files_and_unknown_answer_types(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file"):
        read_knowledge_base(tmp_path)
    with pytest.raises(BadInput, match="no node has the answer type 'gene'; the types are drug, disease"):
        read_knowledge_base(write_knowledge_base(tmp_path), frozenset({"gene"}))
