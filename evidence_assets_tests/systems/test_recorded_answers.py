"""Recorded answers of others, scored: shares counted by hand, and what is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.system import NoSettings
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.systems.baselines.recorded_answers import recorded_stages
from evidence_assets_tests.lake_rows import question

BENCHMARK = "sample_mcqa"
HIT, MISS = ["bee", "is a", "insect"], ["cat", "is a", "pet"]


def score_files(root: Path, files: dict[str, list[object]]) -> dict[tuple[str, str, str], tuple[float, int]]:
    """Value and number of questions by system, model and metric: four questions whose right option is A, an insect."""
    lake = Lake.create(root / "lake", question_shards=1)
    asked = [question(i, BENCHMARK, options=["insect", "fish"], source_id=f"q{i}") for i in range(4)]
    lake.write("questions/mcqa", f"{BENCHMARK}|0", {"questions": asked})
    for name, rows in files.items():
        file = lake.raw_path(f"recorded/{BENCHMARK}/{name}.jsonl")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (stage,) = recorded_stages(Variant(system="baselines", family="mcqa", name="recorded"), NoSettings())
    made = stage.run(StageContext(lake, "scores", stage.key, BENCHMARK)).rows
    assert isinstance(made, list) and {row["reasoner"] for row in made} <= {"recorded"}
    return {(row["selector"], row["model_id"], row["metric"]): (row["value"], row["n"]) for row in made}


def test_a_question_that_is_not_there_is_wrong(tmp_path: Path) -> None:
    answers: list[object] = [{"id": "q0", "answer": "A"}, {"id": "q1", "answer": "B"}, {"id": "q2", "answer": "A"}]
    found = score_files(tmp_path, {"clever@gpt-4": answers, "clever+small@gpt-4": answers[:1]})
    assert found["clever", "gpt-4", "accuracy"] == (0.5, 4)
    assert found["clever+small", "gpt-4", "accuracy"] == (0.25, 4)
    assert found["clever", "gpt-4", "failed_share"] == (0.25, 4)


def test_what_was_retrieved_is_scored_without_an_accuracy_that_nobody_answered(tmp_path: Path) -> None:
    rows: list[object] = [
        {"id": "q0", "triples": [HIT]},
        {"id": "q1", "triples": [MISS, HIT]},
        {"id": "q2", "triples": [MISS]},
    ]
    found = score_files(tmp_path, {"finder": rows})
    assert found["finder", "", "hit@1"] == (0.25, 4) and found["finder", "", "hit@10"] == (0.5, 4)
    assert 0 < found["finder", "", "bertscore"][0] < 1 and ("finder", "", "accuracy") not in found


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"id": "q9", "answer": "A"}], "q9 is no question of the benchmark"),
        ([{"id": "q1", "answer": "A"}, {"id": "q1", "answer": "B"}], "2: id: q1 comes twice"),
        ([{"id": "q1", "anwser": "A"}], "did you mean 'answer'"),
        ([{"id": "q1", "triples": [["bee"]]}], r"expected \[head, relation, tail\]"),
    ],
)
def test_what_is_wrong_is_named(rows: list[object], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=said):
        score_files(tmp_path, {"clever": rows})
