"""Mentions of rows, columns and cells in a text: each word belongs to the longest name that it is in."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, stem, tokenize, tokenize_with_offsets
from evidence_assets.reasoning.tables.lexicon import load_adjectives, load_lexicon, pattern, related_headers
from evidence_assets.reasoning.tables.table import CellLocation, TableView
from evidence_assets.text.tokens import AUXILIARIES, LISTS, is_verb_form, split_tokens

_MIN_UNIQUE_LENGTH = 3  # of a word that stands for a name
_NEVER_NAMES = frozenset({"a", "no", "not", "yes", "it", "on", "in", "as", "at", "i'm"})
BEFORE_QUESTION_WORD = frozenset({"in", "at", "on", "from", "to", "for", "with", "since", "until", "till", "by"})
TABLE_MARK = ": "  # between the table and the header of a joined table's column
_QUOTES = "'‘’\"“”"
# A cell with a single number is not a name; "3 - 2" is.
_SINGLE_NUMBER = re.compile(r"[\s%+<>≤≥≈~-]*(?:[$€£]?\d[\d.,:]*)?[\s%+<>≤≥≈~-]*")


@dataclass(frozen=True)
class Mention:
    """A span of text that names rows, columns or other cells of the table."""

    start: int
    end: int
    names: tuple[CellLocation, ...] = ()  # cells that name rows
    columns: tuple[int, ...] = ()
    cells: tuple[CellLocation, ...] = ()  # other cells
    is_whole: bool = True  # False for "depth" if the name is "Greatest depth"

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(i for i, _ in self.names))

    @property
    def columns_of_cells(self) -> frozenset[int]:
        return frozenset(j for _, j in self.locations)

    @property
    def locations(self) -> tuple[CellLocation, ...]:
        return (*self.names, *self.cells)


class Word(NamedTuple):
    """A token of a text with its stem and offsets."""

    token: str
    stem: str
    start: int
    end: int


def find_mentions(view: TableView, plain: str) -> tuple[Mention, ...]:
    """Mentions of a table's names in a plain text, in order, and words that ask for a column."""
    words = [Word(token, stem(token), start, end) for token, start, end in tokenize_with_offsets(plain)]
    names = _find_names(view, plain, words)
    free = [word for word in words if not any(m.start < word.end and word.start < m.end for m in names)]
    return tuple(sorted([*names, *_find_single_words(view, free)], key=lambda mention: mention.start))


Target = tuple[Literal["names", "columns", "cells"], Any]
"""What a name stands for: a field of :class:`Mention`, and the cell or column in it."""


class NameIndex(NamedTuple):
    """What each name in a table stands for, and each word of a name."""

    names: dict[tuple[str, ...], set[Target]]
    words: dict[str, set[Target]]


@lru_cache(maxsize=16)  # questions about the same table are usually consecutive
def _index_names(view: TableView) -> NameIndex:
    """The names in a table as stems, with their aliases."""
    texts: list[tuple[str, Target]] = [(view.labels[j], ("columns", j)) for j in view.columns]
    for cell in ((i, j) for i in view.body for j in view.columns):
        text = view.text_at(cell)
        if cell[1] in view.name_columns:
            texts.append((text, ("names", cell)))
        elif not _SINGLE_NUMBER.fullmatch(text):
            texts.append((text, ("cells", cell)))
    full_names = {(_stem_name(text), target[0]) for text, target in texts}
    index = NameIndex(defaultdict(set), defaultdict(set))
    for text, target in texts:
        for alias in _list_aliases(text):
            stems = _stem_name(alias)
            if alias == text or (stems, target[0]) not in full_names:
                index.names[stems].add(target)
                for word in stems:
                    index.words[word].add(target)
    index.names.pop((), None)
    return index


def _list_aliases(name: str) -> set[str]:
    """A name, its parts before brackets and a colon, and "Lena Berg" for "Berg, Lena"."""
    last, _, first = name.partition(", ")
    return {name, re.sub(r"\s*\([^()]*\)", "", name).strip(), name.split(":")[0].strip(), f"{first} {last}".strip()}


def _build_mention(start: int, end: int, targets: Iterable[Target], *, is_whole: bool) -> Mention:
    """A mention of names that stand for these targets."""
    fields: dict[str, list[Any]] = {"names": [], "columns": [], "cells": []}
    for kind, target in sorted(targets):
        fields[kind].append(target)
    return Mention(start, end, **{kind: tuple(each) for kind, each in fields.items()}, is_whole=is_whole)


def _stem_name(name: str) -> tuple[str, ...]:
    stems = tuple(map(stem, tokenize(name)))
    return stems[1:] if len(stems) > 1 and stems[0] == "the" else stems


