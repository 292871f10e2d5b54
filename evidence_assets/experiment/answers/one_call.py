"""One call a question that gives answer and explanation, as some papers ask: its chain, and the answer in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from evidence_assets.experiment.answers.chains import (
    LINEAGE,
    ChainSlot,
    add_chain,
    build_choice_task,
    chain_from_row,
    evidence_items,
    option_evidence,
    select_facts,
)
from evidence_assets.experiment.answers.predictions import (
    Answer,
    CitedRow,
    CounterfactualCase,
    FactRequest,
    UsedRow,
    case_from_rows,
)
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import AnswerTask
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, Failure

VERSION = "1"


class OneCallAnswerer:
    """A language model that gives answer and explanation, with its citations, in one call."""

    name = "prompted"

    def __init__(
        self,
        model: LanguageModel,
        task: AnswerTask,
        questions: Sequence[Question],
        evidence: pl.DataFrame,
        chains: pl.DataFrame | None = None,
    ) -> None:
        self._model, self._task, self._evidence = model, task, evidence_items(evidence)
        self._questions = {q.question_id: q for q in questions}
        asked = [] if chains is None else chains.iter_rows(named=True)
        self._chains = {row["question_id"]: row for row in asked}
        self.model_id = model.model_id
        self.version = content_id(VERSION, model.version, task.version_with(model.prompts))

    def _asks(self, question: Question, kept: Sequence[str] | None = None) -> ChooseAnswer:
        """What is asked of a question, from all of its evidence or from some facts."""
        return build_choice_task(
            question,
            (),
            {
                label: select_facts(option_evidence(self._evidence, question.question_id, label), kept)
                for label in question.labels
            },
        )

    def chains(self, selector: str, before: PreviousOutput | None = None) -> StageOutput:
        """One chain a question: the explanation, under the option that it was given for."""
        places = (ChainSlot(question, selector, self) for question in self._questions.values())
        slots = {slot.chain_id: slot for slot in places}
        tasks = {chain_id: self._asks(slot.question) for chain_id, slot in slots.items()}
        inputs = {chain_id: content_id(_input(task), self.version, LINEAGE) for chain_id, task in tasks.items()}
        writer = RowWriter("chains", before, inputs, "chain_id")
        replies = self._task.ask_with_cost(self._model, [tasks[chain_id] for chain_id in writer.todo])
        for chain_id, (said, reply) in zip(writer.todo, replies, strict=True):
            result = replace(said if isinstance(said, Failure) else said[1], reply=reply)
            if isinstance(result, Chain) and reply:
                result = replace(result, prompt_hash=reply.prompt_hash)
            add_chain(writer, slots[chain_id], result, tasks[chain_id].facts)
        return writer.finish()

    # As an answerer -------------------------------------------------------------------------------------------------

    def input_of(self, question: Question) -> str:
        row = self._chains.get(question.question_id)
        return content_id([row["chain_id"], row["hypothesis"], row["content_hash"], row["status"]] if row else [])

    def answer(self, questions: Sequence[Question]) -> Iterator[Answer]:
        for question in questions:
            row = self._chains.get(question.question_id)
            if row is None:
                yield Answer.failed("the question was not asked: materialize its chain first")
                continue
            used = (UsedRow("chain", row["chain_id"], row["content_hash"], 1),)
            if row["status"] == "failed":
                yield Answer.failed(row["error"], used)
                continue
            answer = row["hypothesis"] or None
            verdicts = [c.verdict for c in check_citations(chain_from_row(row), self._asks(question).facts)]
            share = round(verdicts.count("verified") / len(verdicts), 6) if verdicts else 0.0
            supported = (answer,) if answer and share else ()
            yield Answer(answer, "answered" if answer else "insufficient", supported, confidence=share, used_rows=used)

    def case(self, prediction: Mapping[str, Any]) -> tuple[CounterfactualCase, list[CitedRow]]:
        question = self._questions[prediction["question_id"]]
        items = self._asks(question).facts
        row = self._chains[question.question_id]
        named = {identifier for step in row["steps"] for identifier in step["cited"]}
        stated = [(item.evidence_id, item.content_hash) for item in items]
        return case_from_rows(
            question.question_id, stated, [identifier for identifier, _ in stated if identifier in named]
        )

    def facts_input_hash(self, case: CounterfactualCase) -> str:
        return content_id(_input(self._asks(self._questions[case.question_id], case.evidence)), self.version)

    def answer_from_facts(self, requests: Sequence[FactRequest]) -> list[str]:
        tasks = [self._asks(self._questions[question_id], kept) for question_id, kept in requests]
        return [
            "failed" if isinstance(said, Failure) else said[0].answer or said[0].status
            for said in self._task.ask(self._model, tasks)
        ]


def _input(task: ChooseAnswer) -> str:
    items = [(i.kind, i.source_id, i.locator, i.text) for i in task.facts]
    return content_id("once", task.task, task.question, task.labels, task.options, task.negated, items)
