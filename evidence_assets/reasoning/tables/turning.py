"""Answers from a table that was turned round, told in places of the table as given.

What belongs here: exchanging rows and columns of what a chain cites. Which tables are turned is known to `view`.
"""

from __future__ import annotations

from dataclasses import replace

from evidence_assets.reasoning.tables.view import TableAnswer, TableChain, TableView

VERSION = "1"


def as_given(answer: TableAnswer, view: TableView) -> TableAnswer:
    """An answer read from ``view``, its cells at their places in the table as given."""
    if not view.turned:
        return answer
    return replace(answer, chains=tuple(_turned(chain) for chain in answer.chains))


def _turned(chain: TableChain) -> TableChain:
    steps = (replace(step, cells=tuple((column, row) for row, column in step.cells)) for step in chain.steps)
    return replace(chain, steps=tuple(steps))
