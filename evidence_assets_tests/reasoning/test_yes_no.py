"""Yes, no and maybe are read from what a document finds, and cite it."""

from __future__ import annotations

from evidence_assets.reasoning.citations import check
from evidence_assets.reasoning.extractive import FIRST, LABELS, WITH_NOTHING_FOUND, ExtractiveSolver
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets_tests.systems.small_models import minilm

QUESTION = "Does early exercise reduce pain after knee surgery?"
FOUND = "Pain was significantly lower with early exercise (p < 0.01). Patients walked 20 % farther."
NOTHING = "There was no significant difference in pain between the groups. Scores were similar after a year."
OTHER = "There was no effect of the diet on milk yield. Cows did not change weight."


def answered(*texts: str, documents: dict[str, str] | None = None) -> tuple[list[Chain], Choice]:
    items = tuple(EvidenceItem(f"e{n}", "chunk", f"c{n}", "", text) for n, text in enumerate(texts))
    solver = ExtractiveSolver(minilm(), documents=lambda chunks: documents or {})
    tasks = [ExplainOption(QUESTION, label, option, items) for label, option in zip("ABC", LABELS, strict=True)]
    chains = [chain for chain in solver.explain(tasks) if isinstance(chain, Chain)]
    for chain in chains:
        assert {citation.verdict for citation in check(chain, items)} <= {"verified"}
    (choice,) = solver.choose([ChooseAnswer(QUESTION, ("A", "B", "C"), LABELS, tuple(chains))])
    assert isinstance(choice, Choice)
    return chains, choice


def test_findings_say_yes_and_findings_of_nothing_no() -> None:
    chains, choice = answered(FOUND)
    assert (choice.answer, choice.status) == ("A", "answered")
    assert chains[0].steps[0].quoted == ("Pain was significantly lower with early exercise (p < 0.01).",)
    chains, choice = answered(NOTHING)
    assert choice.answer == "B" and chains[1].steps[0].cited == ("e0",) and not chains[0].steps[0].cited


def test_shares_are_those_of_the_stated_odds() -> None:
    chains, _ = answered(NOTHING)
    from math import exp

    odds = [exp(FIRST[label] + WITH_NOTHING_FOUND[label]) for label in LABELS]
    assert [chain.support for chain in chains] == [round(each / sum(odds), 6) for each in odds]


def test_only_the_document_that_comes_nearest_is_read() -> None:
    chains, choice = answered(FOUND, OTHER)
    assert choice.answer == "A" and chains == answered(FOUND)[0]
    together, _ = answered(FOUND, OTHER, documents={"c0": "d", "c1": "d"})
    assert (together[1].support or 0) > (chains[1].support or 0)


def test_without_evidence_nothing_is_supported() -> None:
    chains, choice = answered()
    assert (
        choice.status == "insufficient" and choice.supported == () and [chain.support for chain in chains] == [0.0] * 3
    )
