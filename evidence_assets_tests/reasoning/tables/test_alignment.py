"""The cells that a sentence names, and those that it only seems to name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.tables.alignment import cite_named_cells
from evidence_assets.reasoning.tasks import Chain, EvidenceItem

GRID = [
    ("Year", "Club", "Result", "Goals"),
    ("1998", "Manchester United", "won", "3"),
    ("1999", "United", "lost", "1"),
    ("2000", "Arsenal", "won", "2"),
]
CELLS = [
    EvidenceItem(f"e{i}{j}", "cell", "t", f"r{i}c{j}", text) for i, row in enumerate(GRID) for j, text in enumerate(row)
]


@pytest.mark.parametrize(
    ("sentence", "cited"),
    [
        ("In 2000 the club was Arsenal.", ("e30", "e31")),
        ("In 1998, Manchester United won with 3 goals.", ("e10", "e11", "e12", "e13")),
        ("The side won twice.", ()),  # two rows have it, and the sentence names no row
        ("Three of 3 rows are examined.", ()),
        ("manchester united is in the table", ("e11",)),  # and not the club of the second row
        ("The year 2,000 is none of them, nor is 19989.", ()),
        ("The columns are Year and Club.", ()),
        ("Arsenal's goals were 2.", ("e31", "e33")),
        ("Arsenal’s side won.", ("e31", "e32")),
    ],
)
def test_a_sentence_cites_the_cells_that_it_names(sentence: str, cited: tuple[str, ...]) -> None:
    assert cite_named_cells(sentence, CELLS).cited == cited


def test_the_cells_of_a_column_are_one_row_of_evidence() -> None:
    column = EvidenceItem("c1", "column", "t", "c1", "Club\nManchester United\nArsenal")
    step = cite_named_cells("Arsenal and Manchester United are clubs.", [column])
    assert (step.cited, step.quoted) == (("c1",), ("Manchester United", "Arsenal"))


@given(st.lists(st.sampled_from([cell for row in GRID for cell in row] + ["and", "-", "the"]), max_size=8))
def test_each_citation_of_any_sentence_is_verified(words: list[str]) -> None:
    step = cite_named_cells(" ".join(words), CELLS)
    citations = check_citations(Chain("A", (step,)), CELLS)
    assert all(citation.verdict == "verified" for citation in citations)
    assert {citation.evidence_id for citation in citations} == set(step.cited)


def test_a_cell_with_a_possessive_is_named_by_it() -> None:
    cell = EvidenceItem("e1", "cell", "t", "r1c0", "Alzheimer's disease")
    assert cite_named_cells("It lists Alzheimer's disease.", [cell]).cited == ("e1",)