def _find_names(view: TableView, plain: str, words: Sequence[Word]) -> list[Mention]:
    index = _index_names(view).names
    stems = [word.stem for word in words]
    longest = max(map(len, index), default=0)
    spans = (range(start, start + n) for n in range(longest, 0, -1) for start in range(len(words) - n + 1))
    covered: set[int] = set()
    mentions: list[Mention] = []
    for span in spans:
        name = tuple(stems[span.start : span.stop])
        if name not in index or covered & set(span) or _is_bounded(plain, words[span.stop - 1].end):
            continue
        mention = _build_mention(words[span.start].start, words[span.stop - 1].end, index[name], is_whole=True)
        if not _is_function_word(words[span.start : span.stop]) or _is_name(view, plain, mention):
            covered |= set(span)
            mentions.append(mention)
    return mentions


def _is_bounded(plain: str, end: int) -> bool:
    """Whether a text goes on with "or more" or "or less": "250 m² or more" is no cell."""
    return any(pattern(key).match(plain, end) for key in ("or_more", "or_less"))


def _is_function_word(span: Sequence[Word]) -> bool:
    """Whether a name may be a function word, a letter or a count instead: "no", "I", "C", "three"; not "3 - 2"."""
    if all(word.stem.isdigit() and not word.token.isdigit() for word in span):
        return True
    if len(span) > 1 and all(word.token.isdigit() for word in span):
        return False
    return all(word.token in STOP_WORDS or word.token in _NEVER_NAMES or len(word.token) == 1 for word in span)


def _is_name(view: TableView, plain: str, mention: Mention) -> bool:
    """Whether a function word is a name here: in quotes, or in capitals as in its cell."""
    text = plain[mention.start : mention.end]
    context = f" {plain} "[mention.start : mention.end + 2]
    is_quoted = context[0] in _QUOTES and context[-1] in _QUOTES
    is_capital = text.isupper() and text.lower() not in _NEVER_NAMES
    is_capital |= text[0].isupper() and len(text) > 1 and mention.start > 0  # "in May", "in IT"
    is_same = is_capital and any(view.text_at(location) == text for location in mention.locations)
    return is_quoted or is_same


def _find_single_words(view: TableView, free: Sequence[Word]) -> Iterator[Mention]:
    """Words in names of one line ("depth" of "Greatest depth") or several rows, and words that ask for a column.

    Of several columns it asks for that with most other words of the text: "cost" with "per day" for "price per day".
    """
    units = {after for before, after in pairwise(free) if before.token[0].isdigit()}
    stems = {word.stem for word in free if word not in units}
    for word in free:
        is_content = word.token not in STOP_WORDS and not word.stem[0].isdigit()
        mention = _find_part_of_name(view, word) if is_content else None
        if mention is not None:
            yield mention
        elif related := find_related_columns(view, word.token):
            nearest = sorted(related, key=lambda j: -len(collect_words(_own_header(view, j)) & stems))
            yield Mention(word.start, word.end, columns=tuple(nearest), is_whole=False)


def _find_part_of_name(view: TableView, word: Word) -> Mention | None:
    """The row or column that a word is in the name of, or the names of rows or cells of one column that it is in."""
    index = _index_names(view).words
    is_long = len(word.token) >= _MIN_UNIQUE_LENGTH
    targets = [index.get(key, set()) for key in (word.stem, stem(word.token.removeprefix("un")))]
    lines = next(filter(None, ({t for t in each if t[0] != "cells"} for each in targets)), set())
    if len(lines) == 1:
        return _build_mention(word.start, word.end, lines, is_whole=False) if is_long else None
    if word.stem in collect_words(view.caption) or any(axis == "columns" for axis, _ in lines):
        return None
    named = lines
    if not lines and is_long:
        named = targets[0]
    cells = sorted(cell for _, cell in named if not _is_in_compound(word.stem, view.text_at(cell)))
    is_of_one_column = len({j for _, j in cells}) == 1  # "cup" of "blue cup"
    return Mention(word.start, word.end, cells=tuple(cells), is_whole=False) if is_of_one_column else None


def has_times(view: TableView, column: int) -> bool:
    """Whether texts of a column may be times: they have digits, or name days or months, and are of no "where"."""
    text = " ".join(view.column_texts(column))
    names_day = not (LISTS["days"] | LISTS["clear_months"]).isdisjoint(tokenize(text))
    return (names_day or any(map(str.isdigit, text))) and "where" not in tokenize(view.labels[column])


def _is_in_compound(word: str, text: str) -> bool:
    """Whether a stem is a part of a compound in a text: "bike" of "e-bike"."""
    return re.search(rf"\w-{word}|{word}-\w", text, re.IGNORECASE) is not None


def _own_header(view: TableView, column: int) -> str:
    """The header of a column without the name of its table, which joined tables have before it."""
    return view.labels[column].rpartition(TABLE_MARK)[2]


def find_related_columns(view: TableView, word: str) -> tuple[int, ...]:
    """Columns that a word asks for without their name, the closest first: "price_eur" for "cost"."""
    headers = related_headers(word)
    related = [j for header in headers for j in view.columns if header in collect_words(_own_header(view, j))]
    related += [j for header in headers for j in view.columns if header in collect_words(view.labels[j])]
    related += [j for j, measures in view.measures.items() if not measures.isdisjoint(headers)]
    related += [j for j in view.columns if _abbreviates(view.labels[j], (word, *headers))]
    if word in ("day", "days"):
        related += [j for j in view.columns if not LISTS["days"].isdisjoint(tokenize(" ".join(view.column_texts(j))))]
    return tuple(dict.fromkeys(related))


