"""Readers of the lake for the explorer: a connection per page, and all predictions and the last changes in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
IS_RIGHT = """
    CREATE MACRO is_right(benchmark, question_id, task, gold, gold_aliases, answer, status) AS
        CASE WHEN benchmark = '{ad_hoc}' OR question_id IS NULL OR gold IS NULL THEN NULL
             WHEN status = 'failed' THEN false
             WHEN len(gold) = 0 THEN status = 'insufficient'
             WHEN answer IS NULL THEN false
             WHEN task = 'kgqa' THEN short_answer_is_right(answer, gold, coalesce(gold_aliases, []))
             ELSE list_contains(gold, answer) END
"""
"""Whether an answer is right; null for questions without gold answers of a benchmark."""
ANSWERS = """
    CREATE OR REPLACE TABLE answers AS
    SELECT p.prediction_id, p.question_id, p.benchmark, p.selector, p.reasoner, p.model_id, p.answer, p.status,
           p.confidence, replace(regexp_extract(p.filename, 'asset=predictions[.]([^/]*)', 1), '.', '/') AS variant,
           is_right(p.benchmark, q.question_id, q.task, q.gold, q.gold_aliases, p.answer, p.status) AS is_right
    FROM {predictions} p LEFT JOIN all_questions q USING (question_id)
"""

CHANGE_KINDS = ("predictions", "knowledge", "scores")
"""First parts of the asset keys whose history is compared; that of evidence and chains is too large for a page."""
CHANGES = """
    CREATE OR REPLACE TABLE changes AS
    SELECT split_part(asset, '/', 1) AS kind, asset, row_id,
           CASE WHEN kind = 'predictions' THEN split_part(partition, '|', 1) ELSE '' END AS benchmark,
           CASE WHEN old.run_id IS NULL THEN 'added' WHEN new.run_id IS NULL THEN 'removed' ELSE 'changed' END
           AS change,
           old.answer AS answer_before, old.status AS status_before
    FROM {old} old FULL JOIN {new} new USING (asset, partition, row_id)
    WHERE old.content_hash IS DISTINCT FROM new.content_hash
"""
Stamps = Mapping[Path, tuple[int, int]]
"""Modification time in ns and size of files."""


class LastRun(NamedTuple):
    """Times of the last run in seconds."""

    start: float
    end: float


def find_last_run(history: Stamps, predictions: Stamps) -> LastRun | None:
    """The last run that wrote history, with the questions asked since; None without history and predictions."""
    times = {path: stamp[0] / 1e9 for path, stamp in (*history.items(), *predictions.items())}
    last = max(history, key=lambda path: times[path], default=None)
    run_times = [times[path] for path in times if last is None or path.parent == last.parent]
    return LastRun(min(run_times), max(times.values())) if times else None


def changes_sql(history: Stamps, start: float) -> str:
    """SQL of the table ``changes``: each partition that was written since ``start``, against its version before."""
    old: dict[str, Path] = {}
    new: dict[str, Path] = {}
    for path, (written, _) in sorted(history.items(), key=lambda item: (item[1], item[0])):
        if path.name.startswith(CHANGE_KINDS):
            (new if written / 1e9 >= start else old)[path.name] = path
    old_files = sorted(old[name] for name in new if name in old)
    return CHANGES.format(old=scan_sql("history", old_files), new=scan_sql("history", sorted(new.values())))


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

    def cached(self, compute: Callable[[PageReader], Any], tables: Sequence[str]) -> Any:
        """The value of ``compute`` for this lake, from memory until a file of these tables changes."""
        return self.lake_reader.cached(compute, self, tables)

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
        self._memory.execute(IS_RIGHT.format(ad_hoc=AD_HOC_BENCHMARK))
        self._lock = threading.Lock()
        self._stamps: dict[str, Stamps] = {}
        self._values: dict[Callable[[PageReader], Any], tuple[dict[str, Stamps], Any]] = {}
        self._last_fetch = -MAX_PAGE_AGE_S
        self.last_run: LastRun | None = None

    @contextmanager
    def reader(self) -> Iterator[PageReader]:
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

    def cached(self, compute: Callable[[PageReader], Any], reader: PageReader, tables: Sequence[str]) -> Any:
        """The value of ``compute``, from memory until a file of these tables changes."""
        stamps = self._read_stamps(tables)
        cached_stamps, value = self._values.get(compute, (None, None))
        if cached_stamps != stamps:
            value = compute(reader)
            self._values[compute] = stamps, value
        return value

    def recent_files(self, table: str) -> list[str]:
        """Files of questions or predictions that were written since the last run started, latest first."""
        start = self.last_run.start if self.last_run else 0.0
        times = {str(path): stamp[0] / 1e9 for path, stamp in self._stamps.get(table, {}).items()}
        return sorted((name for name, time in times.items() if time >= start), key=lambda name: (-times[name], name))

    def _fetch(self) -> None:
        """Fetch changed files of a remote lake, at most every ``MAX_PAGE_AGE_S`` seconds."""
        if mirror_of(self.root) is not None and time.monotonic() - self._last_fetch > MAX_PAGE_AGE_S:
            for table in TABLES:
                self.lake.folder(table)
            self._last_fetch = time.monotonic()

    def _refresh(self) -> None:
        """Reload predictions, questions and changes if one of their files has changed."""
        stamps = self._read_stamps(("questions", "predictions", "history"))
        if stamps == self._stamps:
            return
        if any(stamps[table] != self._stamps.get(table) for table in ("questions", "predictions")):
            sources = {table: scan_sql(table, sorted(stamps[table])) for table in ("questions", "predictions")}
            self._memory.execute(QUESTIONS.format(questions=sources["questions"]))
            self._memory.execute(ANSWERS.format(predictions=sources["predictions"]))
        self.last_run = find_last_run(stamps["history"], stamps["predictions"])
        self._memory.execute(changes_sql(stamps["history"], self.last_run.start if self.last_run else 0.0))
        self._stamps = stamps

    def _read_stamps(self, tables: Sequence[str]) -> dict[str, Stamps]:
        return {
            table: {
                path: ((stat := path.stat()).st_mtime_ns, stat.st_size)
                for path in (self.root / table).rglob("[!.]*.parquet")
            }
            for table in tables
        }
