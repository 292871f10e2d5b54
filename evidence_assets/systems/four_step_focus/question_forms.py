"""Parses questions into triplets with declared forms, without a model.

The sample's questions describe their target by phrases of relations ("a medicine prescribed for gout"), nested or
joined ("Which drug is at once …, … and …?"). Questions in other words are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import count

import yaml

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, Term, Triplet, TripletQuery

_CONJUNCTION = re.compile(r"which\s+(?P<type>.+?)\s+is\s+at\s+once\s+(?P<rest>.+)", re.IGNORECASE)
_LEAD = re.compile(r"(?:name|list|find|which|what|who)\s+(?:(?:is|are)\s+)?(?=\S)", re.IGNORECASE)
_SEPARATOR = re.compile(r",\s+(?:and\s+)?|\s+and\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Form:
    """A phrase that describes one end of an edge by the other end, which fills the slot ``{}``.

    ``named_end`` is the described end, ``head`` or ``tail``. A form can also be a whole question ("Which medicine would
    fight {}").
    """

    phrase: str
    edge_type: str
    named_end: str

    def slot(self, text: str) -> str | None:
        """The text in the slot, or None if the text does not have this form."""
        before, _, after = self.phrase.rstrip(" .?!").partition("{}")
        match = re.fullmatch(re.escape(before) + r"(\S.*)" + re.escape(after), text, flags=re.IGNORECASE)
        return match.group(1).strip() if match else None


def load_sample_forms() -> list[Form]:
    """The forms of the sample's questions."""
    file = resources.files("evidence_assets") / "sample" / "question_forms.yaml"
    forms = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [Form(form["phrase"], form["edge_type"], form["asked"]) for form in forms]


@dataclass(frozen=True)
class _ParsedForm:
    """A matched form and the content of its slot: another matched form, or a name."""

    form: Form
    inner: _ParsedForm | str

    @property
    def n_forms(self) -> int:
        return 1 + (self.inner.n_forms if isinstance(self.inner, _ParsedForm) else 0)


class FormParser:
    """Parses questions in the given forms.

    The parse with the most forms wins, because text that matches a form is not part of a name; ties go to the longer
    phrases. ``node_types`` are the types allowed in "Which … is at once"; other variables have any type.
    """

    def __init__(self, forms: Sequence[Form], node_types: Sequence[str] = ()) -> None:
        # The longest phrase is the most specific one.
        self._forms = sorted(forms, key=lambda form: (-len(form.phrase), form.phrase, form.edge_type, form.named_end))
        self._node_types = {name.casefold(): name for name in node_types}
        self.version = content_id(
            "question_forms", [(f.phrase, f.edge_type, f.named_end) for f in self._forms], sorted(node_types)
        )

    def parse(self, question: str) -> TripletQuery:
        """Parse a question; raises UnusableReply if no form matches."""
        if not self._forms:
            raise UnusableReply(
                "these questions have no declared forms. Set a language model as `generator` in the profile to read "
                "them"
            )
        text = " ".join(question.split()).rstrip(" .?!")
        node_type = ANY_TYPE
        conjunction = _CONJUNCTION.fullmatch(text)
        if conjunction:
            node_type = self._node_types.get(conjunction["type"].casefold(), "")
            if not node_type:
                raise UnusableReply(f"{conjunction['type']!r} is no node type of the knowledge base")
            text = conjunction["rest"]
        parse_description = lru_cache(maxsize=None)(self._parse_description)
        parsed_forms = _split_conjunction(text, parse_description)
        if not parsed_forms:
            parsed_forms = _split_conjunction(_LEAD.sub("", text, count=1), parse_description)
        if not parsed_forms:
            raise UnusableReply("the question is written in none of the known forms")
        target = Term("?x0", node_type)
        names = (f"?x{number}" for number in count(1))
        triplets = [triplet for parsed in parsed_forms for triplet in _build_triplets(parsed, target, names)]
        return TripletQuery(tuple(dict.fromkeys(triplets)), target)

    def read_triplets(self, questions: Sequence[str]) -> list[tuple[TripletQuery | Failure, None]]:
        """One query or failure per question; the cost is None because no model runs."""
        queries: list[tuple[TripletQuery | Failure, None]] = []
        for question in questions:
            try:
                queries.append((self.parse(question), None))
            except UnusableReply as error:
                queries.append((Failure(str(error)), None))
        return queries

    def _parse_description(self, text: str) -> _ParsedForm | None:
        slots = [(form, slot) for form in self._forms if (slot := form.slot(text)) is not None]
        parses = [_ParsedForm(form, self._parse_description(slot) or slot) for form, slot in slots]
        return max(parses, key=lambda parsed: parsed.n_forms, default=None)


def _split_conjunction(text: str, parse_description: Callable[[str], _ParsedForm | None]) -> list[_ParsedForm]:
    """The conjunction of descriptions with the most forms; empty if the text has none."""
    whole_form = parse_description(text)
    conjunctions = [[whole_form]] if whole_form is not None else []
    for separator in _SEPARATOR.finditer(text):
        first = parse_description(text[: separator.start()])
        others = _split_conjunction(text[separator.end() :], parse_description) if first is not None else []
        if first is not None and others:
            conjunctions.append([first, *others])
    return max(conjunctions, key=lambda forms: sum(form.n_forms for form in forms), default=[])


def _build_triplets(parsed: _ParsedForm, target: Term, names: Iterator[str]) -> list[Triplet]:
    slot = Term(parsed.inner) if isinstance(parsed.inner, str) else Term(next(names), ANY_TYPE)
    inner = [] if isinstance(parsed.inner, str) else _build_triplets(parsed.inner, slot, names)
    if parsed.form.named_end == "head":
        return [*inner, Triplet(target, parsed.form.edge_type, slot)]
    return [*inner, Triplet(slot, parsed.form.edge_type, target)]
