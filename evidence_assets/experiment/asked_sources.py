"""What one question is put to, source by source: documents, a graph and tables; and the choice among their answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evidence_assets.benchmarks.records import Table
from evidence_assets.experiment.ad_hoc_questions import QuestionSource, parse_table
from evidence_assets.experiment.solvers import TABLE_SOLVER
from evidence_assets.reasoning.tables.cell_text import collect_words

MAX_TABLES = 5
"""Tables that a question is put to: those with the most words of it. Each takes about 0.2 s."""
_NAME = re.compile(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*|(?<=\bin )(?:1\d|20)\d\d\b")
"""A word inside a sentence, whose capital letter says that it is a name; or a year."""
_KIND = re.compile(r"\b(?:which|what) ([^\W\d_]\w*)", re.IGNORECASE)
"""The kind of thing that a question asks for."""
_NO_CELL = re.compile(r"why\b|how come\b", re.IGNORECASE)
"""Questions that no cell answers."""


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
    """The tables that may answer a question, those with most words of it first."""
    words = collect_words(question)
    n_shared = {}
    for number, table in enumerate(tables):
        n_known = len(words & _collect_words(table, table.rows))
        if n_known and _is_about(table, question, words) and _has_options(table, question, options):
            n_shared[number] = n_known
    best = sorted(n_shared, key=lambda number: -n_shared[number])[:MAX_TABLES]
    return [AskedSource(QuestionSource(table=tables[number].table_id), tables[number]) for number in best]


def _is_about(table: Table, question: str, words: frozenset[str]) -> bool:
    """Whether a table has half of the question's words, all its names, and the kind of thing that it asks for.

    "Which boat is cheapest?" asks for no item of a list of prices, although a "boat hook" is one.
    """
    if _NO_CELL.match(question.strip()):
        return False
    labels = _collect_words(table, ())
    table_words = _collect_words(table, table.rows)
    names = [name for name in _NAME.findall(question) if not name[0].islower() and name != "I"]
    if 2 * len(words & table_words) < len(words) or not all(collect_words(name) <= table_words for name in names):
        return False
    kinds = [collect_words(kind) & table_words for kind in _KIND.findall(question)]
    return all(kind <= labels for kind in kinds)


def _collect_words(table: Table, rows: Sequence[Sequence[str]]) -> frozenset[str]:
    """The stems of a table's name, caption and header, and of these rows."""
    name = re.sub(r"[\W_]+", " ", table.table_id.rpartition("@")[0])
    texts = [name, table.caption, *table.header, *(cell for row in rows for cell in row)]
    return frozenset(word for text in texts if text.strip() for word in collect_words(text))


def _has_options(table: Table, question: str, options: Sequence[str]) -> bool:
    """Whether a question can be put to a table: a claim, or one with two possible answers."""
    if not table.header or not table.rows:
        return False
    if options or TABLE_SOLVER.is_statement(question):
        return True
    return len(TABLE_SOLVER.list_options(parse_table(table), question)) > 1


def is_answer(status: str) -> bool:
    """Whether a source answers; one that refuses, fails or does not decide does not."""
    return status not in ("insufficient", "failed", "ambiguous")


def choose_answer(answers: Sequence[tuple[str, float | None]]) -> int:
    """The position of the best of some answers, given by status and confidence.

    It is the one that answers with the highest confidence, else the first ambiguous one, else the first.
    """
    answered = [position for position, (status, _) in enumerate(answers) if is_answer(status)]
    if answered:
        return max(answered, key=lambda position: answers[position][1] or 0.0)
    return next((position for position, (status, _) in enumerate(answers) if status == "ambiguous"), 0)
