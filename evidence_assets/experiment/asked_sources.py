"""What one question is put to, source by source: documents, a graph and tables; and the choice among their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.ad_hoc_questions import QuestionSource, parse_table
from evidence_assets.experiment.solvers import TABLE_SOLVER
from evidence_assets.experiment.stored_rows import PredictionRow
from evidence_assets.reasoning.tables.cell_text import collect_words

MAX_TABLES = 5
"""Tables that a question is put to: those with the most words of it. Each takes about 0.2 s."""
_NAME = re.compile(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*")
"""A word inside a sentence, whose capital letter says that it is a name."""


@dataclass(frozen=True)
class AskedSource:
    """One source of an answer: documents, a graph or both as ``source`` names them, or a table."""

    source: QuestionSource
    table: Table | None = None

    @property
    def name(self) -> str:
        """What the output calls the source."""
        if self.table is not None:
            return self.table.table_id.rpartition("@")[0]
        return "the documents" if self.source.corpus else f"the graph {self.source.graph}"

    @property
    def statement_start(self) -> str:
        """The source as the subject of what it says."""
        return f"{self.name} {'say' if self.source.corpus else 'says'}"


def list_sources(source: QuestionSource, *, is_joint: bool) -> list[AskedSource]:
    """Documents and graph as one source if they are read jointly, else as two."""
    parts = [source] if is_joint else [QuestionSource(corpus=source.corpus), QuestionSource(graph=source.graph)]
    return [AskedSource(part) for part in parts if part.corpus or part.graph]


def select_tables(tables: Sequence[Table], question: str, options: Sequence[str]) -> list[AskedSource]:
    """The tables that may answer a question: with a word of it and all its names, those with most words first."""
    words = collect_words(question)
    names = [word for word in _NAME.findall(question) if word[0].isupper() and word != "I"]
    n_shared = {}
    for number, table in enumerate(tables):
        table_words = _collect_table_words(table)
        has_names = all(collect_words(name) <= table_words for name in names)
        if has_names and words & table_words and _has_options(table, question, options):
            n_shared[number] = len(words & table_words)
    best = sorted(n_shared, key=lambda number: -n_shared[number])[:MAX_TABLES]
    return [AskedSource(QuestionSource(table=tables[number].table_id), tables[number]) for number in best]


def _collect_table_words(table: Table) -> frozenset[str]:
    """The stems of a table's name, caption and cells."""
    texts = [re.sub(r"[\W_]+", " ", table.table_id.rpartition("@")[0]), table.caption]
    texts += [cell for row in (table.header, *table.rows) for cell in row]
    return frozenset(word for text in texts if text.strip() for word in collect_words(text))


def _has_options(table: Table, question: str, options: Sequence[str]) -> bool:
    """Whether a question can be put to a table: a claim, or one with two possible answers."""
    if not table.header or not table.rows:
        return False
    if options or TABLE_SOLVER.is_statement(question):
        return True
    return len(TABLE_SOLVER.list_options(parse_table(table), question)) > 1


def choose_prediction(predictions: Sequence[PredictionRow]) -> int:
    """The position of the answered prediction with the highest confidence, else of the first ambiguous, else 0."""
    answered = [n for n, prediction in enumerate(predictions) if prediction["status"] == "answered"]
    if answered:
        return max(answered, key=lambda n: predictions[n]["confidence"] or 0.0)
    return next((n for n, prediction in enumerate(predictions) if prediction["status"] == "ambiguous"), 0)
