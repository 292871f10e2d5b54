"""Markdown as plain text."""

from __future__ import annotations

import re

_LINE_MARK = re.compile(r"(?:^|(?<=“))[ \t]*(?:(?:#{1,6}|[-*+•]|>)[ \t]+)+", re.MULTILINE)
"""The mark of a heading, a list item or a quotation, also in quotation marks. The number of an item stays."""
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?: \"[^\"]*\")?\)")
_CODE = re.compile(r"`([^`]+)`")
_BOLD = re.compile(r"(?<![\w*])\*\*(?=[^\s*])|(?<=[^\s*])\*\*(?![\w*])")
"""Each end alone: a sentence may have one of them only."""
_ITALIC = re.compile(r"(?<![\w*])\*(?=\S)([^*]+)(?<=\S)\*(?![\w*])")


def plain_text(text: str) -> str:
    """A text without the marks of Markdown; products and names such as "2 * 3" and "__init__" stay.

    >>> plain_text("- **Fusee**: see *the* [glossary](a.md#f), `x**2`")
    'Fusee: see the glossary, x**2'
    """
    without_lines = _LINE_MARK.sub("", text)
    without_emphasis = _ITALIC.sub(r"\1", _BOLD.sub("", without_lines))
    return _CODE.sub(r"\1", _LINK.sub(r"\1", without_emphasis))
