"""Printed cells: all are counted, only scores fill them, and empty ones have a reason."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.experiment.scores.metrics import accuracy, without_interval
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.cells import (
    Cell,
    MeasuredScore,
    add_scores,
    build_cells,
    cell_rows,
    describe_differences,
    find_cell_sources,
    load_scores,
)
from evidence_assets.reproduction.published_figures import PublishedName, figures

MODEL_ID = "Qwen/Qwen2.5-72B-Instruct-AWQ"
SUM, COUNT = "this difference or average is computed from", "is a count or a time"
OTHER, NAMELESS, MODEL = (
    "No variant implements the printed system",
    "The document names no benchmark",
    "does not have the printed model",
)
STATES = {
    "paper": {"": 1114, MODEL: 109, COUNT: 10, NAMELESS: 8, SUM: 5, OTHER: 2},
    "companions": {"": 760, MODEL: 321, SUM: 105, COUNT: 52, NAMELESS: 8, OTHER: 2},
    "embedded": {
        "is not declared for the profile embedded.": 567,
        OTHER: 262,
        "The benchmark is not declared.": 210,
        SUM: 125,
        COUNT: 76,
        NAMELESS: 8,
    },
}
"""Number of cells by reason; fillable cells have none."""


@pytest.fixture(scope="module")
def as_published() -> Iterator[list[Cell]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(profiles.PROFILE_VARIABLE, "paper")
        yield build_cells(find_cell_sources())


@pytest.mark.parametrize("profile", STATES)
def test_no_cell_that_could_be_filled_is_lost(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails when a variant loses its printed name or a benchmark part its declaration."""
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
    reasons = Counter(cell.reason for cell in build_cells(find_cell_sources()))
    assert sorted(reasons.values()) == sorted(STATES[profile].values())
    for part, count in STATES[profile].items():
        assert count in [n for reason, n in reasons.items() if part in reason and bool(part) == bool(reason)], part


def test_printed_differences_and_averages_follow_from_printed_figures() -> None:
    checked: Counter[str] = Counter()
    usable = sorted(figures(), key=lambda f: (f.is_erratum, f.table.startswith(("text", "Fig"))))
    values = {figure.key: figure.fraction for figure in reversed(usable)}
    for figure in figures():
        if figure.follows and figure.ours and not ("check:" in figure.note or "erratum:" in figure.note):
            # Two roundings to 0.01 %, of which one is the mean's own.
            step = 0.0151 if figure.scale != "count" else 0.5
            value = figure.value_from(values)
            assert value is not None and 100 * value == pytest.approx(100 * figure.fraction, abs=step), figure
            checked[figure.follows] += 1
    assert checked["mean"] >= 10 and checked["difference"] > 80 and checked["gain"] >= 2


def test_cells_have_sources_or_a_reason_and_are_rows_of_a_table(as_published: list[Cell]) -> None:
    assert [cell.figure for cell in as_published] == list(figures())
    assert all(bool(cell.sources) != bool(cell.reason) == bool(cell.lacks) for cell in as_published)
    rows = prepare_rows("published_figures", cell_rows(as_published))
    assert rows.num_rows == 1248 and rows.column("reason").null_count == 1114


def filled(lake: Lake, cells: list[Cell]) -> list[Cell]:
    with connect(lake.root) as connection:
        return [cell for cell in add_scores(cells, load_scores(connection)) if cell.filled]


def test_a_cell_is_filled_once_the_lake_holds_its_score(lake: Lake, as_published: list[Cell]) -> None:
    metrics = {"accuracy": accuracy([True, True, True, False])}
    rows = metric_rows("obqa", "s", "r", MODEL_ID, metrics, [PublishedName("uscrake", "full")])
    lake.write("scores/mcqa/uscrake_published", "obqa", {"scores": rows})
    direct, derived = sorted(filled(lake, as_published)[:2], key=lambda cell: cell.figure.metric)
    assert direct.figure.key == ("obqa", "uscrake", "full", "qwen2.5-72b", "accuracy", "")
    (score,) = direct.scores
    assert (score.variant, score.value, score.n) == ("uscrake_published", 0.75, 4)
    assert score.low is not None and score.high is not None and score.low < 0.75 < score.high
    assert derived.figure.metric == "accuracy_delta_vs_best_baseline" and derived.scores[0].low is None


def test_the_score_of_another_model_fills_no_cell(lake: Lake, as_published: list[Cell]) -> None:
    metrics = {"accuracy": accuracy([True])}
    rows = metric_rows("scitab", "s", "r", "some-7b", metrics, [PublishedName("ucret", "full", "qwen2.5-72b")])
    lake.write("scores/table/ucret_published", "scitab", {"scores": rows})
    assert rows[0]["published"] and not filled(lake, as_published)


def test_selectors_separate_a_harvest_its_baseline_and_recorded_answers(lake: Lake, as_published: list[Cell]) -> None:
    for selector, system, value in (("kbloom", "kbloom", 9), ("bertnet@x", "bertnet", 7)):
        names = [PublishedName(system, "multi_prompts")]
        rows = metric_rows(
            "conceptnet", selector, "", "roberta-large", {"tuples": without_interval(value, 9)}, names, "collection"
        )
        lake.write(f"scores/knowledge/kbloom_printed{'_judged' * (system == 'kbloom')}", "", {"scores": rows})
    rows = metric_rows("scitab", "tart", "recorded", "gpt-4", {"accuracy": accuracy([True])}, [PublishedName("tart")])
    lake.write("scores/table/recorded", "scitab", {"scores": rows})
    scores = {
        cell.figure.key[:5]: [(score.variant, score.value) for score in cell.scores]
        for cell in filled(lake, as_published)
    }
    assert scores["conceptnet", "kbloom", "multi_prompts", "roberta-large", "tuples"] == [("kbloom_printed", 9)]
    assert scores["conceptnet", "bertnet", "multi_prompts", "roberta-large", "tuples"] == [("kbloom_printed", 7)]
    assert scores["scitab", "tart", "", "gpt-4", "accuracy"] == [("recorded", 1)]


def test_differences_in_model_part_and_questions_are_described() -> None:
    figure = next(f for f in figures() if f.table == "Fig 3.4" and f.variant == "k=3")
    score = MeasuredScore("ucret_k3", "pubhealthtab", MODEL_ID, 0.8, 0.7, 0.9, 194)
    differences = describe_differences(figure, score)
    assert differences == [
        f"model {MODEL_ID}, printed qwen2.5-72b",
        "scored on the whole benchmark, printed for sample100",
    ]
    same = replace(figure, model="qwen2.5-72b-instruct-awq")
    (seed_difference,) = describe_differences(same, replace(score, benchmark="pubhealthtab.sample100-seed0", n=100))
    assert seed_difference.startswith("sampled with seed 0")
    assert describe_differences(replace(same, part=""), score) == []
    assert describe_differences(replace(same, part=""), replace(score, difference_note="T5 is not ours")) == [
        "T5 is not ours"
    ]
    assert describe_differences(replace(same, part=""), replace(score, n=7)) == ["7 of 194 questions"]


def test_a_harvest_fills_no_metric_whose_model_the_profile_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "unrated.yaml"
    profile.write_text("extends: paper\nname: unrated\nharvesting: {likelihood: null}\n")
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, str(profile))
    cells = build_cells(find_cell_sources())
    assert all(cell.reason for cell in cells if cell.figure.metric.startswith("bartscore"))
    assert any(not cell.reason for cell in cells if cell.figure.metric == "tuples")
