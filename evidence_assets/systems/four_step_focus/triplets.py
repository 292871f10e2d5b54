"""The triplet task: translates a question into triplets with a target variable."""

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
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template
from evidence_assets.text.spelling import closest_name

MAX_TRIPLETS = 20
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

    @property
    def unanchored(self) -> tuple[str, ...]:
        """Variables that no chain of triplets connects to a constant."""
        asserted_triplets = [t for t in self.triplets if not t.is_denied]
        terms = dict.fromkeys(term for t in asserted_triplets for term in (t.head, t.tail))
        anchored = {term for term in terms if not term.is_variable}
        for _ in asserted_triplets:  # a chain has at most as many links as there are triplets
            anchored |= {end for t in asserted_triplets if {t.head, t.tail} & anchored for end in (t.head, t.tail)}
        return tuple(term.text for term in terms if term not in anchored)


_PROMPT = Template.load(__package__, "triplets", "node_types edge_types denials question")
_DENIALS = """
Add "denied": true to a triplet that must not hold ("not", "except", "without"); its variables must also be in another \
triplet. If an edge type itself says that something is absent, use this edge type instead."""


def reply_schema(schema: Schema) -> str:
    """JSON schema of the reply, for constrained decoding."""
    text = {"type": "string"}
    node_type, edge = ({**text, "enum": list(types)} for types in (schema.node_types, schema.edge_types))
    variables = {"type": "array", "items": object_schema(name=text, type=node_type)}
    denied = {"denied": {"type": "boolean"}} if schema.denials else {}
    triplets = {"type": "array", "items": object_schema(head=text, edge=edge, tail=text, **denied)}
    return json.dumps(object_schema(target=text, variables=variables, triplets=triplets))


@dataclass(frozen=True)
class TripletTask:
    """A question and the types of its knowledge base."""

    question: str
    schema: Schema


def triplet_request(task: TripletTask, prompts: Prompts = PACKAGED) -> Request:
    """Build the request for the triplets of a question."""
    schema = task.schema
    return prompts.customize(_PROMPT).request(
        512,
        (),
        reply_schema(schema),
        node_types=json.dumps(list(schema.node_types), ensure_ascii=False),
        edge_types=json.dumps(list(schema.edge_types), ensure_ascii=False),
        denials=_DENIALS if schema.denials else "",
        question=json.dumps(task.question, ensure_ascii=False),
    )


def parse_triplets(reply: str, schema: Schema) -> TripletQuery:
    """Parse a reply strictly: one JSON object, alone or in one fenced block.

    Raises UnusableReply for anything else, with a reason for the repair attempt.
    """
    value = parse_json_object(reply)
    unknown = sorted(value.keys() - {"target", "variables", "triplets"})
    if unknown:
        raise UnusableReply(f"the object has the unknown key {unknown[0]!r}; allowed are target, variables, triplets")
    types = _parse_variables(value.get("variables"), schema)
    items = value.get("triplets")
    if not isinstance(items, list) or not items:
        raise UnusableReply("there is no list of triplets")
    if len(items) > MAX_TRIPLETS:
        raise UnusableReply(f"{len(items)} triplets are more than {MAX_TRIPLETS}")
    triplets = tuple(dict.fromkeys(_parse_triplet(item, number, types, schema) for number, item in enumerate(items, 1)))
    variables = {term for t in triplets for term in (t.head, t.tail) if term.is_variable}
    if not variables:
        raise UnusableReply("all ends are constants, so there is no unknown: use a variable for it")
    target = value.get("target")
    if not isinstance(target, str) or not target.strip():
        raise UnusableReply("no target is named")
    targets = [term for term in variables if term.text == target.strip()]
    if not targets:
        raise UnusableReply(f"the target {target!r} is no variable of the triplets")
    return TripletQuery(triplets, targets[0])


def _parse_variables(items: object, schema: Schema) -> Mapping[str, str]:
    if not isinstance(items, list):
        raise UnusableReply("there is no list of variables")
    types: dict[str, str] = {}
    for number, item in enumerate(items, 1):
        name, node_type = _read_texts(item, f"variable {number}", "name", "type")
        if not re.fullmatch(r"\?\S+", name):
            raise UnusableReply(f"the variable {name!r} does not begin with a question mark, or has a space")
        if types.setdefault(name, _check_type(node_type, schema.node_types, "node type")) != node_type:
            raise UnusableReply(f"the variable {name!r} has two types")
    return types


def _parse_triplet(item: object, number: int, types: Mapping[str, str], schema: Schema) -> Triplet:
    is_denied = False
    if schema.denials and isinstance(item, dict):
        is_denied = item.get("denied", False)
        if not isinstance(is_denied, bool):
            raise UnusableReply(f"'denied' of triplet {number} is neither true nor false")
        item = {name: value for name, value in item.items() if name != "denied"}
    head, edge, tail = _read_texts(item, f"triplet {number}", "head", "edge", "tail")
    ends = []
    for part in (head, tail):
        if part.startswith("?") and part not in types:
            raise UnusableReply(f"the variable {part!r} of triplet {number} has no type")
        ends.append(Term(part, types.get(part)))
    return Triplet(ends[0], _check_type(edge, schema.edge_types, "edge type"), ends[1], is_denied)


def _read_texts(item: object, item_name: str, *names: str) -> list[str]:
    """Texts of an object with exactly these fields."""
    if not isinstance(item, dict) or item.keys() != set(names):
        raise UnusableReply(f"{item_name} is not an object of {', '.join(names)}")
    values = [value.strip() if isinstance(value, str) else "" for value in (item[name] for name in names)]
    if not all(values):
        raise UnusableReply(f"{item_name} has a field that is no text: {item}")
    return values


def _check_type(name: str, allowed: Sequence[str], kind: str) -> str:
    if name in allowed:
        return name
    raise UnusableReply(f"{name!r} is no {kind} of the knowledge base; did you mean {closest_name(name, allowed)!r}?")


class TripletReader(Protocol):
    """Translates questions into triplets; one result per question, in order."""

    @property
    def version(self) -> str: ...
    def read_triplets(self, questions: Sequence[str]) -> Sequence[tuple[TripletQuery | Failure, ReplyCost | None]]: ...


TRIPLETS: PromptedTask[TripletTask, TripletQuery] = PromptedTask(
    "triplets", (_PROMPT,), triplet_request, lambda reply, task: parse_triplets(reply, task.schema)
)


class PromptedTriplets:
    """Translates questions into triplets with a language model."""

    def __init__(self, model: LanguageModel, schema: Schema) -> None:
        if not schema.node_types or not schema.edge_types:
            raise ValueError("the knowledge base has no node types or no edge types. Add some, or use a FormParser")
        self._model, self._schema = model, schema
        self.version = content_id(
            "prompted_triplets", TRIPLETS.version_with(model.prompts), model.version, asdict(schema)
        )

    def read_triplets(self, questions: Sequence[str]) -> list[tuple[TripletQuery | Failure, ReplyCost | None]]:
        return TRIPLETS.ask_with_cost(self._model, [TripletTask(question, self._schema) for question in questions])
