"""In which files a row and its lineage lie, so that following one answer opens a few files and not the whole lake.

Rows that belong to a question (evidence, chains, predictions, citations) lie in the partition of their question, and
an asset's lineage beside the rows that it explains: ``predictions/asset=A/b/0.parquet`` is explained by
``lineage_edges/asset=A/b/0.parquet``. Lineage is sorted by the child's id, so that of a file only the row groups are
read that can hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from evidence_assets.lake.catalogue import root_of, rows_in
from evidence_assets.lake.fetching import children, fetched_below
from evidence_assets.lake.schemas import KINDS

Connection = duckdb.DuckDBPyConnection

OF_A_QUESTION = ("prediction", "chain", "evidence", "citation")
"""Kinds of rows that lie in the partition of their question."""
LONG_ENOUGH = 12
"""From this many characters on (48 bit), the beginning of an id stands for it if one row of a question alone begins
so."""
WHOLE = 32
"""Characters of a whole id; only a whole one can be looked up in the Bloom filters of the files."""
LAST = "\U0010ffff"
"""The last character there is: all texts that begin with ``x`` are at least ``x`` and less than ``x + LAST``."""


class Places:
    """The files of one partition of questions.

    ``root``: The lake's folder.
    ``partition``: The partition's file below each asset's folder, such as ``obqa/0.parquet``.
    """

    def __init__(self, root: Path, partition: str) -> None:
        self.root, self.partition = root, partition

    def rows(self, kind: str) -> list[Path]:
        """Files with rows of this kind in this partition, over all assets."""
        folder = fetched_below(self.root / KINDS[kind].name, lambda name: name.endswith(f"/{self.partition}"))
        return sorted(folder.glob(f"asset=*/{self.partition}"))

    def lineage(self, kind: str) -> list[Path]:
        """Files with the lineage of rows of this kind: those of this partition, or all that explain no question's
        rows."""
        if kind in OF_A_QUESTION:
            # What a chain or an answer cites is told where its citations are checked.
            checked = self.rows("citation") if kind in ("chain", "prediction") else []
            return _explaining(self.root, [*self.rows(kind), *checked])
        of_questions = {name for kind in OF_A_QUESTION for name in children(self.root / KINDS[kind].name)}
        folder = self.root / "lineage_edges"
        others = [fetched_below(folder / name) for name in children(folder) if name not in of_questions]
        return sorted(path for folder in others for path in folder.rglob("[!.]*.parquet"))


def _explaining(root: Path, files: Iterable[Path]) -> list[Path]:
    """The lineage files beside these files of a table."""
    beside = [root / "lineage_edges" / Path(*path.relative_to(root).parts[1:]) for path in files]
    wanted = {path.relative_to(root).as_posix() for path in beside}
    fetched_below(root / "lineage_edges", wanted.__contains__)
    return [path for path in beside if path.exists()]


def row_of_a_question(connection: Connection, identifier: str) -> tuple[str, str, Places] | None:
    """Kind, full id and partition of the row of a question whose id begins so.

    A whole id is looked for in the tables, whose Bloom filters tell which files do not hold it; a beginning in the
    lineage, which is sorted by id. None where the beginning is too short to be sure, or where not exactly one row has
    it.
    """
    root = root_of(connection)
    if root is None or len(identifier) < LONG_ENOUGH:
        return None
    for kind in OF_A_QUESTION:
        schema = KINDS[kind]
        files = sorted(fetched_below(root / schema.name).rglob("[!.]*.parquet"))
        if len(identifier) == WHOLE:
            rows = connection.execute(
                f'SELECT DISTINCT "{schema.row_id}", filename FROM {rows_in(schema.name, files)} '
                f'WHERE "{schema.row_id}" = $id',
                {"id": identifier},
            ).fetchall()
        else:
            rows = connection.execute(
                f"SELECT DISTINCT child_id, filename FROM {rows_in('lineage_edges', _explaining(root, files))} "
                "WHERE child_id >= $low AND child_id < $high AND child_kind = $kind LIMIT 50",
                {"low": identifier, "high": identifier + LAST, "kind": kind},
            ).fetchall()
        if len({row_id for row_id, _ in rows}) == 1:
            row_id, file = rows[0]
            return kind, row_id, Places(root, Path(*Path(file).relative_to(root).parts[2:]).as_posix())
        if rows:
            return None
    return None


def rows_of(connection: Connection, sql: str, **parameters: Any) -> list[dict[str, Any]]:
    """Rows of a query as dictionaries."""
    cursor = connection.execute(sql, parameters)
    names = [description[0] for description in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def among(column: str, ids: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The condition that a column is one of these ids, and its parameters; constants, so that row groups are
    skipped."""
    parameters = {f"id{number}": identifier for number, identifier in enumerate(ids)}
    return f"{column} IN ({', '.join(f'${name}' for name in parameters)})", parameters
