"""Prompts as files with named fields: what a model is told and asked, word for word, and the hash of it.

A template is a text file in a folder ``prompts`` beside the code that fills it: the system message, a line ``---`` and the
user message. ``$name`` is a field. A paragraph that begins with ``?name`` stands only where that field is not empty, and a
paragraph of nothing but empty fields is left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template as Fields

from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Request

_CONDITION = re.compile(r"\?(\w+) ")


@dataclass(frozen=True)
class Template:
    """The words of one prompt."""

    system: str
    user: str

    @classmethod
    def load(cls, package: str | None, name: str, *fields: str) -> Template:
        """Read ``prompts/<name>.txt`` of a package, which must have these fields (names, parted by blanks) and no others."""
        path = Path(str(resources.files(package or "") / "prompts" / f"{name}.txt"))
        parts = path.read_text(encoding="utf-8").removesuffix("\n").split("\n---\n")
        if len(parts) != 2:
            raise BadInput("a prompt is the system message, one line with --- and the user message", file=path)
        template, wanted = cls(*parts), set(" ".join(fields).split())
        for field in sorted(template.fields ^ wanted):
            what = "is not there" if field in wanted else f"is none of this prompt's: {', '.join(sorted(wanted))}"
            raise BadInput(f"the field ${field} {what}", file=path, field=field)
        return template

    @property
    def fields(self) -> set[str]:
        """Names of the fields, those of conditions among them."""
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
