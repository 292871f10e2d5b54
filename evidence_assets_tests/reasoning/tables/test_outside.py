"""Evidence from outside the table: it speaks only where the table is silent, and is always marked as such."""

from __future__ import annotations

from evidence_assets.reasoning.citations import check
from evidence_assets.reasoning.tables.solver import TableSolver
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption

LABELS = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION")
TABLE = {(0, 0): "Lake", (0, 1): "Depth (m)", (1, 0): "Como", (1, 1): "425", (2, 0): "Garda", (2, 1): "346"}
CELLS = tuple(EvidenceItem(f"e{r}{c}", "cell", "lakes", f"r{r}c{c}", text) for (r, c), text in TABLE.items())
TEXT = EvidenceItem(
    "o1", "chunk", "doc", "", "Lake Como lies in Lombardy. Ferries on lake Garda carry 500 cars. Garda is not frozen."
)
TRIPLE = EvidenceItem("o2", "triple", "t1", "", "Garda outflow Mincio")


def _claim(claim: str, evidence: tuple[EvidenceItem, ...]) -> tuple[Choice, dict[str, Chain]]:
    made = TableSolver().explain([ExplainOption(claim, name, name, evidence, "verification") for name in LABELS])
    chains = tuple(chain for chain in made if isinstance(chain, Chain))
    task = ChooseAnswer(claim, LABELS, LABELS, chains, dict.fromkeys(LABELS, evidence), "verification")
    choice = TableSolver().choose([task])[0]
    assert isinstance(choice, Choice)
    return choice, {chain.hypothesis: chain for chain in chains}


def test_what_the_table_leaves_open_outside_evidence_may_settle() -> None:
    for claim, label in (
        ("Como lies in Lombardy.", "SUPPORTS"),
        ("Ferries on Garda carry 700 cars.", "REFUTES"),
        ("Garda is frozen.", "REFUTES"),
        ("The outflow of Garda is the Mincio.", "SUPPORTS"),
        ("Como has a famous villa with gardens.", "NOT ENOUGH INFORMATION"),
    ):
        alone, _ = _claim(claim, CELLS)
        assert alone.answer == "NOT ENOUGH INFORMATION", claim
        choice, chains = _claim(claim, (*CELLS, TEXT, TRIPLE))
        assert choice.answer == label, claim
        if label != "NOT ENOUGH INFORMATION":
            step = chains[label].steps[-1]
            assert step.text.startswith("Outside the table")
            assert set(step.cited) <= {"o1", "o2"}
            assert {c.verdict for c in check(chains[label], [*CELLS, TEXT, TRIPLE])} == {"verified"}


def test_what_the_table_says_no_text_outside_changes() -> None:
    lie = EvidenceItem("o3", "chunk", "doc", "", "Garda is deeper than Como.")
    for claim, label in (("Garda is deeper than Como.", "REFUTES"), ("Como is deeper than Garda.", "SUPPORTS")):
        choice, chains = _claim(claim, (*CELLS, lie))
        assert choice.answer == label
        assert not any(step.text.startswith("Outside the table") for chain in chains.values() for step in chain.steps)


def _ask(question: str, options: tuple[str, ...], evidence: tuple[EvidenceItem, ...], written: bool) -> Choice:
    labels = tuple("ABCD"[: len(options)])
    tasks = [ExplainOption(question, k, v, evidence, "table_qa") for k, v in zip(labels, options, strict=True)]
    chains = tuple(c for c in TableSolver().explain(tasks) if isinstance(c, Chain)) if written else ()
    task = ChooseAnswer(question, labels, options, chains, dict.fromkeys(labels, evidence), "table_qa")
    choice = TableSolver().choose([task])[0]
    assert isinstance(choice, Choice)
    return choice


def test_options_of_which_no_cell_says_anything() -> None:
    question, options = "In which region does lake Como lie?", ("Tyrol", "Lombardy", "Veneto")
    assert _ask(question, options, CELLS, True).status == "insufficient"
    choice = _ask(question, options, (*CELLS, TEXT), True)
    assert (choice.answer, choice.status) == ("B", "answered")
    assert choice.confidence < 0.1
    assert _ask("How deep is Como?", ("346", "425", "500"), (*CELLS, TEXT), True).answer == "B"


def test_without_chains_the_evidence_is_weighed_directly() -> None:
    for question, options in (
        ("How deep is Como?", ("346", "425", "500")),
        ("Which lake is deepest?", ("Como", "Garda")),
        ("Who?", ("x", "y")),
    ):
        assert _ask(question, options, CELLS, False) == _ask(question, options, CELLS, True)
    task = ChooseAnswer("Garda is deeper than Como.", LABELS, LABELS, (), dict.fromkeys(LABELS, CELLS), "verification")
    choice = TableSolver().choose([task])[0]
    assert isinstance(choice, Choice) and choice.answer == "REFUTES"
