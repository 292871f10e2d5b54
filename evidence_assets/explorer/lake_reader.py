"""Readers of the lake for the explorer: a connection per page, and all predictions in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from evidence_assets.experiment.ad_hoc_questions import BENCHMARK as AD_HOC_BENCHMARK
from evidence_assets.experiment.scores.scoring import is_correct
from evidence_assets.explorer.answers import Row
from evidence_assets.lake.atomic import mirror_of
from evidence_assets.lake.catalogue import connect, create_views, scan_sql
from evidence_assets.lake.row_locations import query_rows
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake

MAX_PAGE_AGE_S = 30.0
"""Maximum age of pages over a remote lake."""
QUESTIONS = """
    CREATE OR REPLACE TABLE all_questions AS
    SELECT question_id, benchmark, source_id, split, task, text, options, gold, gold_aliases, table_id, negated,
           lower(text) AS low, filename AS file
    FROM {questions}
"""
ANSWERS = """
    CREATE OR REPLACE TABLE answers AS
    SELECT p.prediction_id, p.question_id, p.benchmark, p.selector, p.reasoner, p.model_id, p.answer, p.status,
           p.confidence, replace(regexp_extract(p.filename, 'asset=predictions[.]([^/]*)', 1), '.', '/') AS variant,
           CASE WHEN p.benchmark = '{ad_hoc}' OR q.question_id IS NULL THEN NULL
                WHEN p.status = 'failed' THEN false
                WHEN len(q.gold) = 0 THEN p.status = 'insufficient'
                WHEN p.answer IS NULL THEN false
                WHEN q.task = 'kgqa' THEN short_answer_is_right(p.answer, q.gold, coalesce(q.gold_aliases, []))
                ELSE list_contains(q.gold, p.answer) END AS is_right
    FROM {predictions} p LEFT JOIN all_questions q USING (question_id)
"""


def _short_answer_is_right(answer: str, gold: list[str], aliases: list[list[str]]) -> bool:
    question = {"task": "kgqa", "gold": gold, "gold_aliases": aliases}
    return is_correct(question, {"answer": answer, "status": "answered"})


@dataclass(frozen=True)
class PageReader:
    """Reader of one page: the lake's reader and a connection for this page."""

    lake_reader: LakeReader
    connection: duckdb.DuckDBPyConnection

    def rows(self, sql: str, tables: Sequence[str] = (), **parameters: Any) -> list[Row]:
        """Rows of a query over views of the lake."""
        create_views(self.connection, *tables)
        return query_rows(self.connection, sql, **parameters)

    def ids(self, sql: str, tables: Sequence[str], **parameters: Any) -> list[str]:
        """Values of a query with one column."""
        return [next(iter(row.values())) for row in self.rows(sql, tables, **parameters)]

    def answers(self, sql: str, **parameters: Any) -> list[Row]:
        """Rows of a query over ``answers`` (predictions and whether they are right) and ``all_questions``."""
        return self.lake_reader.answers(sql, **parameters)

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Texts of questions by id."""
        rows = self.answers(
            "SELECT question_id, text FROM all_questions WHERE question_id IN (SELECT unnest($ids))",
            ids=sorted(set(ids)),
        )
        return {row["question_id"]: row["text"] for row in rows}


class LakeReader:
    """Reader of a lake, shared by many pages and threads."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.lake = Lake(self.root)
        self._memory = duckdb.connect(config={"memory_limit": "2GB"})
        self._memory.create_function(
            "short_answer_is_right", _short_answer_is_right, ["VARCHAR", "VARCHAR[]", "VARCHAR[][]"], "BOOLEAN"
        )
        self._lock = threading.Lock()
        self._stamps: dict[str, dict[Path, tuple[int, int]]] = {}
        self._last_fetch = -MAX_PAGE_AGE_S

    @contextmanager
    def reader(self) -> Iterator[PageReader]:
        """Reader for one page."""
        with self._lock:
            self._fetch()
        with connect(self.root, lazy=True) as connection:
            yield PageReader(self, connection)

    def answers(self, sql: str, **parameters: Any) -> list[Row]:
        """Rows of a query over the tables in memory, which are refreshed first."""
        with self._lock:
            self._fetch()
            self._refresh()
            cursor = self._memory.cursor()
        return query_rows(cursor, sql, **parameters)

    def _fetch(self) -> None:
        """Fetch changed files of a remote lake, at most every ``MAX_PAGE_AGE_S`` seconds."""
        if mirror_of(self.root) is not None and time.monotonic() - self._last_fetch > MAX_PAGE_AGE_S:
            for table in TABLES:
                self.lake.folder(table)
            self._last_fetch = time.monotonic()

    def _refresh(self) -> None:
        """Reload predictions and questions if one of their files has changed."""
        stamps = {
            table: {path: ((stat := path.stat()).st_mtime_ns, stat.st_size) for path in self._files(table)}
            for table in ("questions", "predictions")
        }
        if stamps == self._stamps:
            return
        sources = {table: scan_sql(table, sorted(files)) for table, files in stamps.items()}
        self._memory.execute(QUESTIONS.format(questions=sources["questions"]))
        self._memory.execute(ANSWERS.format(predictions=sources["predictions"], ad_hoc=AD_HOC_BENCHMARK))
        self._stamps = stamps

    def _files(self, table: str) -> Iterator[Path]:
        return (self.root / table).rglob("[!.]*.parquet")
