"""The triplet task: translates a question into triplets with a target variable."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StringConstraints, ValidationError

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request, object_schema
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.reply_parsing import parse_json_object
from evidence_assets.reasoning.tasks import Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template
from evidence_assets.text.spelling import did_you_mean

MAX_TRIPLETS = 20
MAX_CONSTRAINED_ITEMS = 8
"""Items of a list in a constrained reply: a small model repeats its triplets until something stops it."""
ANY_TYPE = "*"
"""Node type of a variable of any type. Language models must name a type and cannot use it."""


@dataclass(frozen=True)
class Schema:
    """The types that triplets can use.

    ``denials``: Whether triplets can be denied.
    """

    node_types: tuple[str, ...]
    edge_types: tuple[str, ...]
    denials: bool = False


@dataclass(frozen=True)
class Term:
    """One end of a triplet: a variable with its node type, or a constant (``node_type`` is None)."""

    text: str
    node_type: str | None = None

    @property
    def is_variable(self) -> bool:
        return self.node_type is not None


@dataclass(frozen=True)
class Triplet:
    """``head –edge_type→ tail``, or its denial."""

    head: Term
    edge_type: str
    tail: Term
    is_denied: bool = False


@dataclass(frozen=True)
class TripletQuery:
    """Triplets with a target, which is one of their variables."""

    triplets: tuple[Triplet, ...]
    target: Term


_PROMPT = Template.load(__package__, "triplets", "node_types edge_types denials question")
_VARIABLE = r"^\?[A-Za-z0-9_]+$"
"""Pattern of a variable's name, for constrained decoding; others are read, too."""
_DENIALS = """
Add "denied": true to a triplet that must not hold ("not", "except", "without"); its variables must also be in another \
triplet. If an edge type itself says that something is absent, use this edge type instead."""


def reply_schema(schema: Schema) -> str:
    """JSON schema of the reply, for constrained decoding."""
    text = {"type": "string"}
    node_type = {**text, "enum": list(schema.node_types)}
    edge = {**text, "enum": list(schema.edge_types)}
    variable = {**text, "pattern": _VARIABLE}
    denied = {"denied": {"type": "boolean"}} if schema.denials else {}
    variables = _list_schema(object_schema(name=variable, type=node_type))
    triplets = _list_schema(object_schema(head=text, edge=edge, tail=text, **denied))
    return json.dumps(object_schema(target=variable, variables=variables, triplets=triplets))


def _list_schema(item: dict[str, object]) -> dict[str, object]:
    return {"type": "array", "items": item, "maxItems": MAX_CONSTRAINED_ITEMS}


TripletTask = tuple[str, Schema]
"""A question and the types of its knowledge base."""


def triplet_request(task: TripletTask, prompts: Prompts = PACKAGED) -> Request:
    """Build the request for the triplets of a question."""
    question, schema = task
    return prompts.customize(_PROMPT).request(
        512,
        (),
        reply_schema(schema),
        node_types=json.dumps(list(schema.node_types), ensure_ascii=False),
        edge_types=json.dumps(list(schema.edge_types), ensure_ascii=False),
        denials=_DENIALS if schema.denials else "",
        question=json.dumps(question, ensure_ascii=False),
    )


_Text = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]


class _ReplyPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _ReplyVariable(_ReplyPart):
    name: Annotated[_Text, Field(pattern=r"^\?\S+$")]
    type: _Text


class _ReplyTriplet(_ReplyPart):
    head: _Text
    edge: _Text
    tail: _Text
    denied: StrictBool = False


class _Reply(_ReplyPart):
    target: _Text
    variables: list[_ReplyVariable]
    triplets: Annotated[list[_ReplyTriplet], Field(min_length=1, max_length=MAX_TRIPLETS)]


def parse_triplets(reply: str, schema: Schema, question: str = "") -> TripletQuery:
    """Parse a reply strictly: one JSON object, alone or in one fenced block.

    An end of several words with a question mark is a constant if the question names it.
    Raises UnusableReply for anything else, with a reason for the repair attempt.
    """
    try:
        parsed = _Reply.model_validate(parse_json_object(reply))
    except ValidationError as invalid:
        error = invalid.errors()[0]
        raise UnusableReply(f"{'.'.join(map(str, error['loc']))}: {error['msg']}") from invalid
    types: dict[str, str] = {}
    for item in parsed.variables:
        if types.setdefault(item.name, _check_type(item.type, schema.node_types, "node type")) != item.type:
            raise UnusableReply(f"the variable {item.name!r} has two types")
    triplets = dict.fromkeys(_build_triplet(row, types, schema, question) for row in parsed.triplets)
    variables = [term for triplet in triplets for term in (triplet.head, triplet.tail) if term.is_variable]
    if not variables:
        raise UnusableReply("all ends are constants, so there is no unknown: use a variable for it")
    target = next((term for term in variables if term.text == parsed.target), None)
    if target is None:
        raise UnusableReply(f"the target {parsed.target!r} is no variable of the triplets")
    return TripletQuery(tuple(triplets), target)


def _build_triplet(row: _ReplyTriplet, types: Mapping[str, str], schema: Schema, question: str) -> Triplet:
    if row.denied and not schema.denials:
        raise UnusableReply("triplets cannot be denied here: remove 'denied'")
    edge_type = _check_type(row.edge, schema.edge_types, "edge type")
    head, tail = (_build_term(end, types, question) for end in (row.head, row.tail))
    return Triplet(head, edge_type, tail, row.denied)


def _build_term(end: str, types: Mapping[str, str], question: str) -> Term:
    if not end.startswith("?") or end in types:
        return Term(end, types.get(end))
    name = end.removeprefix("?")
    if name in question and not re.match(_VARIABLE, end):
        return Term(name)
    raise UnusableReply(f"the variable {end!r} has no type")


def _check_type(name: str, allowed: Sequence[str], kind: str) -> str:
    if name in allowed:
        return name
    raise UnusableReply(f"{name!r} is no {kind} of the knowledge base{did_you_mean(name, allowed)}")


TRIPLETS: PromptedTask[TripletTask, TripletQuery] = PromptedTask(
    "triplets", (_PROMPT,), triplet_request, lambda reply, task: parse_triplets(reply, task[1], task[0])
)


class PromptedTriplets:
    """Translates questions into triplets with a language model."""

    def __init__(self, model: LanguageModel, schema: Schema) -> None:
        self._model = model
        self._schema = schema
        self.version = content_id(
            "prompted_triplets", TRIPLETS.version_with(model.prompts), model.version, reply_schema(schema)
        )

    def read_triplets(self, questions: Sequence[str]) -> list[tuple[TripletQuery | Failure, ReplyCost | None]]:
        return TRIPLETS.ask_with_cost(self._model, [(question, self._schema) for question in questions])
