"""Reader of the lake for the explorer's pages, with all predictions and the last changes in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb

from evidence_assets.benchmarks.records import ASKED_BENCHMARK
from evidence_assets.experiment.scores.metrics import exact_match
from evidence_assets.explorer.answers import Row
from evidence_assets.lake.atomic import mirror_of
from evidence_assets.lake.catalogue import connect, scan_sql
from evidence_assets.lake.mirror import local_stamps
from evidence_assets.lake.row_locations import query_rows
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import Lake

MAX_PAGE_AGE_S = 30.0
"""Maximum age of pages over a remote lake."""
MEMORY_LIMIT = "4GB"
QUESTIONS = """
    CREATE TABLE all_questions AS
    SELECT question_id, benchmark, task, text, options, gold, gold_aliases, filename AS file FROM {questions}
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
    CREATE TABLE all_answers AS
    SELECT p.prediction_id, p.question_id, p.benchmark, p.selector, p.reasoner, p.model_id, p.answer, p.status,
           p.confidence, replace(p.asset, 'predictions/', '') AS variant,
           is_right(p.benchmark, q.question_id, q.task, q.gold, q.gold_aliases, p.answer, p.status) AS is_right
    FROM predictions p LEFT JOIN all_questions q USING (question_id);
    CREATE VIEW answers AS
    SELECT a.*, q.text, q.task, q.options, q.gold FROM all_answers a LEFT JOIN all_questions q USING (question_id)
"""
"""All predictions, and whether they are right; the view adds their questions."""
CHANGE_KINDS = ("predictions", "knowledge", "scores")
"""First parts of the asset keys whose history is compared; that of evidence and chains is too large for a page."""
CHANGES = """
    CREATE TABLE changes AS
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


def read_times(connection: duckdb.DuckDBPyConnection, history: Stamps) -> dict[Path, float]:
    """When each file of history was written, in seconds: by its rows, by other rows of its run, or by the file."""
    sql = f"SELECT filename, epoch(max(time)::TIMESTAMP) FROM {scan_sql('history', [*history])} GROUP BY 1 ORDER BY 2"
    times = {Path(file): seconds for file, seconds in connection.execute(sql).fetchall() if seconds is not None}
    runs = {path.parent: seconds for path, seconds in times.items()}
    return {p: times.get(p, runs.get(p.parent, modified / 1e9)) for p, (modified, _) in history.items()}


def find_last_run(times: Mapping[Path, float]) -> tuple[float, float] | None:
    """Start and end in seconds of the last run that wrote history; None if there is none."""
    last = max(times, key=lambda path: (times[path], path), default=Path())
    run_times = [time for path, time in times.items() if path.parent == last.parent]
    return (min(run_times), max(run_times)) if run_times else None


def changes_sql(times: Mapping[Path, float], start: float) -> str:
    """SQL of the table ``changes``: each partition that was written since ``start``, against its version before."""
    old = dict[str, Path]()
    new = dict[str, Path]()
    for path, written in sorted(times.items(), key=lambda item: (item[1], item[0])):
        if path.name.startswith(CHANGE_KINDS):
            (new if written >= start else old)[path.name] = path
    old_files = sorted(old[name] for name in new if name in old)
    return CHANGES.format(old=scan_sql("history", old_files), new=scan_sql("history", sorted(new.values())))


def _short_answer_is_right(answer: str, gold: list[str], aliases: list[list[str]]) -> bool:
    return exact_match(answer, [*gold, *chain.from_iterable(aliases)])


class LakeReader:
    """One connection to a lake for all pages, rebuilt when a file of the lake changes.

    Its tables in memory are ``all_questions``, ``all_answers`` (with the view ``answers``) and ``changes``.
    """

    connection: duckdb.DuckDBPyConnection
    last_run: tuple[float, float] | None

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.lake = Lake(self.root)
        self._lock = threading.Lock()
        self._stamps: dict[str, Stamps] | None = None
        self._values: dict[Callable[[LakeReader], Any], Any] = {}
        self._last_fetch = -MAX_PAGE_AGE_S

    @contextmanager
    def opened(self) -> Iterator[LakeReader]:
        """The reader with the lake's latest files, for one page at a time."""
        with self._lock:
            self._refresh()
            yield self

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Rows of a query over the lake's views and the tables in memory."""
        return query_rows(self.connection, sql, **parameters)

    def cached(self, compute: Callable[[LakeReader], Any]) -> Any:
        """The value of ``compute`` for this lake, from memory until a file changes."""
        if compute not in self._values:
            self._values[compute] = compute(self)
        return self._values[compute]

    def _refresh(self) -> None:
        """Rebuild the connection if a file has changed; a remote lake is fetched every ``MAX_PAGE_AGE_S`` seconds."""
        if mirror_of(self.root) is not None and time.monotonic() - self._last_fetch > MAX_PAGE_AGE_S:
            for table in TABLES:
                self.lake.folder(table)
            self._last_fetch = time.monotonic()
        stamps = {table: _read_stamps(self.root / table) for table in TABLES}
        if stamps == self._stamps:
            return
        self.connection = connect(self.root, memory=MEMORY_LIMIT)
        times = read_times(self.connection, stamps["history"])
        self.last_run = find_last_run(times)
        self.connection.create_function(
            "short_answer_is_right", _short_answer_is_right, ["VARCHAR", "VARCHAR[]", "VARCHAR[][]"], "BOOLEAN"
        )
        self.connection.execute(IS_RIGHT.format(ad_hoc=ASKED_BENCHMARK))
        self.connection.execute(QUESTIONS.format(questions=scan_sql("questions", sorted(stamps["questions"]))))
        self.connection.execute(ANSWERS)
        self.connection.execute(changes_sql(times, self.last_run[0] if self.last_run else 0.0))
        self._stamps = stamps
        self._values = {}


def _read_stamps(folder: Path) -> Stamps:
    return {path: stamp for path, stamp in local_stamps(folder).items() if path.suffix == ".parquet"}
