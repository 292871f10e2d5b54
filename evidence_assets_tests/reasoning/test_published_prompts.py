"""Published prompts: the requests of each paper's last stages in order; nothing overrules the model's answer."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

import evidence_assets
from evidence_assets import systems
from evidence_assets.experiment.variants import variants, variants_of
from evidence_assets.reasoning import published_prompts
from evidence_assets.reasoning.model_calls import LanguageModel, find_cut
from evidence_assets.reasoning.prompted_solver import DEFAULT_STYLE, PromptedSolver
from evidence_assets.reasoning.published_prompts import STYLES, parse_answer_and_explanation
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets.reasoning.templates import Prompts
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.reasoning.test_prompted_tasks import CELLS, LABELS
from evidence_assets_tests.systems.small_models import CompletionStore, ScriptedGenerator, scripted_solver

EVIDENCE = (
    EvidenceItem("e1", "chunk", "d", "0:24", "Aspirin may treat pain."),
    EvidenceItem("e2", "path", "g", "+1", "gold is a metal"),
)
UNFOUNDED = (Chain("A", (ChainStep("It cures all.", ("e1",), ("cures all",)),)), Chain("B", ()))
QUESTION = make_question("What treats pain?", "aspirin", "gold")
CHOOSE = ChooseAnswer(QUESTION, UNFOUNDED, {"A": EVIDENCE[:1], "B": EVIDENCE[1:]})
CASES = tuple(Chain(label, (ChainStep(f"Because {label}."),)) for label in LABELS)
CLAIM = ChooseAnswer(
    make_question("Aspirin costs 2.", *LABELS, task="verification"), CASES, dict.fromkeys(LABELS, CELLS)
)


def in_order(text: str, *parts: str) -> bool:
    return bool(re.search(".*".join(map(re.escape, parts)), text, re.DOTALL))


@pytest.mark.parametrize(
    ("style", "task", "reply"),
    [("chains", CHOOSE, "Answer: A"), ("question", CHOOSE, "A"), ("cases", CLAIM, "NOT ENOUGH INFORMATION")],
)
def test_the_model_selects_the_answer_regardless_of_its_citations(style: str, task: ChooseAnswer, reply: str) -> None:
    (default_choice,) = scripted_solver("A").choose([CHOOSE])
    assert isinstance(default_choice, Choice) and default_choice.status == "insufficient", "our own way withholds it"
    (choice,) = scripted_solver(reply, STYLES[style]).choose([task])
    assert isinstance(choice, Choice)
    assert (choice.answer, choice.status) == (reply.removeprefix("Answer: "), "answered")
    assert choice.supported == ()


def test_chains_are_prose_from_numbered_evidence_and_compared_without_it() -> None:
    explain = ExplainOption(QUESTION, "A", EVIDENCE)
    request = published_prompts.chain_request(explain)
    assert in_order(request.user, "What treats pain?", "aspirin", "[E1] Aspirin may", "[E2] gold is", "Reasoning:")
    assert not request.json_schema and not request.choices
    reply = "1) Pain is treated [E1].\n2) Metal is not [E2], nor this [E9]."
    (chain,) = scripted_solver(reply, STYLES["chains"]).explain([explain])
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
        label: published_prompts.case_request(ExplainOption(CLAIM.question, label, CELLS)).user for label in LABELS
    }
    assert len(set(texts.values())) == 3
    assert all(in_order(text, "Aspirin costs 2.", "Drug | Price\naspirin | 2") for text in texts.values())
    assert not any("[r1c1]" in text for text in texts.values()), "marks for citations are ours"
    # Chains are stored by name: NOT ENOUGH INFORMATION, REFUTES, SUPPORTS.
    stored = dataclasses.replace(CLAIM, chains=tuple(sorted(CASES, key=lambda chain: chain.hypothesis)))
    request = published_prompts.verdict_request(stored)
    assert in_order(request.user, "Aspirin costs 2.", "Drug | Price", *(f"Because {label}." for label in LABELS))
    assert request.user.endswith(f": {LABELS[2]}, {LABELS[1]}, {LABELS[0]}"), "the printed order of the labels"
    assert "fewest" not in request.user, "this rule is chapter 4's"
    assert request.choices == LABELS and request.max_tokens == 32
    alone = published_prompts.verdict_request(dataclasses.replace(CLAIM, chains=()))
    assert "explanation" not in alone.user


TABLE_QUESTION = ChooseAnswer(
    make_question("Which is a drug?", "aspirin", "gold", task="table_qa"),
    tuple(Chain(label, (ChainStep(f"For {label}."),)) for label in "BA"),
    dict.fromkeys("AB", CELLS),
)


def test_a_table_question_is_decided_by_the_cells_of_its_explanations() -> None:
    request = published_prompts.verdict_request(TABLE_QUESTION)
    assert in_order(request.user, "Which is a drug?", "Drug | Price", "A) aspirin", "For A.", "For B.", "A, B")
    assert "REFUTES" not in request.user and request.choices == ("A", "B")
    alone = published_prompts.verdict_request(dataclasses.replace(TABLE_QUESTION, chains=()))
    assert "explanation" not in alone.user


@pytest.mark.parametrize(
    ("reply", "answer", "supported"),
    [("A", "A", ()), ("B, A", "B", ("B", "A")), ("A) aspirin\nB) gold", "A", ("A", "B"))],
)
@pytest.mark.parametrize("style", ["cases", "cases_several"])
def test_a_reply_with_several_labels_is_ambiguous(
    style: str, reply: str, answer: str, supported: tuple[str, ...]
) -> None:
    (choice,) = scripted_solver(reply, STYLES[style]).choose([TABLE_QUESTION])
    assert isinstance(choice, Choice) and choice.answer == answer
    assert (choice.status, choice.supported) == ("ambiguous" if supported else "answered", supported)


def test_all_supported_options_are_requested_without_a_constraint_to_one() -> None:
    several, single = published_prompts.several_request(TABLE_QUESTION), verdict(TABLE_QUESTION)
    assert not several.choices and "separated by commas" in several.user and "single" not in several.user
    assert published_prompts.several_request(CLAIM) == verdict(CLAIM), "a claim has one label"
    variants_several = [v.name for v in variants_of("ucret") if v.method == "ucret_several"]
    assert variants_several == ["ucret_js_several"] and single.choices


verdict = published_prompts.verdict_request
PRINTED_PARTS = yaml.safe_load(Path(__file__).with_name("printed_parts.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [*PRINTED_PARTS, "published_verdict_several"])
def test_a_published_prompt_has_every_printed_part_in_order(name: str) -> None:
    (file,) = Path(evidence_assets.__file__).parent.rglob(f"prompts/{name}.txt")
    paragraphs = re.split(r"\n---\n|\n\n", file.read_text(encoding="utf-8"))
    parts = [paragraph[1:].split("\n", 1) for paragraph in paragraphs if paragraph.startswith("@")]
    assert parts
    for (source, text), (printed, words) in zip(parts, PRINTED_PARTS.get(name, ()), strict=name in PRINTED_PARTS):
        assert source == printed and all(word.casefold() in text.casefold() for word in words.split()), (source, text)


def test_a_chain_explains_whether_the_option_is_right_and_does_not_argue_for_it() -> None:
    request = published_prompts.chain_request(ExplainOption(QUESTION, "A", EVIDENCE))
    assert "whether" in request.system and "towards" not in request.system + request.user


def test_every_published_prompt_names_its_passages() -> None:
    published = {t.name for s in STYLES.values() if s is not DEFAULT_STYLE for task in s.tasks for t in task.templates}
    assert published <= PRINTED_PARTS.keys() | {"published_verdict_several"}
    assert not any("@" in template.system + template.user for template in systems.load_templates())


def test_published_prompts_have_no_hint_for_questions_that_ask_for_an_exception() -> None:
    exception = dataclasses.replace(QUESTION, negated=True)
    negated = dataclasses.replace(CHOOSE, question=exception)
    assert DEFAULT_STYLE.choose and DEFAULT_STYLE.choose.build_request(negated, Prompts()).user.count("NOT fit") == 1
    explain = ExplainOption(QUESTION, "A", EVIDENCE)
    chain, question = published_prompts.chain_request, published_prompts.question_request
    assert chain(dataclasses.replace(explain, question=exception)) == chain(explain)
    assert question(negated) == question(CHOOSE)


def test_answer_and_explanation_come_from_one_call_with_all_passages() -> None:
    request = published_prompts.passages_request(CHOOSE)
    assert in_order(request.user, "What treats pain?", "A) aspirin", "[Passage 1] Aspirin may", "[Passage 2] gold is")
    choice, chain = parse_answer_and_explanation("Answer: A) aspirin\nExplanation: It treats pain [Passage 1].", CHOOSE)
    assert (choice.answer, choice.status, choice.supported) == ("A", "answered", ("A",))
    assert (chain.hypothesis, chain.steps[0].cited) == ("A", ("e1",))
    assert request.user.count("insufficient") == 1, "noted in the explanation, never instead of an option"
    for reply in (
        "Answer: B) gold\nExplanation: The evidence is insufficient.",
        "Answer: B\nThe evidence is insufficient.\nExplanation: No passage tells.",
        "Answer: B (insufficient evidence)\nExplanation: No passage tells.",
    ):
        choice, _ = parse_answer_and_explanation(reply, CHOOSE)
        assert (choice.answer, choice.status) == ("B", "answered"), reply
    choice, chain = parse_answer_and_explanation("Answer: insufficient\nExplanation: No passage tells.", CHOOSE)
    assert (choice.answer, choice.status, chain.hypothesis) == (None, "insufficient", "")
    choice, chain = parse_answer_and_explanation("Answer: A", CHOOSE)
    assert (choice.answer, chain.steps) == ("A", ()) and chain.omissions[0].kind == "missing"


@pytest.mark.parametrize("style", ["chains", "cases"])
def test_a_truncated_explanation_is_kept_and_marked(style: str) -> None:
    generator, cache = ScriptedGenerator("Pain is treated [E1], and so", "length"), CompletionStore()
    solver = PromptedSolver(LanguageModel(generator, cache), STYLES[style])
    task = ExplainOption(CLAIM.question, "REFUTES", CELLS)
    if style == "chains":
        task = ExplainOption(QUESTION, "A", EVIDENCE)
    (chain,) = solver.explain([task])
    assert isinstance(chain, Chain) and chain.steps[0].text == "Pain is treated [E1], and so"
    assert [(each.kind, each.part) for each in chain.omissions] == [("cut", "end")]
    assert len(generator.requests) == 1 and len(cache) == 1, "neither repaired nor asked again"
    (choice,) = solver.choose([CHOOSE if style == "chains" else CLAIM])
    assert isinstance(choice, Failure), "a truncated choice is no answer"


def test_a_truncated_explanation_after_the_answer_is_kept() -> None:
    (answer,) = (task for task in STYLES["passages"].tasks if task.name == "published_answer")
    generator = ScriptedGenerator("Answer: A\nExplanation: It treats pain [Passage 1], and", "length")
    ((result, reply),) = answer.ask_with_cost(LanguageModel(generator), [CHOOSE])
    assert not isinstance(result, Failure) and result[0].answer == "A"
    assert [each.kind for each in find_cut(reply, "end")] == ["cut"] and len(generator.requests) == 1


def test_an_explanation_without_citations_cites_the_cells_that_it_names() -> None:
    explain = ExplainOption(CLAIM.question, "SUPPORTS", CELLS)
    reply = "The row of aspirin has a price of 2.\nNothing else matters."
    (chain,) = scripted_solver(reply, STYLES["cases"]).explain([explain])
    assert isinstance(chain, Chain)
    named = {item.evidence_id for item in CELLS if item.text in ("aspirin", "2")}
    assert [set(step.cited) for step in chain.steps] == [named, set()] and named


def test_a_table_without_cells_is_judged_by_its_caption() -> None:
    caption = (EvidenceItem("c", "caption", "t", "caption", "Prices of drugs"),)
    for evidence in (caption, ()):
        explain = ExplainOption(CLAIM.question, "REFUTES", evidence)
        verdict = dataclasses.replace(CLAIM, evidence=dict.fromkeys(LABELS, evidence))
        for request in (published_prompts.case_request(explain), published_prompts.verdict_request(verdict)):
            assert "Aspirin costs 2." in request.user
            assert ("Caption: Prices of drugs" in request.user) == bool(evidence)


def test_variants_that_are_compared_with_printed_figures_use_printed_prompts() -> None:
    styles = {v.key: v.prompt_style == "published" for v in variants() if v.family in ("mcqa", "table")}
    for place in ("mcqa/uscrake_published", "mcqa/ugat_published", "mcqa/closed_book", "table/ucret_published"):
        assert styles[place], place
    assert not styles["mcqa/uscrake"] and not styles["table/ucret"] and not styles["mcqa/ugat"]
    for name in ("uscrake", "ucret", "ugat"):
        for variant in variants_of(name):
            method = systems.open_method(variant)
            assert getattr(method, "published_style", "") in STYLES and getattr(method, "published_style", ""), (
                variant.key
            )
    assert STYLES[""] is DEFAULT_STYLE
