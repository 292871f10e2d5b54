"""Answer and explanation in one call per question, as some papers do: the chain and its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from evidence_assets.experiment.answers.chains import (
    LINEAGE_VERSION,
    ChainSlot,
    add_chain,
    build_choice_task,
    chain_from_row,
    omissions_of,
)
from evidence_assets.experiment.answers.predictions import Answer, UsedRow
from evidence_assets.experiment.evidence_rows import evidence_by_option
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import ChainRow, typed_rows
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.confidence import choice_signals
from evidence_assets.reasoning.model_calls import LanguageModel, find_cut
from evidence_assets.reasoning.prompted_solver import AnswerTask
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, Failure

VERSION = "5"


class OneCallAnswerer:
    """A language model that gives answer, explanation and citations in one call."""

    name = "prompted"

    def __init__(
        self, model: LanguageModel, task: AnswerTask, evidence: pl.DataFrame, chains: pl.DataFrame | None = None
    ) -> None:
        self._model = model
        self._task = task
        self._evidence = evidence_by_option(evidence)
        chain_rows = [] if chains is None else typed_rows(chains, ChainRow)
        self._chains = {row["question_id"]: row for row in chain_rows}
        self.model_id = model.model_id
        self.version = content_id(VERSION, model.version, task.version_with(model.prompts))

    def chains(
        self, selector: str, questions: Sequence[Question], previous: PreviousOutput | None = None
    ) -> StageOutput:
        """One chain per question: the explanation of the option that the model chose."""
        slots = {slot.chain_id: slot for slot in (ChainSlot(q, selector, self) for q in questions)}
        tasks = {chain_id: build_choice_task(slot.question, (), self._evidence) for chain_id, slot in slots.items()}
        inputs = {chain_id: content_id(_input(task), self.version, LINEAGE_VERSION) for chain_id, task in tasks.items()}
        writer = RowWriter("chains", previous, inputs, "chain_id")
        replies = self._task.ask_with_cost(self._model, [tasks[chain_id] for chain_id in writer.todo])
        for chain_id, (result, reply) in zip(writer.todo, replies, strict=True):
            chain = replace(result if isinstance(result, Failure) else result[1], reply=reply)
            if isinstance(chain, Chain) and reply:
                omissions = (*chain.omissions, *find_cut(reply, "end"))
                chain = replace(chain, prompt_hash=reply.prompt_hash, omissions=omissions)
            add_chain(writer, slots[chain_id], chain, tasks[chain_id].facts)
        return writer.finish()

    # Answerer -------------------------------------------------------------------------------------------------------

    def input_hash(self, question: Question) -> str:
        row = self._chains.get(question.question_id)
        return content_id([row["chain_id"], row["hypothesis"], row["content_hash"], row["status"]] if row else [])

    def answer(self, questions: Sequence[Question]) -> Iterator[Answer]:
        for question in questions:
            row = self._chains.get(question.question_id)
            if row is None:
                yield Answer.failed("the question was not asked: materialize its chain first")
                continue
            used = (UsedRow("chain", row["chain_id"], row["content_hash"], 1),)
            omissions = tuple(omissions_of(row, "explanation"))
            if row["status"] == "failed":
                yield Answer.failed(row["error"] or "", used, omissions=omissions)
                continue
            answer = row["hypothesis"] or None
            task = build_choice_task(question, (chain_from_row(row),), self._evidence)
            choice = Choice(answer, (), "answered" if answer else "insufficient")
            signals = choice_signals(task, choice, {})
            supported = (answer,) if answer and signals["verified"] else ()
            yield Answer(
                answer,
                choice.status,
                supported,
                confidence=signals["verified"],
                signals=signals if answer else {},
                used_rows=used,
                omissions=omissions,
            )


def _input(task: ChooseAnswer) -> str:
    items = [(i.kind, i.source_id, i.locator, i.text) for i in task.facts]
    question = task.question
    return content_id("once", question.task, question.text, question.labels, question.options, question.negated, items)
