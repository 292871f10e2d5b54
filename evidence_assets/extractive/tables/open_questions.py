"""Questions without options: the column of a table that is asked for, and the texts that may answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evidence_assets.extractive.tables.mentions import (
    BEFORE_QUESTION_WORD,
    find_named_column,
    find_person_columns,
    find_related_columns,
    has_times,
)
from evidence_assets.extractive.tables.operations import Outcome, format_number
from evidence_assets.extractive.tables.questions import (
    asks_for_number,
    asks_when,
    compute_outcome,
    find_value_column,
    rate_contexts,
)
from evidence_assets.extractive.tables.text_analysis import TextAnalysis, analyze_text, is_note
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, header_noun, stem, tokenize
from evidence_assets.reasoning.tables.lexicon import measures_of, related_headers
from evidence_assets.reasoning.tables.table import TableView
from evidence_assets.text.tokens import asks_for_several
from evidence_assets.text.words import split_words

_QUESTION = re.compile(
    rf"(?:(?:{'|'.join(sorted(BEFORE_QUESTION_WORD))}) )?(?:which|what|who|whom|whose|when|where|how)\b", re.IGNORECASE
)
_PLURAL = re.compile(r"(?:\w+ )?\w{3,}(?<!s)s\b", re.IGNORECASE)
"""A note that begins with a noun such as "tools" or "dry whites"."""
_YES_NO = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)\b", re.IGNORECASE)


def is_statement(text: str) -> bool:
    """Whether a text is to be checked against a table: a statement, or a question for yes or no."""
    text = text.strip()
    return bool(_YES_NO.match(text)) or not (text.endswith("?") or _QUESTION.match(text) or is_note(text))


def list_options(view: TableView, question: str) -> list[str]:
    """Texts that may answer, the best first: the result of the requested operation, and cells.

    If the question asks for a column, only its cells: the other cells of a row match the question, too.
    """
    named = find_value_column(view, question)
    if named is not None and _lacks_cell(view, question, named):
        return []
    return _list_texts(view, question, named)


def _list_texts(view: TableView, question: str, named: int | None) -> list[str]:
    """As :func:`list_options`; ``named``: The column that the question asks for."""
    outcome = compute_outcome(view, question)
    analysis = analyze_text(view, question, is_question=True)
    if outcome is None:
        return _list_cells(analysis, question, named)
    number = format_number(outcome.number)
    if asks_for_number(outcome, question):
        cells = (cell for row in view.grid[1:] for cell in row if cell.values)
        same = {number, *(cell.plain for cell in cells if cell.values[0].states(outcome.number))}
        return [number, *(text for text in _rank_cells(view, question, None) if text not in same)]
    column = _distinguish_rows(view, _find_requested_column(analysis, outcome), outcome)
    ranked = _rank_cells(view, question, column, outcome.rows)
    if column is not None or named is not None:
        return ranked
    of_rows = {number, *(text for i in outcome.rows for text in view.row_texts(i).values())}
    return [number, *(text for text in ranked if text not in of_rows)]


def _list_cells(analysis: TextAnalysis, question: str, named: int | None) -> list[str]:
    """The cells of the requested column, or of all; none if "when" asks for no column.

    "Who is in Sales?" asks for names, "Who is the manager of Ana Lima?" for no column.
    """
    is_named = named is not None or analysis.rows
    column = named if is_named else _find_requested_column(analysis, None)
    return [] if column is None and asks_when(question) else _rank_cells(analysis.view, question, column)


def _lacks_cell(view: TableView, question: str, column: int) -> bool:
    """Whether the rows that a question names lack a cell in the requested column; other rows answer nothing."""
    words = collect_words(question)
    names = {(i, j): collect_words(view.text_at((i, j))) for i in view.body for j in view.name_columns}
    rows = {i for (i, _), name in names.items() if name and name <= words}
    analysis = analyze_text(view, question, is_question=True)
    conditions = [each for each in analysis.find_conditions() if each.texts and each.column != column]
    rows = rows or ({*analysis.select_rows(conditions)} if conditions else set())
    return bool(rows) and not any(view.text_at((i, column)).strip() for i in rows)


def asks_for_list(view: TableView, question: str) -> bool:
    """Whether a question asks for several cells, without a negation and a number of what the table lacks ("3 queens").

    Then cells that tie are the answer together.
    """
    analysis = analyze_text(view, question, is_question=True)
    units = {number.unit.casefold() for number in analysis.numbers} - {""}
    has_units = all(
        stem(unit) in view.vocabulary or measures_of(unit) or find_related_columns(view, unit) for unit in units
    )
    is_of_several = asks_for_several(question) or (is_note(question) and _PLURAL.match(question) is not None)
    return is_of_several and has_units and not analysis.is_negated


def _rank_cells(view: TableView, question: str, column: int | None, rows: Sequence[int] = ()) -> list[str]:
    """The texts of a column, or of all, those of some rows first, then by their support."""
    supports = dict[str, tuple[bool, float]]()
    for (i, j), context in rate_contexts(view, question).items():
        if column in (None, j):
            text = view.text_at((i, j))
            supports[text] = max(supports.get(text, (False, 0.0)), (i in rows, context.rate(1.0, 1.0)))
    return sorted(supports, key=lambda text: supports[text], reverse=True)


def _find_requested_column(analysis: TextAnalysis, outcome: Outcome | None) -> int | None:
    """The column whose cells answer "which", "what", "who", "where" or "when"; by default that of the rows' names."""
    view = analysis.view
    text = _drop_degrees(analysis)
    words = _list_question_words(text, outcome)
    related = [j for word in words for j in find_related_columns(view, word)]
    first_name = next(iter(view.name_columns), None)
    match words[0]:
        case "when":
            return next((j for j in related if has_times(view, j)), None)
        case "who":
            return _find_person_column(view, text, related, has_outcome=outcome is not None)
        case "where":
            return next((j for j in (*related, *view.text_columns) if j in view.text_columns), first_name)
        case "which" | "what":
            content_words = [word for word in words[1:] if word not in STOP_WORDS]
            columns = _list_answering_columns(analysis, outcome, words, [*map(stem, content_words[:1])])
            named = find_named_column(view, text, _select_by_noun(view, columns, content_words))
            if named is not None:
                return named
            if outcome is not None:
                return first_name
            default = first_name if words[0] == "which" else None
            return next((j for j in related if j in columns), default)
    return None


