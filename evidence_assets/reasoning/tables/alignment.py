"""Which cells a sentence names: citations for explanations that cite none, as published prompts ask for them.

A cell is named if the sentence contains its text. A text that several cells have, or a short one, names the cells of
rows of which the sentence also names a text of their own; otherwise the sentence does not say which cell it means.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.tables.table import CellLocation
from evidence_assets.reasoning.tables.views import build_view
from evidence_assets.reasoning.tasks import ChainStep, EvidenceItem

SHORT = 2
"""Texts of at most so many characters, such as ``3``, occur in many sentences by chance."""
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")


def cite_named_cells(sentence: str, evidence: Sequence[EvidenceItem]) -> ChainStep:
    """The sentence as a step that cites the cells it names, and quotes their texts.

    >>> from evidence_assets.reasoning.tasks import EvidenceItem
    >>> cells = [EvidenceItem(f"e{row}", "cell", "t", f"r{row}c0", text) for row, text in ((1, "Paris"), (2, "Rome"))]
    >>> cite_named_cells("Rome is the larger one.", cells)
    ChainStep(text='Rome is the larger one.', cited=('e2',), quoted=('Rome',))
    """
    view, ids = build_view(evidence)
    cells_by_text: dict[str, list[CellLocation]] = defaultdict(list)
    for location in ids:
        if location[0] > 0 and (text := view.cell(location).plain):
            cells_by_text[text].append(location)
    named = {text: cells_by_text[text] for text in _find_texts(sentence, cells_by_text)}
    rows = {cells[0][0] for text, cells in named.items() if len(cells) == 1 and len(text) > SHORT}
    cited = [(cell, text) for text, cells in named.items() for cell in cells if cell[0] in rows]
    cited.sort()
    evidence_ids = dict.fromkeys(ids[cell] for cell, _ in cited)
    quotes = dict.fromkeys(text for _, text in cited)
    return ChainStep(sentence, tuple(evidence_ids), tuple(quotes))


def _find_texts(sentence: str, texts: Iterable[str]) -> list[str]:
    """The texts that a sentence contains, the longest first; a text within a longer one does not count.

    "Poland's area" has the text "Poland".
    """
    found_texts = []
    rest = sentence
    for text in sorted(texts, key=lambda text: (-len(text), text)):
        if contains_quote(text, rest) or contains_quote(text, _POSSESSIVE.sub(" ", rest)):
            found_texts.append(text)
            rest = re.sub(re.escape(text), " | ", rest, flags=re.IGNORECASE)
    return found_texts
