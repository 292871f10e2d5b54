"""The box to ask: checks a posted question, answers one at a time in a scratch lake, and reports progress."""

from __future__ import annotations

import hmac
import queue
import secrets
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import parse_qsl

from evidence_assets.benchmarks.records import ASKED_BENCHMARK, MAX_OPTIONS, Table
from evidence_assets.explorer.answers import Row
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.pages import shorten
from evidence_assets.explorer.scratch_lake import open_scratch_lake
from evidence_assets.lake.errors import BadInput, ModelUnavailable, StaleInput
from evidence_assets.lake.store import Lake

if TYPE_CHECKING:
    from evidence_assets.experiment.asked_sources import AskedSource
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
MAX_MESSAGE = 500
"""Maximum characters of a line of progress, and of the reason why there is no answer."""
MAX_UNREAD = 200
"""Maximum lines of progress that wait for their reader; later ones are left out."""
MAX_KEPT = 100
"""Maximum answered questions that are kept; older ones have no page any more."""
EVERYTHING = "everything"
"""Value of the source that stands for all corpora, graphs and tables beside documents."""
FORM_TYPE = "application/x-www-form-urlencoded"


class BoxBusy(Exception):
    """Another question is being answered."""


class Refused(Exception):
    """A request that does not come from a page of this explorer."""


class Answered(NamedTuple):
    """Ids of a stored question and its prediction, and what other sources say."""

    question_id: str
    prediction_id: str
    also: Sequence[str] = ()


