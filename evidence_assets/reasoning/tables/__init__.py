"""The extractive reasoner on tables: deterministic, without a language model, from the table and the words alone."""

from evidence_assets.reasoning.tables.choices import answer_choice
from evidence_assets.reasoning.tables.claims import verify_claim
from evidence_assets.reasoning.tables.view import Place, TableAnswer, TableChain, TableStep, TableView

__all__ = [
    "Place",
    "TableAnswer",
    "TableChain",
    "TableStep",
    "TableView",
    "answer_choice",
    "verify_claim",
]
