"""The reasoner on tables behind the typed tasks: cells and a caption in as evidence, cited chains and answers out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import fsum, log

from evidence_assets.reasoning.tables import claims, questions
from evidence_assets.reasoning.tables.table import Place, TableChain, TableView
from evidence_assets.reasoning.tasks import (
    CAPTION,
    TABLE_KINDS,
    Chain,
    ChainStep,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Failure,
)

# The least probability that a label is given: its logarithm is its weight.
_LEAST = 1e-6
_LOCATOR, _COLUMN = re.compile(r"r(\d+)c(\d+)"), re.compile(r"c(\d+)")


def place_of(locator: str) -> Place:
    """``(row, column)`` of a locator such as ``r3c1``; ValueError if it names no cell."""
    match = _LOCATOR.fullmatch(locator)
    if match is None:
        raise ValueError(f"{locator!r} names no cell; expected r<row>c<column>")
    return int(match[1]), int(match[2])


def view_of(evidence: Sequence[EvidenceItem]) -> tuple[TableView, dict[Place, str]]:
    """The table that cells, columns and a caption of evidence show, and the evidence id of each place."""
    items = [item for item in evidence if item.kind in TABLE_KINDS]
    sources = {item.source_id for item in items}
    if len(sources) > 1:
        raise ValueError(f"cells of {len(sources)} tables cannot be read as one; give the evidence of one table")
    caption = next((item.text for item in items if item.kind == CAPTION), "")
    cells = [item for item in items if item.kind != CAPTION]
    ids = {place: item.evidence_id for item in cells for place in _cells_of(item.locator, item.text)}
    return _shown(next(iter(sources), ""), tuple((item.locator, item.text) for item in cells), caption), ids


@lru_cache(maxsize=8)  # the options of a question, and mostly its neighbours, show the same cells
def _shown(table_id: str, items: tuple[tuple[str, str], ...], caption: str) -> TableView:
    cells = {place: said for item in items for place, said in _cells_of(*item).items()}
    return TableView.from_cells(table_id, cells, caption)


def _cells_of(locator: str, text: str) -> dict[Place, str]:
    """The cells that a piece of evidence holds: itself, or of a column the lines that are not empty."""
    column = _COLUMN.fullmatch(locator)
    if column is None:
        return {place_of(locator): text}
    return {(i, int(column[1])): said for i, said in enumerate(text.split("\n")) if said}


class TableSolver:
    """Answers tasks whose evidence is cells of one table; deterministic, without a model."""

    name = "extractive"
    model_id = "extractive"
    version = "11"

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        return [self._explain(task) for task in tasks]

    def _explain(self, task: ExplainOption) -> Chain | Failure:
        try:
            given, ids = view_of(task.evidence)
        except ValueError as error:
            return Failure(str(error))
        table = given.upright
        ids = ids if table is given else {(j, i): evidence_id for (i, j), evidence_id in ids.items()}
        if task.task != "verification":
            (chain,) = questions.option_chains(table, task.question, [task.hypothesis], [task.option])
            return _cited(chain, table, ids)
        chains = {chain.hypothesis: chain for chain in claims.claim_chains(table, task.question)}
        if task.hypothesis not in chains:
            return Failure(f"{task.hypothesis!r} is no label of a claim")
        return _cited(chains[task.hypothesis], table, ids)

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The label whose chain has most support; the evidence is read here where no chain was written for any."""
        return [self._choose(task if task.chains else self._with_chains(task)) for task in tasks]

    def _with_chains(self, task: ChooseAnswer) -> ChooseAnswer:
        chains = [
            self._explain(
                ExplainOption(task.question, label, option, task.evidence.get(label, ()), task.task, task.negated)
            )
            for label, option in zip(task.labels, task.options, strict=True)
        ]
        return replace(task, chains=tuple(chain for chain in chains if isinstance(chain, Chain)))

    def _choose(self, task: ChooseAnswer) -> Choice | Failure:
        support = {chain.hypothesis: chain.support or 0.0 for chain in task.chains}
        missing = [label for label in task.labels if label not in support]
        if missing:
            return Failure(f"there is no chain for {', '.join(missing)}")
        support = {label: support[label] for label in task.labels}
        if not support:
            return Choice(None, (), "insufficient", 0.0)
        return _label(support) if task.task == "verification" else _option(task, support)


def _label(support: dict[str, float]) -> Choice:
    """The most probable of the labels offered; supported where the others are far less so."""
    best = max(support, key=lambda label: support[label])
    decided = claims.is_decided(support)
    supported = (best,) if decided or best == claims.NOT_ENOUGH else ()
    weights = {label: log(max(share, _LEAST)) for label, share in support.items()}
    status = "answered" if decided else "insufficient"
    return Choice(best, supported, status, support[best] / max(fsum(support.values()), _LEAST), weights=weights)


def _option(task: ChooseAnswer, support: dict[str, float]) -> Choice:
    """The option that the cells speak for most, or least where the question is negated; several of equal support
    are tied."""
    sign = -1 if task.negated else 1
    top = max(support.values())
    wanted = min(support.values()) if task.negated else top
    close = tuple(label for label in task.labels if abs(support[label] - wanted) < questions.TIED_SUPPORT)
    first = max(close, key=lambda label: (sign * round(support[label], 9), -task.labels.index(label)))
    weights = {label: sign * questions.LOG_ODDS * share for label, share in support.items()}
    if top <= questions.TIED_TO_NOTHING:
        return Choice(first, (), "insufficient", 0.0, weights=weights)
    status = "ambiguous" if len(close) > 1 else "answered"
    return Choice(first, close, status, top / len(close), weights=weights)


def _cited(chain: TableChain, view: TableView, ids: dict[Place, str]) -> Chain:
    steps = []
    for step in chain.steps:
        places = [place for place in step.cells if place in ids]
        steps.append(ChainStep(step.text, tuple(ids[place] for place in places), tuple(map(view.said, places))))
    return Chain(chain.hypothesis, tuple(steps), chain.support)