class AnswerFunction(Protocol):
    """Answers a question in a lake from the best of some sources; raises BadInput if it cannot be asked."""

    @property
    def model(self) -> str:
        """Name of the language model that answers; empty if rules do."""

    def __call__(
        self, lake: Lake, text: str, options: Sequence[str], sources: Sequence[AskedSource], inform: LogFunction
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
        self.model = answer.model
        """Name of the language model that answers; empty if rules do."""
        self._busy = threading.Lock()
        self._folder = tempfile.TemporaryDirectory(prefix="evidence-explorer-")
        self.reader = LakeReader(open_scratch_lake(self._lake, Path(self._folder.name)).root)
        """Reader of the scratch lake."""
        self.token = secrets.token_urlsafe(32)
        """Secret that every form of this process carries."""
        self.questions: dict[str, tuple[AskForm, Answered]] = {}
        """The last ``MAX_KEPT`` answered questions, by id, newest last; a new dictionary after each answer."""

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
        """What the lake can answer from: everything, corpora, graphs, and tables of benchmarks, together or each."""
        from evidence_assets.experiment.ad_hoc_questions import list_corpora, list_graphs

        corpora = [SourceChoice("Documents", f"corpus:{name}", name) for name in list_corpora(self._lake)]
        graphs = [SourceChoice("Graphs", f"graph:{name}", name) for name in list_graphs(self._lake)]
        label = "Everything: documents, the tables beside them, and graphs"
        everything = [SourceChoice("All", EVERYTHING, label)] if corpora or graphs else []
        return [*everything, *corpora, *graphs, *self._list_tables()]

    def _list_tables(self) -> list[SourceChoice]:
        import polars as pl

        rows = self._lake.scan("tables").filter(pl.col("benchmark") != ASKED_BENCHMARK)
        tables = rows.select("benchmark", "table_id", "caption").sort("benchmark", "table_id").head(MAX_TABLES)
        listed = list(tables.collect().iter_rows())
        counts = Counter(benchmark for benchmark, _, _ in listed)
        joint_choices = [
            SourceChoice("Tables", f"tables:{name}", f"{name}: its {n} tables")
            for name, n in counts.items()
            if n > 1 and len(listed) < MAX_TABLES
        ]
        single_choices = [
            SourceChoice(f"One table of {benchmark}", f"table:{table_id}", caption or table_id)
            for benchmark, table_id, caption in listed
        ]
        return joint_choices + single_choices

    def ask(self, form: AskForm) -> Iterator[str | Outcome]:
        """Start to answer; yields progress and, last, the outcome.

        Raises BadInput, StaleInput or BoxBusy before it starts.
        """
        options = form.checked_options()
        messages: queue.SimpleQueue[str | Outcome] = queue.SimpleQueue()

        def inform(text: str) -> None:
            if messages.qsize() < MAX_UNREAD:
                messages.put(shorten(text, MAX_MESSAGE))

        if not self._busy.acquire(blocking=False):
            raise BoxBusy("Another question is being answered: ask again when it is done.")
        try:  # sources are resolved within the lock, as each attempt may parse all tables of a corpus
            sources = self._resolve_sources(form, options, inform)

            def run() -> None:
                try:
                    outcome = self._run(form, options, sources, inform)
                finally:
                    self._busy.release()
                messages.put(outcome)

            threading.Thread(target=run, daemon=True, name="ask").start()
        except BaseException:
            self._busy.release()
            raise
        return self._read_messages(messages)

    @staticmethod
    def _read_messages(messages: queue.SimpleQueue[str | Outcome]) -> Iterator[str | Outcome]:
        while True:
            message = messages.get()
            yield message
            if isinstance(message, Outcome):
                return

    def _run(
        self, form: AskForm, options: Sequence[str], sources: Sequence[AskedSource], inform: LogFunction
    ) -> Outcome:
        try:
            scratch = open_scratch_lake(self._lake, Path(self._folder.name))
            answered = self._answer(scratch, form.text, options, sources, inform)
        except (BadInput, StaleInput, ModelUnavailable) as error:
            return Outcome(error=shorten(error, MAX_MESSAGE))
        except Exception as error:
            traceback.print_exc(file=sys.stderr)  # the page shows one line; the terminal has the rest
            return Outcome(error=shorten(f"{type(error).__name__}: {error}", MAX_MESSAGE))
        others = [(key, value) for key, value in self.questions.items() if key != answered.question_id]
        # Pages iterate over the questions meanwhile, so the dictionary is replaced and not changed.
        self.questions = dict([*others, (answered.question_id, (form, answered))][-MAX_KEPT:])
        return Outcome(answered.question_id)

    def _resolve_sources(self, form: AskForm, options: Sequence[str], inform: LogFunction) -> list[AskedSource]:
        """The sources of the form's value; raises BadInput if the lake does not have them."""
        from evidence_assets.experiment.ad_hoc_questions import QuestionSource, resolve_source
        from evidence_assets.experiment.asked_sources import AskedSource, list_everything, select_tables

        if form.source == EVERYTHING:
            return list_everything(self._lake, form.text, options, inform)
        kind, _, name = form.source.partition(":")
        if not name or kind not in ("corpus", "graph", "table", "tables"):
            raise BadInput("choose what the question is answered from")
        if kind == "tables":
            reports: list[str] = []
            selected = select_tables(self._read_tables("benchmark", name), form.text, options, reports.append)
            if not selected:
                problem = f"no table of {name} has the words of the question: use those of a header and of cells"
                raise BadInput(". ".join([problem, *reports]))
            for report in reports:
                inform(report)
            return selected
        if kind == "table":
            [table] = self._read_tables("table_id", name)[:1]
            return [AskedSource(QuestionSource(table=table.table_id), table)]
        source = resolve_source(self._lake, name if kind == "corpus" else "", name if kind == "graph" else "")
        return [AskedSource(source)]

    def _read_tables(self, column: str, value: str) -> list[Table]:
        """The tables of the lake with this value; raises BadInput if there is none."""
        import polars as pl

        from evidence_assets.experiment.ad_hoc_questions import with_content_id

        rows = self._lake.scan("tables").filter(pl.col(column) == value).head(MAX_TABLES).collect()
        if rows.is_empty():
            raise BadInput(f"the lake has no table {value!r}")
        return [with_content_id(_read_table(row)) for row in rows.iter_rows(named=True)]


def _read_table(row: Row) -> Table:
    """The table of a row of ``tables``."""
    texts = {(cell["row"], cell["column"]): cell["text"] for cell in row["cells"]}
    header = tuple(row["header"])
    body = [tuple(texts.get((n, column), "") for column in range(len(header))) for n in range(row["n_rows"])]
    return Table(row["benchmark"], row["table_id"], row["caption"] or "", header, tuple(body))
