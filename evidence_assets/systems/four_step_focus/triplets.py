"""The triplet task: a question as triplets over a knowledge base's types, with one unknown as its target."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request, object_schema
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.reply_parsing import parse_json_object
from evidence_assets.reasoning.tasks import Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED_PROMPTS, PromptSettings, Template
from evidence_assets.text.spelling import closest_name

MAX_TRIPLETS = 20
ANY_TYPE = "*"
"""Node type of a variable whose type is left open; a generator is asked for a type and may not use it."""


@dataclass(frozen=True)
class Schema:
    """The types that triplets may use. ``patterns`` name the node types that an edge type joins, where known."""

    node_types: tuple[str, ...]
    edge_types: tuple[str, ...]
    patterns: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Term:
    """One end of a triplet: a variable with its node type, or (``node_type`` None) a constant named by ``text``."""

    text: str
    node_type: str | None = None

    @property
    def is_variable(self) -> bool:
        return self.node_type is not None


@dataclass(frozen=True)
class Triplet:
    """``head –edge_type→ tail``."""

    head: Term
    edge_type: str
    tail: Term


@dataclass(frozen=True)
class TripletQuery:
    """Triplets that describe the target, which is one of their variables."""

    triplets: tuple[Triplet, ...]
    target: Term

    @property
    def adrift(self) -> tuple[str, ...]:
        """Variables that no chain of triplets joins to a constant: nothing in the question pins them down."""
        terms = dict.fromkeys(term for t in self.triplets for term in (t.head, t.tail))
        reached = {term for term in terms if not term.is_variable}
        for _ in self.triplets:  # a chain is at most as long as there are triplets
            reached |= {end for t in self.triplets if {t.head, t.tail} & reached for end in (t.head, t.tail)}
        return tuple(term.text for term in terms if term not in reached)


_PROMPT = Template.load(__package__, "triplets", "node_types edge_types joins question")


def reply_schema(schema: Schema) -> str:
    """JSON schema of the reply, for backends that can constrain to one."""
    text = {"type": "string"}
    node_type, edge = ({**text, "enum": list(types)} for types in (schema.node_types, schema.edge_types))
    variables = {"type": "array", "items": object_schema(name=text, type=node_type)}
    triplets = {"type": "array", "items": object_schema(head=text, edge=edge, tail=text)}
    return json.dumps(object_schema(target=text, variables=variables, triplets=triplets))


@dataclass(frozen=True)
class TripletTask:
    """A question on a knowledge base of certain types."""

    question: str
    schema: Schema


def triplet_request(task: TripletTask, prompts: PromptSettings = PACKAGED_PROMPTS) -> Request:
    """Ask a generator for the triplets of a question."""
    schema = task.schema
    joins = "".join(f"\n  {head} | {edge} | {tail}" for head, edge, tail in schema.patterns)
    return prompts.of(_PROMPT).request(
        512,
        (),
        reply_schema(schema),
        node_types=json.dumps(list(schema.node_types), ensure_ascii=False),
        edge_types=json.dumps(list(schema.edge_types), ensure_ascii=False),
        joins=f"\nWhat the edges join (head type | edge type | tail type):{joins}" if joins else "",
        question=json.dumps(task.question, ensure_ascii=False),
    )


def parse_triplets(reply: str, schema: Schema) -> TripletQuery:
    """Read a reply strictly: one JSON object, alone or in one fenced block.

    Anything else raises :class:`UnusableReply` with a reason that a repair attempt can act on.
    """
    value = parse_json_object(reply)
    unknown = sorted(value.keys() - {"target", "variables", "triplets"})
    if unknown:
        raise UnusableReply(f"the object has the unknown key {unknown[0]!r}; allowed are target, variables, triplets")
    types = _variables(value.get("variables"), schema)
    listed = value.get("triplets")
    if not isinstance(listed, list) or not listed:
        raise UnusableReply("there is no list of triplets")
    if len(listed) > MAX_TRIPLETS:
        raise UnusableReply(f"{len(listed)} triplets are more than {MAX_TRIPLETS}")
    triplets = tuple(dict.fromkeys(_triplet(item, number, types, schema) for number, item in enumerate(listed, 1)))
    variables = {term for t in triplets for term in (t.head, t.tail) if term.is_variable}
    if not variables:
        raise UnusableReply("all ends are constants, so nothing is asked for: name the unknown by a variable")
    target = value.get("target")
    if not isinstance(target, str) or not target.strip():
        raise UnusableReply("no target is named")
    targets = [term for term in variables if term.text == target.strip()]
    if not targets:
        raise UnusableReply(f"the target {target!r} is no variable of the triplets")
    return TripletQuery(triplets, targets[0])


def _variables(listed: object, schema: Schema) -> Mapping[str, str]:
    if not isinstance(listed, list):
        raise UnusableReply("there is no list of variables")
    types: dict[str, str] = {}
    for number, item in enumerate(listed, 1):
        name, node_type = _texts(item, f"variable {number}", "name", "type")
        if not re.fullmatch(r"\?\S+", name):
            raise UnusableReply(f"the variable {name!r} does not begin with a question mark, or has a space")
        if types.setdefault(name, _check_type(node_type, schema.node_types, "node type")) != node_type:
            raise UnusableReply(f"the variable {name!r} has two types")
    return types


def _triplet(item: object, number: int, types: Mapping[str, str], schema: Schema) -> Triplet:
    head, edge, tail = _texts(item, f"triplet {number}", "head", "edge", "tail")
    ends = []
    for part in (head, tail):
        if part.startswith("?") and part not in types:
            raise UnusableReply(f"the variable {part!r} of triplet {number} has no type")
        ends.append(Term(part, types.get(part)))
    return Triplet(ends[0], _check_type(edge, schema.edge_types, "edge type"), ends[1])


def _texts(item: object, what: str, *names: str) -> list[str]:
    """The texts of an object that has exactly these fields."""
    if not isinstance(item, dict) or item.keys() != set(names):
        raise UnusableReply(f"{what} is not an object of {', '.join(names)}")
    values = [value.strip() if isinstance(value, str) else "" for value in (item[name] for name in names)]
    if not all(values):
        raise UnusableReply(f"{what} has a field that is no text: {item}")
    return values


def _check_type(name: str, allowed: Sequence[str], what: str) -> str:
    if name in allowed:
        return name
    raise UnusableReply(f"{name!r} is no {what} of the knowledge base; did you mean {closest_name(name, allowed)!r}?")


class TripletReader(Protocol):
    """Turns questions into triplets, one result a question, in order."""

    @property
    def version(self) -> str: ...
    def read(self, questions: Sequence[str]) -> Sequence[tuple[TripletQuery | Failure, ReplyCost | None]]: ...


TRIPLETS: PromptedTask[TripletTask, TripletQuery] = PromptedTask(
    "triplets", (_PROMPT,), triplet_request, lambda reply, task: parse_triplets(reply, task.schema)
)


class PromptedTriplets:
    """Triplets by a language model."""

    def __init__(self, model: LanguageModel, schema: Schema) -> None:
        if not schema.node_types or not schema.edge_types:
            raise ValueError("the knowledge base has no node types or no edge types: there is nothing to ask in")
        self._model, self._schema = model, schema
        self.version = content_id(
            "prompted_triplets", TRIPLETS.version_with(model.prompts), model.version, asdict(schema)
        )

    def read(self, questions: Sequence[str]) -> list[tuple[TripletQuery | Failure, ReplyCost | None]]:
        return TRIPLETS.ask_with_cost(self._model, [TripletTask(question, self._schema) for question in questions])
