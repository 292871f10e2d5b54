"""Prompts for tables: the tasks, their prompts, and the parsing of replies."""

import dataclasses

from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.reasoning.table_prompts import is_table_task, parse_steps, table_text
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.reasoning.test_prompted_solver import CHOOSE, EXPLAIN
from evidence_assets_tests.systems.small_models import ScriptedGenerator

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION")
CELLS = {(0, 0): "Lake", (0, 1): "Depth", (1, 0): "Como", (1, 1): "425", (2, 0): "Garda", (2, 1): "346"}
EVIDENCE = tuple(EvidenceItem(f"e{r}{c}", "cell", "lakes", f"r{r}c{c}", text) for (r, c), text in CELLS.items())
CLAIM = ExplainOption(make_question("Como is deeper than Garda.", *LABELS, task="verification"), "SUPPORTS", EVIDENCE)
OPTION = ExplainOption(make_question("Which is deeper?", "Como", "Garda", task="table_qa"), "B", EVIDENCE)
CASE = Chain("SUPPORTS", (ChainStep('[r1c1] "425" is more than [r2c1] "346".', ("e11", "e21"), ("425", "346")),))
VERIFY = ChooseAnswer(CLAIM.question, (CASE,), dict.fromkeys(LABELS, EVIDENCE))
CHOICE = ChooseAnswer(dataclasses.replace(OPTION.question, negated=True), (), dict.fromkeys("AB", EVIDENCE))


def _solver(reply: str) -> tuple[PromptedSolver, ScriptedGenerator]:
    generator = ScriptedGenerator(reply)
    return PromptedSolver(LanguageModel(generator)), generator


def test_the_task_and_its_evidence_determine_the_prompt() -> None:
    assert is_table_task(CLAIM) and is_table_task(OPTION) and is_table_task(VERIFY) and is_table_task(CHOICE)
    assert not is_table_task(EXPLAIN) and not is_table_task(CHOOSE)
    assert not is_table_task(dataclasses.replace(CLAIM, evidence=EXPLAIN.evidence))
    assert not is_table_task(dataclasses.replace(CLAIM, evidence=()))


def test_an_explanation_cites_evidence_by_cell_ids() -> None:
    solver, generator = _solver('1. [r1c1] "425" tops [r2c1] "346".\n2. So it holds.')
    chain, option = solver.explain([CLAIM, OPTION])
    assert isinstance(chain, Chain) and chain.hypothesis == "SUPPORTS" and chain.prompt_hash
    assert chain.steps[0].cited == ("e11", "e21") and chain.steps[0].quoted == ("425", "346")
    assert chain.steps[1].cited == ()
    claim_request, option_request = generator.requests
    assert "[r1c1] 425" in claim_request.user and "proves the claim true" in claim_request.user
    assert "<<< option B " in option_request.user and claim_request.max_tokens == 1024 and not claim_request.json_schema
    assert isinstance(option, Chain) and option.hypothesis == "B"


def test_a_caption_precedes_its_table_and_is_cited_by_name() -> None:
    above = EvidenceItem("above", "caption", "lakes", "caption", "Lakes of the Alps, in metres")
    assert not is_table_task(dataclasses.replace(CLAIM, evidence=(above,)))
    solver, generator = _solver('1. [caption] "in metres", so [r1c1] "425" is a depth.')
    chain, without = solver.explain([dataclasses.replace(CLAIM, evidence=(*EVIDENCE, above)), CLAIM])
    assert "[caption] Lakes of the Alps, in metres\n[r0c0] Lake" in generator.requests[0].user
    assert isinstance(chain, Chain)
    assert chain.steps[0].cited == ("above", "e11") and chain.steps[0].quoted == ("in metres", "425")
    assert isinstance(without, Failure) and "cites caption" in without.reason


def test_an_empty_cell_is_cited_as_absent_evidence() -> None:
    solver, _ = _solver('1. [r2c1] "346" is missing.')
    partial = dataclasses.replace(
        CLAIM, evidence=(*EVIDENCE[:4], EvidenceItem("e20", "cell", "lakes", "r2c0", "Garda"))
    )
    (chain,) = solver.explain([partial])
    assert isinstance(chain, Chain) and chain.steps[0].cited == ("r2c1",)


def test_verification_returns_exactly_one_label() -> None:
    solver, generator = _solver("SUPPORTS")
    assert solver.choose([VERIFY]) == [Choice("SUPPORTS", ("SUPPORTS",), "answered")]
    request = generator.requests[0]
    assert request.choices == LABELS and request.max_tokens == 32
    assert "<<< case for SUPPORTS " in request.user and "[r2c1] 346" in request.user
    assert request.user.endswith(
        "exactly one of these labels and nothing else: SUPPORTS, REFUTES, NOT ENOUGH INFORMATION"
    )


def test_options_have_letters_and_a_negated_question_is_marked() -> None:
    solver, generator = _solver("b")
    (choice,) = solver.choose([CHOICE])
    assert isinstance(choice, Choice) and choice.answer == "B"
    assert "does NOT fit" in generator.requests[0].user and generator.requests[0].choices == ("A", "B")


def test_cells_have_ids_that_steps_cite() -> None:
    view = TableView.of("Scores", ["Model", "F1"], [["A", "[BOLD] 1.0"], ["B", ""]])
    assert table_text(view).splitlines() == [
        "[caption] Scores",
        "[r0c0] Model | [r0c1] F1",
        "[r1c0] A | [r1c1] 1.0",
        "[r2c0] B | [r2c1] (empty)",
    ]
    first, second = parse_steps('1. [r1c0] "Como" has [r1c1] "425".\n2. So it leads,\nby far.', CLAIM)
    assert first == ChainStep('[r1c0] "Como" has [r1c1] "425".', ("e10", "e11"), ("Como", "425"))
    assert second == ChainStep("So it leads, by far.")
