"""What a language model recalls for a question: entities, relations, and triples made of both.

What it says here is what the model knows or guesses; nothing in this module makes it evidence from a source.
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
"""Head, relation and tail, as a model states them."""
MAX_ITEMS = 30
MAX_WORDS = 12
"""An item of a list is a name; longer lines are prose."""
MAX_CHARACTERS = 200
"""Of a head, relation or tail; longer ones are prose."""
_ABBREVIATED = 5
"""A short name may end in a full stop: Martin Luther King Jr."""
_NOTHING = "none"
_BRACKETED = re.compile(r"\((.*)\)[.,;]?")
_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_NAMES = {name: Template.load(__package__, name, "question") for name in ("entities", "relations")}
_TRIPLES = Template.load(__package__, "triples", "question entities relations")


def _quoted(text: str | tuple[str, ...]) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse_list(reply: str) -> tuple[str, ...]:
    """Names, one a line, with or without a list mark, each once; ``none`` is the empty list.

    Prose (a line of more than twelve words, of more than five with a full stop, or one that ends in a colon) raises
    :class:`UnusableReply`.
    """
    found = []
    for number, line in _lines(reply):
        words = len(line.split())
        if words > MAX_WORDS or line.endswith(":") or (words > _ABBREVIATED and line.endswith(".")):
            raise UnusableReply(f"line {number} is no name but a sentence: {line[:60]!r}")
        found.append(line)
    return tuple(dict.fromkeys(found))


def parse_triples(reply: str) -> tuple[Triple, ...]:
    """Facts, one a line as ``(subject, relation, object)``, each once; ``none`` is the empty list.

    Bars between the parts are read, too: a name may hold a comma.

    >>> parse_triples("1. (Bern, capital of, Switzerland)")
    (('Bern', 'capital of', 'Switzerland'),)
    """
    found: dict[Triple, None] = {}
    for number, line in _lines(reply):
        bracketed = _BRACKETED.fullmatch(line)
        bare = bracketed[1] if bracketed else line
        parts = [part.strip() for part in bare.split("|" if "|" in bare else ",")]
        if len(parts) != 3 or not all(parts):
            raise UnusableReply(f"line {number} is not of the form (subject, relation, object): {line[:60]!r}")
        if max(map(len, parts)) > MAX_CHARACTERS:
            raise UnusableReply(f"line {number} is no fact but a text: {line[:60]!r}")
        found[parts[0], parts[1], parts[2]] = None
    return tuple(found)


def _lines(reply: str) -> list[tuple[int, str]]:
    lines = [(n, _MARK.sub("", line).strip()) for n, line in enumerate(reply.splitlines(), 1) if line.strip()]
    if not lines:
        raise UnusableReply("the reply is empty")
    if len(lines) == 1 and lines[0][1].casefold().rstrip(".") == _NOTHING:
        return []
    if len(lines) > MAX_ITEMS:
        raise UnusableReply(f"{len(lines)} lines are more than {MAX_ITEMS}")
    return lines


@dataclass(frozen=True)
class NamesTask:
    """A question whose entities, or the relations that it asks about, are to be named."""

    question: str
    what: Literal["entities", "relations"]


@dataclass(frozen=True)
class TriplesTask:
    """A question with what a model named for it before."""

    question: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]


RECALL_NAMES: PromptedTask[NamesTask, tuple[str, ...]] = PromptedTask(
    "recall_names",
    tuple(_NAMES.values()),
    lambda task, words: words.of(_NAMES[task.what]).request(256, question=_quoted(task.question)),
    lambda reply, _: parse_list(reply),
)
RECALL_TRIPLES: PromptedTask[TriplesTask, tuple[Triple, ...]] = PromptedTask(
    "recall_triples",
    (_TRIPLES,),
    lambda task, words: words.of(_TRIPLES).request(
        768, question=_quoted(task.question), entities=_quoted(task.entities), relations=_quoted(task.relations)
    ),
    lambda reply, _: parse_triples(reply),
)


# Asked, and stored ----------------------------------------------------------------------------------------------------


ORIGIN = "background"
"""Origin of a recalled triple in the table ``triples``."""


@dataclass(frozen=True)
class RecalledKnowledge:
    """What a model recalled for a question, by the three prompts."""

    named: TriplesTask
    triples: tuple[Triple, ...]
    prompt_hash: str
    reply: ReplyCost | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class RecalledTriple:
    """A recalled triple with the row that it stands in."""

    head: str
    relation: str
    tail: str
    triple_id: str


@dataclass(frozen=True)
class StoredBackground:
    """Recalled triples by question, read from the lake; and why some questions have none."""

    stated: Mapping[str, Sequence[RecalledTriple]]
    failed: Mapping[str, str]

    @property
    def version(self) -> str:
        return content_id(
            "background",
            sorted((q, [s.triple_id for s in own]) for q, own in self.stated.items()),
            sorted(self.failed.items()),
        )


class PromptedBackground:
    """Recalls triples by a language model: entities, relations, then triples from both."""

    name = "prompted"

    def __init__(self, model: LanguageModel) -> None:
        self._model, self.model_id = model, model.model_id
        tasks = [task.version_with(model.prompts) for task in (RECALL_NAMES, RECALL_TRIPLES)]
        self.version = content_id("prompted_background", VERSION, tasks, model.version)

    def recall(self, questions: Sequence[str]) -> list[RecalledKnowledge | Failure]:
        """One record or failure a question; what one question fails at leaves the others alone."""
        asked = [NamesTask(q, "entities") for q in questions] + [NamesTask(q, "relations") for q in questions]
        named = RECALL_NAMES.ask_with_cost(self._model, asked)
        results: dict[int, RecalledKnowledge | Failure] = {}
        tasks: dict[int, TriplesTask] = {}
        costs: dict[int, ReplyCost | None] = {}
        for place, question in enumerate(questions):
            (entities, first), (relations, second) = named[place], named[len(questions) + place]
            costs[place] = ReplyCost.total([first, second])
            if isinstance(entities, Failure):
                results[place] = entities
            elif isinstance(relations, Failure):
                results[place] = relations
            else:
                tasks[place] = TriplesTask(question, entities, relations)
        replies = RECALL_TRIPLES.ask_with_cost(self._model, list(tasks.values()))
        for (place, task), (found, third) in zip(tasks.items(), replies, strict=True):
            costs[place] = ReplyCost.total([costs[place], third])
            prompt_hash = third.prompt_hash if third else ""
            results[place] = found if isinstance(found, Failure) else RecalledKnowledge(task, found, prompt_hash)
        return [replace(results[place], reply=costs[place]) for place in range(len(questions))]


def build_recall_rows(
    source: PromptedBackground, name: str, questions: Sequence[Question], before: PreviousOutput | None = None
) -> StageOutput:
    """Rows of ``chains``: what the model recalled for each question, or why it did not.

    The first two steps are the entities and relations, each further one a triple as ``head | relation | tail``.
    """
    slots = {slot.chain_id: slot for slot in (ChainSlot(question, name, source) for question in questions)}
    inputs = {
        chain_id: content_id(slot.question.question_id, slot.question.text, source.version)
        for chain_id, slot in slots.items()
    }
    writer = RowWriter("chains", before, inputs, "chain_id")
    todo = [slots[chain_id] for chain_id in writer.todo]
    for slot, result in zip(todo, source.recall([slot.question.text for slot in todo]) if todo else [], strict=True):
        chain: Chain | Failure
        texts: list[str] = []
        if isinstance(result, Failure):
            chain = result
        else:
            entities, relations = "; ".join(result.named.entities), "; ".join(result.named.relations)
            texts = [f"things: {entities}", f"relations: {relations}", *map(" | ".join, result.triples)]
            chain = Chain("", tuple(map(ChainStep, texts)), None, result.prompt_hash, result.reply)
        add_chain(writer, slot, chain, content=[texts])
    return writer.finish()


def _iter_triples(recalled: pl.DataFrame) -> Iterator[tuple[dict[str, Any], RecalledTriple]]:
    """The triples of each row that ``recall_rows`` made; their ids are never those of the same facts in a source."""
    for row in recalled.sort("chain_id").iter_rows(named=True):
        for step in row["steps"][2:]:
            head, relation, tail = step["text"].split(" | ")
            triple_id = content_id("background triple", row["model_id"], head, relation, tail)
            yield row, RecalledTriple(head, relation, tail, triple_id)


def build_triple_rows(recalled: pl.DataFrame) -> StageOutput:
    """Rows of ``triples`` with the origin ``background``, from what ``recall_rows`` made."""
    rows, lineage, lines = list[dict[str, Any]](), list[dict[str, Any]](), Counter[str]()
    for row, stated in _iter_triples(recalled):
        lines[row["chain_id"]] += 1
        line = lines[row["chain_id"]]
        rows.append(
            {
                **asdict(stated),
                "origin": ORIGIN,
                "flags": [],
                "model_id": row["model_id"],
                "source": f"question {row['question_id']}, prompt {row['prompt_hash']}, triple {line}",
                "licence": "",
            }
        )
        lineage.append(edge("triple", stated.triple_id, DERIVED, "chain", row["chain_id"], row["content_hash"], line))
    return StageOutput(rows, lineage, {"triples": len(rows)})


def read_background(recalled: pl.DataFrame) -> StoredBackground:
    """What ``recall_rows`` made, as the retrieval reads it."""
    failed = recalled.filter(pl.col("status") == "failed").select("question_id", "error").iter_rows()
    stated: dict[str, list[RecalledTriple]] = {}
    for row, triple in _iter_triples(recalled):
        stated.setdefault(row["question_id"], []).append(triple)
    return StoredBackground(stated, {question: f"no background knowledge: {error}" for question, error in failed})
