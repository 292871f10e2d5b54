"""Prompt templates, and fences around the data that fills them.

A template is a text file in a folder ``prompts`` next to its code: the system message, a line ``---`` and the user
message. ``$name`` is a field. A paragraph that starts with ``?name`` appears only if that field is not empty, and a
paragraph with only empty fields is omitted. A line ``@source`` before a paragraph names the passage of a paper that
asks for it; it is never sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from string import Template as Fields

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.questions import Question
from evidence_assets.text.spelling import did_you_mean

_CONDITION = re.compile(r"\?(\w+) ")
_SOURCE = re.compile(r"(?:^|(?<=\n\n))@(.*)\n")
_SALT = "2"
"""Part of every fence's hash; another salt would invalidate all cached completions."""


@dataclass(frozen=True)
class TemplatePart:
    """A paragraph of a prompt.

    ``role``: system or user.
    ``source``: Passage of a paper that asks for it; empty for our own words.
    ``condition``: Field without which it is not sent.
    """

    role: str
    source: str
    condition: str
    text: str


@dataclass(frozen=True)
class Template:
    """The system and user message of one prompt, with fields."""

    system: str
    user: str
    name: str = field(default="", compare=False)
    """Name of the file without its suffix."""
    temperature: float = field(default=0.0, compare=False)
    parts: tuple[TemplatePart, ...] = field(default=(), compare=False, repr=False)
    """The paragraphs of both messages with the passages that ask for them."""

    @classmethod
    def load(cls, package: str | None, name: str, *fields: str) -> Template:
        """Read ``prompts/<name>.txt`` of a package, which must have exactly these fields (separated by spaces)."""
        path = Path(str(resources.files(package or "") / "prompts" / f"{name}.txt"))
        return _read_template(path, frozenset(" ".join(fields).split()))

    @property
    def fields(self) -> set[str]:
        texts = (self.system, self.user)
        conditions = {match[1] for text in texts for part in text.split("\n\n") if (match := _CONDITION.match(part))}
        return conditions.union(*(Fields(text).get_identifiers() for text in texts))

    @property
    def hash(self) -> str:
        """Hash of both messages."""
        return content_id("template", self.system, self.user)

    def request(
        self, max_tokens: int, choices: tuple[str, ...] = (), json_schema: str = "", /, **fields: str
    ) -> Request:
        """Fill the fields; a missing field raises KeyError."""
        system = _fill(self.system, fields)
        user = _fill(self.user, fields)
        return Request(system, user, max_tokens, choices, json_schema, self.temperature)


@lru_cache
def _read_template(path: Path, expected: frozenset[str]) -> Template:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read as a prompt: {error}", file=path) from error
    return parse_template(text, path, expected)


def parse_template(text: str, path: Path, expected: Set[str]) -> Template:
    """Parse the text of a prompt's file, which must have exactly the fields ``expected``."""
    parts = text.removesuffix("\n").split("\n---\n")
    if len(parts) != 2:
        raise BadInput("a prompt must have a system message, one line with --- and a user message", file=path)
    paragraphs = [*_read_parts("system", parts[0]), *_read_parts("user", parts[1])]
    messages = [_SOURCE.sub("", part) for part in parts]
    template = Template(messages[0], messages[1], path.stem, parts=tuple(paragraphs))
    for name in sorted(template.fields ^ expected):
        problem = "is missing" if name in expected else f"is unknown; the fields are {', '.join(sorted(expected))}"
        raise BadInput(f"the field ${name} {problem}", file=path, field=name)
    return template


def _read_parts(role: str, message: str) -> Iterator[TemplatePart]:
    """The paragraphs of a message, as written in its file."""
    for paragraph in message.split("\n\n"):
        source = _SOURCE.match(paragraph)
        text = paragraph[source.end() :] if source else paragraph
        condition = _CONDITION.match(text)
        yield TemplatePart(
            role,
            source[1] if source else "",
            condition[1] if condition else "",
            text[condition.end() :] if condition else text,
        )


@dataclass(frozen=True)
class Prompts:
    """The user's prompts, which override packaged ones, and limits; the first folder with a prompt wins."""

    folders: tuple[Path, ...] = ()
    temperature: float = 0.0
    explanation_tokens: int = 0
    """Token limit of an option's explanation in our own prompts; 0 for that of the prompt."""

    def customize(self, template: Template) -> Template:
        """The user's version of a prompt, else the packaged one, with this temperature."""
        paths = (folder / f"{template.name}.txt" for folder in self.folders)
        custom = next((_read_template(path, frozenset(template.fields)) for path in paths if path.is_file()), template)
        return replace(custom, temperature=self.temperature)

    def check(self, templates: Iterable[Template]) -> None:
        """Raise BadInput for a missing folder, an unknown prompt, wrong fields or an invalid temperature."""
        by_name = {template.name: template for template in templates}
        for folder in self.folders:
            if not folder.is_dir():
                raise BadInput("there is no such folder of prompts", file=folder)
        for file in (path for folder in self.folders for path in sorted(folder.glob("*.txt"))):
            if file.stem not in by_name:
                raise BadInput(f"there is no prompt {file.stem!r}{did_you_mean(file.stem, by_name)}", file=file)
            self.customize(by_name[file.stem])
        if not 0 <= self.temperature <= 2:
            raise BadInput(f"must be from 0 to 2, not {self.temperature}", field="temperature")


PACKAGED = Prompts()


def _fill(text: str, fields: dict[str, str]) -> str:
    """The text with its fields filled, without omitted paragraphs."""
    paragraphs: list[str] = []
    for paragraph in text.split("\n\n"):
        condition = _CONDITION.match(paragraph)
        if condition and not fields[condition[1]]:
            continue
        filled = Fields(paragraph[condition.end() :] if condition else paragraph).substitute(fields)
        if filled or not paragraph:
            paragraphs.append(filled)
    return "\n\n".join(paragraphs)


def fence(name: str, text: str) -> str:
    """Text between marks with a hash of the text, so that the text cannot contain its own closing mark."""
    code = content_id(_SALT, text)[:12]
    return f"<<< {name} {code}\n{text}\n>>> {code}"


def fenced_question(question: Question) -> str:
    """The question or claim, fenced."""
    return fence("claim" if question.is_claim else "question", question.text)


def fenced_options(question: Question) -> str:
    """The options as a fenced, lettered list; empty for claims."""
    lines = (f"{label}) {option}" for label, option in question.hypotheses)
    return "" if question.is_claim else fence("options", "\n".join(lines))


def negation_field(question: Question) -> str:
    """Template field for questions that ask for the exception; empty for others."""
    return "negated" if question.negated else ""
