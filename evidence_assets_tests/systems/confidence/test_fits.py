"""``models/confidence``: fitted on first halves of graded answers of the lake, and used by later predictions."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from evidence_assets.benchmarks.declared_benchmarks import declarations
from evidence_assets.cli import app
from evidence_assets.experiment.answers.chains import chain_rows
from evidence_assets.experiment.answers.options import OptionAnswerer
from evidence_assets.experiment.answers.predictions import prediction_rows
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.scores.calibration import (
    GradedAnswer,
    calibration_errors,
    fits_without_each_set,
    read_graded_answers,
)
from evidence_assets.experiment.stage import PreviousOutput
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.confidence import RAW_SHARE, Fit, packaged_fits, read_fits
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer, Failure
from evidence_assets_tests.assets.small_worlds import SmallWorld, small_world
from evidence_assets_tests.experiment.test_answers import CountingSolver
from evidence_assets_tests.lake_rows import as_stored, prediction, question
from evidence_assets_tests.lake_rows import evidence as evidence_row

OPTIONS = {"options": ["left", "right"]}
ASSET = "models/confidence/options"


def write_answers(lake: Lake, flipped: str = "") -> None:
    """Two benchmarks of 160 questions; ``share`` says whether an answer is right. ``flipped`` half: graded wrong."""
    rng = random.Random(7)
    for benchmark, start in (("first_set", 0), ("second_set", 1000)):
        questions, predictions = [], []
        for number in range(start, start + 160):
            share = rng.uniform(-1, 1)
            is_right = rng.random() < 1 / (1 + 2.7 ** (-4 * share))
            name = f"q{number:05d}"
            is_flipped = flipped == ("first" if number - start < 80 else "second")
            gold = "A" if is_right is not is_flipped else "B"
            questions.append(question(number, benchmark, gold, question_id=name, **OPTIONS))
            signals = [{"name": "share", "value": share}, {"name": "answered", "value": 1.0}]
            fields = {"question_id": name, "prediction_id": f"p{name}", "signals": signals}
            predictions.append(prediction(number, "A", benchmark, **fields))
        lake.write("questions/mcqa", f"{benchmark}|0", {"questions": as_stored("questions", questions)})
        rows = {"predictions": as_stored("predictions", predictions)}
        lake.write("predictions/mcqa/some", f"{benchmark}|0", rows)


class WeighingSolver(CountingSolver):
    """Prefers A by log odds of 1."""

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        return [Choice("A", ("A",), "answered", weights={"A": 1.0, "B": 0.0}) for _ in tasks]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    """A lake with graded answers of two benchmarks, and their fit."""
    root = tmp_path_factory.mktemp("confidence")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVIDENCE_LAKE", str(root / "world" / "data_lake"))
        declarations.cache_clear()
        with small_world(root / "world", ["name: confidence", "presets: [confidence]"]) as small:
            write_answers(small.lake)
            small.make(ASSET)
            yield small
    declarations.cache_clear()


def stored_fit(world: SmallWorld) -> Fit:
    return read_fits(world.lake)["options", "m"]


def test_the_fit_and_its_reliability_are_in_the_lake(world: SmallWorld) -> None:
    (row,) = world.rows("confidence_fits", ASSET).to_dicts()
    assert (row["family"], row["model_id"], row["fit_id"]) == ("options", "m", stored_fit(world).fit_id)
    assert row["sets"] == [{"name": "first_set", "n": 80}, {"name": "second_set", "n": 80}]
    event = world.instance.get_latest_materialization_event(dg.AssetKey(ASSET.split("/")))
    assert event is not None and event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert metadata["n: m"].value == 160 and set(metadata["weights: m"].value) == {"intercept", "share", "answered"}
    for how in ("in the fit", "left out"):
        assert 0 < metadata[f"calibration error of first_set, {how}: m"].value < 0.2


def test_only_first_halves_are_fitted(world: SmallWorld) -> None:
    fit = stored_fit(world)
    try:
        write_answers(world.lake, flipped="second")
        world.make(ASSET)
        assert stored_fit(world) == fit
        write_answers(world.lake, flipped="first")
        world.make(ASSET)
        assert stored_fit(world).weights["share"] == 0
    finally:
        write_answers(world.lake)
        world.make(ASSET)


def test_a_question_is_in_the_same_half_of_each_subset(tmp_path: Path) -> None:
    """Questions 0 to 9 and, in a subset under other ids, 0 to 5; the subset's own halves would part elsewhere."""
    lake = Lake.create(tmp_path / "lake")
    for benchmark, count, prefix in (("set", 10, "q"), ("set.first6", 6, "a")):
        ids = [f"{prefix}{number:02d}" for number in range(count)]
        questions = [
            question(number, benchmark, "A", question_id=name, source_id=f"s{number}", **OPTIONS)
            for number, name in enumerate(ids)
        ]
        signals = [{"name": "share", "value": 0.5}, {"name": "answered", "value": 1.0}]
        predictions = [
            prediction(number, "A", benchmark, question_id=name, prediction_id=f"p{name}", signals=signals)
            for number, name in enumerate(ids)
        ]
        lake.write("questions/mcqa", f"{benchmark}|0", {"questions": as_stored("questions", questions)})
        lake.write("predictions/mcqa/some", f"{benchmark}|0", {"predictions": as_stored("predictions", predictions)})
    first, second = (
        {answer.question_id for answers in read_graded_answers(lake, half).values() for answer in answers}
        for half in ("first", "second")
    )
    assert first == {*(f"q{n:02d}" for n in range(5)), *(f"a{n:02d}" for n in range(5))}
    assert second == {*(f"q{n:02d}" for n in range(5, 10)), "a05"}


