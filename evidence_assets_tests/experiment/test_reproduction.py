"""Printed cells: all counted, filled by scores alone, and never left empty without a reason."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from evidence_assets import profiles, systems
from evidence_assets.benchmarks.declared import Benchmark, declared
from evidence_assets.experiment import derived_figures, reproduction
from evidence_assets.experiment.derived_figures import Ours, differences
from evidence_assets.experiment.reproduction import Candidate, PrintedTable, candidates, scored
from evidence_assets.experiment.scores import published
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.experiment.scores.published_figures import PrintedAs
from evidence_assets.experiment.scores.scoring import metric_rows
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.store import Lake

SERVED = "Qwen/Qwen2.5-72B-Instruct-AWQ"
TINY = [
    ("quiz", "clever", "full", "qwen2.5-72b", "accuracy", "80", "percent", "true"),
    ("quiz", "clever", "full", "gpt-4", "accuracy", "90", "percent", "true"),
    ("quiz", "clever", "full", "qwen2.5-72b", "minutes", "3", "minutes", "true"),
    ("quiz", "clever", "full", "qwen2.5-72b", "accuracy", "12", "count", "true"),
    ("quiz", "clever", "full", "qwen2.5-72b", "style", "0.5", "fraction", "true"),
    ("quiz", "clever", "bare", "qwen2.5-72b", "accuracy", "70", "percent", "true"),
    ("quiz.first9", "clever", "full", "qwen2.5-72b", "accuracy", "79", "percent", "true"),
    ("exam", "clever", "full", "qwen2.5-72b", "accuracy", "78", "percent", "true"),
    ("far", "clever", "full", "qwen2.5-72b", "accuracy", "77", "percent", "true"),
    ("claims", "clever", "full", "qwen2.5-72b", "accuracy", "76", "percent", "true"),
    ("", "clever", "run_1", "qwen2.5-72b", "accuracy", "75", "percent", "true"),
    ("quiz", "other", "", "qwen2.5-72b", "accuracy", "60", "percent", "false"),
    ("quiz", "own", "", "qwen2.5-72b", "accuracy", "60", "percent", "true"),
]
REASONS = [
    "",
    "The profile embedded names no model",
    "Printed are a count or a time",
    "Printed are a count",
    "The metric is not computed",
    "No variant of the system is printed",
    "The subset of the benchmark is not declared",
    "The benchmark is not declared.",
    "The benchmark is not declared for the profile embedded",
    "The variant cannot answer the benchmark",
    "No benchmark is named",
    "No variant is printed as the system of others",
    "No variant says that it is printed as the document's own",
]
VARIANT = Variant(system="s", family="mcqa", name="clever_published", published=(PrintedAs("clever", "full"),))
BENCHMARKS = {
    "quiz": Benchmark(name="quiz", task="mcqa", corpus="wikipedia"),
    "far": Benchmark(name="far", task="mcqa", profiles=("paper",)),
    "claims": Benchmark(name="claims", task="verification"),
}


def forget() -> None:
    for kept in (published.figures, published.by_key, published.models_printed, published.scopes_printed):
        kept.cache_clear()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Candidate]:
    """A dozen figures in place of the printed ones, and the only candidate that there is for them."""
    file = tmp_path / "results.csv"
    with file.open("w", newline="") as opened:
        lines = [
            ("thesis", "1.1", *b.partition(".")[::2], s, v, m, metric, "", value, "", scale, "false", own, "")
            for b, s, v, m, metric, value, scale, own in TINY
        ]
        csv.writer(opened).writerows([published.COLUMNS, *lines])
    monkeypatch.setattr(published, "FILE", file)
    monkeypatch.delenv(profiles.PROFILE_VARIABLE, raising=False)
    forget()
    yield Candidate(VARIANT, BENCHMARKS["quiz"], SERVED, reproduction.metrics_of(VARIANT, BENCHMARKS["quiz"]))
    forget()


def test_each_figure_is_filled_by_the_join_of_scores_or_says_what_is_missing(tiny: Candidate) -> None:
    (table,) = reproduction.printed_tables([tiny], [VARIANT], BENCHMARKS, {})
    assert (table.name, len(table.cells), len(table.fillable), len(table.filled)) == ("thesis-1.1", len(TINY), 1, 0)
    for cell, reason in zip(table.cells, REASONS, strict=True):
        assert cell.reason.startswith(reason) and bool(cell.reason) == bool(reason), cell.figure
    assert sum(lacking.total() for lacking in table.reasons.values()) == len(TINY) - 1
    assert table.runs == {"quiz": ["clever_published"]} and table.models == [SERVED]


def test_a_cell_is_filled_once_the_lake_holds_its_score(tiny: Candidate, tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    metrics = {"accuracy": accuracy([True, True, True, False])}
    rows = metric_rows("quiz", "s", "r", SERVED, metrics, VARIANT.published)
    lake.write("scores/mcqa/clever_published", "quiz", {"scores": rows})
    with connect(lake.root) as connection:
        ours = scored(connection, [VARIANT])
    (table,) = reproduction.printed_tables([], [VARIANT], BENCHMARKS, ours)
    assert table.filled == table.fillable == table.cells[:1]
    (found,) = table.cells[0].ours
    assert (found.variant, found.value, found.n) == ("clever_published", 0.75, 4)
    assert found.low is not None and found.high is not None and found.low < 0.8 < found.high


@pytest.fixture(scope="module")
def as_published() -> Iterator[list[PrintedTable]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(profiles.PROFILE_VARIABLE, "paper")
        own = [b for b in declared().values() if b.runs_in()]
        able = [c for v in variants() if v.published for c in candidates(v, systems.load(v.system), own)]
        yield reproduction.printed_tables(able, variants(), declared(), {})


def test_all_figures_of_the_papers_are_counted_and_each_has_candidates_or_a_reason(
    as_published: list[PrintedTable],
) -> None:
    assert sum(len(table.cells) for table in as_published) == len(published.figures())
    assert len({table.name for table in as_published}) == len(as_published)
    for table in as_published:
        assert len(table.fillable) + sum(c.total() for c in table.reasons.values()) == len(table.cells)
        for cell in table.cells:
            assert bool(cell.candidates) != bool(cell.reason), cell.figure
            total = derived_figures.sum_of(cell.figure)
            keys = {cell.figure.key, *(total.of if total else ())}
            assert all(keys & candidate.beside() for candidate in cell.candidates)


def test_tables_that_are_wholly_declared_can_be_filled_wholly(as_published: list[PrintedTable]) -> None:
    state = {table.name: (len(table.cells), len(table.fillable)) for table in as_published}
    for name in ("thesis-3.5", "thesis-6.4", "thesis-7.7"):
        assert state[name][0] == state[name][1] > 0, name
    assert state["thesis-7.8"][0] == state["thesis-7.8"][1] > 0, "times of steps"


def test_differences_of_model_part_and_questions_are_told() -> None:
    figure = next(f for f in published.figures() if f.table == "Fig 3.4" and f.variant == "k=3")
    score = Ours("ucret_k3", "pubhealthtab", SERVED, "accuracy", 0.8, 0.7, 0.9, 194)
    whole, drawn = declared()["pubhealthtab"], declared()["pubhealthtab.sample100-seed0"]
    said = differences(figure, score, whole)
    assert said == [f"model {SERVED}, printed qwen2.5-72b", "answered whole, printed for sample100"]
    same = replace(figure, model="qwen2.5-72b-instruct-awq")
    (said_of_seed,) = differences(same, replace(score, benchmark=drawn.name, n=100), drawn)
    assert said_of_seed.startswith("drawn with seed 0")
    assert differences(replace(same, part=""), score, whole) == []
    assert differences(replace(same, part=""), replace(score, differs="T5 is not ours"), whole) == ["T5 is not ours"]
    assert differences(replace(same, part=""), replace(score, n=7), whole) == ["7 of 194 questions"]


def test_what_answers_stand_on_is_told_with_its_date() -> None:
    figure = next(
        f for f in published.figures() if f.table == "7.3" and f.system == "uscrake" and f.benchmark == "obqa"
    )
    said = differences(figure, Ours("u", "obqa", SERVED, "accuracy", 0.8, 0.7, 0.9, 500), declared()["obqa"])
    assert any("wikipedia (snapshot of 1 November 2023" in part for part in said)
    assert any("conceptnet (all English assertions of 5.7" in part for part in said)


@pytest.mark.parametrize(("profile", "fillable"), [("paper", 1114), ("companions", 760)])
def test_no_cell_that_could_be_filled_is_lost(profile: str, fillable: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant that no longer says what it is printed as, or a part that is no longer declared, shows here."""
    monkeypatch.setenv(profiles.PROFILE_VARIABLE, profile)
    own = [b for b in declared().values() if b.runs_in()]
    able = [c for v in variants() if v.published for c in candidates(v, systems.load(v.system), own)]
    assert sum(len(t.fillable) for t in reproduction.printed_tables(able, variants(), declared(), {})) == fillable
