"""Evidence rows of a collapsed table: each cell once, and the same answers as from all cells."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.benchmarks.records import CLAIM_LABELS, Table
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tables.cell_text import stem_content_words
from evidence_assets.reasoning.tables.views import build_view
from evidence_assets.reasoning.tasks import Chain, EvidenceItem, ExplainOption
from evidence_assets.systems import find_method
from evidence_assets.systems.ucret.column_repair import TableWords, find_relevant_rows, match_cell
from evidence_assets.systems.ucret.system import CollapsedTableSelector, collapse_tables
from evidence_assets_tests.systems.ucret.test_system import HashedWords

CELLS = ["fox", "red fox", "meat", "plants; meat", "5 kg", "900", "eats", "", "the arctic fox"]
TEXTS = st.lists(st.sampled_from(["fox", "red", "meat", "5", "eats", "what"]), max_size=4).map(" ".join)


def _items(evidence: Sequence[SelectedEvidence]) -> tuple[EvidenceItem, ...]:
    return tuple(EvidenceItem(p.locator, p.kind, p.parents[0].id, p.locator, p.text) for p in evidence)


def _select_evidence(question: Question, table: Table, variant: str = "keep_all") -> list[SelectedEvidence]:
    selector = CollapsedTableSelector(
        {table.table_id: (table, "1")}, find_method(f"table/{variant}").settings, HashedWords()
    )
    return next(iter(selector.select([question])))


@given(st.lists(st.lists(st.sampled_from(CELLS), min_size=3, max_size=3), min_size=1, max_size=8), TEXTS, TEXTS, TEXTS)
def test_each_cell_is_in_exactly_one_evidence_row(rows: list[list[str]], text: str, first: str, second: str) -> None:
    table = Table("b", "t", "", ("Animal", "Diet", ""), tuple(map(tuple, rows)))
    for options in ((first, second), CLAIM_LABELS):
        task = "table_qa" if options != CLAIM_LABELS else "verification"
        evidence = _select_evidence(Question("q", "b", task, text, options, "t"), table)
        view, ids = build_view(_items(evidence))
        question = Question("q", "b", task, text, options, "t")
        collapsed = next(
            collapse_tables([question], {"t": table}, find_method("table/keep_all").settings, HashedWords())
        )
        assert {location: view.text_at(location) for location in ids} == collapsed.cells
        assert sum(len(p.text.split("\n")) - p.text.split("\n").count("") for p in evidence) == len(collapsed.cells)
        assert len([p for p in evidence if p.kind == "column"]) <= 3


@given(
    st.lists(st.lists(st.sampled_from(CELLS), min_size=6, max_size=6), min_size=1, max_size=3),
    TEXTS,
    st.lists(TEXTS, min_size=1, max_size=3),
)
def test_relevant_rows_are_the_pareto_optimal_ones(columns: list[list[str]], text: str, options: list[str]) -> None:
    words = TableWords.of([""] * len(columns), columns)
    distinguishing = [j for j, column in enumerate(columns) if len(set(column)) > 1]
    text_words, best = set(stem_content_words(text)), set[int]()
    for option in options:
        worth = {
            i: (
                max((match_cell(option, columns[j][i]) for j in distinguishing), default=0.0),
                len(text_words & {word for j in distinguishing for word in stem_content_words(columns[j][i])}),
            )
            for i in range(6)
        }
        best |= {
            i
            for i, (match, n_shared) in worth.items()
            if match > 0
            and not any(m >= match and h >= n_shared and (m, h) != (match, n_shared) for m, h in worth.values())
        }
    relevant = find_relevant_rows(words, range(len(columns)), text, options)
    assert {i for i, rule in relevant.items() if rule == "option"} == best


def test_a_cell_outside_relevant_rows_is_cited_by_its_column() -> None:
    rows = (("Como", "425 m"), ("Garda", "346 m"), ("Iseo", "251 m"), ("Orta", "143 m"))
    lakes = Table("b", "t", "", ("Lake", "Depth"), rows)
    question = Question("q", "b", "table_qa", "How many lakes have a depth over 250?", ("3", "two"), "t")
    items = _items(_select_evidence(question, lakes))
    assert [item.locator for item in items] == ["c0", "c1"] and items[1].text == "Depth\n425 m\n346 m\n251 m\n143 m"
    chain = TableSolver().explain([ExplainOption(question, "A", items)])[0]
    assert isinstance(chain, Chain)
    cited = {(c.evidence_id, c.quoted, c.verdict) for c in check_citations(chain, items)}
    assert {("c1", depth, "verified") for _, depth in rows[:3]} <= cited


@pytest.mark.parametrize(("header", "rows"), [((), ()), ((), ((),)), (("",), (("",),))])
@pytest.mark.parametrize("variant", ["ucret", "ucret_published", "ucret_js_published", "keep_all"])
def test_a_table_without_cells_has_its_caption_as_evidence(
    variant: str, header: tuple[str, ...], rows: tuple[tuple[str, ...], ...]
) -> None:
    table = Table("b", "t", "Prices", header, rows)
    for task, options in (("verification", CLAIM_LABELS), ("table_qa", ("fox", "meat"))):
        evidence = _select_evidence(Question("q", "b", task, "A fox eats meat.", options, "t"), table, variant)
        assert [(item.kind, item.text) for item in evidence] == [("caption", "Prices")]
