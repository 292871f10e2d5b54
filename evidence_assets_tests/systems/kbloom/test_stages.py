"""The stages of a harvest: prompts, candidates and triples of a relation, shared by variants that search alike."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from evidence_assets.experiment.stage import Stage, StageContext, StageOutput
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.harvest import prompt_mining
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.lineage import distinct_ids, find_dangling_edges, trace
from evidence_assets.lake.store import Lake
from evidence_assets.models import registry
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.registry import model_key
from evidence_assets.systems.kbloom.rows import build_seed_rows
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.system import KBloom
from evidence_assets_tests.models.tiny import tiny_model
from evidence_assets_tests.systems.kbloom.test_system import make_relation

PROFILE = """\
extends: embedded
name: tiny
masked_model: {name: tiny-sample}
harvesting: {n: 8, prompts: 3, collections: [tiny]}
"""
SHARING = ["kbloom_printed", "kbloom_medical", "kbloom_euclidean", "kbloom_corrected", "kbloom_distance"]
SHARING.append("kbloom_rank_normalised")
"""Variants that differ in how they score the candidates of one search."""
OUTPUTS = ("prompts", "candidate_tuples", "triples", "lineage_edges")


class CountingModel:
    """A masked model that counts the queries of searches, and is interrupted after ``limit`` of them."""

    def __init__(self, model: HFMaskedLM) -> None:
        self._model = model
        self.calls = 0
        self.limit = 10**9

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)

    def slot_log_probs(
        self, texts: Sequence[str], slots: Sequence[int], allowed: npt.NDArray[np.intp] | None = None
    ) -> npt.NDArray[np.float32]:
        self.calls += 1
        if self.calls > self.limit:
            raise KeyboardInterrupt
        return self._model.slot_log_probs(texts, slots, allowed)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingModel]:
    """The model of the active profile."""
    counting = CountingModel(tiny_model())
    monkeypatch.setattr(registry, "_load_masked_lm", lambda *_: counting)
    monkeypatch.setattr(prompt_mining, "MAX_LAYOUTS", 40)  # prompts in a tenth of the time
    (tmp_path / "tiny.yaml").write_text(PROFILE)
    monkeypatch.setenv("EVIDENCE_PROFILE", str(tmp_path / "tiny.yaml"))
    return counting


def write_seeds(lake: Lake, relation: Relation) -> None:
    lake.write("knowledge/seeds", relation.id, {"relation_seeds": build_seed_rows(relation)})


def declared(name: str) -> Variant:
    return next(variant for variant in variants_of("kbloom") if variant.name == name)


def relation_stages(variant: Variant) -> list[Stage]:
    """The stages by relation, inputs first."""
    return [stage for stage in build_stages(KBloom(variant)) if stage.partitions == "relations"]


def run(lake: Lake, *variants: Variant, relation: str = "eats") -> dict[str, StageOutput]:
    """Materialize the stages of variants for one relation, each asset once; returns the outputs by asset."""
    outputs: dict[str, StageOutput] = {}
    for stage in (stage for variant in variants for stage in relation_stages(variant)):
        if stage.key not in outputs:
            output = outputs[stage.key] = stage.run(StageContext(lake, stage.table, stage.key, relation))
            assert output.lineage is not None
            tables = {stage.table: output.rows, **output.other_tables, "lineage_edges": output.lineage}
            lake.write(stage.key, relation, tables)
    return outputs


def reused(outputs: dict[str, StageOutput]) -> set[str]:
    return {key for key, output in outputs.items() if output.reused}


def file_contents(lake: Lake) -> dict[str, bytes]:
    """The files of harvests by their path in the lake."""
    paths = [path for table in OUTPUTS for path in (lake.root / table).rglob("*.parquet")]
    return {str(path.relative_to(lake.root)): path.read_bytes() for path in paths}


def test_variants_that_differ_in_scoring_share_one_search(lake: Lake, model: CountingModel) -> None:
    write_seeds(lake, make_relation())
    run(lake, declared("kbloom_printed"))
    n_calls = model.calls
    assert n_calls > 0
    outputs = run(lake, *map(declared, SHARING))
    assert model.calls == n_calls, "the others score the candidates of the first"
    triples = {key.split("/")[1]: output.rows for key, output in outputs.items() if key.endswith("/harvest")}
    assert sorted(triples) == sorted(SHARING)
    by_variant = {name: lake.read("triples", f"knowledge/{name}/harvest").filter(origin="kbloom") for name in SHARING}
    assert len({tuple(rows.sort("rank")["score"]) for rows in by_variant.values()}) == len(SHARING) - 1, (
        "medical is printed"
    )
    run(lake, declared("kbloom_entropy"))
    assert model.calls > n_calls, "another choice of prompts is another search"


def test_equal_assets_have_equal_versions_and_every_search_has_an_owner() -> None:
    versions: dict[str, set[str]] = {}
    names = {variant.key for variant in variants_of("kbloom")}
    for variant in variants_of("kbloom"):
        if variant.method in ("", "kbloom"):
            for stage in relation_stages(variant):
                versions.setdefault(stage.key, set()).add(stage.version)
                assert stage.key.rpartition("/")[0] in names
    assert all(len(of_asset) == 1 for of_asset in versions.values())
    searches = {key for key in versions if key.endswith("/candidates")}
    owners = ["kbloom", "kbloom_entropy", "kbloom_initial", "kbloom_printed", "kbloom_top1"]
    assert sorted(searches) == [f"knowledge/{name}/candidates" for name in owners]


def test_a_changed_setting_of_a_stage_leaves_the_stages_before_it_fresh(lake: Lake, model: CountingModel) -> None:
    write_seeds(lake, make_relation())
    variant = Variant(system="kbloom", family="knowledge", name="own", parameters={"max_occurrences": 9, "n": 6})
    before = {stage.key: stage.version for stage in relation_stages(variant)}
    run(lake, variant)
    scoring = variant.model_copy(update={"parameters": {**variant.parameters, "final": "rank_normalised"}})
    after = {stage.key: stage.version for stage in relation_stages(scoring)}
    assert {key for key in before if after[key] != before[key]} == {"knowledge/own/harvest"}
    n_calls = model.calls
    assert reused(run(lake, scoring)) == set(before) - {"knowledge/own/harvest"} and model.calls == n_calls
    searching = variant.model_copy(update={"parameters": {**variant.parameters, "n": 5}})
    prompts = {key for key in before if "/prompts" in key}
    changed = {stage.key for stage in relation_stages(searching) if stage.version != before[stage.key]}
    assert changed == set(before) - prompts
    assert reused(run(lake, searching)) == prompts


def test_a_changed_seed_harvests_its_relation_and_a_template_only_writes_lineage(
    lake: Lake, model: CountingModel
) -> None:
    variant = declared("kbloom_printed")
    other = make_relation("lives_in")
    for relation in (make_relation(), other):
        write_seeds(lake, relation)
        run(lake, variant, relation=relation.id)
    n_calls = model.calls
    assert reused(run(lake, variant)) == {stage.key for stage in relation_stages(variant)}
    assert model.calls == n_calls, "nothing has changed"
    triples_before = lake.read("triples", "knowledge/kbloom_printed/harvest", "eats")
    write_seeds(lake, replace(make_relation(), template="the diet of <HEAD> is <TAIL>"))
    outputs = run(lake, variant)
    assert "knowledge/kbloom_printed/harvest" not in reused(outputs) and len(reused(outputs)) == 4
    assert model.calls == n_calls, "no prompt or pair depends on the template"
    assert (
        lake.read("triples", "knowledge/kbloom_printed/harvest", "eats")
        .drop("input_hash")
        .equals(triples_before.drop("input_hash"))
    )
    check_lineage(lake)
    write_seeds(lake, make_relation(seeds=4))
    assert not [key for key in reused(run(lake, variant)) if "/prompts" in key]
    assert len(reused(run(lake, variant, relation="lives_in"))) == len(relation_stages(variant))
    check_lineage(lake)


def check_lineage(lake: Lake) -> None:
    """Every row's parents exist, and every triple leads to all seeds of its relation."""
    names = {"model_id": model_key(tiny_model()), "name": "tiny-sample", "revision": tiny_model().revision}
    lake.write("models/masked_lm", "", {"models": [names | {"task": "", "input_hash": ""}]})
    with connect(lake.root, memory=None) as connection:
        for path in lake.files("lineage_edges"):
            assert find_dangling_edges(connection, path) == []
        seeds = lake.read("relation_seeds")
        for triple_id, relation in lake.read("triples").sort("rank").select("triple_id", "relation_id").head(6).rows():
            ids = distinct_ids(trace(connection, triple_id))
            assert ids["seed"] == sorted(seeds.filter(relation_id=relation)["seed_id"])
            assert {"candidate", "prompt", "model"} <= set(ids)


