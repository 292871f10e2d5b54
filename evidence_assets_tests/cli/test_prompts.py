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
from evidence_assets_tests.benchmarks.test_corpora import pdf
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.reasoning.test_prompt_import import BACKGROUND


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


def test_import_writes_a_folder_that_a_profile_can_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = run("import", str(BACKGROUND), "--folder", str(tmp_path / "prompts"))
    assert "kaping-background: 15 of 15 printed parts placed." in text and "line 10 " in text
    profile = tmp_path / "own.yaml"
    profile.write_text("extends: embedded\nprompts: prompts\n")
    monkeypatch.setenv(PROFILE_VARIABLE, str(profile))
    text = run("background", "--variant", "background")
    assert "[kaping-background 4.2.3, first prompt, task]\nThink of all things that belong to this.\n" in text
    assert "[ours]\nYou recall facts" in text


def test_import_replaces_files_only_on_request(tmp_path: Path) -> None:
    arguments = ["prompts", "import", str(BACKGROUND), "--folder", str(tmp_path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    (tmp_path / "entities.txt").write_text("mine")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1 and "exists already" in result.output
    assert (tmp_path / "entities.txt").read_text() == "mine"
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0
    assert (tmp_path / "entities.txt").read_text() != "mine"


def test_import_exits_with_1_if_a_printed_part_is_missing(tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_text(BACKGROUND.read_text(encoding="utf-8").replace("4.2.5 The reply", "The reply"))
    result = CliRunner().invoke(app, ["prompts", "import", str(copy), "--folder", str(tmp_path / "p"), "--json"])
    assert result.exit_code == 1
    parts = json.loads(result.output)["parts"]
    assert [part["status"] for part in parts].count("not found") == 4
    assert sorted(path.stem for path in (tmp_path / "p").iterdir()) == ["entities", "relations", "triples"]
    with pytest.raises(AssertionError, match=r"is no document; use \.txt, \.md"):
        run("import", str(tmp_path / "copy.docx"))


def test_import_reads_a_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="PDFs are read by the extra documents")
    lines = [line for line in BACKGROUND.read_text(encoding="utf-8").split("\n") if line.strip(" `")]
    copy = tmp_path / "copy.pdf"
    copy.write_bytes(pdf(*(line.replace("(", r"\(").replace(")", r"\)") for line in lines)))
    text = run("import", str(copy), "--folder", str(tmp_path / "p"))
    assert "15 of 15 printed parts placed." in text
    run("import", str(BACKGROUND), "--folder", str(tmp_path / "q"))
    for path in (tmp_path / "q").iterdir():
        assert (tmp_path / "p" / path.name).read_text() == path.read_text()
