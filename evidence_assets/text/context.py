"""What a reader has just read before a sentence: the heading of its section, and the sentence before it."""

from __future__ import annotations

from evidence_assets.text.sentences import sentence_spans

MAX_HEADING = 60
"""Maximum characters of a heading without a mark; longer lines are text."""


def find_context(text: str, start: int) -> str:
    """The heading above ``start`` and the sentence before it in its paragraph; empty if there is neither.

    A sentence that begins with a heading has no other.

    >>> text = "## Is there Wi-Fi?\\nYes. The password is at the desk.\\n\\nDrinks are fine."
    >>> find_context(text, text.index("The")), find_context(text, text.index("Drinks")), find_context(text, 0)
    ('Is there Wi-Fi? Yes.', 'Is there Wi-Fi?', '')
    """
    heading = ""
    paragraph = 0
    line_start = 0
    follows_blank = True
    for line in text.splitlines(keepends=True):
        if line_start > start:
            break
        line_end = line_start + len(line)
        content = line.strip()
        if _is_heading(content, follows_blank):
            heading = content.lstrip("# ")
            paragraph = line_end
        elif not content:
            paragraph = line_end
        follows_blank = not content
        line_start = line_end
    if paragraph > start:
        return ""
    before = [text[paragraph + a : paragraph + b] for a, b in sentence_spans(text[paragraph:start])][-1:]
    return " ".join(" ".join([heading, *before]).split())


def _is_heading(line: str, follows_blank: bool) -> bool:
    if line.startswith("#"):
        return True
    return follows_blank and len(line) <= MAX_HEADING and line[:1].isalnum() and line[-1] not in ".,;:!"
