"""What a language model recalls for a question: entities, relations, and triples made of both.

Belongs here: what a generator is asked in each of the three prompts, and the strict reading of its replies. What a
generator says here is what the model knows or guesses; nothing in this module makes it evidence from a source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from evidence_assets.experiment.answers.chains import ChainSlot, add_chain
from evidence_assets.experiment.evidence.selection import Asked
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import Before, StageOutput
from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.reasoning.asking import LanguageModel, PromptedTask
from evidence_assets.reasoning.tasks import Chain, Failure, Reply, Step
from evidence_assets.reasoning.templates import Template
from evidence_assets.systems.background import VERSION

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
_ENTITIES, _RELATIONS = (Template.load(__package__, name, "question") for name in ("entities", "relations"))
_TRIPLES = Template.load(__package__, "triples", "question entities relations")


@dataclass(frozen=True)
class BackgroundTriple:
    """A fact as a model states it, and the line of its reply."""

    head: str
    relation: str
    tail: str
    line: int


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


def parse_background_triples(reply: str) -> tuple[BackgroundTriple, ...]:
    """Facts, one a line as ``(subject, relation, object)``, each once; ``none`` is the empty list.

    Bars between the parts are read, too: a name may hold a comma.

    >>> parse_background_triples("1. (Bern, capital of, Switzerland)")[0].tail
    'Switzerland'
    """
    found: dict[tuple[str, str, str], BackgroundTriple] = {}
    for number, line in _lines(reply):
        bracketed = _BRACKETED.fullmatch(line)
        bare = bracketed[1] if bracketed else line
        parts = [part.strip() for part in bare.split("|" if "|" in bare else ",")]
        if len(parts) != 3 or not all(parts):
            raise UnusableReply(f"line {number} is not of the form (subject, relation, object): {line[:60]!r}")
        if max(map(len, parts)) > MAX_CHARACTERS:
            raise UnusableReply(f"line {number} is no fact but a text: {line[:60]!r}")
        found.setdefault((parts[0], parts[1], parts[2]), BackgroundTriple(parts[0], parts[1], parts[2], number))
    return tuple(found.values())


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
class TriplesTask:
    """A question with what a model named for it before."""

    question: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]


RECALL_ENTITIES: PromptedTask[str, tuple[str, ...]] = PromptedTask(
    "recall_entities",
    (_ENTITIES,),
    lambda question, words: words.of(_ENTITIES).request(256, question=_quoted(question)),
    lambda reply, _: parse_list(reply),
)
RECALL_RELATIONS: PromptedTask[str, tuple[str, ...]] = PromptedTask(
    "recall_relations",
    (_RELATIONS,),
    lambda question, words: words.of(_RELATIONS).request(256, question=_quoted(question)),
    lambda reply, _: parse_list(reply),
)
RECALL_TRIPLES: PromptedTask[TriplesTask, tuple[BackgroundTriple, ...]] = PromptedTask(
    "recall_triples",
    (_TRIPLES,),
    lambda task, words: words.of(_TRIPLES).request(
        768, question=_quoted(task.question), entities=_quoted(task.entities), relations=_quoted(task.relations)
    ),
    lambda reply, _: parse_background_triples(reply),
)


# Asked, and stored ----------------------------------------------------------------------------------------------------


ORIGIN = "background"
"""Origin of a recalled triple in the table ``triples``."""


@dataclass(frozen=True)
class Recalled:
    """What a model recalled for a question, by the three prompts."""

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    triples: tuple[BackgroundTriple, ...]
    prompt_hash: str
    reply: Reply | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Stated:
    """A recalled triple with the row that it stands in."""

    head: str
    relation: str
    tail: str
    triple_id: str


@dataclass(frozen=True)
class StoredBackground:
    """Recalled triples by question, read from the lake; and why some questions have none."""

    stated: Mapping[str, Sequence[Stated]]
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
        self.version = content_id(
            "prompted_background",
            VERSION,
            [t.version_in(model.words) for t in (RECALL_ENTITIES, RECALL_RELATIONS, RECALL_TRIPLES)],
            model.version,
        )

    def recall(self, questions: Sequence[str]) -> list[Recalled | Failure]:
        """One record or failure a question; what one question fails at leaves the others alone."""
        entities = RECALL_ENTITIES.ask_with_cost(self._model, questions)
        relations = RECALL_RELATIONS.ask_with_cost(self._model, questions)
        results: dict[int, Recalled | Failure] = {}
        tasks: dict[int, TriplesTask] = {}
        costs: dict[int, Reply | None] = {}
        for place, question in enumerate(questions):
            (things, first), (links, second) = entities[place], relations[place]
            costs[place] = Reply.all_of([first, second])
            if isinstance(things, Failure):
                results[place] = things
            elif isinstance(links, Failure):
                results[place] = links
            else:
                tasks[place] = TriplesTask(question, things, links)
        triples = RECALL_TRIPLES.ask_with_cost(self._model, list(tasks.values()))
        for (place, task), (found, third) in zip(tasks.items(), triples, strict=True):
            costs[place] = Reply.all_of([costs[place], third])
            results[place] = (
                found
                if isinstance(found, Failure)
                else Recalled(task.entities, task.relations, found, third.prompt_hash if third else "")
            )
        return [replace(results[place], reply=costs[place]) for place in range(len(questions))]


def recall_rows(
    source: PromptedBackground, name: str, questions: Sequence[Asked], before: Before | None = None
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
            texts = [f"things: {'; '.join(result.entities)}", f"relations: {'; '.join(result.relations)}"]
            texts += [f"{t.head} | {t.relation} | {t.tail}" for t in result.triples]
            chain = Chain("", tuple(map(Step, texts)), None, result.prompt_hash, result.reply)
        add_chain(writer, slot, chain, content=[texts])
    return writer.finish()


def background_triple_id(model_id: str, head: str, relation: str, tail: str) -> str:
    """Id of a recalled triple: never that of the same fact in a source."""
    return content_id("background triple", model_id, head, relation, tail)


def triple_rows(recalled: pl.DataFrame) -> StageOutput:
    """Rows of ``triples`` with the origin ``background``, from what ``recall_rows`` made."""
    rows, lineage = list[dict[str, Any]](), list[dict[str, Any]]()
    for row in recalled.sort("chain_id").to_dicts():
        for line, step in enumerate(row["steps"][2:], 1):
            head, relation, tail = step["text"].split(" | ")
            triple_id = background_triple_id(row["model_id"], head, relation, tail)
            rows.append(
                {
                    "triple_id": triple_id,
                    "head": head,
                    "relation": relation,
                    "tail": tail,
                    "origin": ORIGIN,
                    "flags": [],
                    "model_id": row["model_id"],
                    "source": f"question {row['question_id']}, prompt {row['prompt_hash']}, triple {line}",
                    "licence": "",
                }
            )
            lineage.append(edge("triple", triple_id, DERIVED, "chain", row["chain_id"], row["content_hash"], line))
    return StageOutput(rows, lineage, {"triples": len(rows)})


def stored_background(recalled: pl.DataFrame) -> StoredBackground:
    """What ``recall_rows`` made, as the retrieval reads it."""
    stated: dict[str, list[Stated]] = {}
    failed = {}
    for row in recalled.sort("chain_id").to_dicts():
        if row["status"] == "failed":
            failed[row["question_id"]] = f"no background knowledge: {row['error']}"
            continue
        for step in row["steps"][2:]:
            head, relation, tail = step["text"].split(" | ")
            triple_id = background_triple_id(row["model_id"], head, relation, tail)
            stated.setdefault(row["question_id"], []).append(Stated(head, relation, tail, triple_id))
    return StoredBackground(stated, failed)
