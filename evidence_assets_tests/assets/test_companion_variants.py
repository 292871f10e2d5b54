"""The opted-in variants of A2Q; ``test_every_table`` tests that each answers."""

from collections import Counter
from dataclasses import replace
from itertools import product

from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.experiment.variants import variants_of
from evidence_assets.systems import find_method


def test_the_full_system_has_every_published_stage() -> None:
    for key, vectors in (("mcqa/a2q_full", "text+numberbatch"), ("graph/a2q_full", "text+graph")):
        full = find_method(key).settings
        assert (full.classifier, full.embedding, full.score) == ("tuned", vectors, "softmax")
        assert (full.passes, full.final_score, full.bridges) == ("each", "attention", "triples")
        assert full.paths and full.options and full.taxonomy
    assert benchmarks()["sample_kgqa"].taxonomy == "sample_skb"


def test_each_penalty_of_a_step_is_swept_with_each_depth_and_the_triples_alone() -> None:
    full = find_method("mcqa/a2q_full").settings
    sweep = [
        find_method(v.key).settings
        for v in variants_of("a2q")
        if "a2q_sweeps" in v.printed.presets and v.family == "mcqa"
    ]
    grid = [replace(full, penalty=penalty, theta=theta) for penalty, theta in product((0.1, 0.2, 0.3), (2, 3, 5))]
    singles = [replace(full, theta_counts="nodes"), replace(full, top_n=5), replace(full, top_n=20)]
    assert Counter(sweep) == Counter(grid + singles)
