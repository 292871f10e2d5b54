"""Questions without options: the column of a table that is asked for, and the texts that may answer."""

from __future__ import annotations

import re

from evidence_assets.extractive.tables.mentions import find_named_column, find_related_columns
from evidence_assets.extractive.tables.operations import Outcome, format_number
from evidence_assets.extractive.tables.questions import (
    asks_for_number,
    compute_outcome,
    find_value_column,
    rate_contexts,
)
from evidence_assets.extractive.tables.text_analysis import TextAnalysis, analyze_text
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, header_noun, stem, tokenize
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.text.words import split_words

_QUESTION = re.compile(r"(?:which|what|who|whom|whose|when|where|how)\b", re.IGNORECASE)
_YES_NO = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE)
_NOTE = re.compile(r"(?=[a-z])(?!.*(?:\.|\b(?:is|are|was|were|has|have|had)\b)).*\b(?:of|for)\b")
"""A note such as "price of the blue one"; a statement has a capital letter, a verb or a full stop."""
_PREPOSITIONS = frozenset(("in", "at", "on", "from", "to", "for"))


def is_statement(text: str) -> bool:
    """Whether a text is to be checked against a table: a statement, or a question for yes or no."""
    return bool(_YES_NO.match(text)) or not (text.endswith("?") or _QUESTION.match(text) or _NOTE.match(text))


def list_options(view: TableView, question: str) -> list[str]:
    """Texts that may answer, the best first: the result of the requested operation, and cells.

    If the question asks for a column, only its cells: the other cells of a row match the question, too.
    """
    outcome = compute_outcome(view, question)
    analysis = analyze_text(view, question, is_question=True)
    column = _find_requested_column(analysis, outcome)
    named = find_value_column(view, question)
    inner = range(1, len(view.grid))
    results = list[str]()
    others = set[str]()
    if outcome is None:  # "Who is in Sales?" asks for names, "Who is the manager of Ana Lima?" for no column
        column = named if named is not None or analysis.rows else column
    elif asks_for_number(outcome, question):
        column = None
        results = [format_number(outcome.number)]
        cells = (view.cell((i, j)) for i in inner for j in view.columns)
        others = {cell.plain for cell in cells if cell.values and cell.values[0].states(outcome.number)}
    elif column is None and named is None:
        results = [format_number(outcome.number)]
        others = {view.text_at((i, j)) for i in outcome.rows for j in view.columns}
    columns = view.columns if column is None else (column,)
    matching = outcome.rows if outcome is not None and not asks_for_number(outcome, question) else ()
    supports = dict[str, tuple[bool, float]]()  # cells of matching rows first
    for (i, j), context in rate_contexts(view, question).items():
        if j in columns:
            text = view.text_at((i, j))
            supports[text] = max(supports.get(text, (False, 0.0)), (i in matching, context.rate(1.0, 1.0)))
    ranked = sorted(supports, key=lambda text: supports[text], reverse=True)
    return [*results, *(text for text in ranked if text not in results and text not in others)]


def _find_requested_column(analysis: TextAnalysis, outcome: Outcome | None) -> int | None:
    """The column whose cells answer "which", "what", "who", "where" or "when"; by default that of the rows' names."""
    view = analysis.view
    text = analysis.text
    for degree in reversed(analysis.degrees):  # "the second most populous country" asks for no population
        before = text[: degree.start].rsplit(maxsplit=1)[0] if degree.rank > 1 else text[: degree.start]
        text = before + re.sub(r"^most \w+|^\w+", "", text[degree.start :])
    words = [re.sub(r"['’]s$", "", word.casefold()) for word in split_words(text)]
    words = words[1:] if {*words[:1]} & _PREPOSITIONS else words
    if not _QUESTION.match(" ".join(words)):  # "tallest plant?", "price of the Bell?"
        words = ["what" if outcome is None else "which", *words]
    related = [j for word in words for j in find_related_columns(view, word, of_person=words[0] == "who")]
    values = {*view.numeric_columns, *view.flag_columns}
    first_name = next(iter(view.name_columns), None)
    match words[:1]:
        case ["when"]:
            return next(iter(related), None)
        case ["who"] | ["where"]:
            texts = [j for j in view.columns if j not in values and not view.has_codes(j)]
            columns = [j for j in related if j in texts] + (texts[:1] if words[0] == "who" else [])
            return columns[0] if columns else first_name
        case ["which"] | ["what"]:
            content = [stem(word) for word in words[1:] if word not in STOP_WORDS]
            dates = {j for j in view.date_columns if words[0] == "which" and not {*words} & {*tokenize(view.labels[j])}}
            columns = [j for j in view.columns if j not in view.flag_columns.keys() | dates]
            if outcome is not None:  # "What is the highest price?" asks for what it compares
                is_count = outcome.operation == "count"
                compared = {j for _, j in outcome.cells}
                compared |= {condition.column for condition in analysis.find_conditions()}
                head = {j for j in columns if not is_count and {*content[:1]} & collect_words(view.labels[j])}
                columns = [j for j in columns if j not in compared or j in head]
            named = find_named_column(view, text, [j for j in columns if header_noun(view.labels[j]) in content])
            named = next((j for j in related if j in columns and outcome is None), None) if named is None else named
            return named if named is not None or (words[0] == "what" and outcome is None) else first_name
    return None
