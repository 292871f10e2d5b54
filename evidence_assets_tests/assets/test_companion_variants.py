"""The opted-in variants of A2Q; ``test_every_table`` tests that each answers."""

from __future__ import annotations

from collections import Counter
from itertools import product

from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.experiment.variants import variants_of
from evidence_assets.systems import load_settings
from evidence_assets.systems.a2q.selection import A2QSettings


def test_each_ablation_leaves_out_its_stage() -> None:
    for family in ("mcqa", "graph"):
        full, no_path = (load_settings(f"{family}/{name}") for name in ("a2q", "a2q_no_path"))
        assert full.paths and not no_path.paths
        methods = {v.name: v for v in variants_of("a2q") if v.family == family}
        ablations = {name: methods[name] for name in ("a2q", "a2q_no_classifier", "a2q_no_taxonomy")}
        assert len({(v.method, str(v.parameters), str(v.models)) for v in ablations.values()}) == 3
    assert benchmarks()["sample_kgqa"].taxonomy == "sample_skb"


def test_each_penalty_of_a_step_is_swept_with_each_depth_and_the_triples_alone() -> None:
    sweep = [load_settings(v.key) for v in variants_of("a2q") if "a2q_sweeps" in v.presets]
    grid = [A2QSettings(penalty=penalty, theta=theta) for penalty, theta in product((0.1, 0.2, 0.3), (2, 3, 5))]
    singles = [A2QSettings(theta_counts="nodes"), A2QSettings(top_n=5), A2QSettings(top_n=20)]
    assert Counter(sweep) == Counter(grid + singles)
