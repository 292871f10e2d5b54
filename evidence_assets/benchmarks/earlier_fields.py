"""Earlier names and forms of the fields of a user's questions: still read, with a warning for each field of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from evidence_assets.benchmarks.line_streams import Row

RENAMED_FIELDS = {
    "answer": "gold",
    "answers": "gold",
    "label": "gold",
    "claim": "text",
    "question": "text",
    "statement": "text",
    "choices": "options",
    "id": "source_id",
    "question_id": "source_id",
    "table": "table_id",
}
"""Fields by the names that they have in other formats, or had in earlier releases."""
UNREAD_FIELDS = ("hops", "operation", "shape")
"""Fields of earlier releases that nothing reads."""


@dataclass
class EarlierFields:
    """Brings the rows of one file to the present fields; each earlier field is reported once."""

    warn: Callable[[str], None]
    _reported: set[str] = field(default_factory=set)

    def update(self, row: Row) -> Row:
        """The row with the present fields; raises BadInput if a field is given under two names."""
        row = self._rename(row)
        row = self._merge_gold(row)
        row = self._list_aliases(row)
        row = self._write_locators(row)
        unread = [name for name in row.values if name in UNREAD_FIELDS]
        for name in unread:
            self._report(row, name, "is not read; remove it")
        return _without(row, *unread)

    def _report(self, row: Row, name: str, change: str) -> None:
        if name not in self._reported:
            self._reported.add(name)
            self.warn(str(row.error(change, name)))

    def _rename(self, row: Row) -> Row:
        earlier_names = [name for name in row.values if name in RENAMED_FIELDS]
        is_claim = {"claim", "label"} <= row.values.keys() and not {"task", "options", "choices"} & row.values.keys()
        for name in earlier_names:
            new_name = RENAMED_FIELDS[name]
            if new_name in row.values:
                raise row.error(f"is the same field as {new_name}, which the record also has; remove one", name)
            self._report(row, name, f"is read as {new_name}; rename it to {new_name}")
            row = _with_value(_without(row, name), new_name, row.values[name])
        return _with_value(row, "task", "verification") if is_claim else row

    def _merge_gold(self, row: Row) -> Row:
        """``gold_also`` has further right options or answers."""
        if "gold_also" not in row.values:
            return row
        self._report(row, "gold_also", "is read as part of gold; add its values to the list gold")
        gold = [*_as_list(row.values.get("gold")), *_as_list(row.values["gold_also"])]
        return _with_value(_without(row, "gold_also"), "gold", gold)

    def _list_aliases(self, row: Row) -> Row:
        """``gold_aliases`` is an object of lists by gold answer."""
        if "gold_aliases" not in row.values:
            return row
        self._report(row, "gold_aliases", "is read as aliases; write aliases, a list for each gold answer in turn")
        if not row.values["gold_aliases"]:
            return _without(row, "gold_aliases")
        forms = row.row("gold_aliases").values
        gold = [str(answer) for answer in _as_list(row.values.get("gold"))]
        for answer in forms:
            if answer not in gold:
                raise row.error(f"{answer!r} is not one of the gold answers", "gold_aliases")
        return _with_value(_without(row, "gold_aliases"), "aliases", [forms.get(answer, []) for answer in gold])

    def _write_locators(self, row: Row) -> Row:
        """Locators of characters and cells were objects."""
        if not any(isinstance(item.values.get("locator"), dict) for item in row.rows("gold_evidence", optional=True)):
            return row
        items = row.rows("gold_evidence")
        return _with_value(row, "gold_evidence", [self._write_locator(item) for item in items])

    def _write_locator(self, item: Row) -> dict[str, Any]:
        if not isinstance(item.values.get("locator"), dict):
            return item.values
        locator = item.row("locator")
        if "char_start" in locator.values:
            owner = "doc_id"
            text = f"{locator.number('char_start')}:{locator.number('char_end')}"
        else:
            owner = "table_id"
            text = f"r{locator.number('row') + 1}c{locator.number('column')}"
        if locator.label(owner) != item.text("source"):
            raise locator.error(f"differs from the source {item.values['source']!r}; use the same id", owner)
        self._report(item, "locator", f"is read as {text!r}; write the text instead of the object")
        return {**item.values, "locator": text}


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _without(row: Row, *names: str) -> Row:
    return replace(row, values={name: value for name, value in row.values.items() if name not in names})


def _with_value(row: Row, name: str, value: Any) -> Row:
    return replace(row, values={**row.values, name: value})