def find_person_columns(view: TableView, question: str) -> tuple[int, ...]:
    """Columns of those who do what a question with "who" says: "Borrower" for "Who borrowed it?", not for "built".

    A verb that says nothing of its own, as in "Who has it?", asks for all of them.
    """
    words = [word for word in split_tokens(question) if not word.is_mark]
    first = [word for word in words[1:2] if word.is_content and words[0].lower != "whose"]
    verbs = [*first, *filter(is_verb_form, words)]
    stems = {word.stem for word in verbs if not {word.lower, word.stem} & (AUXILIARIES | LISTS["light_verbs"])}
    roles = [stem_ + ending for stem_ in stems for ending in ("r", "er", "or")]
    for names, deeds in load_lexicon()["roles"].items():
        if not stems or not stems.isdisjoint(map(stem, deeds.split())):
            roles += map(stem, names.split())
    return tuple(j for j in view.columns if _is_of_person(view.labels[j], roles, stems))


def _is_of_person(label: str, roles: Collection[str], stems: Collection[str]) -> bool:
    """Whether a header has a role, or "by", alone or after one of the verbs: "Built by"."""
    words = split_tokens(label)
    is_agent = bool(words) and words[-1].lower == "by"
    fits = not stems or len(words) == 1 or any(word.stem in stems for word in words)
    return (is_agent and fits) or not collect_words(label).isdisjoint(roles)


def _abbreviates(header: str, words: Sequence[str]) -> bool:
    """Whether a word begins with one of a header that ends with a point: "departs" with "Dep."."""
    starts = tuple(re.findall(r"\b([a-z]{3,})\.", header.casefold()))
    return any(word.startswith(starts) for word in words)


def find_named_column(view: TableView, question: str, columns: Sequence[int] | None = None) -> int | None:
    """The column that a question names by a word of its header, else by a related one; its cells can be an answer.

    It is one of ``columns``, by default of all.
    """
    words = [word.removesuffix("'s").removesuffix("’s") for word in tokenize(question)]
    columns = view.columns if columns is None else columns
    if words[:2] == ["how", "much"] and not {*words[2:3]} & STOP_WORDS:
        words = words[2:]
    columns = [j for j in columns if _can_answer(view, j, words)]
    exact = [*_find_exact(view, columns, [stem(word) for word in words if word not in STOP_WORDS])]
    people = find_person_columns(view, question) if {*words[:2]} & {"who", "whose", "whom"} else ()
    places = _list_place_columns(view, exact) if words[:1] == ["where"] else ()
    words = [*words[1:], "when"] if words[:1] == ["when"] else words  # "over" asks for the end: "When is it over?"
    related = (j for word in words for j in find_related_columns(view, word))
    return next((j for j in (*places, *exact, *people, *related) if j in columns), None)


def _list_place_columns(view: TableView, named: Sequence[int]) -> list[int]:
    """Columns that "where" asks for, those first that a question names: "Found where"."""
    places = find_related_columns(view, "where")
    return [*(j for j in named if j in places or "where" in tokenize(view.labels[j])), *places]


def _find_exact(view: TableView, columns: Sequence[int], stems: Sequence[str]) -> Iterator[int]:
    """For each of these stems, the column with it in its header, or the name of its table, and most of the others.

    "What is the goal difference of City?" asks for "Goal difference", although "Goals against" has the first word, too.
    """
    stems_of_question = {*stems}
    labels = {j: collect_words(view.labels[j]) for j in columns}
    headers = {j: collect_words(_own_header(view, j)) for j in columns}
    for word in stems:
        matching = [j for j in columns if word in headers[j]] or [j for j in columns if word in labels[j]]
        if matching:
            yield max(matching, key=lambda j: (len(headers[j] & stems_of_question), len(labels[j] & stems_of_question)))


def _can_answer(view: TableView, column: int, words: Sequence[str]) -> bool:
    """Whether the cells of a column are of the kind that a question word asks for: "who" never for numbers."""
    is_number = column in view.numeric_columns
    is_flag = column in view.flag_columns
    match words[1:3] if {*words[:1]} & BEFORE_QUESTION_WORD else words[:2]:
        case ["what" | "which", "year"]:
            return column in view.date_columns
        case ["which", *_]:
            return not is_flag
        case ["who" | "whose" | "whom" | "where" as word, *_]:
            is_code = view.has_codes(column) and column not in find_related_columns(view, word)  # but "room B12"
            return not (is_number or is_flag or is_code)
        case ["what", "time"] if view.time_columns:
            return column in view.time_columns
        case ["when", *_] | ["what", "time"]:
            is_text = has_times(view, column) or column in find_related_columns(view, "when")
            return column in view.date_columns | view.time_columns if is_number else is_text
        case ["how", word] if word in load_adjectives():
            return not is_flag
    return True
