"""Typed tasks with cells: only the evidence is used and cited."""

from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.reasoning.tables.views import build_view
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets_tests.reasoning.small_questions import make_question

CELLS = {
    (0, 1): "Animal",
    (0, 3): "Diet",
    (1, 1): "Buffalo",
    (1, 3): "herbivore",
    (4, 1): "Raccoon",
    (4, 3): "omnivore",
}
EVIDENCE = tuple(EvidenceItem(f"e{r}-{c}", "cell", "diet", f"r{r}c{c}", text) for (r, c), text in CELLS.items())
QUESTION = make_question("What is the diet of a raccoon?", "herbivore", "omnivore", "granite", task="table_qa")


def _chains(evidence: tuple[EvidenceItem, ...] = EVIDENCE) -> tuple[Chain, ...]:
    tasks = [ExplainOption(QUESTION, label, evidence) for label in QUESTION.labels]
    chains = TableSolver().explain(tasks)
    assert all(isinstance(chain, Chain) for chain in chains)
    return tuple(chain for chain in chains if isinstance(chain, Chain))


def test_without_evidence_no_option_is_supported() -> None:
    chains = _chains(())
    choice = TableSolver().choose([ChooseAnswer(QUESTION, chains)])[0]
    assert isinstance(choice, Choice)
    assert (choice.answer, choice.supported, choice.status) == ("A", (), "insufficient")
    assert set(choice.weights.values()) == {0.0}


def test_an_open_claim_names_words_that_are_not_in_the_table_or_caption() -> None:
    caption = EvidenceItem("above", "caption", "diet", "caption", "Diets observed in captivity")
    claim = make_question("In captivity the zoo observed diets.", *CLAIM_LABELS, task="verification")
    results = []
    for evidence in (EVIDENCE, (*EVIDENCE, caption)):
        view, ids = build_view(evidence)
        assert "above" not in ids.values() and set(ids) == set(CELLS)
        task = ExplainOption(claim, "NOT ENOUGH INFORMATION", evidence)
        chain = TableSolver().explain([task])[0]
        assert isinstance(chain, Chain) and chain.support is not None
        results.append((chain.support, chain.steps[-1].text))
    assert view.caption == caption.text
    (support, text), (support_with_caption, text_with_caption) = results
    assert support_with_caption < support
    assert text.endswith("The cells and the caption do not mention “captivity”, “zoo”, “observed”.")
    assert text_with_caption.endswith("The cells and the caption do not mention “zoo”.")


def test_a_choice_without_a_chain_for_each_label_fails() -> None:
    only = (Chain("A", (), 0.5),)
    (incomplete,) = TableSolver().choose([ChooseAnswer(make_question("Which?", "a", "b", task="table_qa"), only)])
    assert isinstance(incomplete, Failure) and "no chain for B" in incomplete.reason
