"""The text form of an answer: the answer, why, the evidence behind it, and on request all that was considered."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from evidence_assets.explorer.answer_view import AnswerView
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.pages import template_environment

WIDTH = 80
"""Maximum characters per line."""
PATH_HEADINGS = ("path", "sources")
"""Reasons for a path that are always printed; scores only with everything else."""


def format_answer(view: AnswerView, *, options: bool = True, everything: bool = False, also: Sequence[str] = ()) -> str:
    """The answer with its confidence, why it was chosen, and the evidence behind it.

    ``options``: Whether to list them with their support. They may be cells that the user did not give.
    ``everything``: Whether to add the options, unused evidence, and the scores of paths and concepts.
    ``also``: What other sources say.
    """
    template = template_environment(wrap=wrap_text).get_template("answer.txt")
    return template.render(
        a=view,
        options=options or everything,
        everything=everything,
        also=also,
        other_evidence=view.other_evidence if everything else [],
        citations=_format_citations,
        reasons=lambda item: {h: lines for h, lines in item.reasons.items() if everything or h in PATH_HEADINGS},
    ).lstrip("\n")


def wrap_text(text: object, first: str = "", rest: str | None = None) -> str:
    """A text wrapped to ``WIDTH`` characters."""
    indent = " " * len(first) if rest is None else rest
    plain = " ".join(str(text).split())
    lines = textwrap.fill(
        plain, WIDTH, initial_indent=first, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines or first.rstrip()


def _format_citations(step: Row) -> str:
    """Numbers of the cited evidence by verdict, such as "cites [2], [5] (verified), and 3 more"."""
    by_verdict: dict[str, dict[str, None]] = {}
    for cite in step["cites"]:
        number = f"[{cite['number'] or cite['evidence_id'][:12]}]"
        by_verdict.setdefault(cite["verdict"], {})[number] = None
    listed = "; ".join(f"{', '.join(numbers)} ({verdict})" for verdict, numbers in by_verdict.items())
    return f"cites {listed}" + (f", and {step['n_more']} more" if step["n_more"] else "")
