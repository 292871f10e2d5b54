"""What a language model recalls for a question: entities, relations, and triples made of both.

Belongs here: what a generator is asked in each of the three prompts, and the strict reading of its replies. What a
generator says here is what the model knows or guesses; nothing in this module makes it evidence from a source.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.asking import PromptedTask
from evidence_assets.reasoning.templates import Template

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
