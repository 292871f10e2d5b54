"""Published prompts: the requests of each paper's last stages in order; nothing overrules the model's answer."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from evidence_assets import systems
from evidence_assets.experiment.variants import variants, variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning import published_prompts
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE, PromptedSolver
from evidence_assets.reasoning.published_prompts import STYLES, parse_answer_and_explanation
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.reasoning.templates import Prompts
from evidence_assets_tests.systems.small_models import CompletionStore, ScriptedGenerator

EVIDENCE = (
    EvidenceItem("e1", "chunk", "d", "0:24", "Aspirin may treat pain."),
    EvidenceItem("e2", "path", "g", "+1", "gold is a metal"),
)
UNFOUNDED = (Chain("A", (ChainStep("It cures all.", ("e1",), ("cures all",)),)), Chain("B", ()))
CHOOSE = ChooseAnswer(
    "What treats pain?", ("A", "B"), ("aspirin", "gold"), UNFOUNDED, {"A": EVIDENCE[:1], "B": EVIDENCE[1:]}
)
CELLS = tuple(
    EvidenceItem(place, "cell", "t", place, text)
    for place, text in {"r0c0": "Drug", "r0c1": "Price", "r1c0": "aspirin", "r1c1": "2"}.items()
)
LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION")
CASES = tuple(Chain(label, (ChainStep(f"Because {label}."),)) for label in LABELS)
CLAIM = ChooseAnswer("Aspirin costs 2.", LABELS, LABELS, CASES, dict.fromkeys(LABELS, CELLS), "verification")


def in_order(text: str, *parts: str) -> bool:
    return bool(re.search(".*".join(map(re.escape, parts)), text, re.DOTALL))


@pytest.mark.parametrize(
    ("style", "task", "reply"),
    [("chains", CHOOSE, "Answer: A"), ("question", CHOOSE, "A"), ("cases", CLAIM, "NOT ENOUGH INFORMATION")],
)
def test_the_model_selects_the_answer_regardless_of_its_citations(style: str, task: ChooseAnswer, reply: str) -> None:
    (default_choice,) = PromptedSolver(LanguageModel(ScriptedGenerator(lambda _: "A"), CompletionStore())).choose(
        [CHOOSE]
    )
    assert isinstance(default_choice, Choice) and default_choice.status == "insufficient", "our own way withholds it"
    (choice,) = PromptedSolver(
        LanguageModel(ScriptedGenerator(lambda _: reply), CompletionStore()), STYLES[style]
    ).choose([task])
    assert isinstance(choice, Choice)
    assert (choice.answer, choice.status) == (reply.removeprefix("Answer: "), "answered")
    assert choice.supported == () and choice.confidence == 0.0


def test_chains_are_prose_from_numbered_evidence_and_compared_without_it() -> None:
    explain = ExplainOption(CHOOSE.question, "A", "aspirin", EVIDENCE)
    request = published_prompts.chain_request(explain)
    assert in_order(request.user, "What treats pain?", "aspirin", "[E1] Aspirin may", "[E2] gold is", "Reasoning:")
    assert not request.json_schema and not request.choices
    (chain,) = PromptedSolver(
        LanguageModel(
            ScriptedGenerator(lambda _: "1) Pain is treated [E1].\n2) Metal is not [E2], nor this [E9]."),
            CompletionStore(),
        ),
        STYLES["chains"],
    ).explain([explain])
    assert isinstance(chain, Chain) and chain.prompt_hash and chain.reply
    assert [(step.text, step.cited) for step in chain.steps] == [
        ("Pain is treated [E1].", ("e1",)),
        ("Metal is not [E2], nor this [E9].", ("e2", "evidence 9")),
    ]
    compared = published_prompts.choice_request(dataclasses.replace(CHOOSE, chains=(chain,)))
    assert in_order(compared.user, "What treats pain?", "A) aspirin\nB) gold", "1) Pain is treated", "Answer: X")
    assert "Aspirin may treat pain." not in compared.user


def test_a_claim_is_explained_for_each_label_before_one_verdict() -> None:
    texts = {
        label: published_prompts.case_request(ExplainOption(CLAIM.question, label, label, CELLS, "verification")).user
        for label in LABELS
    }
    assert len(set(texts.values())) == 3
    assert all(in_order(text, "Aspirin costs 2.", "Drug | Price\naspirin | 2") for text in texts.values())
    assert not any("[r1c1]" in text for text in texts.values()), "marks for citations are ours"
    request = published_prompts.verdict_request(CLAIM)
    assert in_order(request.user, "Aspirin costs 2.", "Drug | Price", *(f"Because {label}." for label in LABELS))
    assert request.choices == LABELS and request.max_tokens == 32
    alone = published_prompts.verdict_request(dataclasses.replace(CLAIM, chains=()))
    assert "explanation" not in alone.user


def test_answer_and_explanation_come_from_one_call_with_all_passages() -> None:
    request = published_prompts.passages_request(CHOOSE)
    assert in_order(request.user, "What treats pain?", "A) aspirin", "[Passage 1] Aspirin may", "[Passage 2] gold is")
    choice, chain = parse_answer_and_explanation("Answer: A) aspirin\nExplanation: It treats pain [Passage 1].", CHOOSE)
    assert (choice.answer, choice.status, choice.supported, choice.confidence) == ("A", "answered", ("A",), 1.0)
    assert (chain.hypothesis, chain.steps[0].cited) == ("A", ("e1",))
    choice, chain = parse_answer_and_explanation("Answer: insufficient\nExplanation: No passage tells.", CHOOSE)
    assert (choice.answer, choice.status, chain.hypothesis) == (None, "insufficient", "")


def test_variants_that_are_compared_with_printed_figures_use_printed_prompts() -> None:
    styles = {v.key: v.asks_as_published for v in variants() if v.family in ("mcqa", "table")}
    for place in ("mcqa/uscrake_published", "mcqa/ugat_published", "mcqa/closed_book", "table/ucret_published"):
        assert styles[place], place
    assert not styles["mcqa/uscrake"] and not styles["table/ucret"] and not styles["mcqa/ugat"]
    for name in ("uscrake", "ucret", "ugat"):
        system = systems.load(name)
        for variant in variants_of(name):
            method = system.method_of(variant)
            assert getattr(method, "published_style", "") in STYLES and getattr(method, "published_style", ""), (
                variant.key
            )
    assert STYLES[""] is DEFAULT_STYLE


# The user's prompts --------------------------------------------------------------------------------------------------


def test_user_prompts_are_sent_and_change_the_version(tmp_path: Path) -> None:
    (tmp_path / "published_question.txt").write_text("Be brief.\n---\n$question $answers $labels\n\n?negated NOT.")
    requests: list[Request] = []
    model = LanguageModel(
        ScriptedGenerator(lambda r: requests.append(r) or "A"), CompletionStore(), prompts=Prompts((tmp_path,))
    )
    solver = PromptedSolver(model, STYLES["question"])
    solver.choose([CHOOSE])
    assert requests[0].system == "Be brief." and "Reply with the label" not in requests[0].user
    assert solver.version != PromptedSolver(LanguageModel(ScriptedGenerator(lambda _: "A")), STYLES["question"]).version


def test_a_variant_sets_token_limits_and_temperature() -> None:
    requests: list[Request] = []
    prompts = Prompts(tokens={"published_question": 7}, temperature=0.7)
    solver = PromptedSolver(
        LanguageModel(ScriptedGenerator(lambda r: requests.append(r) or "?"), CompletionStore(), prompts=prompts),
        STYLES["question"],
    )
    solver.choose([CHOOSE])
    assert [(request.max_tokens, request.temperature) for request in requests] == [(7, 0.7)] * 2, "the repair, too"
    versions = {
        PromptedSolver(LanguageModel(ScriptedGenerator(lambda _: "A"), prompts=each), STYLES["question"]).version
        for each in (
            Prompts(),
            prompts,
            Prompts(tokens=prompts.tokens),
            Prompts(temperature=0.7),
            Prompts(tokens={"entities": 7}),
        )
    }
    assert len(versions) == 4, "a limit of another prompt is none of this one's"
    variant = next(variant for variant in variants_of("background") if variant.name == "kg_both")
    assert variant.prompt_settings.temperature == 0.7


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("published_question", "S\n---\n$question", r"published_question\.txt.*\$answers is missing"),
        ("publishd_question", "S\n---\n$question", "no prompt 'publishd_question'; did you mean 'published_question'"),
    ],
)
def test_invalid_user_prompts_are_rejected_with_file_and_field(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(BadInput, match=message):
        Prompts((tmp_path,)).check(systems.load_templates())


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        (Prompts((Path("absent"),)), "no such folder of prompts"),
        (Prompts(tokens={"entitys": 7}), "'entities'"),
        (Prompts(tokens={"entities": 0}), "must be at least 1"),
    ],
)
def test_invalid_prompt_settings_are_rejected(prompts: Prompts, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        prompts.check(systems.load_templates())
