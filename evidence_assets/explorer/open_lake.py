"""The lake as the explorer reads it: a connection a page, and the answers of all variants side by side in memory.

Belongs here: what is kept between pages, and how it is noticed that the lake has changed. The lake is only read. Every
query of a page is kept with its values filled in, so that it can be taken to DuckDB as it was run.
"""

from __future__ import annotations

import re
import textwrap
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from evidence_assets.experiment.ad_hoc_questions import BENCHMARK as ASKED
from evidence_assets.experiment.scores.scoring import correct
from evidence_assets.explorer.answers import Row
from evidence_assets.lake.atomic import mirror_of
from evidence_assets.lake.catalogue import ROOT_VARIABLE, connect, need, quoted, rows_in
from evidence_assets.lake.places import rows_of
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake

LOOK_SECONDS = 30.0
"""How old pages over a lake that is kept elsewhere may be."""
Stamps = dict[str, tuple[int, int]]


def answers_sql(predictions: str = "predictions", questions: str = "questions", *further: str) -> str:
    """Every prediction with whether it is right. Short answers are compared in words, which SQL does not do: NULL
    there.
    """
    columns = "".join(f", {column}" for column in further)
    return f"""
        SELECT p.prediction_id, p.question_id, p.benchmark, replace(p.asset, 'predictions/', '') AS variant, p.selector,
               p.reasoner, p.model_id, p.answer, p.status, p.confidence,
               CASE WHEN p.benchmark = '{ASKED}' OR q.question_id IS NULL THEN NULL
                    WHEN p.status = 'failed' THEN false
                    WHEN len(q.gold) = 0 THEN p.status = 'insufficient'
                    WHEN p.answer IS NULL THEN false
                    WHEN q.task = 'kgqa' THEN NULL
                    ELSE list_contains(q.gold, p.answer) END AS is_right{columns}
        FROM {predictions} p LEFT JOIN {questions} q USING (question_id)
    """


def literal(value: Any) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return quoted(str(value))


def filled(sql: str, parameters: dict[str, Any]) -> str:
    """A query with its values in place of their names, to be taken to DuckDB; what the explorer runs has parameters."""
    shown = re.sub(r"\$(\w+)", lambda name: literal(parameters[name[1]]) if name[1] in parameters else name[0], sql)
    return textwrap.dedent(shown.strip("\n")).rstrip()


@dataclass
class Reader:
    """What one page reads: a connection of its own, and the queries that it made."""

    opened: OpenLake
    connection: duckdb.DuckDBPyConnection
    queries: list[str] = field(default_factory=list)

    def rows(self, sql: str, tables: Sequence[str] = (), **parameters: Any) -> list[Row]:
        """Rows of a query over views of the lake."""
        need(self.connection, *tables)
        self.note(sql, **parameters)
        return rows_of(self.connection, sql, **parameters)

    def ids(self, sql: str, tables: Sequence[str], **parameters: Any) -> list[str]:
        """The only column of such rows."""
        return [next(iter(row.values())) for row in self.rows(sql, tables, **parameters)]

    def answers(self, sql: str, **parameters: Any) -> list[Row]:
        """Rows of a query over ``answers``, every prediction with whether it is right, and ``asked``,
        every question.
        """
        shown = filled(sql, parameters)
        self.queries.append(
            f"WITH answers AS ({answers_sql()}), asked AS (SELECT *, lower(text) AS low FROM questions)\n{shown}"
        )
        return self.opened.answers(sql, **parameters)

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        rows = self.answers(
            "SELECT question_id, text FROM asked WHERE question_id IN (SELECT unnest($ids))", ids=sorted(set(ids))
        )
        return {row["question_id"]: row["text"] for row in rows}

    def note(self, sql: str, **parameters: Any) -> None:
        """Keep a query that says what was read some other way."""
        self.queries.append(filled(sql, parameters))


