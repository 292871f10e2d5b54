"""Compare two lakes by what their rows say: which rows both hold, which only one, and which differ in what.

Rows meet by their natural key (asset, question, option …) and are compared in every other column. Ids and hashes that
may change with the code's versions are not compared: where one points to another row, the content of that row
replaces the id. Two lakes with the same answers for the same reasons are equal, however ids were computed. Nothing
of the package is imported and nothing is written: a lake of another release can be compared, and one that may not be
touched.

    python tools/compare_lakes.py OLD NEW [--table evidence …] [--tolerance 1e-9] [--show 3] [--json]

The exit status is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Identity:
    """What makes a row of a table the same row in both lakes, besides its asset."""

    key: tuple[str, ...] = ()
    id: str = ""
    """Column of its id, which is not compared."""
    name: tuple[str, ...] = ()
    """Columns that name the row wherever its id stands; by default the key."""
    hidden: tuple[str, ...] = ()
    """Further columns that are not compared."""


HASHES = ("content_hash", "input_hash", "seed_hash")
"""Columns that are not compared in any table."""
VARIANT = ("selector", "reasoner", "model_id")
IDENTITIES = {
    "questions": Identity(("benchmark", "source_id"), "question_id"),
    "tables": Identity(("benchmark", "table_id")),
    "chunks": Identity(("doc_id", "ordinal"), "chunk_id", name=("doc_id", "char_start", "char_end")),
    "chunk_embeddings": Identity(("chunk_id", "model_id")),
    "relation_seeds": Identity(("relation_id", "head", "tail"), "seed_id"),
    "prompts": Identity(("relation_id", "text"), "prompt_id"),
    "candidate_tuples": Identity(("relation_id", "variant", "model_id", "head", "tail"), "candidate_id"),
    "triples": Identity(
        ("head", "relation", "tail", "origin", "source", "model_id"), "triple_id", name=("head", "relation", "tail")
    ),
    "models": Identity(("name", "task")),
    "kg_nodes": Identity(("node_id",)),
    "kg_edges": Identity(("head_id", "relation", "tail_id"), "edge_id"),
    "kg_passages": Identity(
        ("owner_kind", "owner_id", "ordinal", "model_id"), "passage_id", name=("owner_kind", "owner_id", "ordinal")
    ),
    "subgraphs": Identity(("question_id", "graph"), "subgraph_id"),
    "chunk_rankings": Identity(("question_id", "cost", "weights"), "ranking_id"),
    "evidence": Identity(
        ("question_id", "option", "selector", "kind", "source_kind", "source_id", "locator"),
        "evidence_id",
        name=("question_id", "option", "selector", "kind", "source_id", "locator", "text"),
    ),
    "chains": Identity(("question_id", "hypothesis", *VARIANT), "chain_id", hidden=("prompt_hash",)),
    "predictions": Identity(("question_id", *VARIANT), "prediction_id"),
    "citations": Identity(("chain_id", "step", "evidence_id", "quoted"), "citation_id"),
    "counterfactuals": Identity(("question_id", *VARIANT), "counterfactual_id", hidden=("prediction_id",)),
    "scores": Identity(("scope_kind", "scope_id", *VARIANT, "metric"), hidden=("score_id",)),
    "lineage_edges": Identity(
        ("child_kind", "child_id", "relation", "parent_kind", "parent_id"), hidden=("parent_version",)
    ),
}
"""Sources are before what is made of them, so that the name of a row has names and no ids."""
FACT = ("kind", "source_id", "locator", "text")
"""Columns that say what a content hash of evidence stands for."""


def read(lake: Path, table: str) -> list[Row]:
    """Rows of a table as its files hold them, each with its asset."""
    rows: list[Row] = []
    for folder in sorted((lake / table).glob("asset=*")):
        asset = folder.name.removeprefix("asset=").replace(".", "/")
        for path in sorted(folder.rglob("[!.]*.parquet")):
            rows += (
                {"asset": asset} | row for row in pl.read_parquet(path, hive_partitioning=False).iter_rows(named=True)
            )
    return rows


def row_names(lake: Path) -> dict[str, str]:
    """The content of each row by id, for ids in columns of other rows."""
    names: dict[str, str] = {}

    def name(row: Row, columns: Sequence[str]) -> str:
        return " · ".join(str(_named(row[column], names)) for column in columns)

    for table, identity in IDENTITIES.items():
        for row in read(lake, table) if identity.id else ():
            names[row[identity.id]] = name(row, identity.name or identity.key)
            if table == "evidence":
                names[row["content_hash"]] = name(row, FACT)
    return names


def _named(value: Any, names: Mapping[str, str]) -> Any:
    """The value as plain data, with the name of a row in place of its id."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {name: _named(item, names) for name, item in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], float)):
        return [_named(item, names) for item in value]
    return value


