"""Plots of scores: deterministic PNG bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evidence_assets.experiment.scores.plots import draw
from evidence_assets.lake import connect
from evidence_assets.lake.store import Lake


def score(metric: str, value: float | None, benchmark: str = "quiz", **fields: Any) -> dict[str, Any]:
    row = {"score_id": f"{benchmark}{metric}", "scope_kind": "benchmark", "scope_id": benchmark, "selector": "s"}
    row |= {"reasoner": "r", "model_id": "m", "metric": metric, "value": value, "low": 0.2, "high": 0.9, "n": 10}
    return row | {"published": None, "published_source": None} | fields


def draw_scores(root: Path, *scores: dict[str, Any]) -> dict[str, bytes]:
    lake = Lake.create(root / "data_lake")
    if scores:
        lake.write("scores/mcqa/x", "quiz", {"scores": list(scores)})
    with connect(lake.root) as connection:
        return draw(connection)


def test_each_plot_needs_scores_for_it(tmp_path: Path) -> None:
    confident = [score(f"accuracy_surest_{share}", 1 - share / 200) for share in (25, 50)]
    assert draw_scores(tmp_path / "a") == {}
    assert set(draw_scores(tmp_path / "b", score("accuracy", 0.5), score("coverage", None))) == {"accuracy.png"}
    assert set(draw_scores(tmp_path / "c", score("accuracy", 0.5, "a$b$c_"), *confident)) == {
        "accuracy.png",
        "confidence.png",
    }


def test_equal_scores_give_equal_bytes(tmp_path: Path) -> None:
    first, same, other, with_published = (
        draw_scores(tmp_path / name, score("accuracy", value, published=published))
        for name, value, published in (("a", 0.5, None), ("b", 0.5, None), ("c", 0.6, None), ("d", 0.5, 0.8))
    )
    assert same == first and first not in (other, with_published)


def test_a_search_is_plotted_by_its_first_hit(tmp_path: Path) -> None:
    search = [score("hit@1", 0.4), score("mrr", 0.6)]
    plots = draw_scores(tmp_path / "a", *search, score("accuracy", 0.1))
    assert plots == draw_scores(tmp_path / "b", *search) != {}
