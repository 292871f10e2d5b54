"""Graph assets: files and harvests are merged, and stale arrays are not used."""

import re
from dataclasses import replace
from pathlib import Path
from typing import cast

import dagster as dg
import numpy as np
import pytest

from evidence_assets import profiles, systems
from evidence_assets.assets import graph as component
from evidence_assets.assets.graph import Graph, GraphFiles
from evidence_assets.benchmarks.declared_benchmarks import declarations_of
from evidence_assets.benchmarks.graphs import relations
from evidence_assets.benchmarks.graphs.rows import triple_id
from evidence_assets.benchmarks.line_streams import headed_rows
from evidence_assets.experiment import graph_building, stage
from evidence_assets.experiment.evidence import sources as inputs
from evidence_assets.experiment.methods import StagesMethod
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.assets import small_worlds
from evidence_assets_tests.benchmarks.graphs import test_readers as readers
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.graphs.small_graph import TRIPLES, write_triples
from evidence_assets_tests.systems.small_models import WordEncoder

HARVEST = "knowledge/kbloom/small/triples"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    test_lake = Lake.create(tmp_path / "lake")
    write_triples(test_lake.root / "raw", TRIPLES)
    write_triples(
        test_lake.root / "raw", [("aspirin", "may_treat", "fever"), ("aspirin", "may_treat", "headache")], "other.tsv"
    )
    model = WordEncoder()
    for module in (component, graph_building, inputs):
        monkeypatch.setattr(module, "get_encoder", lambda settings: model)
    return test_lake


def graph_of(**attributes: object) -> Graph:
    files = [
        GraphFiles(format="tab_separated", paths=("graph.tsv",), licence="CC0-1.0"),
        GraphFiles(format="tab_separated", paths=("other.tsv",), licence="CC-BY-4.0"),
    ]
    return Graph.model_validate({"name": "small", "files": files, **attributes})


def materialize(lake: Lake, graph: Graph, *parts: str) -> dg.ExecuteInProcessResult:
    definitions = graph.build_defs(cast(dg.ComponentLoadContext, None))
    return small_worlds.materialize(
        lake, definitions, *(f"knowledge/small/{part}" for part in parts), raise_on_error=False
    )


def write_harvest(lake: Lake, asset: str = HARVEST, relation: str = "may_treat") -> None:
    facts = [
        ("aspirin", relation, "fever", 1),
        ("quinine", relation, "malaria", 2),
        ("sand", relation, "gout", 3),
        ("mitosis", "process_of", "cell", 1),
    ]
    rows = [
        {"triple_id": triple_id(h, r, t), "head": h, "relation": r, "tail": t, "origin": "kbloom", "rank": rank}
        | {"flags": [], "source": "kbloom", "licence": "CC0-1.0"}
        for h, r, t, rank in facts
    ]
    lake.write(asset, "", {"triples": rows})


def test_an_edge_of_two_sources_has_both_licences(lake: Lake) -> None:
    assert materialize(lake, graph_of()).success
    edges = {tuple(row["sources"]): row for row in lake.read("kg_edges").to_dicts()}
    merged_edge = edges[("graph.tsv:6", "other.tsv:1")]
    assert merged_edge["licences"] == ["CC-BY-4.0", "CC0-1.0"] and merged_edge["triple_ids"] == [
        triple_id("aspirin", "may_treat", "fever")
    ]
    graph = inputs.open_graph(lake, "small")
    assert (graph.arrays.n_nodes, graph.arrays.n_edges) == (lake.read("kg_nodes").height, len(edges))
    assert [graph.names[node] for node in graph.linker.link("Fevers").nodes] == ["fever"]


