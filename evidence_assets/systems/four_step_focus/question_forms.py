"""Triplets of a question without any model: questions written in known forms, taken apart by those forms.

The sample's questions name what they ask for by phrases of their relations ("a medicine prescribed for gout"), one
inside the other or joined ("Which drug is at once …, … and …?"). A question in other words is refused with a reason.
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
_ARTICLE = re.compile(r"^(?:an?|the)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Form:
    """A phrase with one slot, ``{}``, that names one end of an edge by the other.

    ``asked`` is the end that the phrase names, ``head`` or ``tail``. A form may be a whole question of its own
    ("Which medicine would fight {}").
    """

    phrase: str
    edge_type: str
    asked: str

    def slot(self, text: str) -> str | None:
        """What stands in the slot if the text has this form."""
        before, _, after = self.phrase.rstrip(" .?!").partition("{}")
        match = re.fullmatch(re.escape(before) + r"(\S.*)" + re.escape(after), text, flags=re.IGNORECASE)
        return match.group(1).strip() if match else None


def load_sample_forms() -> list[Form]:
    """The forms in which the sample's questions are written."""
    file = resources.files("evidence_assets") / "sample" / "question_forms.yaml"
    return [Form(**form) for form in yaml.safe_load(file.read_text(encoding="utf-8"))]


@dataclass(frozen=True)
class _ParsedForm:
    """A form and what stands in its slot: a further reading, or a name."""

    form: Form
    inner: _ParsedForm | str

    @property
    def forms(self) -> int:
        return 1 + (self.inner.forms if isinstance(self.inner, _ParsedForm) else 0)


class FormParser:
    """Reads questions in the given forms.

    Of all readings the one that recognises the most forms wins, since what a form recognises is no part of a name;
    then the one with the longer phrases. ``node_types`` are what "Which … is at once" may ask for; the type of any
    other unknown is left open.
    """

    def __init__(self, forms: Sequence[Form], node_types: Sequence[str] = ()) -> None:
        for form in forms:
            if form.phrase.count("{}") != 1 or form.asked not in ("head", "tail"):
                raise ValueError(f"the form {form.phrase!r} needs one slot {{}} and asks for head or tail")
        # The longest phrase is the most particular one.
        self._forms = sorted(forms, key=lambda form: (-len(form.phrase), form.phrase, form.edge_type, form.asked))
        self._node_types = {name.casefold(): name for name in node_types}
        self.version = content_id(
            "question_forms", [(f.phrase, f.edge_type, f.asked) for f in self._forms], sorted(node_types)
        )

    def parse(self, question: str) -> TripletQuery:
        """The triplets of a question; :class:`UnusableReply` where no form fits."""
        if not self._forms:
            raise UnusableReply(
                "nobody says in which forms these questions are written: name a language model under `generator` "
                "in the profile to read them"
            )
        text = " ".join(question.split()).rstrip(" .?!")
        node_type, rest = ANY_TYPE, text
        conjunction = _CONJUNCTION.fullmatch(text)
        if conjunction:
            if conjunction["type"].casefold() not in self._node_types:
                raise UnusableReply(f"{conjunction['type']!r} is no node type of the knowledge base")
            node_type, rest = self._node_types[conjunction["type"].casefold()], conjunction["rest"]
        described = lru_cache(maxsize=None)(self._described)
        for candidate in dict.fromkeys((rest, _LEAD.sub("", rest, count=1))):
            readings = _split(candidate, described)
            if readings:
                break
        else:
            raise UnusableReply("the question is written in none of the known forms")
        target = Term("?x0", node_type)
        names = (f"?x{number}" for number in count(1))
        triplets = [triplet for reading in readings for triplet in _triplets(reading, target, names)]
        return TripletQuery(tuple(dict.fromkeys(triplets)), target)

    def read(self, questions: Sequence[str]) -> list[tuple[TripletQuery | Failure, None]]:
        """One query or failure a question, and that no model was asked."""
        queries: list[tuple[TripletQuery | Failure, None]] = []
        for question in questions:
            try:
                queries.append((self.parse(question), None))
            except UnusableReply as error:
                queries.append((Failure(str(error)), None))
        return queries

    def _described(self, text: str) -> _ParsedForm | None:
        slots = [(form, slot) for form in self._forms if (slot := form.slot(text)) is not None]
        readings = [_ParsedForm(form, self._described(slot) or _ARTICLE.sub("", slot)) for form, slot in slots]
        return max(readings, key=lambda reading: reading.forms, default=None)


def _split(text: str, described: Callable[[str], _ParsedForm | None]) -> list[_ParsedForm]:
    """The best conjunction of descriptions that make up the text; empty if there is none."""
    whole = described(text)
    best = [whole] if whole is not None else []
    for joint in _SEPARATOR.finditer(text):
        left = described(text[: joint.start()])
        right = _split(text[joint.end() :], described) if left is not None else []
        if left is not None and right and left.forms + sum(r.forms for r in right) > sum(r.forms for r in best):
            best = [left, *right]
    return best


def _triplets(reading: _ParsedForm, asked: Term, names: Iterator[str]) -> list[Triplet]:
    if isinstance(reading.inner, str):
        slot, inner = Term(reading.inner), []
    else:
        slot = Term(next(names), ANY_TYPE)
        inner = _triplets(reading.inner, slot, names)
    ends = (asked, slot) if reading.form.asked == "head" else (slot, asked)
    return [*inner, Triplet(ends[0], reading.form.edge_type, ends[1])]
