"""The box to ask: checks a posted question, answers one at a time in a scratch lake, and reports progress."""

from __future__ import annotations

import hmac
import queue
import secrets
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qsl

from evidence_assets.benchmarks.records import ASKED_BENCHMARK, MAX_OPTIONS, Table
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.scratch_lake import open_scratch_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

if TYPE_CHECKING:
    from evidence_assets.experiment.ad_hoc_questions import QuestionSource
    from evidence_assets.experiment.stage import LogFunction

MAX_QUESTION = 500
"""Maximum characters of a question."""
MAX_OPTION = 200
"""Maximum characters of an option."""
MAX_BODY = 20_000
"""Maximum bytes of a posted form."""
MAX_FIELDS = 8
MAX_TABLES = 200
"""Maximum tables in the list of sources; the page of any other table links to the box."""
FORM_TYPE = "application/x-www-form-urlencoded"


class BoxBusy(Exception):
    """Another question is being answered."""


class Refused(Exception):
    """A request that does not come from a page of this explorer."""


class Answered(NamedTuple):
    """Ids of a stored question and its prediction."""

    question_id: str
    prediction_id: str


class AnswerFunction(Protocol):
    """Answers a question in a lake; raises BadInput if it cannot be asked."""

    def __call__(
        self,
        lake: Lake,
        text: str,
        options: Sequence[str],
        source: QuestionSource,
        table: Table | None,
        inform: LogFunction,
    ) -> Answered: ...


class SourceChoice(NamedTuple):
    """One source in the form: its group, value and label."""

    group: str
    value: str
    label: str


@dataclass(frozen=True)
class AskForm:
    """A question as typed, with one option per line and the value of a `SourceChoice`."""

    text: str = ""
    options: str = ""
    source: str = ""

    def checked_options(self) -> list[str]:
        """The options; raises BadInput if the question or the options are too long or too many."""
        options = [line.strip() for line in self.options.splitlines() if line.strip()]
        if not self.text.strip():
            raise BadInput("the question is empty: type one")
        if len(self.text) > MAX_QUESTION:
            raise BadInput(f"the question has {len(self.text)} characters: use at most {MAX_QUESTION}")
        if len(options) > MAX_OPTIONS:
            raise BadInput(f"there are {len(options)} options: give at most {MAX_OPTIONS}, one per line")
        if longest := max((len(option) for option in options if len(option) > MAX_OPTION), default=0):
            raise BadInput(f"an option has {longest} characters: use at most {MAX_OPTION}")
        return options


@dataclass(frozen=True)
class Outcome:
    """The end of an attempt to answer: the question's id, or what went wrong."""

    question_id: str = ""
    error: str = ""