def test_the_medical_graph_joins_the_disease_database_drugbank_and_a_harvest(lake: Lake) -> None:
    (attributes,) = (
        declaration.attributes
        for declaration in declarations_of("Graph")
        if declaration.attributes["name"] == "medical"
    )
    graph = Graph.model_validate(attributes | {"name": "small", "profiles": []})
    for files, reader in zip(graph.files, (readers.TestDiseaseDatabase, readers.TestDrugbank), strict=True):
        write_files(lake.root / "raw", dict(zip(files.paths, reader.files, strict=True)))
    (harvest,) = graph.harvested
    write_harvest(lake, harvest, relation="treats")
    assert materialize(lake, graph).success
    names = dict(lake.read("kg_nodes").select("node_id", "name").iter_rows())
    edges = lake.read("kg_edges").select("head_id", "relation", "tail_id").rows()
    assert {
        ("Thinning", "is_a_risk_factor_of", "Atrophy"),
        ("Aspirin", "interacts_with", "Warfarin"),
        ("quinine", "may_treat", "malaria"),
    } < {(names[head], relation, names[tail]) for head, relation, tail in edges}
    printed_relations = {
        row.text("relation") for row in headed_rows(relations.VOCABULARY_FILES[0], ("relation",), "\t")
    }
    assert len(printed_relations) == 15 and {relation for _, relation, _ in edges} <= printed_relations
    assert "process_of" not in printed_relations and "mitosis" not in names.values()
    assert harvest == "knowledge/kbloom_medical/umls"
    as_printed, harvesting = (systems.find_method(f"knowledge/{name}") for name in ("kbloom_printed", "kbloom_medical"))
    differences = {"baseline": False, "collections": ("umls",)}
    assert harvesting.settings == replace(as_printed.settings, **differences), "harvested as printed, without BertNet"


def test_every_harvest_that_a_graph_of_a_profile_reads_is_loaded_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for profile in ("embedded", "paper", "companions"):
        monkeypatch.setenv("EVIDENCE_PROFILE", profile)
        stages = [stage.key for variant in variants_of("kbloom") if variant.is_loaded for stage in stages_of(variant)]
        for declared in declarations_of("Graph"):
            if profiles.load().is_any_of(declared.attributes.get("profiles") or ()):
                assert {*declared.attributes.get("harvested", ())} <= {*stages}, (profile, declared.attributes["name"])


def stages_of(variant: Variant) -> list[stage.Stage]:
    method = systems.open_method(variant)
    return method.build_stages() if isinstance(method, StagesMethod) else []


def test_stale_arrays_are_not_used_and_stale_vectors_are_an_error(lake: Lake) -> None:
    assert materialize(lake, graph_of()).success
    write_triples(lake.root / "raw", [*TRIPLES, ("ibuprofen", "may_treat", "fever")])
    assert materialize(lake, graph_of(), "triples", "nodes", "edges").success
    stale = inputs.open_graph(lake, "small")
    assert stale.arrays.n_edges == lake.read("kg_edges").height and not isinstance(stale.arrays.heads, np.memmap)
    with pytest.raises(StaleInput, match="materialize it again"):
        _ = stale.node_vectors
    assert materialize(lake, graph_of(), "csr", "node_vectors").success
    fresh = inputs.open_graph(lake, "small")
    assert fresh.linker.link("ibuprofen").nodes and len(fresh.node_vectors) == len(fresh)
    assert isinstance(fresh.arrays.heads, np.memmap)


def test_every_source_of_the_paper_profile_states_its_origin() -> None:
    for kind in ("Graph", "Corpus", "KnowledgeBase"):
        for declared in declarations_of(kind):
            attributes = declared.attributes
            if "paper" in (attributes.get("profiles") or ()) and not attributes.get("source"):
                assert len(attributes.get("contents", "")) > 20, attributes["name"]


def test_rates_of_reading_and_sorting_are_logged(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "SECONDS_BETWEEN_REPORTS", 0)
    messages: list[str] = []
    graph_of().builder.build_triples(
        stage.StageContext(lake, "triples", "knowledge/small/triples", inform=messages.append)
    )
    assert re.fullmatch(r"triples read: 11, [\d,.]+ per second", messages[1])
    assert re.fullmatch(r"triples sorted: 11, [\d,.]+ per second", messages[-1])
