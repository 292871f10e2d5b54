"""Statements that answer a question as a whole."""

import pytest

from evidence_assets.extractive.spans import statements
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.extractive.spans.statements import StatementChoice, find_statement, load_statement_weights
from evidence_assets.reasoning.tasks import EvidenceItem


@pytest.mark.parametrize(
    ("question", "is_answer"),
    [
        ("How deep is the river Arl?", False),
        ("How wide is the river Arl?", True),
        ("How long is the river Arl?", True),
        ("Where is the river Arl?", True),
    ],
)
def test_a_sure_statement_has_the_adjective_of_the_question(
    monkeypatch: pytest.MonkeyPatch, question: str, is_answer: bool
) -> None:
    [passage] = split_passages([EvidenceItem("e", "chunk", "d", "0:1", "At the mill the river Arl is 60 metres wide.")])
    monkeypatch.setattr(statements, "choose_statement", lambda *_: StatementChoice(passage, 1.0))
    assert (find_statement([], question, load_statement_weights()) is not None) == is_answer


@pytest.mark.parametrize(
    ("text", "is_answer"),
    [
        ("The cake is baked by Rosalind's mother after a recipe from Freetown.", False),
        ("The cake is baked by Rosalind's mother, Ada Kamara.", True),
        ("Ada Kamara is Rosalind's mother.", True),
    ],
)
def test_a_sure_statement_has_the_name_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, text: str, is_answer: bool
) -> None:
    [passage] = split_passages([EvidenceItem("e", "chunk", "d", "0:1", text)])
    monkeypatch.setattr(statements, "choose_statement", lambda *_: StatementChoice(passage, 1.0))
    statement = find_statement([], "What is the name of Rosalind's mother?", load_statement_weights())
    assert (statement is not None) == is_answer
