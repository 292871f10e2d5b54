"""The answerer of questions with options: a solver chooses among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import polars as pl

from evidence_assets.experiment.answers.chains import build_choice_task, chain_from_row, omissions_of
from evidence_assets.experiment.answers.predictions import Answer, UsedRow
from evidence_assets.experiment.evidence_rows import evidence_by_option, option_evidence
from evidence_assets.experiment.stored_rows import ChainRow, rows_by_question
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import encode_ends
from evidence_assets.reasoning.confidence import choice_signals, probabilities
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_choices import fact_weight
from evidence_assets.reasoning.table_prompts import TABLE_TASKS, is_table_task
from evidence_assets.reasoning.tasks import (
    TABLE_CELL_KINDS,
    Choice,
    ChooseAnswer,
    EvidenceItem,
    Failure,
    Omission,
    Solver,
)

VERSION = "3"
"""Bump when equal choices give other predictions."""


class OptionAnswerer:
    """Chooses among options from their chains or, without chains, from the evidence.

    An answer cites the evidence of its chain; the answer to a question for the exception cites that of all chains.
    Probabilities are the softmax of the solver's weights, rounded to six decimals. If some options
    have no chain, the others are compared; if none has, the question fails, since without chains the solver would be
    asked another question.

    ``reads_chains``: Otherwise the solver chooses from the evidence, and chains are only linked to the answer.
    ``encoder``: Tells how close facts are to their question; the solver does not see those that are far.
    """

    def __init__(
        self,
        solver: Solver,
        evidence: pl.DataFrame,
        chains: pl.DataFrame,
        *,
        reads_chains: bool = True,
        encoder: Encoder | None = None,
    ) -> None:
        self._solver = solver
        self._encoder = encoder
        self._reads_chains = reads_chains
        self._evidence = evidence_by_option(evidence)
        self._chains = rows_by_question(chains.sort("question_id", "hypothesis"), ChainRow)
        self.name = solver.name
        self.model_id = solver.model_id
        self.version = f"{VERSION}-{solver.version}"

    def _chains_of(self, question: Question) -> list[ChainRow]:
        return self._chains.get(question.question_id, [])

    def _omissions(self, question: Question) -> Iterator[Omission]:
        for row in self._chains_of(question):
            yield from omissions_of(row, f"explanation of {row['hypothesis']}")
        if question.task in TABLE_TASKS and not any(i.kind in TABLE_CELL_KINDS for i in self._evidence_of(question)):
            yield Omission("missing", "cells", "no cell of the table is evidence")

    def _task(self, question: Question) -> ChooseAnswer:
        rows = self._chains_of(question) if self._reads_chains else []
        chains = tuple(chain_from_row(row) for row in rows if row["status"] != "failed")
        return build_choice_task(question, chains, self._evidence)

    def input_hash(self, question: Question) -> str:
        """Hash of the chains and, where the solver reads none, of the evidence and its scores."""
        chains = [(row["chain_id"], row["content_hash"], row["status"]) for row in self._chains_of(question)]
        if chains and self._reads_chains:
            return content_id(chains)
        facts = [(item.content_hash, item.score) for item in self._evidence_of(question)]
        return content_id(chains, facts) if chains else content_id(facts)

    def _used_rows(self, task: ChooseAnswer) -> tuple[UsedRow, ...]:
        """The chains and, where the solver reads none, the evidence of its task."""
        used = [("chain", row["chain_id"], row["content_hash"]) for row in self._chains_of(task.question)]
        if not (used and self._reads_chains):
            used += [("evidence", item.evidence_id, item.content_hash) for item in distinct_items(task.evidence)]
        return tuple(UsedRow(*columns, rank) for rank, columns in enumerate(used, 1))

    def _choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """A choice per question, or the first error of a question whose chains all failed."""
        errors = {
            task.question.question_id: Failure(f"no option has an explanation: {rows[0]['error']}")
            for task in tasks
            if self._reads_chains
            and (rows := self._chains_of(task.question))
            and all(row["status"] == "failed" for row in rows)
        }
        choices = iter(self._solver.choose([task for task in tasks if task.question.question_id not in errors]))
        return [errors.get(task.question.question_id) or next(choices) for task in tasks]

    def answer(self, questions: Sequence[Question]) -> Iterator[Answer]:
        tasks = [self._task(question) for question in questions]
        if self._encoder:
            tasks = leave_out_far_facts(self._encoder, tasks)
        for task, choice in zip(tasks, self._choose(tasks), strict=True):
            omissions = tuple(self._omissions(task.question))
            used_rows = self._used_rows(task)
            if isinstance(choice, Failure):
                yield Answer.failed(choice.reason, used_rows, choice.reply, omissions)
            else:
                exact = probabilities(choice.weights) if choice.weights else {}
                shares = {label: round(p, 6) for label, p in exact.items()}
                signals = choice_signals(task, choice, shares) if choice.answer else {}
                yield Answer(
                    choice.answer,
                    choice.status,
                    tuple(choice.supported),
                    tuple(shares),
                    tuple(shares.values()),
                    shares[choice.answer] if choice.answer and shares else signals.get("verified"),
                    signals,
                    choice.error or None,
                    used_rows,
                    choice.reply,
                    omissions=omissions,
                )

    def _evidence_of(self, question: Question) -> list[EvidenceItem]:
        """Evidence of all options of a question, in order, without duplicates."""
        labels = question.labels
        return distinct_items({label: option_evidence(self._evidence, question.question_id, label) for label in labels})


def distinct_items(evidence: Mapping[str, Sequence[EvidenceItem]]) -> list[EvidenceItem]:
    """Evidence of all options, in order, without duplicates."""
    return list({item.evidence_id: item for items in evidence.values() for item in items}.values())


def leave_out_far_facts(encoder: Encoder, tasks: Sequence[ChooseAnswer]) -> list[ChooseAnswer]:
    """The tasks with the closeness of their facts, and without facts that would not count."""
    measured = measure_closeness(encoder, tasks)
    return [task if fact_weight(task.closeness) else replace(task, evidence={}) for task in measured]


def measure_closeness(encoder: Encoder, tasks: Sequence[ChooseAnswer]) -> list[ChooseAnswer]:
    """The tasks with the closeness of each question to its nearest fact; cells of tables are no facts."""
    facts = [[] if is_table_task(task) else [item.text for item in task.facts] for task in tasks]
    texts = [
        text
        for task, fact_texts in zip(tasks, facts, strict=True)
        if fact_texts
        for text in (task.question.text, *fact_texts)
    ]
    vectors = encode_ends(encoder, texts)
    return [
        replace(task, closeness=max(float(vectors[task.question.text] @ vectors[text]) for text in fact_texts))
        if fact_texts
        else task
        for task, fact_texts in zip(tasks, facts, strict=True)
    ]