@dataclass
class Difference:
    """How one table differs between two lakes."""

    table: str
    old: int = 0
    new: int = 0
    equal: int = 0
    only_old: int = 0
    only_new: int = 0
    changed: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    """Changed rows by the column that differs."""
    largest: float = 0.0
    """Largest difference of two corresponding numbers, within the tolerance or not."""
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Sentences on differing rows, by asset."""

    @property
    def differs(self) -> bool:
        return bool(self.only_old or self.only_new or self.changed)


def iterate_differences(old: Any, new: Any, place: str = "") -> Iterator[tuple[float, str, Any, Any]]:
    """How far apart two values are wherever they differ, with the place inside them and what stands there.

    Infinitely far where anything else than a number with a decimal point differs.
    """
    if isinstance(old, float) and isinstance(new, float):
        if old != new:
            yield abs(old - new), place, old, new
    elif isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for name, value in old.items():
            yield from iterate_differences(value, new[name], f"{place}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (old_row, new_row) in enumerate(zip(old, new, strict=True)):
            yield from iterate_differences(old_row, new_row, f"{place}[{index}]")
    elif old != new:
        yield math.inf, place, old, new


def compare_table(
    table: str, old: Iterable[Row], new: Iterable[Row], *, tolerance: float = 0.0, show: int = 0
) -> Difference:
    """Compare rows of one table in which ``row_names`` have taken the place of ids."""
    difference = Difference(table)
    old_by_key, new_by_key = _by_key(table, old), _by_key(table, new)
    difference.old, difference.new = (sum(map(len, rows.values())) for rows in (old_by_key, new_by_key))
    for key in sorted(old_by_key.keys() | new_by_key.keys()):
        rows_old, rows_new = old_by_key.get(key, []), new_by_key.get(key, [])
        if len(rows_old) > 1 or len(rows_new) > 1:  # rows that share a key: those that are equal belong together
            difference.equal += _remove_equal(rows_old, rows_new)
        for row_old, row_new in zip(rows_old, rows_new, strict=False):
            _compare_rows(difference, key, row_old, row_new, tolerance, show)
        shared = min(len(rows_old), len(rows_new))
        for where, rows in (("only old", rows_old[shared:]), ("only new", rows_new[shared:])):
            for row in rows:
                _example(difference, row["asset"], f"{where}: {_identity(table, row)}", show)
        difference.only_old += len(rows_old) - shared
        difference.only_new += len(rows_new) - shared
    return difference


def _by_key(table: str, rows: Iterable[Row]) -> dict[str, list[Row]]:
    columns = ("asset", *IDENTITIES.get(table, Identity()).key)
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[json.dumps([row.get(column) for column in columns], ensure_ascii=False)].append(row)
    return by_key


def _remove_equal(old: list[Row], new: list[Row]) -> int:
    """Remove the rows that both lists contain; returns their number."""
    count = 0
    for row in list(old):
        if row in new:
            old.remove(row)
            new.remove(row)
            count += 1
    return count


def _compare_rows(difference: Difference, key: str, old: Row, new: Row, tolerance: float, show: int) -> None:
    changes = []
    for column in dict.fromkeys([*old, *new]):
        beyond = []
        for distance, *difference_at in iterate_differences(old.get(column), new.get(column), column):
            if distance != math.inf:
                difference.largest = max(difference.largest, distance)
            if distance > tolerance:
                beyond.append(difference_at)
        if beyond:
            difference.columns[column] += 1
            place, value_old, value_new = beyond[0]
            suffix = f" and {len(beyond) - 1} more" if beyond[1:] else ""
            changes.append(f"{place}: {_short(value_old)} → {_short(value_new)}{suffix}")
    if changes:
        difference.changed += 1
        where = _identity(difference.table, old)
        _example(difference, old["asset"], f"changed: {where}: {'; '.join(changes)}", show)
    else:
        difference.equal += 1


def _identity(table: str, row: Row) -> str:
    columns = IDENTITIES[table].key if table in IDENTITIES else tuple(row)
    return ", ".join(f"{column} {_short(row.get(column))}" for column in columns)


def _short(value: Any, width: int = 160) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= width else text[: width - 1] + "…"


def _example(difference: Difference, asset: str, sentence: str, show: int) -> None:
    if len(difference.examples[asset]) < show:
        difference.examples[asset].append(sentence)


def _content(table: str, rows: Iterable[Row], names: Mapping[str, str], left_out: Sequence[str]) -> Iterator[Row]:
    identity = IDENTITIES.get(table, Identity())
    hidden = {*HASHES, identity.id, *identity.hidden, *left_out}
    for row in rows:
        content = {name: _named(value, names) for name, value in row.items() if name not in hidden}
        if isinstance(content.get("why"), str):  # JSON, whose numbers the tolerance holds for, too
            content["why"] = _named(json.loads(content["why"]), names)
        yield content


def compare(
    old: Path,
    new: Path,
    tables: Sequence[str] = (),
    *,
    tolerance: float = 0.0,
    show: int = 0,
    left_out: Sequence[str] = (),
) -> list[Difference]:
    """Compare these tables, or all that either lake holds; ``left_out`` are further columns as ``table.column``."""
    for lake in (old, new):
        if not (lake / "format.json").exists():
            raise FileNotFoundError(f"there is no lake at {lake}")
    folders = {path.parent.name for lake in (old, new) for path in lake.glob("[!.]*/asset=*")}
    table_names = folders - {"indexes"}  # which are files and no rows
    if unknown := set(tables) - table_names:
        raise ValueError(
            f"neither lake holds a table {sorted(unknown)[0]!r}; they hold {', '.join(sorted(table_names))}"
        )
    order = [*IDENTITIES, *sorted(table_names - set(IDENTITIES))]
    names_old, names_new = row_names(old), row_names(new)
    differences = []
    for table in (name for name in order if name in (tables or table_names)):
        hidden = [column.split(".", 1)[1] for column in left_out if column.startswith(f"{table}.")]
        rows_old = _content(table, read(old, table), names_old, hidden)
        rows_new = _content(table, read(new, table), names_new, hidden)
        differences.append(compare_table(table, rows_old, rows_new, tolerance=tolerance, show=show))
    return differences


def printed(differences: Iterable[Difference]) -> str:
    """The differences as a table for people, with the examples below it."""
    lines = [
        f"{'table':<18}{'rows old':>10}{'rows new':>10}{'equal':>10}{'only old':>10}{'only new':>10}{'changed':>10}"
        f"{'largest':>10}  changed in"
    ]
    for d in differences:
        columns = ", ".join(f"{name} {count}" for name, count in d.columns.most_common())
        lines.append(
            f"{d.table:<18}{d.old:>10}{d.new:>10}{d.equal:>10}{d.only_old:>10}{d.only_new:>10}{d.changed:>10}"
            f"{d.largest:>10.2g}  {columns}".rstrip()
        )
    for d in differences:
        for asset, sentences in sorted(d.examples.items()):
            lines += ["", f"{d.table}, {asset}:", *(f"  {sentence}" for sentence in sentences)]
    return "\n".join(lines)


def as_json(difference: Difference) -> dict[str, Any]:
    return vars(difference) | {"columns": dict(difference.columns), "examples": dict(difference.examples)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare two lakes by the content of their rows.")
    parser.add_argument("old", type=Path, help="folder of one lake")
    parser.add_argument("new", type=Path, help="folder of the other")
    parser.add_argument("--table", action="append", default=[], help="compare this table only; may be repeated")
    parser.add_argument("--tolerance", type=float, default=0.0, help="numbers that differ by no more are equal")
    parser.add_argument("--leave-out", action="append", default=[], metavar="TABLE.COLUMN", help="compare all but this")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="show up to N differing rows an asset")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    differences = compare(
        options.old,
        options.new,
        options.table,
        tolerance=options.tolerance,
        show=options.show,
        left_out=options.leave_out,
    )
    print(json.dumps([as_json(d) for d in differences], indent=1) if options.json else printed(differences))
    return int(any(d.differs for d in differences))


if __name__ == "__main__":
    sys.exit(main())
