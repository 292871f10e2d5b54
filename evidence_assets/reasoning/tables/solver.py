"""The reasoner on tables behind the typed tasks: cells in as evidence, chains and answers with cited evidence out.

Nothing but the evidence is read. Evidence from outside the table speaks only where the cells say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import fsum, log

from evidence_assets.reasoning.tables import claims, questions
from evidence_assets.reasoning.tables.cells import parse_values
from evidence_assets.reasoning.tables.lexicon import pattern
from evidence_assets.reasoning.tables.table import Place, TableChain, TableView
from evidence_assets.reasoning.tables.text import plain_text, word_set
from evidence_assets.reasoning.tasks import (
    CAPTION,
    OF_A_TABLE,
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
# A sentence from outside speaks for an option, or says a claim or its contrary, if it holds this share of the words of
# the question or claim.
_LEAST_OF_QUESTION, _LEAST_OF_CLAIM = 0.5, 0.8
# Support that it gives: to an option less than any cell that is tied to the question, to the label of a claim.
_OPTION_SUPPORT, _CLAIM_SUPPORT = 0.05, 0.6


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
    version = "10"

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        return [self._explain(task) for task in tasks]

    def _explain(self, task: ExplainOption) -> Chain | Failure:
        try:
            table, ids = view_of(task.evidence)
        except ValueError as error:
            return Failure(str(error))
        if task.task != "verification":
            (chain,) = questions.option_chains(table, task.question, [task.hypothesis], [task.option])
            cited = _cited(chain, ids)
            return cited if chain.support > questions.TIED_TO_NOTHING else _option_with(cited, task)
        chains = {chain.hypothesis: chain for chain in claims.claim_chains(table, task.question)}
        if task.hypothesis not in chains:
            return Failure(f"{task.hypothesis!r} is no label of a claim")
        cited = _cited(chains[task.hypothesis], ids)
        decided = claims.is_decided({label: chain.support for label, chain in chains.items()})
        return cited if decided else _label_with(cited, task)

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The label whose chain has most support, and what speaks for each.

        Where no chain was written for any label, the evidence is read here.
        """
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


def _cited(chain: TableChain, ids: dict[Place, str]) -> Chain:
    steps = []
    for step in chain.steps:
        pairs = [(ids[place], quote) for place, quote in zip(step.cells, step.quoted, strict=True) if place in ids]
        steps.append(ChainStep(step.text, tuple(cited for cited, _ in pairs), tuple(quote for _, quote in pairs)))
    return Chain(chain.hypothesis, tuple(steps), chain.support)


def outside_items(evidence: Sequence[EvidenceItem]) -> list[EvidenceItem]:
    """The evidence that is not of a table."""
    return [item for item in evidence if item.kind not in OF_A_TABLE]


def _best_sentence(items: Sequence[EvidenceItem], words: frozenset[str]) -> tuple[float, str, ChainStep] | None:
    """The sentence from outside that holds most of some words: the share, the sentence, and the step that cites it."""
    sentences = [
        (len(words & word_set(sentence)) / max(1, len(words)), sentence, item)
        for item in items
        for sentence in filter(None, re.split(r"(?<=[.!?])\s+(?=[^a-z])", item.text.strip()))
    ]
    if not sentences:
        return None
    share, sentence, item = max(sentences, key=lambda entry: entry[0])
    said = f"Outside the table, a {item.kind} says: “{sentence}”"
    return share, sentence, ChainStep(said, (item.evidence_id,), (sentence,))


def _option_with(chain: Chain, task: ExplainOption) -> Chain:
    """The chain of an option that no cell ties to the question, with the sentence from outside that speaks for it."""
    wanted = word_set(task.option)
    words = word_set(task.question) | wanted
    best = _best_sentence(outside_items(task.evidence), words)
    if best is None or not wanted or best[0] < _LEAST_OF_QUESTION or not wanted <= word_set(best[1]):
        return chain
    return replace(chain, steps=(*chain.steps, best[2]), support=_OPTION_SUPPORT * best[0])


def _label_with(chain: Chain, task: ExplainOption) -> Chain:
    """The chain of a label of a claim that the table leaves open, with the sentence from outside that says the claim
    or contradicts it: the same words, and its numbers or others, denied or not."""
    words = frozenset(word for word in word_set(task.question) if not word[0].isdigit())
    best = _best_sentence(outside_items(task.evidence), words)
    if best is None or best[0] < _LEAST_OF_CLAIM:
        return chain
    numbers, others = ({v.value for v in parse_values(plain_text(text))} for text in (task.question, best[1]))
    denied = [any(pattern(name).search(text) for name in ("not", "none")) for text in (task.question, best[1])]
    if numbers and not others:
        return chain
    label = claims.SUPPORTS if (numbers <= others) == (denied[0] == denied[1]) else claims.REFUTES
    if chain.hypothesis == label:
        return replace(chain, steps=(*chain.steps, best[2]), support=_CLAIM_SUPPORT)
    return replace(chain, support=(1.0 - _CLAIM_SUPPORT) * (chain.support or 0.0))
