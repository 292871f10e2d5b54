"""Models and inputs of printed ablations, and scores of recorded answers."""

from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning import published_prompts
from evidence_assets.reasoning.tasks import ChooseAnswer, EvidenceItem
from evidence_assets.systems.baselines.recorded_answers import measure_file, recorded_stages
from evidence_assets.systems.ugat.system import ClosedBook, Ugat
from evidence_assets_tests.benchmarks.official.contract import json_lines, write_files
from evidence_assets_tests.lake_rows import as_stored, question
from evidence_assets_tests.reasoning.small_questions import make_question


def test_the_closed_book_reads_question_and_options_alone() -> None:
    evidence = (EvidenceItem("e1", "path", "g", "+1", "Aspirin may treat pain."),)
    task = ChooseAnswer(make_question("What treats pain?", "aspirin", "gold"), (), {"A": evidence, "B": ()})
    style = published_prompts.STYLES[ClosedBook.published_style]
    assert style.choose is not None and style.explain is None and style.answer is None
    request = style.choose.build_request(task, published_prompts.PACKAGED)
    assert "may treat" not in request.user and "What treats pain?" in request.user and "A) aspirin" in request.user
    with_passages = published_prompts.STYLES[Ugat.published_style].answer
    assert with_passages is not None
    assert "may treat" in with_passages.build_request(task, published_prompts.PACKAGED).user


def test_the_models_of_the_tables_are_those_of_table_3_1_in_four_bits() -> None:
    generators = profiles.load("paper").generators
    printed = ("qwen2.5-72b-instruct", "llama-3.3-70b-instruct", "qwen2.5-14b-instruct")
    names = [settings.name.casefold().partition("/")[2] for settings in generators.values()]
    assert names == [f"{name}-awq" for name in printed], "AWQ has four bits"
    assert {settings.backend for settings in generators.values()} == {"openai"}
    encoder = next(iter(profiles.load("paper").encoders.values()))
    assert encoder.name == "BAAI/bge-m3"


# Scores of recorded answers, compared with manual counts, and errors in such files


BENCHMARK = "sample_mcqa"
HIT, MISS = ["bee", "is a", "insect"], ["cat", "is a", "pet"]


def score_files(root: Path, files: dict[str, list[object]]) -> dict[tuple[str, str, str], tuple[float, int]]:
    """Value and n by system, model and metric, for four questions whose correct option is A (insect)."""
    lake = Lake.create(root / "lake", question_shards=1)
    questions = [question(i, BENCHMARK, options=["insect", "fish"], source_id=f"q{i}") for i in range(4)]
    lake.write("questions/mcqa", f"{BENCHMARK}|0", {"questions": questions})
    write_files(
        lake.raw_path(f"recorded/{BENCHMARK}"), {f"{name}.jsonl": json_lines(*rows) for name, rows in files.items()}
    )
    (stage,) = recorded_stages(Variant(system="baselines", family="mcqa", name="recorded"))
    score_rows = stage.run(StageContext(lake, "scores", stage.key, BENCHMARK)).rows
    assert isinstance(score_rows, list) and {row["reasoner"] for row in score_rows} <= {"recorded"}
    return {(row["selector"], row["model_id"], row["metric"]): (row["value"], row["n"]) for row in score_rows}


def test_a_missing_question_counts_as_wrong(tmp_path: Path) -> None:
    answers: list[object] = [{"id": "q0", "answer": "A"}, {"id": "q1", "answer": "B"}, {"id": "q2", "answer": "A"}]
    scores = score_files(tmp_path, {"clever@gpt-4": answers, "clever+small@gpt-4": answers[:1]})
    assert scores["clever", "gpt-4", "accuracy"] == (0.5, 4)
    assert scores["clever+small", "gpt-4", "accuracy"] == (0.25, 4)
    assert scores["clever", "gpt-4", "failed_share"] == (0.25, 4)


def test_triples_without_answers_get_retrieval_scores_only(tmp_path: Path) -> None:
    rows: list[object] = [
        {"id": "q0", "triples": [HIT]},
        {"id": "q1", "triples": [MISS, HIT]},
        {"id": "q2", "triples": [MISS]},
    ]
    scores = score_files(tmp_path, {"finder": rows})
    assert scores["finder", "", "hit@1"] == (0.25, 4) and scores["finder", "", "hit@10"] == (0.5, 4)
    assert 0 < scores["finder", "", "bertscore"][0] < 1 and ("finder", "", "accuracy") not in scores


@pytest.mark.parametrize(("task", "is_answer"), [("skb_search", True), ("kgqa", False)])
def test_only_a_search_is_answered_by_its_ranking(task: str, is_answer: bool, tmp_path: Path) -> None:
    rows = as_stored("questions", [question(0, gold="n5", task=task, options=[], source_id="q0")])
    write_files(tmp_path, {"vss.jsonl": json_lines({"id": "q0", "ranked": ["n5", "n9"]})})
    metrics = measure_file(tmp_path / "vss.jsonl", rows, None, reject_unknown=True)
    assert ("accuracy" in metrics) is is_answer


def test_triples_that_a_model_recalled_count_apart_and_null_is_no_answer(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake", question_shards=1)
    questions = [
        question(i, "sample_kgqa", gold="insect", task="kgqa", options=[], source_id=f"q{i}") for i in range(2)
    ]
    lake.write("questions/graph", "sample_kgqa|0", {"questions": questions})
    rows = [{"id": "q0", "answer": None, "triples": [MISS, HIT], "recalled": [MISS]}, {"id": "q1", "answer": "insect"}]
    write_files(lake.raw_path("recorded/sample_kgqa"), {"full@gpt-4~second.jsonl": json_lines(*rows)})
    (stage,) = recorded_stages(Variant(system="baselines", family="graph", name="recorded"))
    scored = stage.run(StageContext(lake, "scores", stage.key, "sample_kgqa")).rows
    assert isinstance(scored, list) and {(row["selector"], row["model_id"]) for row in scored} == {
        ("full~second", "gpt-4")
    }
    values = {row["metric"]: row["value"] for row in scored}
    assert (values["accuracy"], values["insufficient_share"], values["failed_share"]) == (0.5, 0.5, 0)
    assert (values["hit@1"], values["hit@1_with_recalled"], values["hit@10_with_recalled"]) == (0.5, 0, 0.5)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "q1", "triples": [HIT], "recalled": [MISS]}], "recalled: .* is not among the triples. Add it there"),
        ([{"id": "q9", "answer": "A"}], "q9 is not a question of the benchmark"),
        ([{"id": "q1", "answer": "A"}, {"id": "q1", "answer": "B"}], "2: id: q1 appears twice"),
        ([{"id": "q1", "anwser": "A"}], "Rename 'anwser' to 'answer'"),
        ([{"id": "q1", "answer": None}], r"clever.jsonl:1: answer: no answer, .* Leave out the field"),
        ([{"id": "q1", "triples": [["bee"]]}], r"expected a list of \[head, relation, tail\]"),
    ],
)
def test_invalid_files_are_rejected(rows: list[object], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        score_files(tmp_path, {"clever": rows})