def test_a_left_out_set_is_not_in_its_fit(world: SmallWorld) -> None:
    answers = read_graded_answers(world.lake, "first")["options", "m"]
    without = fits_without_each_set(answers)
    assert {name: list(fit.sets) for name, fit in without.items()} == {
        "first_set": ["second_set"],
        "second_set": ["first_set"],
    }
    errors = calibration_errors(without, read_graded_answers(world.lake, "second")["options", "m"])
    assert errors.keys() == without.keys() and all(error < 0.2 for error in errors.values())


def test_a_benchmark_is_left_out_with_all_its_subsets() -> None:
    answers = [
        GradedAnswer(name, f"{name}{number}", "v", {"share": float(number), "answered": 1.0}, number > 1)
        for name in ("x.sample100", "x.sample200", "y")
        for number in range(4)
    ]
    assert {name: list(fit.sets) for name, fit in fits_without_each_set(answers).items()} == {
        "x.sample100": ["y"],
        "x.sample200": ["y"],
        "y": ["x.sample100", "x.sample200"],
    }
    assert fits_without_each_set(answers[:8]) == {}, "no other benchmark"


def test_predictions_use_the_fit_of_their_model(world: SmallWorld) -> None:
    rows = as_stored("evidence", [evidence_row(1, 1, "fact", question_id="q1", option="A")])
    questions = build_questions(as_stored("questions", [question(1, **OPTIONS)]))
    solver = WeighingSolver()

    def predict(model_id: str, previous: PreviousOutput | None = None) -> tuple[dict[str, object], int, PreviousOutput]:
        solver.model_id = model_id  # type: ignore[misc]
        answerer = OptionAnswerer(solver, rows, chains)
        output = prediction_rows(answerer, "s", questions, previous, read_fits(world.lake))
        table, lineage = as_stored("predictions", output.rows), as_stored("lineage_edges", output.lineage)
        assert output.reused is not None
        return table.row(0, named=True), output.reused, PreviousOutput(table, lineage)

    chains = as_stored("chains", chain_rows(solver, "s", questions, rows).rows)
    other, _, _ = predict("another model")
    assert (other["confidence"], other["confidence_basis"]) == (0.731059, RAW_SHARE) and other["signals"]
    row, _, stored = predict("m")
    signals = {each["name"]: each["value"] for each in row["signals"]}  # type: ignore[attr-defined]
    assert row["confidence"] == stored_fit(world).probability(signals) != other["confidence"]
    assert row["confidence_basis"] == stored_fit(world).basis
    assert predict("m", stored)[1] == 1, "an unchanged fit reuses the row"
    try:
        write_answers(world.lake, flipped="first")
        world.make(ASSET)
        assert predict("m", stored)[1] == 0, "another fit gives another confidence"
    finally:
        write_answers(world.lake)
        world.make(ASSET)


def test_a_lake_without_a_fit_uses_the_packaged_ones(lake: Lake) -> None:
    assert read_fits(lake) == packaged_fits()


@pytest.mark.slow
def test_the_command_fits_and_says_what(world: SmallWorld, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(tmp_path))
        result = CliRunner().invoke(app, ["train", "confidence"])
    assert result.exit_code == 0, result.output
    assert "first_set, second_set" in result.output and "evidence run BENCHMARK" in result.output
