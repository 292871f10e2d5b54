"""Prompts as files with named fields, and the fences around the material that is put into them.

A template is a text file in a folder ``prompts`` beside the code that fills it: the system message, a line ``---`` and
the user message. ``$name`` is a field. A paragraph that begins with ``?name`` stands only where that field is not
empty, and a paragraph of nothing but empty fields is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from string import Template as Fields

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.tasks import ChooseAnswer, ExplainOption
from evidence_assets.text.spelling import closest_name

_CONDITION = re.compile(r"\?(\w+) ")
_SALT = "2"
"""Part of every code of a fence: another one would ask all that is cached anew."""


@dataclass(frozen=True)
class Template:
    """The words of one prompt."""

    system: str
    user: str
    name: str = field(default="", compare=False)
    """Name of its file."""
    tokens: int = field(default=0, compare=False)
    """Most tokens of a reply, where it is not for the code to say."""
    temperature: float = field(default=0.0, compare=False)

    @classmethod
    def load(cls, package: str | None, name: str, *fields: str) -> Template:
        """Read ``prompts/<name>.txt`` of a package; its fields must be exactly these (names, separated by blanks)."""
        path = Path(str(resources.files(package or "") / "prompts" / f"{name}.txt"))
        return _read_template(path, frozenset(" ".join(fields).split()))

    @property
    def fields(self) -> set[str]:
        texts = (self.system, self.user)
        conditions = {found[1] for text in texts for part in text.split("\n\n") if (found := _CONDITION.match(part))}
        return conditions.union(*(Fields(text).get_identifiers() for text in texts))

    @property
    def hash(self) -> str:
        """Changes with any word of the prompt."""
        return content_id("template", self.system, self.user)

    def request(
        self, max_tokens: int, choices: tuple[str, ...] = (), json_schema: str = "", /, **fields: str
    ) -> Request:
        """The request with its fields filled; a field that is not given is a ``KeyError``."""
        return Request(
            _fill(self.system, fields),
            _fill(self.user, fields),
            self.tokens or max_tokens,
            choices,
            json_schema,
            self.temperature,
        )


@lru_cache
def _read_template(path: Path, wanted: frozenset[str]) -> Template:
    try:
        parts = path.read_text(encoding="utf-8").removesuffix("\n").split("\n---\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"not readable as a prompt: {error}", file=path) from error
    if len(parts) != 2:
        raise BadInput("a prompt is the system message, one line with --- and the user message", file=path)
    template = Template(parts[0], parts[1], path.stem)
    for name in sorted(template.fields ^ wanted):
        what = "is not there" if name in wanted else f"is none of this prompt's: {', '.join(sorted(wanted))}"
        raise BadInput(f"the field ${name} {what}", file=path, field=name)
    return template


@dataclass(frozen=True)
class PromptSettings:
    """Prompts as they are packaged, or as the first of some folders of the user's own that has one words it; and how
    long and how free a reply may be.
    """

    folders: tuple[Path, ...] = ()
    tokens: Mapping[str, int] = field(default_factory=dict)
    """Most tokens of a reply by the name of the prompt, where it is another number than the prompt's own."""
    temperature: float = 0.0

    def of(self, template: Template) -> Template:
        """The prompt in these words."""
        paths = (folder / f"{template.name}.txt" for folder in self.folders)
        own = next((_read_template(path, frozenset(template.fields)) for path in paths if path.is_file()), template)
        return replace(own, tokens=self.tokens.get(template.name, 0), temperature=self.temperature)

    def check(self, templates: Iterable[Template]) -> None:
        """Reject a missing folder, a file or limit of no prompt of ``templates``, and a file without its fields."""
        known = {template.name: template for template in templates}
        for folder in self.folders:
            if not folder.is_dir():
                raise BadInput("there is no such folder of prompts", file=folder)
        files = [path for folder in self.folders for path in sorted(folder.glob("*.txt"))]
        for name, file in [*((path.stem, path) for path in files), *((name, None) for name in self.tokens)]:
            if name not in known:
                said = f"there is no prompt {name!r}; did you mean {closest_name(name, known)!r}?"
                raise BadInput(said, file=file, field=None if file else "tokens")
            self.of(known[name])
        if min(self.tokens.values(), default=1) < 1:
            raise BadInput("fewer than one token are too few", field="tokens")
        if not 0 <= self.temperature <= 2:
            raise BadInput(f"must be from 0 to 2, not {self.temperature}", field="temperature")


PACKAGED_PROMPTS = PromptSettings()


def _fill(text: str, fields: dict[str, str]) -> str:
    paragraphs = []
    for paragraph in text.split("\n\n"):
        condition = _CONDITION.match(paragraph)
        if condition and not fields[condition[1]]:
            continue
        filled = Fields(paragraph[condition.end() :] if condition else paragraph).substitute(fields)
        if filled or not paragraph:
            paragraphs.append(filled)
    return "\n\n".join(paragraphs)


def fence(name: str, text: str) -> str:
    """Material between marks that hold a hash of it, which no text can foresee and so none can close."""
    code = content_id(_SALT, text)[:12]
    return f"<<< {name} {code}\n{text}\n>>> {code}"


def is_claim(task: ExplainOption | ChooseAnswer) -> bool:
    """Whether what is asked is a claim to verify, whose options are the labels themselves."""
    return task.task == "verification"


def fenced_question(task: ExplainOption | ChooseAnswer) -> str:
    """The question or claim between marks."""
    return fence("claim" if is_claim(task) else "question", task.question)


def fenced_options(task: ChooseAnswer) -> str:
    """The options as a lettered list between marks; claims have none."""
    lines = (f"{label}) {option}" for label, option in zip(task.labels, task.options, strict=True))
    return "" if is_claim(task) else fence("options", "\n".join(lines))


def negation_field(task: ExplainOption | ChooseAnswer) -> str:
    """The field of a template that stands where the exception is asked for."""
    return "negated" if task.negated else ""
