"""UCRET on small tables with a tiny encoder: selected cells, their rules, and answers from them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from evidence_assets.benchmarks.readers import read_pairs, read_questions
from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.systems import find_method
from evidence_assets.systems.ucret.columns import UcretSettings
from evidence_assets.systems.ucret.system import CollapsedTableSelector, TableEvidence, Ucret, collapse_tables
from evidence_assets_tests.extractive.tables.solver_calls import SolverAnswer, answer_choice, verify_claim
from evidence_assets_tests.systems.small_models import WordEncoder

VARIANTS: dict[str, UcretSettings] = {
    variant.name: find_method(variant.key).settings
    for variant in variants_of("ucret")
    if variant.explain and not variant.method and not any("grids" in preset for preset in variant.printed.presets)
}


def table_question(question_id: str, text: str, table_id: str, options: tuple[str, ...] = ()) -> Question:
    return Question(question_id, "b", "table_qa" if options else "verification", text, options, table_id)


def answer(evidence: TableEvidence, labels: Sequence[str]) -> SolverAnswer:
    """The answer of the solver from the kept cells."""
    question, view = evidence.question, TableView.from_cells(dict(evidence.cells))
    if question.options:
        return answer_choice(view, question.text, question.options)
    return verify_claim(view, question.text)


class HashedWords(WordEncoder):
    """Encodes long texts, also as vectors without unit length."""

    max_tokens = 512

    def pool_sentences(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.float32(7.0) * self.encode_sentences(texts)


DIET = Table(
    "b",
    "diet",
    "",
    ("", "Animal", "", "Diet", "Weight"),
    (
        ("A(n)", "Buffalo", "is a(n)", "herbivore", "900 kg"),
        ("A(n)", "Arctic fox", "is a(n)", "carnivore", "5 kg"),
        ("A(n)", "Raccoon", "is a(n)", "[BOLD] omnivore", "7 kg"),
        ("A(n)", "Wolf", "is a(n)", "carnivore", "40 kg"),
    ),
)
SCORES = Table(
    "b", "scores", "", ("Model", "Precision", "Recall"), (("Alpha", "71.0", "60.5"), ("Beta", "74.8", "62.0"))
)
TABLES = {"diet": DIET, "scores": SCORES}
QUESTION = table_question("q1", "What is the diet of a raccoon?", "diet", ("herbivore", "carnivore", "omnivore"))
CLAIM = table_question("q2", "Beta has the precision 74.8.", "scores")


def test_repaired_variants_keep_the_deciding_cells() -> None:
    for name in ("ucret", "ucret_js"):
        choice, claim = list(collapse_tables([QUESTION, CLAIM], TABLES, VARIANTS[name], HashedWords()))
        assert {1, 3} <= set(choice.columns.indices)
        assert {0, 1} <= set(claim.columns.indices)
        assert answer(choice, ("A", "B", "C")).answer == "C"
        verdict = answer(claim, ())
        assert verdict.answer == "SUPPORTS"
        cited = {location for step in verdict.chain("SUPPORTS").steps for location in step.cells}
        assert (2, 1) in cited
        assert cited <= claim.cells.keys()


def test_vectors_without_unit_length_come_from_the_encoder() -> None:
    published, raw = (
        next(collapse_tables([QUESTION], TABLES, VARIANTS[name], HashedWords())).columns.kept_lines
        for name in ("ucret_js_published", "ucret_js_raw")
    )
    assert [item.score for item in published] != [item.score for item in raw]


def test_our_variants_keep_all_columns_for_claims_and_relevant_ones_for_questions() -> None:
    for name in ("ucret", "ucret_js"):
        results = list(collapse_tables([QUESTION, CLAIM], TABLES, VARIANTS[name], HashedWords()))
        alone = [next(collapse_tables([q], TABLES, VARIANTS[name], HashedWords())) for q in (QUESTION, CLAIM)]
        assert results == alone
        assert results[1].columns.indices == (0, 1, 2)
        assert {item.rule for item in results[1].columns.kept_lines} == {"all"}
        assert "all" not in {item.rule for item in results[0].columns.kept_lines}
    encoder = HashedWords()
    list(collapse_tables([CLAIM], TABLES, VARIANTS["ucret"], encoder))
    assert not encoder.encoded_texts, "no text is compared if every column is kept"
    published = next(collapse_tables([CLAIM], TABLES, VARIANTS["ucret_published"], HashedWords()))
    assert len(published.columns.kept_lines) < 3


def test_keep_all_selects_without_vectors() -> None:
    encoder = HashedWords()
    [evidence] = collapse_tables([QUESTION], TABLES, VARIANTS["keep_all"], encoder)
    assert evidence.columns.indices == (0, 1, 2, 3, 4) and not encoder.encoded_texts


def test_a_caption_is_evidence_after_the_cells() -> None:
    tables = {"diet": (replace(DIET, caption=" Diets of mammals "), "1"), "scores": (SCORES, "1")}
    for settings in VARIANTS.values():
        first, second = CollapsedTableSelector(tables, settings, HashedWords()).select([QUESTION, CLAIM])
        assert [(p.kind, p.locator, p.text) for p in first if p.kind == "caption"] == [
            ("caption", "caption", "Diets of mammals")
        ]
        assert first[-1].kind == "caption" and first[-1].parents[0].id == "diet"
        assert all(item.kind != "caption" for item in second), "this table has no caption"


def test_a_column_is_split_only_if_it_exceeds_the_encoder_limit() -> None:
    long = Table("b", "t", "", ("Animal", "Note"), tuple((f"beast {i}", f"it sleeps for {i} hours") for i in range(60)))
    question = table_question("q", "Which beast sleeps for 7 hours?", "t", ("beast 7", "beast 8"))
    for max_tokens, is_whole in ((8192, True), (100, False)):
        encoder = HashedWords()
        encoder.max_tokens = max_tokens
        collapsed = next(collapse_tables([question], {"t": long}, VARIANTS["ucret_published"], encoder))
        notes = [text for text in encoder.encoded_texts if text.startswith("Note: ")]
        assert (len(notes) == 1) == is_whole and max(encoder.count_tokens(notes)) <= max_tokens
        assert all(any(f"it sleeps for {i} hours" in text for text in notes) for i in range(60)) and collapsed.cells


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"measure": "cosin"}, "Input should be 'cosine'"),
        ({"tau": 1.5}, "less than or equal to 1"),
        ({"clusters": 0}, "greater than 0"),
        ({"clusters": 2.5}, "valid integer"),
        ({"measure": "jsd", "temperature": 0}, "greater than 0"),
        ({"clustres": 2}, "has no parameter 'clustres'; did you mean 'clusters'"),
    ],
)
def test_invalid_settings_are_rejected(parameters: dict[str, Any], message: str) -> None:
    variant = Variant(system="ucret", family="table", name="x", parameters=parameters)
    with pytest.raises(BadInput, match=message):
        Ucret(variant)


@pytest.mark.parametrize("name", sorted(VARIANTS))
@pytest.mark.parametrize(
    "table",
    [
        Table("b", "t", "", (), ()),
        Table("b", "t", "", ("a", "b"), ()),
        Table("b", "t", "", (), ((), ())),
        Table("b", "t", "", ("x", "x", ""), (("1",), ("1", "2", "3", "4"), ())),
        Table("b", "t", "", tuple(f"h{j}" for j in range(500)), (tuple(str(j) for j in range(500)),)),
        Table("b", "t", "", ("a", "b"), (("x " * 50_000, "٣"), ("<b>y</b>", "[EMPTY]"))),
    ],
    ids=["nothing", "no rows", "no columns", "ragged", "500 columns", "100 kB cell"],
)
def test_odd_tables_have_a_defined_result(name: str, table: Table) -> None:
    claim = table_question("q", "The speed of x is 3.", "t")
    choice = table_question("r", "What is the speed?", "t", ("fast", "slow"))
    evidence = list(collapse_tables([claim, choice], {"t": table}, VARIANTS[name], HashedWords()))
    assert answer(evidence[0], ()).answer in {"SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION"}
    assert answer(evidence[1], ("A", "B")).status == "insufficient"


@pytest.mark.dev_data
def test_real_questions_keep_the_answer_column_and_are_answered(dev_data: Path) -> None:
    tables = {table.table_id: table for _, table in read_pairs("tabmcq", dev_data / "tabmcq", "all")}
    questions = list(read_questions("tabmcq", dev_data / "tabmcq", "all"))[:150]
    table_questions = [table_question(q.question_id, q.text, q.table_id or "", q.options) for q in questions]
    evidence = list(collapse_tables(table_questions, tables, VARIANTS["ucret"], HashedWords()))
    is_kept = [
        q.gold_evidence[0].locator.split("c")[1] in map(str, e.columns.indices)
        for q, e in zip(questions, evidence, strict=True)
    ]
    right = [answer(e, q.labels).answer == q.gold[0] for q, e in zip(questions, evidence, strict=True)]
    assert sum(is_kept) / len(is_kept) >= 0.98
    assert sum(right) / len(right) >= 0.95
