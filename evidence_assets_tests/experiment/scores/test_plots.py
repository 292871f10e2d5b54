"""Pictures of scores: drawn from the lake, the same bytes for the same scores, others for others."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from matplotlib.image import imread

from evidence_assets.experiment.scores.plots import draw, main_points, points
from evidence_assets.lake import connect
from evidence_assets.lake.store import Lake


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


def lake_with(root: Path, *scores: dict[str, Any]) -> Lake:
    lake = Lake.create(root / "data_lake")
    lake.write("scores/mcqa/x", "quiz", {"scores": list(scores)})
    return lake


def drawn(lake: Lake) -> dict[str, bytes]:
    with connect(lake.root) as connection:
        return draw(connection)


def test_each_picture_is_drawn_where_there_are_rows_for_it(tmp_path: Path) -> None:
    assert drawn(Lake.create(tmp_path / "empty")) == {}
    surest = [score(f"accuracy_surest_{share}", 1 - share / 200) for share in (25, 50)]
    images = drawn(lake_with(tmp_path / "b", score("accuracy", 0.5), score("coverage", None), *surest))
    assert set(images) == {"accuracy.png", "surest_answers.png"}
    for image in images.values():
        pixels = imread(io.BytesIO(image), format="png")
        assert pixels.shape[0] > 50 and pixels.std() > 0.01


def test_equal_scores_give_equal_bytes_and_other_scores_others(tmp_path: Path) -> None:
    first, again, other, printed = (
        drawn(lake_with(tmp_path / name, score("accuracy", value, published=published)))
        for name, value, published in (("a", 0.5, None), ("b", 0.5, None), ("c", 0.6, None), ("d", 0.5, 0.8))
    )
    assert again == first
    assert first not in (other, printed)


def test_a_search_is_judged_by_its_first_hit(tmp_path: Path) -> None:
    scores = [score("accuracy", 0.1, "skb"), score("hit@1", 0.4, "skb"), score("mrr", 0.6, "skb")]
    scores += [score("accuracy", 0.5), score("hit@1", 0.9)]  # of a graph question its triples are hits, not its answer
    with connect(lake_with(tmp_path, *scores).root) as connection:
        found = main_points(connection)
    assert [(p.benchmark, p.value) for p in found] == [("quiz", 0.5), ("skb", 0.4)]


def test_names_with_dollar_signs_are_drawn(tmp_path: Path) -> None:
    assert "accuracy.png" in drawn(lake_with(tmp_path, score("accuracy", 0.5, "a$b$c_")))


def test_harvests_are_drawn_by_collection_each_variant_by_its_own_name(tmp_path: Path) -> None:
    rows = [
        score("precision@50", value, "biomedical", selector, scope_kind="collection", reasoner="")
        for selector, value in (("kbloom", 0.7), ("bertnet", 0.2))
    ]
    with connect(lake_with(tmp_path, *rows).root) as connection:
        found = points(connection, ["precision@50"])
        assert [(p.variant, p.value) for p in found] == [("bertnet", 0.2), ("kbloom", 0.7)]
        assert set(draw(connection)) == {"harvest.png"}
