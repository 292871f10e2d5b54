"""Finding the table that a question is about, when it must be picked among many.

What belongs here: an index of rows by their words, and the score of a table as that of its best row. Rows are weighed
by inverse frequency over all rows of all tables, as BM25 does; as rows are short, repeats within one count once.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evidence_assets.reasoning.tables.choices import answer_choice, cell_support
from evidence_assets.reasoning.tables.text import word_set
from evidence_assets.reasoning.tables.view import TableAnswer, TableView

# How many tables are read for one question, and what finding the right one weighs against reading it.
_TABLES_READ = 6
_FINDER_WEIGHT = 0.5


class TableFinder:
    """Index over the rows of many tables.

    Parameters
    ----------
    views
        The tables; header words count in every row of theirs.
    """

    def __init__(self, views: Sequence[TableView]) -> None:
        self.views = tuple(views)
        postings: dict[str, list[int]] = defaultdict(list)
        table_of: list[int] = []
        for number, view in enumerate(self.views):
            heads = frozenset().union(*(word_set(label) for label in view.shape.labels)) | word_set(view.caption)
            for i in view.body or (0,):
                texts = (word_set(view.cell((i, j)).plain) for j in view.columns)
                for word in heads.union(*texts):
                    postings[word].append(len(table_of))
                table_of.append(number)
        self._rows = {word: np.array(rows, dtype=np.int64) for word, rows in postings.items()}
        self._table_of = np.array(table_of, dtype=np.int64)

    def weight(self, word: str) -> float:
        """``log(1 + N / (0.5 + n))`` for a word of ``n`` among ``N`` rows."""
        return math.log(1.0 + len(self._table_of) / (0.5 + len(self._rows.get(word, ()))))

    def rank(self, question: str, options: Sequence[str] = ()) -> list[tuple[int, float]]:
        """Tables with their scores, best first, those without a shared word left out.

        The score of a row is the weighed share of the question's words in it, plus that of its best option.
        """
        scores = self._coverage(question)
        if options:
            scores = scores + np.max([self._coverage(option) for option in options], axis=0)
        best = np.zeros(len(self.views))
        np.maximum.at(best, self._table_of, scores)
        order = np.argsort(-best, kind="stable")
        return [(int(number), float(best[number])) for number in order if best[number] > 0]

    def _coverage(self, text: str) -> NDArray[np.float64]:
        words = sorted(word_set(text))
        scores = np.zeros(len(self._table_of))
        total = sum(self.weight(word) for word in words)
        for word in words:
            rows = self._rows.get(word)
            if rows is not None:
                scores[rows] += self.weight(word) / total
        return scores

    def answer(self, question: str, labels: Sequence[str], options: Sequence[str]) -> TableAnswer:
        """Answer a multiple-choice question from the table, among all, that speaks most clearly."""
        best: TableView | None = None
        best_score = -math.inf
        for number, found in self.rank(question, options)[:_TABLES_READ]:
            # Any table can be counted or ranked; only its own words say that the question is about it.
            support = cell_support(self.views[number], question, options)
            score = support + _FINDER_WEIGHT * found
            if support > 0 and score > best_score:
                best, best_score = self.views[number], score
        if best is None:
            return TableAnswer(None, (), "insufficient", 0.0, ())
        return answer_choice(best, question, labels, options)
