"""The ablations of UGAT-MedQA, opted in: every one of them answers, and one command compares them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world

pytestmark = pytest.mark.long
PARTITION = "sample_graph|0"
GRAPH = tuple(f"knowledge/sample/{part}" for part in ("triples", "nodes", "edges", "csr", "node_vectors"))
HOPS = {"ugat_published_1_hop": 1, "ugat_published_2_hops": 2, "ugat_published": 3, "ugat_published_4_hops": 4}
VARIANTS = (*HOPS, "ugat", "ugat_contrastive", "ugat_gcn", "ugat_unfiltered", "graph_cosine", "closed_book")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    lines = ["name: small", "presets: [ugat_ablation]"]
    with pytest.MonkeyPatch.context() as patch, small_world(tmp_path_factory.mktemp("ugat"), lines, patch) as made:
        made.make("raw/sample", *GRAPH)
        made.make("questions/mcqa", "subgraphs/mcqa", partition=PARTITION)
        tables = ("evidence", "chains", "predictions", "citations")
        made.make(*(f"{table}/mcqa/{name}" for name in VARIANTS for table in tables), partition=PARTITION)
        yield made


def test_the_closed_book_rests_on_nothing_and_the_others_on_paths(world: SmallWorld) -> None:
    for name in VARIANTS:
        kinds = set(world.rows("evidence", f"evidence/mcqa/{name}")["kind"])
        assert kinds == (set() if name == "closed_book" else {"path"}), name
    assert set(world.rows("predictions", "predictions/mcqa/closed_book")["status"]) == {"insufficient"}


def test_variants_differ_in_what_they_say_of_the_nodes(world: SmallWorld) -> None:
    def why(name: str) -> list[dict[str, object]]:
        return [json.loads(row) for row in world.rows("evidence", f"evidence/mcqa/{name}")["why"]]

    assert all(row["attention"] for row in why("ugat_gcn")) and all(not row["attention"] for row in why("graph_cosine"))
    assert {row["relevant_by"] for row in why("ugat_unfiltered")} == {"all"}
    relevance = {name: [row["nodes"] for row in why(name)] for name in ("ugat", "ugat_published", "ugat_gcn")}
    assert len({json.dumps(nodes) for nodes in relevance.values()}) == 3


def test_the_hops_decide_what_is_scored(world: SmallWorld) -> None:
    def relevance(name: str) -> list[object]:
        return [json.loads(row)["nodes"] for row in world.rows("evidence", f"evidence/mcqa/{name}")["why"]]

    found = [relevance(name) for name in HOPS]
    assert found[0] != found[1] != found[2]
