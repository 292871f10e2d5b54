"""The opted-in variants of A2Q and 4StepFocus: what each changes; and the tuned classifier as an asset of a small
world.

That each is answered and scored by real assets is held by the tables that are printed of them: ``test_every_table``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from evidence_assets.benchmarks.declared import benchmarks, declared
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems import settings_of
from evidence_assets.systems.a2q.classifier_tuning import ClassifierSettings, classifier_stages
from evidence_assets.systems.a2q.selection import A2QSettings
from evidence_assets_tests.assets.small_worlds import SmallWorld, failures, small_world
from evidence_assets_tests.models.test_rerankers import make_cross_encoder


def split(world: SmallWorld, before: str, after: str) -> None:
    file = world.lake.raw / "sample" / "benchmarks" / "sample_kgqa.jsonl"
    file.write_text(file.read_text().replace(f'"split": "{before}"', f'"split": "{after}"'))


@pytest.fixture
def opted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    """Half of the questions answered, of the other half a tuned classifier; it is a tiny cross-encoder."""
    tiny = make_cross_encoder(tmp_path_factory.mktemp("reranker"))
    lines = ["name: small", "presets: [a2q_main]"]
    with pytest.MonkeyPatch.context() as patch, small_world(tmp_path_factory.mktemp("opted"), lines, patch) as world:
        patch.setattr("evidence_assets.systems.a2q.classifier_tuning.EMBEDDED", str(tiny))
        world.make("raw/sample")
        split(world, "dev", "test")
        world.make("questions/graph", partition="sample_kgqa|0")
        world.make("knowledge/sample/triples", "knowledge/sample/nodes", "knowledge/sample/edges")
        parts = ("nodes", "edges", "csr", "passages", "passage_index")
        world.make("knowledge/sample/passages", *(f"knowledge/sample_skb/{part}" for part in parts))
        split(world, "test", "dev")
        world.make("models/relevance_classifier")
        world.make("evidence/graph/a2q", "evidence/graph/a2q_tuned", partition="sample_kgqa|0")
        yield world


@pytest.mark.long
def test_the_tuned_classifier_is_another_model_and_learns_from_the_other_half(opted: SmallWorld) -> None:
    row = opted.rows("models", "models/relevance_classifier").to_dicts()[0]
    assert (row["task"], row["sentences"] > 0) == ("relevance classifier", True)
    before, after = (
        opted.rows("evidence", f"evidence/graph/{name}").sort("question_id", "source_id")["why"].to_list()
        for name in ("a2q", "a2q_tuned")
    )
    assert before != after, "each triple has another grade"
    assert declared()["sample_kgqa"].split == "test"
    variant = next(v for v in variants_of("a2q") if v.method == "tuned_classifier")
    with pytest.raises(BadInput, match="is the one reported: tune on another"):
        classifier_stages(variant, ClassifierSettings("sample_kgqa", split="test"))
    with pytest.raises(BadInput, match="no declared benchmark with a graph"):
        classifier_stages(variant, ClassifierSettings("sample_mcqa"))
    split(opted, "dev", "other")
    refused = opted.make("models/relevance_classifier", fails=True)
    assert "holds an answer to tune on" in failures(refused)


def test_each_ablation_leaves_out_its_stage() -> None:
    for family in ("mcqa", "graph"):
        whole, no_path = (settings_of(f"{family}/{name}") for name in ("a2q", "a2q_no_path"))
        assert whole.paths and not no_path.paths
        methods = {v.name: v for v in variants_of("a2q") if v.family == family}
        stated = {name: methods[name] for name in ("a2q", "a2q_no_classifier", "a2q_no_taxonomy")}
        assert len({(v.method, str(v.parameters), str(v.models)) for v in stated.values()}) == 3
    assert benchmarks()["sample_kgqa"].taxonomy == "sample_skb"


def test_each_penalty_of_a_step_is_swept_with_each_depth_and_the_triples_alone() -> None:
    swept = [settings_of(v.place) for v in variants_of("a2q") if "a2q_sweeps" in v.presets]
    grid = [A2QSettings(penalty=penalty, theta=theta) for penalty, theta in product((0.1, 0.2, 0.3), (2, 3, 5))]
    alone = [A2QSettings(theta_counts="nodes"), A2QSettings(top_n=5), A2QSettings(top_n=20)]
    assert Counter(swept) == Counter(grid + alone)
