"""STaRK's processed layout, written here in small; pickles are refused before a byte of them is opened."""

import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import torch

from evidence_assets.benchmarks.knowledge_bases import KnowledgeBase
from evidence_assets.benchmarks.official.stark import read_stark_edges, read_stark_nodes
from evidence_assets.graphs.merge import KnowledgeBaseTables
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.official.contract import json_lines

INFO = {
    "0": {
        "id": 9796,
        "type": "gene/protein",
        "name": "PHYHIP",
        "details": {
            "alias": ["DYRK1AP3", "PAHX-AP1"],
            "summary": "Binds things.",
            "_id": 3,
            "generif": [{"pubmed": 1, "text": "seen"}],
        },
    },
    "1": {"id": "x", "type": "drug", "name": "aspirin", "details": {}},
    "2": {"type": "drug", "title": "ibuprofen", "rank": -1},
}


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("a pickle was opened",))


def read_stark(folder: Path, base: str) -> KnowledgeBaseTables:
    return KnowledgeBaseTables(read_stark_nodes(folder, base), read_stark_edges(folder, base))


def triples_of(base: KnowledgeBaseTables) -> list[tuple[str, str, str]]:
    name = dict(base.nodes.select("node_id", "name").iter_rows())
    return [(name[head], relation, name[tail]) for head, relation, tail in base.edges.iter_rows()]


def test_processed_layout(tmp_path: Path) -> None:
    base = read_stark(write_stark_files(tmp_path), "prime")
    assert base.nodes["name"].to_list() == ["PHYHIP", "aspirin", "ibuprofen"]
    assert base.nodes["type"].to_list() == ["gene/protein", "drug", "drug"], "by the code, not by the order"
    assert base.nodes["aliases"][0].to_list() == ["DYRK1AP3", "PAHX-AP1"]
    assert base.nodes["document"][0].splitlines() == [
        "type: gene/protein",
        "name: PHYHIP",
        "details:",
        "  alias: DYRK1AP3; PAHX-AP1",
        "  summary: Binds things.",
        "  generif: 1, seen",
    ]
    assert base.nodes["document"][2] == "type: drug\ntitle: ibuprofen"
    assert triples_of(base) == [("PHYHIP", "target", "aspirin"), ("aspirin", "target", "PHYHIP")]


def as_official(folder: Path, info: Mapping[str, object], tensors: dict[str, object], **types: dict[str, str]) -> Path:
    """Files as STaRK's own program saves them, its dictionaries converted; `types` are its type dictionaries."""
    write_nodes(folder, info)
    for name, dictionary in types.items():
        (folder / f"{name}.json").write_text(json.dumps(dictionary), encoding="utf-8")
    for name, value in tensors.items():
        torch.save(torch.tensor(value), folder / f"{name}.pt")
    return folder


def write_nodes(folder: Path, info: Mapping[str, object]) -> None:
    (folder / "node_info.jsonl").write_text(json_lines(*({"node": int(n), "info": i} for n, i in info.items())))


def write_stark_files(folder: Path) -> Path:
    return as_official(
        folder,
        INFO,
        {"node_types": [0, 1, 1], "edge_index": [[1, 0, 1], [0, 1, 0]], "edge_types": [1, 1, 1]},
        node_type_dict={"1": "drug", "0": "gene/protein"},
        edge_type_dict={"0": "ppi", "1": "target"},
    )


def mag(folder: Path) -> Path:
    nothing = float("nan")
    engines = {"title": "On engines", "abstract": "They weave.", "JournalDisplayName": nothing, "type": "paper"}
    infos = [
        {"id": 7, "mag_id": 11, "Rank": 3, "DisplayName": "Ada Byron", "type": "author"},
        {"id": 8, "mag_id": 12, "DisplayName": -1, "PaperCount": -1, "type": "author"},
        {"id": 0, "mag_id": 13, "DisplayName": "Analytical Institute", "type": "institution"},
        {"id": 4, "mag_id": 14, "DisplayName": "Computing", "Level": 0, "type": "field_of_study"},
        {"id": 5, "mag_id": 15, **engines},
        {"id": 6, "mag_id": 16, "title": nothing, "abstract": "Numbers.", "type": "paper"},
    ]
    edges = {"edge_index": [[0, 4, 4, 0, 1], [2, 5, 3, 4, 5]], "edge_types": [0, 1, 2, 3, 3]}
    return as_official(folder, {str(n): i for n, i in enumerate(infos)}, {"node_types": [0, 0, 1, 2, 3, 3], **edges})


def test_mag_files_without_type_names(tmp_path: Path) -> None:
    base = read_stark(mag(tmp_path), "mag")
    unnamed = "author 1 without a name", "paper 5 without a name"
    named = ["Analytical Institute", "Computing", "On engines"]
    assert base.nodes["name"].to_list() == ["Ada Byron", unnamed[0], *named, unnamed[1]]
    assert {("Ada Byron", "writes", "On engines"), ("On engines", "cites", unnamed[1])} <= set(triples_of(base))
    assert base.nodes["document"][4] == "title: On engines\nabstract: They weave.\ntype: paper"
    published = KnowledgeBase(name="mag", folder="mag", layout="stark_mag", edge_names="with_end_types")
    assert set(published.read_edges(tmp_path)["relation"]) == {
        "author___affiliated_with___institution",
        "author___writes___paper",
        "paper___cites___paper",
        "paper___has_topic___field_of_study",
    }


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_pickles_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    folder = write_stark_files(tmp_path)
    (folder / "node_info.jsonl").unlink()
    (folder / "node_info.pkl").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(BadInput, match=r"node_info.jsonl: this file is missing; .*run python -m tools.convert stark"):
        read_stark(folder, "prime")
    torch.save(Bomb(), folder / "node_types.pt")
    with pytest.raises(BadInput, match=r"node_types\.pt: is not a file of one tensor"):
        read_stark(folder, "prime")


@pytest.mark.parametrize(
    ("file", "value", "sentence"),
    [
        ("edge_index.pt", torch.tensor([[1, 0], [0, 1]]), "expected 2 × 3"),
        ("edge_index.pt", torch.tensor([[1, 0, 9], [0, 1, 1]]), "has a node outside of the 3"),
        ("node_info.jsonl", {"0": INFO["0"]}, "has 1 nodes, but node_types.pt has 3"),
        (
            "node_info.jsonl",
            {"1": INFO["1"], "0": INFO["0"]},
            ":1: node: expected the 3 nodes of node_types.pt in order",
        ),
        ("node_info.jsonl", {**INFO, "2": {"type": "drug"}}, ":3: info: has none of the name fields"),
        ("node_type_dict.json", {"0": "a", "2": "b"}, "codes 0, 1, 2"),
    ],
)
def test_faults_are_named(tmp_path: Path, file: str, value: object, sentence: str) -> None:
    folder = write_stark_files(tmp_path)
    if isinstance(value, torch.Tensor):
        torch.save(value, folder / file)
    elif file == "node_info.jsonl":
        write_nodes(folder, cast(dict[str, object], value))
    else:
        (folder / file).write_text(json.dumps(value))
    with pytest.raises(BadInput, match=sentence):
        read_stark(folder, "prime")
