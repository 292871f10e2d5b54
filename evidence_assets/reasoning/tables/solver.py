"""The reasoner on tables behind the typed tasks: cells in as evidence, chains and answers with cited evidence out.

What belongs here: rebuilding the table from the evidence rows (so that nothing but the evidence is read), turning
places back into evidence ids, and letting evidence from outside the table speak where the cells say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from math import fsum, log

from evidence_assets.reasoning.tables import claims, outside, questions
from evidence_assets.reasoning.tables.text import word_set
from evidence_assets.reasoning.tables.view import Place, TableChain, TableView
from evidence_assets.reasoning.tasks import (
    CAPTION,
    IN_A_TABLE,
    OF_A_TABLE,
    Chain,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    ExplainOption,
    Failure,
    Step,
)

# The least probability that a label is given: its logarithm is its weight.
_LEAST = 1e-6
_LOCATOR, _COLUMN = re.compile(r"r(\d+)c(\d+)"), re.compile(r"c(\d+)")


def place_of(locator: str) -> Place:
    """``(row, column)`` of a locator such as ``r3c1``.

    Raises ValueError if it names no cell.
    """
    match = _LOCATOR.fullmatch(locator)
    if match is None:
        raise ValueError(f"{locator!r} names no cell; expected r<row>c<column>")
    return int(match[1]), int(match[2])


def view_of(evidence: Sequence[EvidenceItem]) -> tuple[TableView, dict[Place, str]]:
    """The table that cells, columns and a caption of evidence show, and the evidence id of each place."""
    items = [item for item in evidence if item.kind in OF_A_TABLE]
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
    version = "9"

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        return [self._explain(task) for task in tasks]

    def _explain(self, task: ExplainOption) -> Chain | Failure:
        try:
            table, ids = view_of(task.evidence)
        except ValueError as error:
            return Failure(str(error))
        beside = outside.outside_items(task.evidence)
        if task.task == "verification":
            chains = claims.claim_chains(table, task.question)
            found = next((chain for chain in chains if chain.hypothesis == task.hypothesis), None)
            if found is None:
                return Failure(f"{task.hypothesis!r} is no label of a claim")
            decided = claims.is_decided({chain.hypothesis: chain.support for chain in chains})
            return _with_verdict(_cited(found, ids), None if decided else outside.says_claim(task.question, beside))
        found = questions.option_chains(table, task.question, [task.hypothesis], [task.option])[0]
        chain = _cited(found, ids)
        said = (
            None
            if found.support > questions.TIED_TO_NOTHING
            else outside.says_option(task.question, task.option, beside)
        )
        return chain if said is None else replace(chain, steps=(*chain.steps, said.step), support=said.support)

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The label whose chain has most support, and what speaks for each.

        Where no chain was written for any label, the evidence is read here.
        """
        return [self._choose(task if task.chains else self._with_chains(task)) for task in tasks]

    def _with_chains(self, task: ChooseAnswer) -> ChooseAnswer:
        made = [
            self._explain(
                ExplainOption(task.question, label, option, task.evidence.get(label, ()), task.task, task.negated)
            )
            for label, option in zip(task.labels, task.options, strict=True)
        ]
        return replace(task, chains=tuple(chain for chain in made if isinstance(chain, Chain)))

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
    first = min(close, key=lambda label: (-sign * round(support[label], 9), _reached(task, label)))
    weights = {label: sign * questions.LOG_ODDS * share for label, share in support.items()}
    if top <= questions.TIED_TO_NOTHING:
        return Choice(first, (), "insufficient", 0.0, weights=weights)
    status = "ambiguous" if len(close) > 1 else "answered"
    return Choice(first, close, status, top / len(close), weights=weights)


def _reached(task: ChooseAnswer, label: str) -> tuple[bool, Place]:
    """What orders options of equal support: the cell that a label's chain ends in, the first one first; the one that
    says all of its cell before others. A chain that rests on no cell comes as its label."""
    items = {item.evidence_id: item for item in task.evidence.get(label, ()) if item.kind in IN_A_TABLE}
    chain = next(chain for chain in task.chains if chain.hypothesis == label)
    pairs = [
        pair for step in chain.steps for pair in zip_longest(step.cited, step.quoted, fillvalue="") if pair[0] in items
    ]
    if not pairs:
        return True, (0, task.labels.index(label))
    cited, quote = pairs[-1]
    cells = _cells_of(items[cited].locator, items[cited].text)
    full = word_set(task.options[task.labels.index(label)]) == word_set(quote)
    return not full, next((place for place, said in cells.items() if said == quote), min(cells))


def _with_verdict(chain: Chain, said: outside.Outside | None) -> Chain:
    """The chain of a label of a claim that the table leaves open, with what evidence from outside says to it."""
    if said is None:
        return chain
    if chain.hypothesis == said.label:
        return replace(chain, steps=(*chain.steps, said.step), support=said.support)
    return replace(chain, support=(1.0 - said.support) * (chain.support or 0.0))


def _cited(chain: TableChain, ids: dict[Place, str]) -> Chain:
    steps = []
    for step in chain.steps:
        pairs = [(ids[place], quote) for place, quote in zip(step.cells, step.quoted, strict=True) if place in ids]
        steps.append(Step(step.text, tuple(cited for cited, _ in pairs), tuple(quote for _, quote in pairs)))
    return Chain(chain.hypothesis, tuple(steps), chain.support)