class OpenLake:
    """A lake opened for reading by many pages, one after another or at once."""

    def __init__(self, root: Path, dagster: str = "http://127.0.0.1:3000") -> None:
        self.root, self.dagster = root.resolve(), dagster
        self.lake = Lake(self.root)
        self._kept = duckdb.connect(config={"memory_limit": "2GB"})
        self._lock = threading.Lock()
        self._views: duckdb.DuckDBPyConnection | None = None
        self._filled: list[str] = []
        self._stamps: dict[str, Stamps] = {"predictions": {}, "questions": {}}
        self._made, self._looked = False, -LOOK_SECONDS

    def reader(self) -> Reader:
        """A reader for one page: a cursor of one connection, which remembers what the ends of files say until they
        change.
        """
        with self._lock:
            self._look()
            filled = [name for name in TABLES if next((self.root / name).rglob("[!.]*.parquet"), None) is not None]
            if self._views is None or filled != self._filled:
                # A view made of no file stays empty, so all are made anew when a table has got its first one.
                self._views, self._filled = connect(self.root), filled
            cursor = self._views.cursor()
        cursor.execute(f"SET VARIABLE {ROOT_VARIABLE} = {quoted(str(self.root))}")
        return Reader(self, cursor)

    def _look(self) -> None:
        """Fetch what has changed of a lake that is kept elsewhere, every now and then."""
        if mirror_of(self.root) is not None and time.monotonic() - self._looked > LOOK_SECONDS:
            for table in TABLES:
                self.lake.folder(table)
            self._looked = time.monotonic()

    def answers(self, sql: str, **parameters: Any) -> list[Row]:
        """Rows of a query over the kept tables, brought up to date first."""
        with self._lock:
            self._refresh()
            cursor = self._kept.cursor()
        return rows_of(cursor, sql, **parameters)

    @property
    def state(self) -> tuple[int, ...]:
        """Changes when predictions or questions do."""
        with self._lock:
            self._refresh()
            return tuple(hash(frozenset(stamps.items())) for stamps in self._stamps.values())

    def _refresh(self) -> None:
        """Read anew the files of predictions that have changed; all of them where questions have."""
        self._look()
        found = {
            table: {
                str(path): (s.st_mtime_ns, s.st_size)
                for path in sorted((self.root / table).rglob("[!.]*.parquet"))
                for s in [path.stat()]
            }
            for table in self._stamps
        }
        if found == self._stamps and self._made:
            return
        before = (
            {} if found["questions"] != self._stamps["questions"] or not self._made else self._stamps["predictions"]
        )
        changed = [path for path, stamp in found["predictions"].items() if before.get(path) != stamp]
        gone = [path for path in before if path in changed or path not in found["predictions"]]
        if before:
            self._kept.execute("DELETE FROM answers WHERE file IN (SELECT unnest($gone))", {"gone": gone})
        else:
            columns = (
                "question_id, benchmark, source_id, split, task, text, options, gold, gold_aliases, table_id, negated, "
                "lower(text) AS low, filename AS file"
            )
            source = rows_in("questions", [Path(p) for p in found["questions"]])
            self._kept.execute(f"CREATE OR REPLACE TABLE asked AS SELECT {columns} FROM {source}")
            self._kept.execute(f"CREATE OR REPLACE TABLE answers AS SELECT * FROM ({self._select([])}) LIMIT 0")
        if changed:
            self._kept.execute(f"INSERT INTO answers {self._select(changed)}")
            self._judge_short_answers()
        self._stamps, self._made = found, True

    def _select(self, files: Sequence[str]) -> str:
        owner = "replace(regexp_extract(filename, 'asset=([^/]*)', 1), '.', '/') AS asset"
        source = f"(SELECT *, {owner} FROM {rows_in('predictions', [Path(path) for path in files])})"
        return answers_sql(source, "asked", "p.filename AS file")

    def _judge_short_answers(self) -> None:
        rows = rows_of(
            self._kept,
            "SELECT a.prediction_id, a.answer, a.status, q.task, q.gold, q.gold_aliases FROM answers a JOIN asked q "
            f"USING (question_id) WHERE q.task = 'kgqa' AND a.is_right IS NULL AND a.benchmark <> '{ASKED}'",
        )
        right = [row["prediction_id"] for row in rows if correct(row, row)]
        wrong = [row["prediction_id"] for row in rows if not correct(row, row)]
        for ids, value in ((right, "true"), (wrong, "false")):
            self._kept.execute(
                f"UPDATE answers SET is_right = {value} WHERE prediction_id IN (SELECT unnest($ids))", {"ids": ids}
            )
