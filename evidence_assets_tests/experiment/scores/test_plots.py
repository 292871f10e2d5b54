"""Pictures of scores: drawn from the lake, the same bytes for the same scores, others for others."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from evidence_assets.experiment.scores.plots import MAIN, draw, judged, points
from evidence_assets.lake import connect
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import evidence


def score(
    metric: str, value: float | None, benchmark: str = "quiz", selector: str = "s", **more: Any
) -> dict[str, Any]:
    return {
        "score_id": f"{benchmark}{selector}{metric}",
        "scope_kind": "benchmark",
        "scope_id": benchmark,
        "selector": selector,
        "reasoner": "r",
        "model_id": "m",
        "metric": metric,
        "value": value,
        "low": 0.2,
        "high": 0.9,
        "n": 10,
        "published": None,
        "published_source": None,
    } | more


def lake_with(root: Path, scores: list[dict[str, Any]], rows: list[dict[str, Any]] | None = None) -> Lake:
    lake = Lake.create(root / "data_lake")
    for variant in sorted({s["selector"] for s in scores}):
        for benchmark in sorted({s["scope_id"] for s in scores}):
            own = [s for s in scores if (s["selector"], s["scope_id"]) == (variant, benchmark)]
            lake.write(f"scores/mcqa/{variant}", benchmark, {"scores": own})
    if rows:
        lake.write("evidence/mcqa/s", "quiz|0", {"evidence": rows})
    return lake


def drawn(lake: Lake) -> dict[str, bytes]:
    with connect(lake.root) as connection:
        return draw(connection)


def test_a_picture_a_question_and_none_without_rows(tmp_path: Path) -> None:
    assert drawn(Lake.create(tmp_path / "empty")) == {}
    only = lake_with(tmp_path / "a", [score("accuracy", 0.5), score("evidence_recall", None)])
    assert set(drawn(only)) == {"accuracy.png"}
    rows = [evidence(1, 1, "x" * 30), evidence(1, 2, "x" * 10), evidence(2, 1, "x" * 20)]
    curve = [score(f"evidence_recall@{k}", k / 10) for k in (1, 5)]
    whole = lake_with(tmp_path / "b", [score("accuracy", 0.5), score("evidence_recall", 0.7), *curve], rows)
    images = drawn(whole)
    assert set(images) == {"accuracy.png", "evidence_recall.png", "evidence_recall_curves.png", "cost.png"}
    for image in images.values():
        pixels = imread(io.BytesIO(image), format="png")
        assert pixels.shape[0] > 50 and pixels.std() > 0.01
        assert len(image) < 100_000
    with connect(whole.root) as connection:
        assert [p.cost for p in points(connection, ["accuracy"])] == [pytest.approx(30.0)]


def test_equal_scores_give_equal_bytes_and_other_scores_others(tmp_path: Path) -> None:
    first = drawn(lake_with(tmp_path / "a", [score("accuracy", 0.5)]))
    assert drawn(lake_with(tmp_path / "b", [score("accuracy", 0.5)])) == first
    assert drawn(lake_with(tmp_path / "c", [score("accuracy", 0.6)])) != first
    printed = drawn(lake_with(tmp_path / "d", [score("accuracy", 0.5, published=0.8)]))
    assert printed != first


def test_a_search_is_judged_by_its_first_hit(tmp_path: Path) -> None:
    scores = [score("accuracy", 0.1, "skb"), score("hit@1", 0.4, "skb"), score("mrr", 0.6, "skb")]
    scores += [score("accuracy", 0.5), score("hit@1", 0.9)]  # of a graph question its triples are hits, not its answer
    with connect(lake_with(tmp_path, scores).root) as connection:
        found = judged(points(connection, MAIN))
    assert [(p.benchmark, p.value) for p in found] == [("quiz", 0.5), ("skb", 0.4)]


def test_names_with_dollar_signs_are_drawn(tmp_path: Path) -> None:
    rows = [score("accuracy", 0.5, "quiz", "a$b$c_")]
    lake = Lake.create(tmp_path / "data_lake")
    lake.write("scores/mcqa/x", "quiz", {"scores": rows})
    assert "accuracy.png" in drawn(lake)


def test_curves_follow_the_recall_at_each_depth(tmp_path: Path) -> None:
    flat = [score(f"evidence_recall@{k}", 0.5) for k in (1, 5, 10)]
    rising = [score(f"evidence_recall@{k}", k / 20) for k in (1, 5, 10)]
    drawn_flat, drawn_rising = (drawn(lake_with(tmp_path / n, s)) for n, s in (("a", flat), ("b", rising)))
    assert set(drawn_flat) == {"evidence_recall_curves.png"}
    assert drawn_flat != drawn_rising


def test_harvests_are_drawn_by_collection_each_variant_by_its_own_name(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "data_lake")
    rows = [
        score("precision@50", value, "biomedical", selector, scope_kind="collection", reasoner="")
        for selector, value in (("kbloom", 0.7), ("bertnet", 0.2))
    ]
    lake.write("scores/knowledge/kbloom", "", {"scores": rows})
    with connect(lake.root) as connection:
        found = points(connection, ["precision@50"], "collection")
        assert [(p.benchmark, p.variant, p.value) for p in found] == [
            ("biomedical", "bertnet", 0.2),
            ("biomedical", "kbloom", 0.7),
        ]
        assert set(draw(connection)) == {"harvest.png"}
