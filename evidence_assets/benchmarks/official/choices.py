"""Reader of multiple-choice questions for every layout described by ``fields`` in ``datasets.yaml``.

For OpenBookQA it adds the gold facts, and reads the 1,326 facts of ``openbook.txt``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Formatter
from typing import Any

from evidence_assets.benchmarks.dataset_info import ChoiceFields, DatasetInfo, find_dataset
from evidence_assets.benchmarks.json_streams import json_rows_at, jsonl_rows
from evidence_assets.benchmarks.line_streams import Row, headed_rows, text_lines
from evidence_assets.benchmarks.records import Document, GoldEvidence, LocatedQuestion
from evidence_assets.lake.errors import BadInput
from evidence_assets.reasoning.questions import option_labels

OPEN_BOOK_FILE = "Data/Main/openbook.txt"


def read_choices(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read the questions of a split in the layout of ``info.fields``."""
    assert info.fields is not None
    fields = info.fields
    files = info.find_files(folder, split)
    labels = files.pop() if fields.gold_lines and len(files) > 1 else None
    for file in files:
        subject = file.name.partition(".")[0].removesuffix(f"_{split}")
        for position, (key, row, gold) in enumerate(_with_gold(_read_rows(fields, file, split), labels)):
            place = {"split": split, "subject": subject, "place": position, "line": row.line, "key": key}
            source_id = _format_id(fields, row, place)
            text_row, text_field = _resolve_path(row, fields.text)
            options, option_names = _read_options(fields, row)
            yield info.question(
                row,
                split,
                source_id,
                text_row.text(text_field),
                options=options,
                gold=_read_gold(fields, gold, options, option_names, split in info.hidden),
                gold_evidence=_read_passage(fields, row, source_id),
                topic_entities=_read_topics(fields, row),
            )


def _format_id(fields: ChoiceFields, row: Row, place: Mapping[str, Any]) -> str:
    """Fill the template of the id with the place of the row and its fields."""
    template = fields.id if "id" in row.values or not fields.id_else else fields.id_else
    names = {name for _, name, *_ in Formatter().parse(template) if name}
    return template.format(**place, **{name: row.label(name) for name in sorted(names - place.keys())})


def _read_rows(fields: ChoiceFields, file: Path, split: str) -> Iterator[tuple[str, Row]]:
    if fields.rows:
        return json_rows_at(file, fields.rows.format(split=split))
    rows = headed_rows(file, fields.columns, header=False) if fields.columns else jsonl_rows(file)
    return (("", row) for row in rows)


def _with_gold(rows: Iterator[tuple[str, Row]], labels: Path | None) -> Iterator[tuple[str, Row, Row]]:
    """Pair each row with the row of its gold label: itself, or a line of the file ``labels``."""
    if labels is None:
        return ((key, row, row) for key, row in rows)
    entries = list(rows)
    gold_rows = [Row({"label": line.strip()}, labels, n) for n, line in text_lines(labels) if line.strip()]
    if len(gold_rows) != len(entries):
        message = f"has {len(gold_rows)} labels for {len(entries)} questions; download both files again"
        raise BadInput(message, file=labels)
    return ((key, row, gold) for (key, row), gold in zip(entries, gold_rows, strict=True))


def _resolve_path(row: Row, path: str) -> tuple[Row, str]:
    """Return the nested row with the last field of a dotted path, and that field."""
    *outer, field = path.split(".")
    for name in outer:
        row = row.row(name)
    return row, field