def _select_by_noun(view: TableView, columns: Sequence[int], words: Sequence[str]) -> list[int]:
    """Columns whose header has its noun among these words, or asked for by the first two: "Date" by "what day"."""
    names = {*map(stem, words), *(name for word in words[:2] for name in related_headers(word))}
    return [j for j in columns if header_noun(view.labels[j]) in names]


def _find_person_column(view: TableView, question: str, related: Sequence[int], *, has_outcome: bool) -> int | None:
    """The column that "who" asks for, by default the first of texts; without an outcome none of people who do
    something else.
    """
    people = find_person_columns(view, question)
    others = {*find_person_columns(view, "who")} - {*people}
    columns = [j for j in view.text_columns if j not in others]
    names = [j for j in view.name_columns if has_outcome or j not in others]
    return next((j for j in (*people, *related, *columns) if j in columns), next(iter(names), None))


def _distinguish_rows(view: TableView, column: int | None, outcome: Outcome) -> int | None:
    """The requested column, or the name column in which compared rows differ if that has one name for all.

    Of "Dental cleaning" of a dog and of a cat, the dearer one is that of the dog.
    """
    if outcome.operation != "superlative" or column not in view.name_columns:
        return column
    rows = {i for i, _ in outcome.cells if i in view.body}
    differing = (j for j in (column, *view.name_columns) if len({view.text_at((i, j)) for i in rows}) > 1)
    return next(differing, column)


def _list_question_words(text: str, outcome: Outcome | None) -> list[str]:
    """The words of a question from its question word on, with one for "tallest plant?" and "price of the Bell?"."""
    words = [re.sub(r"['’]s$", "", word.casefold()) for word in split_words(text)]
    words = words[1:] if {*words[:1]} & BEFORE_QUESTION_WORD else words
    if _QUESTION.match(" ".join(words)):
        return words
    return ["what" if outcome is None else "which", *words]


def _drop_degrees(analysis: TextAnalysis) -> str:
    """A question without comparatives and superlatives: "the second most populous country" asks for no population."""
    text = analysis.text
    for degree in reversed(analysis.degrees):
        before = text[: degree.start].rsplit(maxsplit=1)[0] if degree.rank > 1 else text[: degree.start]
        text = before + re.sub(r"^most \w+|^\w+", "", text[degree.start :])
    return text


def _list_answering_columns(
    analysis: TextAnalysis, outcome: Outcome | None, words: Sequence[str], head: Sequence[str]
) -> list[int]:
    """Columns that "which" or "what" may ask for: no flags, no dates unless named, and none that the outcome compares.

    "What is the highest price?" asks by its head, the first noun, for what it compares, and "Which has more wheels?"
    does not.
    """
    view = analysis.view
    columns = [j for j in view.columns if j not in view.flag_columns]
    if words[0] == "which":
        columns = [j for j in columns if j not in view.date_columns or {*words} & {*tokenize(view.labels[j])}]
    if outcome is None:
        return columns
    compared = {j for _, j in outcome.cells} | {condition.column for condition in analysis.find_conditions()}
    if outcome.operation != "count" and words[1:2] not in (["has"], ["have"], ["had"]):
        compared = {j for j in compared if {*head}.isdisjoint(collect_words(view.labels[j]))}
    return [j for j in columns if j not in compared]
