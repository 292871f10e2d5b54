"""``evidence prompts`` on the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.models.protocols import Request
from evidence_assets.profiles import PROFILE_VARIABLE
from evidence_assets.reasoning.prompted_solver import EXPLAIN_TASK
from evidence_assets.reasoning.tasks import EvidenceItem, ExplainOption
from evidence_assets.reasoning.templates import PACKAGED
from evidence_assets_tests.reasoning.small_questions import make_question


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["prompts", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_published_parts_come_after_the_passages_that_ask_for_them() -> None:
    text = run("ucret", "--variant", "ucret_published")
    parts = ("role", "SUPPORTS, task", "REFUTES, task", "NEI, task")
    places = [text.find(f"[thesis 3.3.2, stage 2, {part}, if ") for part in parts]
    assert -1 not in places and places == sorted(places)
    assert text.index("published_case: table/ucret_published") < text.index("published_claim_verdict:")


def test_shown_parts_are_the_prompt_that_is_sent() -> None:
    prompts = {each["prompt"]: each["parts"] for each in json.loads(run("ugat", "--variant", "mcqa/ugat", "--json"))}
    assert list(prompts) == ["explain", "choose", "choose_closed"]
    task = ExplainOption(make_question("Why?", "rain"), "A", (EvidenceItem("e", "chunk", "c", "0:4", "Rain."),))
    request: Request = EXPLAIN_TASK.build_request(task, PACKAGED)
    for part in prompts["explain"]:
        beginning = part["text"].partition("$")[0]
        message = request.system if part["role"] == "system" else request.user
        assert part["condition"] or beginning in message


def test_prompts_of_selection_come_first_and_several_variants_share_one() -> None:
    names = [each["prompt"] for each in json.loads(run("four_step_focus", "--json"))]
    assert names[:2] == ["triplets", "published_grade"]
    assert {each["prompt"] for each in json.loads(run("background", "--variant", "background", "--json"))} == {
        "entities",
        "relations",
        "triples",
    }
    assert "judge: knowledge/kbloom" in run("kbloom", "--variant", "kbloom")
    assert run("uscrake").count("\nchoose: ") == 1


def test_prompts_of_the_profile_replace_the_packaged_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "judge.txt").write_text("Be brief.\n---\n@our notes, page 3\nIs it true? $statement\n")
    profile = tmp_path / "own.yaml"
    profile.write_text(f"extends: embedded\nprompts: {tmp_path / 'prompts'}\n")
    monkeypatch.setenv(PROFILE_VARIABLE, str(profile))
    text = run("kbloom", "--variant", "kbloom")
    assert "[our notes, page 3]\nIs it true? $statement\n" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ucrets"], "did you mean 'ucret'"),
        (["ucret", "--variant", "ucret_publised"], "did you mean 'ucret_published'"),
        (["confidence"], "send no prompts to a language model"),
    ],
)
def test_what_cannot_be_shown_is_an_error(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["prompts", *arguments])
    assert result.exit_code == 1 and message in " ".join(result.output.split()), result.output
