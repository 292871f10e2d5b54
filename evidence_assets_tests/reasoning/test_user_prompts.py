"""Prompts and settings of a user: files of their own and temperature."""

from pathlib import Path

import pytest

from evidence_assets import systems
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.reasoning.published_prompts import STYLES
from evidence_assets.reasoning.tasks import ChooseAnswer
from evidence_assets.reasoning.templates import Prompts
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.systems.small_models import ScriptedGenerator, scripted_solver

CHOOSE = ChooseAnswer(make_question("What treats pain?", "aspirin", "gold"), ())


def test_user_prompts_are_sent_and_change_the_version(tmp_path: Path) -> None:
    (tmp_path / "published_question.txt").write_text("Be brief.\n---\n$question $answers $labels")
    generator = ScriptedGenerator("A")
    solver = PromptedSolver(LanguageModel(generator, prompts=Prompts((tmp_path,))), STYLES["question"])
    solver.choose([CHOOSE])
    (request,) = generator.requests
    assert request.system == "Be brief." and "Reply with the label" not in request.user
    assert solver.version != scripted_solver("A", STYLES["question"]).version


def test_a_variant_sets_the_temperature() -> None:
    generator, prompts = ScriptedGenerator("?"), Prompts(temperature=0.7)
    PromptedSolver(LanguageModel(generator, prompts=prompts), STYLES["question"]).choose([CHOOSE])
    assert [r.temperature for r in generator.requests] == [0.7] * 2, "the repair, too"
    assert scripted_solver("A", STYLES["question"], prompts).version != scripted_solver("A", STYLES["question"]).version
    variant = next(variant for variant in variants_of("background") if variant.name == "kg_both")
    assert variant.prompt_settings.temperature == 0.7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("published_question", r"published_question\.txt.*\$answers is missing"),
        ("publishd_question", "no prompt 'publishd_question'; did you mean 'published_question'"),
    ],
)
def test_invalid_user_prompts_are_rejected_with_file_and_field(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.txt").write_text("S\n---\n$question")
    with pytest.raises(BadInput, match=message):
        Prompts((tmp_path,)).check(systems.load_templates())
    with pytest.raises(BadInput, match="no such folder of prompts"):
        Prompts((tmp_path / "absent",)).check(systems.load_templates())
