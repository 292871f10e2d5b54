"""A reader is trained on questions that its benchmark does not test, and refused on questions that it has seen."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from evidence_assets import systems
from evidence_assets.benchmarks.declared_benchmarks import Benchmark, declarations
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.cli import app
from evidence_assets.experiment.evidence.selection import NoEvidence
from evidence_assets.experiment.methods import is_answered_by_model
from evidence_assets.experiment.question_rows import hide_gold
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import variants_of
from evidence_assets.extractive.options import ExtractiveSolver
from evidence_assets.lake import connect
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.lineage import Node, trace
from evidence_assets.lake.store import Lake
from evidence_assets.models.reader.network import EncodedInput, OptionInput
from evidence_assets.models.reader.training import TrainedReader
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems.reader import READER_ASSET
from evidence_assets.systems.reader.system import ReaderSolver
from evidence_assets.systems.reader.training import (
    build_training_questions,
    extractive_weights,
    question_keys,
    read_training_questions,
    refuse_seen_questions,
    training_rows,
)
from evidence_assets_tests.assets.small_worlds import SmallWorld, failures, small_world
from evidence_assets_tests.models.tiny import make_encoder
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.systems.small_models import WordEncoder

THINGS = ("aspirin", "ibuprofen", "insulin", "glucose", "the patient", "fever")
TABLES = ("evidence", "chains", "predictions", "citations", "counterfactuals")


def question(number: int, split: str, gold: str = "A") -> dict[str, object]:
    options = [THINGS[number % 6], THINGS[(number + 1) % 6]]
    text = f"Question {number}: what may treat pain {number // 6}?"
    return {"source_id": f"{split}{number}", "split": split, "text": text, "options": options, "gold": gold}


QUESTIONS = [question(n, "train", "AB"[n % 2]) for n in range(60)] + [question(n, "test") for n in range(60, 64)]
DECLARED = """\
type: evidence_assets.assets.corpus.Corpus
attributes: {name: mine, folder: mine/articles}
---
type: evidence_assets.assets.benchmark.Benchmark
attributes: {name: mine, task: mcqa, path: mine/questions.jsonl, corpus: mine}
"""


def write_questions(lake: Path, questions: list[dict[str, object]]) -> None:
    file = lake / "raw" / "mine" / "questions.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in questions), encoding="utf-8")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    """A lake with a user's benchmark of 60 training questions and 4 test questions, answered by its reader."""
    root = tmp_path_factory.mktemp("reader")
    lake = root / "world" / "data_lake"
    for path, text in {
        "declarations/mine/defs.yaml": DECLARED,
        "raw/mine/articles/drugs.md": "Aspirin may treat pain. Insulin lowers glucose. The patient has a fever.",
    }.items():
        (lake / path).parent.mkdir(parents=True)
        (lake / path).write_text(text, encoding="utf-8")
    write_questions(lake, QUESTIONS)
    encoder = make_encoder(root / "tiny", positions=160)
    lines = ["name: reader", "presets: [reader]", f"encoder: {{name: '{encoder}'}}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVIDENCE_LAKE", str(lake))
        declarations.cache_clear()
        with small_world(root / "world", lines) as small:
            small.make("raw/benchmarks/mine", "raw/corpora/mine")
            small.make("questions/mcqa", partition="mine|0")
            small.make("corpus/mine/chunks", "corpus/mine/embeddings", partition="0")
            small.make("corpus/mine/index")
            small.make("models/reader", partition="mine")
            small.make(*(f"{table}/mcqa/reader" for table in TABLES), partition="mine|0")
            small.make("scores/mcqa/reader", partition="mine")
            yield small
    declarations.cache_clear()


def test_the_reader_of_a_benchmark_answers_its_test_questions(world: SmallWorld) -> None:
    (model,) = world.rows("models", "models/reader").to_dicts()
    assert (model["name"], model["task"], model["sentences"]) == ("reader-mine", "reader", 60)
    predictions = world.rows("predictions", "predictions/mcqa/reader")
    assert predictions.height == 4 and set(predictions["status"]) <= {"answered", "insufficient"}
    assert set(predictions["model_id"]) == {model["model_id"]} and set(predictions["reasoner"]) == {"reader"}
    chains = world.rows("chains", "chains/mcqa/reader")
    fact_steps = [step for row in chains["steps"] for step in row if step["cited"]]
    assert fact_steps and all("without it" in step["text"] for step in fact_steps)
    assert set(world.rows("citations", "citations/mcqa/reader")["verdict"]) == {"verified"}
    answered = predictions.filter(pl.col("status") == "answered").height
    assert world.rows("counterfactuals", "counterfactuals/mcqa/reader").height == answered
    scores = world.rows("scores", "scores/mcqa/reader")
    assert set(scores["model_id"]) == {model["model_id"]}