def test_a_kill_between_or_within_stages_leaves_the_same_bytes(tmp_path: Path, model: CountingModel) -> None:
    lakes = [Lake.create(tmp_path / name, question_shards=1, corpus_shards=1) for name in ("whole", "killed")]
    variants = [declared("kbloom_printed"), declared("kbloom_euclidean")]
    for lake in lakes:
        write_seeds(lake, make_relation())
    whole, killed = lakes
    run(whole, *variants)
    n_calls = model.calls
    for limit in range(1, n_calls, max(1, n_calls // 6)):
        model.calls = 0
        model.limit = limit
        with pytest.raises(KeyboardInterrupt):
            run(killed, *variants)
        if limit > n_calls // 2:
            break
    model.limit = 10**9
    assert 0 < len(file_contents(killed)) < len(file_contents(whole))
    run(killed, *variants)
    assert file_contents(killed) == file_contents(whole)


def test_a_harvest_of_an_earlier_release_is_replaced(tmp_path: Path, model: CountingModel) -> None:
    new, old = (Lake.create(tmp_path / name, question_shards=1, corpus_shards=1) for name in ("new", "old"))
    variant = declared("kbloom_printed")
    for lake in (new, old):
        write_seeds(lake, make_relation())
    run(new, variant)
    tables = {}
    for table, asset in (("prompts", "prompts"), ("candidate_tuples", "candidates"), ("triples", "harvest")):
        rows = new.read(table, f"knowledge/kbloom_printed/{asset}", "eats")
        tables[table] = rows.with_columns(input_hash=pl.lit("earlier" if table == "prompts" else None))
    old.write("knowledge/kbloom_printed/harvest", "eats", tables)
    assert not reused(run(old, variant))
    assert file_contents(old) == file_contents(new)
