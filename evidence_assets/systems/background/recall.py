"""Recalls background knowledge with a language model: entities, relations, then triples of both.

Recalled triples are the model's knowledge or guesses, not evidence from a source.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import polars as pl

from evidence_assets.experiment.answers.chains import ChainSlot, add_chain
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.tasks import Chain, ChainStep, Failure, ReplyCost
from evidence_assets.reasoning.templates import Template
from evidence_assets.systems.background import VERSION

Triple = tuple[str, str, str]
"""Head, relation and tail as text."""
MAX_ITEMS = 30
MAX_WORDS = 12
"""Maximum words of a name in a list; longer lines are prose."""
MAX_CHARACTERS = 200
"""Maximum characters of a head, relation or tail; longer ones are prose."""
_MAX_WORDS_WITH_FULL_STOP = 5
"""A name of up to five words may end in a full stop: Martin Luther King Jr."""
_EMPTY_LIST = "none"
_BRACKETED = re.compile(r"\((.*)\)[.,;]?")
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_NAMES = {name: Template.load(__package__, name, "question") for name in ("entities", "relations")}
_TRIPLES = Template.load(__package__, "triples", "question entities relations")


def _quote(text: str | tuple[str, ...]) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse_list(reply: str) -> tuple[str, ...]:
    """Parse distinct names, one per line, with or without list marks; ``none`` is the empty list.

    Raises UnusableReply for prose: a line of more than twelve words, of more than five with a full stop at the end, or
    with a colon at the end.
    """
    names = []
    for number, line in _split_lines(reply):
        words = len(line.split())
        if words > MAX_WORDS or line.endswith(":") or (words > _MAX_WORDS_WITH_FULL_STOP and line.endswith(".")):
            raise UnusableReply(f"line {number} is no name but a sentence: {line[:60]!r}")
        names.append(line)
    return tuple(dict.fromkeys(names))


def parse_triples(reply: str) -> tuple[Triple, ...]:
    """Parse distinct facts, one per line as ``(subject, relation, object)``; ``none`` is the empty list.

    Bars can separate the parts instead of commas, because a name may contain a comma.

    >>> parse_triples("1. (Bern, capital of, Switzerland)")
    (('Bern', 'capital of', 'Switzerland'),)
    """
    triples: dict[Triple, None] = {}
    for number, line in _split_lines(reply):
        match = _BRACKETED.fullmatch(line)
        content = match[1] if match else line
        parts = [part.strip() for part in content.split("|" if "|" in content else ",")]
        if len(parts) != 3 or not all(parts):
            raise UnusableReply(f"line {number} is not of the form (subject, relation, object): {line[:60]!r}")
        if max(map(len, parts)) > MAX_CHARACTERS:
            raise UnusableReply(f"line {number} is no fact but a text: {line[:60]!r}")
        triples[parts[0], parts[1], parts[2]] = None
    return tuple(triples)


def _split_lines(reply: str) -> list[tuple[int, str]]:
    lines = [(n, _LIST_MARK.sub("", line).strip()) for n, line in enumerate(reply.splitlines(), 1) if line.strip()]
    if not lines:
        raise UnusableReply("the reply is empty")
    if len(lines) == 1 and lines[0][1].casefold().rstrip(".") == _EMPTY_LIST:
        return []
    if len(lines) > MAX_ITEMS:
        raise UnusableReply(f"{len(lines)} lines are more than {MAX_ITEMS}")
    return lines


@dataclass(frozen=True)
class NamesTask:
    """A question for which a model lists the entities or the relations."""

    question: str
    kind: Literal["entities", "relations"]


@dataclass(frozen=True)
class TriplesTask:
    """A question with the entities and relations that a model listed."""

    question: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]


RECALL_NAMES: PromptedTask[NamesTask, tuple[str, ...]] = PromptedTask(
    "recall_names",
    tuple(_NAMES.values()),
    lambda task, prompts: prompts.customize(_NAMES[task.kind]).request(256, question=_quote(task.question)),
    lambda reply, _: parse_list(reply),
)
RECALL_TRIPLES: PromptedTask[TriplesTask, tuple[Triple, ...]] = PromptedTask(
    "recall_triples",
    (_TRIPLES,),
    lambda task, prompts: prompts.customize(_TRIPLES).request(
        768, question=_quote(task.question), entities=_quote(task.entities), relations=_quote(task.relations)
    ),
    lambda reply, _: parse_triples(reply),
)


# Recall and storage --------------------------------------------------------------------------------------------------


ORIGIN = "background"
"""Origin of a recalled triple in the table ``triples``."""


@dataclass(frozen=True)
class RecalledKnowledge:
    """The result of the three recall prompts for a question."""

    task: TriplesTask
    triples: tuple[Triple, ...]
    prompt_hash: str
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class RecalledTriple:
    """A recalled triple with the id of its row in ``triples``."""

    head: str
    relation: str
    tail: str
    triple_id: str


@dataclass(frozen=True)
class StoredBackground:
    """Recalled triples by question, and the errors of questions without any, read from the lake."""

    triples: Mapping[str, Sequence[RecalledTriple]]
    errors: Mapping[str, str]

    @property
    def version(self) -> str:
        return content_id(
            "background",
            sorted((question, [triple.triple_id for triple in triples]) for question, triples in self.triples.items()),
            sorted(self.errors.items()),
        )


class PromptedBackground:
    """Recalls triples with a language model: entities, relations, then triples from both."""

    name = "prompted"

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        tasks = [task.version_with(model.prompts) for task in (RECALL_NAMES, RECALL_TRIPLES)]
        self.version = content_id("prompted_background", VERSION, tasks, model.version)

    def recall(self, questions: Sequence[str]) -> list[RecalledKnowledge | Failure]:
        """Recall triples for each question; the failure of one question does not affect the others."""
        name_tasks = [NamesTask(q, "entities") for q in questions] + [NamesTask(q, "relations") for q in questions]
        name_replies = RECALL_NAMES.ask_with_cost(self._model, name_tasks)
        results: dict[int, RecalledKnowledge | Failure] = {}
        tasks: dict[int, TriplesTask] = {}
        costs: dict[int, ReplyCost | None] = {}
        for position, question in enumerate(questions):
            (entities, first), (relations, second) = name_replies[position], name_replies[len(questions) + position]
            costs[position] = ReplyCost.total([first, second])
            if isinstance(entities, Failure):
                results[position] = entities
            elif isinstance(relations, Failure):
                results[position] = relations
            else:
                tasks[position] = TriplesTask(question, entities, relations)
        replies = RECALL_TRIPLES.ask_with_cost(self._model, list(tasks.values()))
        for (position, task), (result, third) in zip(tasks.items(), replies, strict=True):
            costs[position] = ReplyCost.total([costs[position], third])
            prompt_hash = third.prompt_hash if third else ""
            results[position] = result if isinstance(result, Failure) else RecalledKnowledge(task, result, prompt_hash)
        return [replace(results[position], reply=costs[position]) for position in range(len(questions))]


def build_recall_rows(
    source: PromptedBackground, name: str, questions: Sequence[Question], previous: PreviousOutput | None = None
) -> StageOutput:
    """Rows of ``chains``: the recalled knowledge of each question, or its error.

    The first two steps are the entities and the relations; each other step is a triple ``head | relation | tail``.
    """
    slots = {slot.chain_id: slot for slot in (ChainSlot(question, name, source) for question in questions)}
    inputs = {c: content_id(slot.question.question_id, slot.question.text, source.version) for c, slot in slots.items()}
    writer = RowWriter("chains", previous, inputs, "chain_id")
    todo = [slots[chain_id] for chain_id in writer.todo]
    for slot, result in zip(todo, source.recall([slot.question.text for slot in todo]) if todo else [], strict=True):
        chain: Chain | Failure
        texts: list[str] = []
        if isinstance(result, Failure):
            chain = result
        else:
            entities, relations = "; ".join(result.task.entities), "; ".join(result.task.relations)
            texts = [f"things: {entities}", f"relations: {relations}", *map(" | ".join, result.triples)]
            chain = Chain("", tuple(map(ChainStep, texts)), None, result.prompt_hash, result.reply)
        add_chain(writer, slot, chain, content=[texts])
    return writer.finish()


def _iter_triples(recalled: pl.DataFrame) -> Iterator[tuple[dict[str, Any], RecalledTriple]]:
    """The triples of each row; ids differ from those of the same facts in a source."""
    for row in recalled.sort("chain_id").iter_rows(named=True):
        for step in row["steps"][2:]:
            head, relation, tail = step["text"].split(" | ")
            triple_id = content_id("background triple", row["model_id"], head, relation, tail)
            yield row, RecalledTriple(head, relation, tail, triple_id)


def build_triple_rows(recalled: pl.DataFrame) -> StageOutput:
    """Rows of ``triples`` with the origin ``background``, from the rows of ``build_recall_rows``."""
    rows, lineage, lines = list[dict[str, Any]](), list[dict[str, Any]](), Counter[str]()
    for row, triple in _iter_triples(recalled):
        lines[row["chain_id"]] += 1
        line = lines[row["chain_id"]]
        rows.append(
            {
                **asdict(triple),
                "origin": ORIGIN,
                "flags": [],
                "model_id": row["model_id"],
                "source": f"question {row['question_id']}, prompt {row['prompt_hash']}, triple {line}",
                "licence": "",
            }
        )
        lineage.append(edge("triple", triple.triple_id, DERIVED, "chain", row["chain_id"], row["content_hash"], line))
    return StageOutput(rows, lineage, {"triples": len(rows)})


def read_background(recalled: pl.DataFrame) -> StoredBackground:
    """Background knowledge for the selector, from the rows of ``build_recall_rows``."""
    failures = recalled.filter(pl.col("status") == "failed").select("question_id", "error").iter_rows()
    triples: dict[str, list[RecalledTriple]] = {}
    for row, triple in _iter_triples(recalled):
        triples.setdefault(row["question_id"], []).append(triple)
    return StoredBackground(triples, {question: f"no background knowledge: {error}" for question, error in failures})
