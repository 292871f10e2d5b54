"""Recorded answers: read, parsed and counted; unusable replies are failed rows, not lost ones."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence_assets.lake.errors import BadInput
from tools.replay import app, score_recording

HEADER = "path\tdataset\tquestion_id\tmodel\tmode\tgold\tquestion\tA\tB\tC\tD\n"


def lay(folder: Path, replies: list[str], gold: str = "B", ids: list[str] | None = None, outside: str = "") -> Path:
    index = HEADER
    for place, reply in enumerate(replies):
        (folder / f"{place}.json").write_text(json.dumps([reply]), encoding="utf-8")
        name = ids[place] if ids else f"q{place}"
        index += f'{outside}{place}.json\tset\t{name}\tsome-model\tcot\t{gold}\tWhich "one"?\tant\tbee\tcat\t\n'
    (folder / "index.tsv").write_text(index, encoding="utf-8")
    return folder


def test_recorded_answers_are_scored(tmp_path: Path) -> None:
    lay(tmp_path, ['{"answer_choice": "B"}', "The answer is A.", "content", '{"answer_choice": "B/C"}'])
    scored = list(score_recording(tmp_path))
    answers = [(item.answer, item.correct) for item in scored]
    assert answers == [("B", True), ("A", False), (None, False), ("B", True)]
    assert scored[2].error == "the reply names no option"
    assert scored[0].question.options == ("ant", "bee", "cat")


@pytest.mark.parametrize(
    ("changed_fields", "message"),
    [
        ({"gold": "D"}, r"index\.tsv:2: gold: 'D' is not one of A, B, C"),
        ({"ids": ["q", "q"]}, r"index\.tsv:3: question_id: set / q / some-model / cot comes twice"),
        ({"outside": "../"}, r"index\.tsv:2: path: lies outside the recording"),
    ],
)
def test_a_faulty_recording_is_named_by_line_and_field(
    tmp_path: Path, changed_fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        list(score_recording(lay(tmp_path, ["B", "A"], **changed_fields)))


@pytest.mark.dev_data
def test_accuracies_are_those_stated_with_the_recording(dev_data: Path) -> None:
    scored = list(score_recording(dev_data / "replay"))
    assert len(scored) == 200
    assert Counter((i.model, i.mode) for i in scored if i.correct) == {
        ("gpt-35-turbo-16k", "cot"): 28,
        ("gpt-35-turbo-16k", "rag_32"): 31,
        ("gpt-4-32k", "cot"): 43,
        ("gpt-4-32k", "rag_32"): 39,
    }
    # twelve replies name no option; not one of the 200 is lost, and each failure has its reason
    assert sum(item.answer is None for item in scored) == 12
    assert all(item.error for item in scored if item.answer is None)


@pytest.mark.dev_data
def test_each_recorded_answer_is_read_as_by_its_authors(dev_data: Path) -> None:
    """Their rule: the first character after the last ``"answer_choice": "``, if it is A to D and no word begins."""
    for item in score_recording(dev_data / "replay"):
        _, field, value = item.reply.rpartition('"answer_choice": "')
        letter = re.match(r"[A-D](?!\w)", value) if field else None
        assert item.answer == (letter and letter[0]), item.path


def test_recorded_answers_are_scored_by_model_and_mode(tmp_path: Path) -> None:
    folder = lay(tmp_path, ['{"answer_choice": "B"}', '{"answer_choice": "A"}', "no idea"], ids=["1", "2", "3"])
    result = CliRunner().invoke(app, [str(folder), "--json"])
    assert result.exit_code == 0, result.output
    model_scores, everything = json.loads(result.output)
    assert (model_scores["accuracy"], model_scores["n"], model_scores["unusable"]) == (pytest.approx(1 / 3), 3, 1)
    assert everything == model_scores | {"benchmark": "all"}
    printed = CliRunner().invoke(app, [str(folder)])
    assert "1 unusable: the reply names no option" in printed.output