def _read_options(fields: ChoiceFields, row: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read the texts of the options and their labels in the gold field."""
    if not fields.options:
        return fields.labels, fields.labels
    if isinstance(fields.options, tuple):
        options = tuple(row.text(field) for field in fields.options)
    else:
        parent, field = _resolve_path(row, fields.options)
        if fields.option_text:
            choices = parent.rows(field)
            labels = tuple(choice.label(fields.option_label) for choice in choices)
            if len(set(labels)) < len(labels):
                raise parent.error("two options have the same label; rename one", field)
            return tuple(choice.text(fields.option_text) for choice in choices), labels
        options = _lettered_options(parent, field) if isinstance(parent.get(field), dict) else parent.texts(field)
    return options, fields.labels[: len(options)] or option_labels("mcqa", options)


def _lettered_options(row: Row, field: str) -> tuple[str, ...]:
    """Read the texts of an object ``{"A": text, "B": text, …}`` with consecutive letters."""
    options = row.row(field)
    letters = option_labels("mcqa", tuple(options.values))
    if set(options.values) != set(letters):
        raise row.error(f"expected the letters {', '.join(letters)}, not {', '.join(options.values)}", field)
    return tuple(options.text(letter) for letter in letters)


def find_option_letter(row: Row, field: str, options: tuple[str, ...], labels: tuple[str, ...] = ()) -> str:
    """Letter of the option whose label is in a field; ``labels`` defaults to the letters."""
    letters = option_labels("mcqa", options)
    label = row.label(field).strip()
    labels = labels or letters
    if label not in labels:
        raise row.error(f"{label!r} is not one of {', '.join(labels)}", field)
    return letters[labels.index(label)]


def _read_gold(
    fields: ChoiceFields, gold_row: Row, options: tuple[str, ...], labels: tuple[str, ...], hidden: bool
) -> tuple[str, ...]:
    if hidden and str(gold_row.values.get(fields.gold) or "").strip() in ("", "-1"):
        return ()
    return (find_option_letter(gold_row, fields.gold, options, labels),)


def _read_passage(fields: ChoiceFields, row: Row, source_id: str) -> tuple[GoldEvidence, ...]:
    """Read the passage of a question: a text, or a list of texts."""
    field = fields.evidence.removesuffix("?")
    if not field or (field != fields.evidence and row.values.get(field) in (None, "")):
        return ()
    text = "\n".join(row.texts(field)) if isinstance(row.get(field), list) else row.text(field)
    return (GoldEvidence("chunk", source_id, "", text),)


def _read_topics(fields: ChoiceFields, row: Row) -> tuple[str, ...]:
    if not fields.topics:
        return ()
    parent, field = _resolve_path(row, fields.topics)
    value = parent.values.get(field)
    topics = parent.texts(field, blank=True) if isinstance(value, list) else [parent.text_or_none(field) or ""]
    return tuple(dict.fromkeys(topic.strip() for topic in topics if topic.strip()))


def read_passage_documents(name: str, folder: Path, split: str) -> Iterator[Document]:
    """Read the passages of a split's questions as documents."""
    for row, question in read_choices(find_dataset(name), folder, split):
        yield from (Document(evidence.source, "", evidence.text, row.file.name) for evidence in question.gold_evidence)


def read_obqa(info: DatasetInfo, folder: Path, split: str) -> Iterator[LocatedQuestion]:
    """Read OpenBookQA, with gold facts if the files are the "complete" ones."""
    book = {_normalise_fact(fact.text): fact for fact in reversed(list(read_facts(folder)))}
    for row, question in read_choices(info, folder, split):
        if fact := row.text_or_none("fact1"):
            document = book.get(_normalise_fact(fact), Document("openbook", "", fact, OPEN_BOOK_FILE))
            evidence = GoldEvidence("sentence", document.doc_id, "", document.text)
            question = replace(question, gold_evidence=(evidence,))
        yield row, question


def read_facts(folder: Path) -> Iterator[Document]:
    """Read the facts of the open book with ids ``openbook:<line>``; none if the file is missing."""
    file = find_dataset("obqa").find_optional_file(folder, OPEN_BOOK_FILE)
    for number, line in text_lines(file) if file else ():
        fact = line.strip().strip('"').strip()
        if fact:
            yield Document(f"openbook:{number}", "", fact, OPEN_BOOK_FILE)
        elif line.strip():
            raise BadInput("the fact is empty; remove the line", file=file, line=number)


def _normalise_fact(fact: str) -> str:
    """Normalise a fact for comparison: no case, quotes, outer white space or final full stop."""
    return fact.strip().strip('"').strip().rstrip(".").lower()


READERS = {"obqa": read_obqa}
PASSAGES = {
    "obqa": lambda folder, split: read_facts(folder),
    "pubmedqa": lambda folder, split: read_passage_documents("pubmedqa", folder, split),
}