def test_an_answer_is_traced_to_the_reader_and_its_training_questions(world: SmallWorld) -> None:
    prediction = world.rows("predictions", "predictions/mcqa/reader")["prediction_id"][0]
    with connect(world.lake.root, lazy=True) as connection:
        root = trace(connection, prediction)
    (reader,) = [node for node in root.next if node.kind == "model"]
    sources = {node.content["source_id"] for node in reader.next if node.kind == "training_question"}
    assert sources == {row["source_id"] for row in QUESTIONS if row["split"] == "train"}
    assert isinstance(reader, Node) and reader.content["task"] == "reader"


def test_a_benchmark_that_tests_what_the_reader_has_seen_is_refused(world: SmallWorld) -> None:
    moved = [row | {"split": "test"} if row["source_id"] == "train7" else row for row in QUESTIONS]
    write_questions(world.lake.root, moved)
    try:
        world.make("questions/mcqa", partition="mine|0")
        world.make("evidence/mcqa/reader", partition="mine|0")
        result = world.make("chains/mcqa/reader", partition="mine|0", fails=True)
        assert "has seen 1 of the questions of mine" in failures(result) and "'train7'" in failures(result)
        world.make("models/reader", partition="mine")
        world.make("chains/mcqa/reader", partition="mine|0")
        assert world.rows("training_questions", "models/reader").height == 59
    finally:
        write_questions(world.lake.root, QUESTIONS)


@pytest.mark.slow
def test_the_command_trains_with_everything_upstream(world: SmallWorld, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(tmp_path))
        result = CliRunner().invoke(app, ["train", "reader", "--on", "mine"])
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert "held out" in output and "evidence run mine --variants reader`" in output
    rows = re.findall(r"^\W*(\d+)\W+\d\.\d{3}\W", result.output, re.MULTILINE)
    assert rows[0] == "0", "epoch 0 is the answers without the reader"


@pytest.mark.parametrize(
    ("name", "message"), [("mime", "did you mean 'mine'"), ("sample_kgqa", "answers questions with options")]
)
def test_the_command_explains_unsuitable_benchmarks(name: str, message: str, world: SmallWorld) -> None:
    result = CliRunner().invoke(app, ["train", "reader", "--on", name])
    assert result.exit_code == 1 and message in " ".join(result.output.split())


def mine() -> Benchmark:
    return Benchmark(name="mine", task="mcqa", path="mine/questions.jsonl")


@pytest.fixture
def own_lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr("evidence_assets.systems.reader.training.all_benchmarks", lambda: {"mine": mine()})
    return lake


def test_without_training_questions_the_error_says_how_to_add_some(own_lake: Lake) -> None:
    write_questions(own_lake.root, [question(1, "test")])
    with pytest.raises(BadInput, match='questions with "split": "train"'):
        read_training_questions(own_lake, mine())


def test_seen_questions_are_refused_by_id_and_by_text(own_lake: Lake) -> None:
    write_questions(own_lake.root, QUESTIONS)
    records, _ = read_training_questions(own_lake, mine())
    seen_questions = pl.DataFrame(training_rows(records, mine(), 0.1))
    tested = pl.DataFrame([row | {"source_id": "new"} for row in QUESTIONS[-1:]]).select("source_id", "text", "options")
    refuse_seen_questions("reader-mine", seen_questions, tested, mine())
    for same in ({"source_id": "train3"}, {"text": QUESTIONS[3]["text"], "options": QUESTIONS[3]["options"]}):
        with pytest.raises(BadInput, match="has seen 1 of the questions of mine"):
            refuse_seen_questions(
                "reader-mine", seen_questions, pl.DataFrame([{**tested.to_dicts()[0], **same}]), mine()
            )
    other = Benchmark(name="other", task="mcqa")
    by_id = pl.DataFrame([{**tested.to_dicts()[0], "source_id": "train3"}])
    refuse_seen_questions("reader-mine", seen_questions, by_id, other)


def test_an_equal_stem_with_other_options_is_another_question() -> None:
    first = question_keys("obqa", "1", "Which is true?", ["bees fly", "ants fly"])
    assert not first & question_keys("obqa", "2", "Which is true?", ["bees fly", "cats fly"])
    assert first & question_keys("obqa", "2", "which is true", ["Ants fly", "Bees fly."])


# The reader's chains state its weights and cite all facts that it was given


class FactCounter:
    """A fake reader: an option weighs 2 for each fact with its name, and aspirin 5 more in a sure question."""

    scale = 0.0
    model_id, weights_id, revision = "reader-mine", "abc", "abc-1"
    settings = SimpleNamespace(facts=2)

    def encode(self, inputs: Sequence[OptionInput]) -> list[EncodedInput]:
        return [EncodedInput([1, 2, 3], [0, 0, 1], "long" in each.question) for each in inputs]

    def score(self, inputs: Sequence[OptionInput]) -> Any:
        counts = [sum(each.option in fact for fact in each.facts) for each in inputs]
        sure = ["sure" in each.question and each.option == "aspirin" for each in inputs]
        return np.array([2.0 * count + 5 * is_sure for count, is_sure in zip(counts, sure, strict=True)], np.float32)