class AskBox:
    """Answers questions over a lake that it does not change; their rows last as long as the box."""

    def __init__(self, root: Path, answer: AnswerFunction) -> None:
        self._lake = Lake(root)
        self._answer = answer
        self._busy = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="evidence-explorer-")
        self.reader = LakeReader(open_scratch_lake(self._lake, Path(self._folder.name)).root)
        """Reader of the scratch lake."""
        self.token = secrets.token_urlsafe(32)
        """Secret that every form of this process carries."""
        self.asked: dict[str, str] = {}
        """Questions that were answered, by id, newest last."""

    def close(self) -> None:
        """Delete the scratch lake."""
        self._folder.cleanup()

    def read_form(self, headers: Mapping[str, str], body: bytes) -> AskForm:
        """The posted form; raises Refused unless it comes from a page of this process, and BadInput if unreadable."""
        if headers.get("origin") != f"http://{headers.get('host', '')}":
            raise Refused("This question comes from another site: ask it on the page “Ask” of this explorer.")
        if headers.get("content-type", "").partition(";")[0].strip() != FORM_TYPE:
            raise BadInput(f"a question is sent as {FORM_TYPE}")
        try:
            fields = dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
        except ValueError as error:
            raise BadInput(f"the form cannot be read ({error}): ask on the page “Ask”") from error
        if not hmac.compare_digest(fields.get("token", "").encode(), self.token.encode()):
            raise Refused("The explorer was restarted since this page was opened: open the page “Ask” again.")
        return AskForm(fields.get("text", ""), fields.get("options", ""), fields.get("source", ""))

    def list_sources(self) -> list[SourceChoice]:
        """What the lake can answer from: corpora, graphs, and the first tables of its benchmarks."""
        from evidence_assets.experiment.ad_hoc_questions import list_corpora, list_graphs

        corpora = [SourceChoice("Documents", f"corpus:{name}", name) for name in list_corpora(self._lake)]
        graphs = [SourceChoice("Graphs", f"graph:{name}", name) for name in list_graphs(self._lake)]
        return [*corpora, *graphs, *self._list_tables()]

    def _list_tables(self) -> list[SourceChoice]:
        files = self._lake.files("tables")
        if not files:
            return []
        import polars as pl

        rows = pl.scan_parquet(files).filter(pl.col("benchmark") != ASKED_BENCHMARK)
        tables = rows.select("benchmark", "table_id", "caption").sort("benchmark", "table_id").head(MAX_TABLES)
        return [
            SourceChoice(f"Tables of {benchmark}", f"table:{table_id}", caption or table_id)
            for benchmark, table_id, caption in tables.collect().iter_rows()
        ]

    def ask(self, form: AskForm) -> Iterator[str | Outcome]:
        """Start to answer; yields progress and, last, the outcome. Raises BadInput or BoxBusy before it starts."""
        options = form.checked_options()
        source, table = self._resolve_source(form.source)
        if not self._busy.acquire(blocking=False):
            raise BoxBusy("Another question is being answered: ask again when it is done.")
        messages: queue.SimpleQueue[str | Outcome] = queue.SimpleQueue()

        def run() -> None:
            try:
                outcome = self._run(form.text, options, source, table, messages.put)
            finally:
                self._busy.release()
            messages.put(outcome)

        threading.Thread(target=run, daemon=True, name="ask").start()
        return self._read_messages(messages)

    @staticmethod
    def _read_messages(messages: queue.SimpleQueue[str | Outcome]) -> Iterator[str | Outcome]:
        while True:
            message = messages.get()
            yield message
            if isinstance(message, Outcome):
                return

    def _run(
        self, text: str, options: Sequence[str], source: QuestionSource, table: Table | None, inform: LogFunction
    ) -> Outcome:
        try:
            scratch = open_scratch_lake(self._lake, Path(self._folder.name))
            answered = self._answer(scratch, text, options, source, table, inform)
        except BadInput as error:
            return Outcome(error=str(error))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)  # the page shows one line; the terminal has the rest
            return Outcome(error=f"{type(error).__name__}: {error}")
        self.asked.pop(answered.question_id, None)
        self.asked[answered.question_id] = " ".join(text.split())
        return Outcome(answered.question_id)

    def _resolve_source(self, value: str) -> tuple[QuestionSource, Table | None]:
        """The source of the form's value; raises BadInput if the lake does not have it."""
        from evidence_assets.experiment.ad_hoc_questions import QuestionSource, resolve_source, with_content_id

        kind, _, name = value.partition(":")
        if kind == "table":
            table = with_content_id(self._read_table(name))
            return QuestionSource(table=table.table_id), table
        if kind not in ("corpus", "graph") or not name:
            raise BadInput("choose what the question is answered from")
        return resolve_source(self._lake, name if kind == "corpus" else "", name if kind == "graph" else ""), None

    def _read_table(self, table_id: str) -> Table:
        import polars as pl

        files = self._lake.files("tables")
        rows = pl.scan_parquet(files).filter(pl.col("table_id") == table_id).head(1).collect() if files else None
        if rows is None or rows.is_empty():
            raise BadInput(f"the lake has no table {table_id!r}")
        row = rows.row(0, named=True)
        texts = {(cell["row"], cell["column"]): cell["text"] for cell in row["cells"]}
        header = tuple(row["header"])
        body = [tuple(texts.get((n, c), "") for c in range(len(header))) for n in range(row["n_rows"])]
        return Table(row["benchmark"], table_id, row["caption"] or "", header, tuple(body))
