"""Prompts as files with named fields: what a model is told and asked, word for word, and the hash of it.

A template is a text file in a folder ``prompts`` beside the code that fills it: the system message, a line ``---`` and the
user message. ``$name`` is a field. A paragraph that begins with ``?name`` stands only where that field is not empty, and a
paragraph of nothing but empty fields is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from string import Template as Fields

from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request

_CONDITION = re.compile(r"\?(\w+) ")


@dataclass(frozen=True)
class Template:
    """The words of one prompt."""

    system: str
    user: str

    @classmethod
    def load(cls, package: str, name: str) -> Template:
        """Read ``prompts/<name>.txt`` of a package."""
        text = (resources.files(package) / "prompts" / f"{name}.txt").read_text(encoding="utf-8")
        system, user = text.removesuffix("\n").split("\n---\n")
        return cls(system, user)

    @property
    def hash(self) -> str:
        """Changes with any word of the prompt."""
        return content_id("template", self.system, self.user)

    def request(
        self, max_tokens: int, choices: tuple[str, ...] = (), json_schema: str = "", /, **fields: str
    ) -> Request:
        """The request with its fields filled; a field that is not given is a ``KeyError``."""
        return Request(_filled(self.system, fields), _filled(self.user, fields), max_tokens, choices, json_schema)


def _filled(text: str, fields: dict[str, str]) -> str:
    paragraphs = []
    for paragraph in text.split("\n\n"):
        condition = _CONDITION.match(paragraph)
        if condition and not fields[condition[1]]:
            continue
        filled = Fields(paragraph[condition.end() :] if condition else paragraph).substitute(fields)
        if filled or not paragraph:
            paragraphs.append(filled)
    return "\n\n".join(paragraphs)