ITEMS = tuple(
    EvidenceItem(f"e{i}", "chunk", f"c{i}", "", text)
    for i, text in enumerate(("gold is a metal", "aspirin treats pain", "aspirin is a drug"))
)


@pytest.fixture
def solver() -> ReaderSolver:
    return ReaderSolver(cast(TrainedReader, FactCounter()), WordEncoder())


def explain(solver: ReaderSolver, question: str, *evidence: EvidenceItem) -> Chain:
    (chain,) = solver.explain([ExplainOption(make_question(question, "aspirin"), "A", evidence)])
    assert isinstance(chain, Chain)
    return chain


def test_every_given_fact_is_cited_with_the_weight_without_it(solver: ReaderSolver) -> None:
    chain = explain(solver, "What treats pain?", *ITEMS)
    first, *fact_steps = chain.steps
    assert "reader-mine" in first.text and "+2.00" in first.text and not first.cited
    assert [step.cited for step in fact_steps] == [("e0",), ("e1",)], "only the facts that the reader gets"
    assert [step.text[-18:] for step in fact_steps] == ["(without it +2.00)", "(without it +0.00)"]
    assert [c.verdict for c in check_citations(chain, ITEMS)] == ["verified", "verified"]
    assert chain.support == pytest.approx(1 / (1 + math.exp(-2)), abs=1e-8)
    assert chain.reply is not None and chain.reply.model == solver.model_id == "reader-mine@abc"
    assert not chain.omissions


def choose(solver: ReaderSolver, question: str, evidence: dict[str, tuple[EvidenceItem, ...]]) -> Any:
    question_and_options = make_question(question, "aspirin", "gold", "tin")
    tasks = [
        ExplainOption(question_and_options, label, evidence.get(label, ())) for label in question_and_options.labels
    ]
    chains = tuple(chain for chain in solver.explain(tasks) if isinstance(chain, Chain))
    (choice,) = solver.choose([ChooseAnswer(question_and_options, chains, evidence)])
    return choice


def test_the_option_with_the_largest_weight_is_supported_by_its_facts(solver: ReaderSolver) -> None:
    choice = choose(solver, "What treats pain?", {"A": ITEMS[1:2], "B": ITEMS[1:2]})
    assert (choice.answer, choice.supported, choice.status) == ("A", ("A",), "answered")
    assert choice.weights == pytest.approx({"A": 2.0, "B": 0.0, "C": 0.0}, abs=1e-6)


def test_the_weight_of_the_reader_is_added_to_the_scaled_extractive_weight(
    solver: ReaderSolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = {"A": ITEMS[1:2], "B": ITEMS[:1]}
    alone = choose(solver, "What is a metal?", evidence)
    monkeypatch.setattr(FactCounter, "scale", 0.5)
    both = choose(solver, "What is a metal?", evidence)
    task = ChooseAnswer(make_question("What is a metal?", "aspirin", "gold", "tin"), (), evidence)
    (extractive,) = extractive_weights(ExtractiveSolver(WordEncoder()), [task])
    assert any(extractive.values())
    assert both.weights == pytest.approx({k: alone.weights[k] + 0.5 * extractive[k] for k in "ABC"}, abs=1e-5)


def test_training_questions_have_the_extractive_weights_of_their_options() -> None:
    record = QuestionRecord("mine", "q", "train", "mcqa", "Is gold heavy?", ("aspirin", "gold"), ("B",))
    (built,) = build_training_questions([record], NoEvidence("no corpus"), WordEncoder(), lambda count, total: None)
    (weights,) = extractive_weights(ExtractiveSolver(WordEncoder()), [ChooseAnswer(hide_gold(record), ())])
    assert [option.weight for option in built.options] == [weights["A"], weights["B"]] != [0, 0]


def test_a_reader_answers_instead_of_a_language_model_and_only_its_answers_depend_on_training() -> None:
    (variant,) = [v for v in variants_of("reader") if v.key == "mcqa/reader"]
    assert not is_answered_by_model(variant)
    inputs = {stage.table: {each.key for each in stage.inputs} for stage in build_stages(systems.open_method(variant))}
    dependent = {table for table, keys in inputs.items() if READER_ASSET in keys}
    assert dependent == {"chains", "predictions", "counterfactuals"}


def test_without_facts_no_answer_is_supported(solver: ReaderSolver) -> None:
    choice = choose(solver, "What treats pain for sure?", {})
    assert choice.weights["A"] == pytest.approx(5, abs=1e-4)
    assert (choice.answer, choice.supported, choice.status) == ("A", (), "insufficient")
