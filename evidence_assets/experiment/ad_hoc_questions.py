"""Single questions: each is a partition ``asked|<question_id>``, answered by the stages of a variant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from evidence_assets.benchmarks.declared_benchmarks import FAMILY_OF_TASK, Benchmark, benchmarks, declarations_of
from evidence_assets.benchmarks.records import (
    ASKED_BENCHMARK,
    CLAIM_LABELS,
    MAX_OPTIONS,
    QuestionRecord,
    Table,
    Task,
    table_content_id,
    table_rows,
)
from evidence_assets.experiment.evidence.sources import build_subgraphs
from evidence_assets.experiment.question_rows import question_rows
from evidence_assets.experiment.solvers import TABLE_SOLVER
from evidence_assets.experiment.stage import LogFunction, Stage, StageContext, StageOutput, discard_message
from evidence_assets.experiment.stored_rows import PredictionRow, typed_rows
from evidence_assets.lake.catalogue import DECLARATIONS_FOLDER
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.mirror import child_names
from evidence_assets.lake.store import Lake, asset_folder
from evidence_assets.reasoning.tables.table import TableView

ANSWER_TABLES = ("chunk_rankings", "evidence", "chains", "predictions", "citations", "counterfactuals")
"""Tables of the stages to run; scores would need gold answers."""


@dataclass(frozen=True)
class QuestionSource:
    """The source of a single question: a corpus, graph or table; stored as ``source_id``."""

    corpus: str = ""
    graph: str = ""
    table: str = ""

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in asdict(self).items() if value)

    def benchmark(self, task: Task) -> Benchmark:
        """The benchmark ``asked`` with this source."""
        return Benchmark(name=ASKED_BENCHMARK, task=task, corpus=self.corpus, graph=self.graph)


def build_question(
    text: str, options: Sequence[str], source: QuestionSource, table: Table | None = None
) -> QuestionRecord:
    """Build a question of the benchmark ``asked``.

    For a table, a statement is a claim to verify, and the default options of a question are the table's cells.
    """
    text = " ".join(text.split())
    options = [" ".join(option.split()) for option in options]
    if not text:
        raise BadInput("the question is empty: give it as one text, in quotation marks")
    if len(set(map(str.casefold, options))) < len(options):
        raise BadInput("an option is given twice: give each option once")
    if len(options) == 1 or len(options) > MAX_OPTIONS or not all(options):
        raise BadInput(f"{len(options)} options: give 2 to {MAX_OPTIONS} texts, or none for a short answer")
    task: Task = "mcqa" if options else "kgqa"
    negated = None
    if table is not None:
        if not options and TABLE_SOLVER.is_statement(text):
            task = "verification"
            options = list(CLAIM_LABELS)
        else:
            view = parse_table(table)
            task = "table_qa"
            options = options or table_options(view, text)
            negated = False if TABLE_SOLVER.excludes_rows(view, text) else None
    table_id = source.table or None
    return QuestionRecord(
        ASKED_BENCHMARK, str(source), "test", task, text, tuple(options), table_id=table_id, negated=negated
    )


def parse_table(table: Table) -> TableView:
    """The table as the solver reads it."""
    return TableView.of(table.caption, table.header, table.rows)


def table_options(view: TableView, question: str) -> list[str]:
    """Options for a question without any, from the cells of a table."""
    options = TABLE_SOLVER.list_options(view, question)[:MAX_OPTIONS]
    if len(options) < 2:
        raise BadInput("no two cells of the table can answer this: use words of its header and cells, or give options")
    return options


def with_content_id(table: Table) -> Table:
    """The table with a content hash in its id, so that files of the same name have different ids."""
    table_id = f"{table.table_id}@{table_content_id(table)[:12]}"
    return replace(table, benchmark=ASKED_BENCHMARK, caption=table.caption or table.table_id, table_id=table_id)


def list_corpora(lake: Lake) -> list[str]:
    """Names of the indexed corpora of the lake."""
    return _instances(lake, "indexes", "corpus", "index")


def list_graphs(lake: Lake) -> list[str]:
    arrays = _instances(lake, "indexes", "knowledge", "csr")
    return [name for name in _instances(lake, "kg_edges", "knowledge", "edges") if name in arrays]


def _instances(lake: Lake, table: str, kind: str, suffix: str) -> list[str]:
    """Names in the asset keys ``<kind>/<name>/<suffix>`` of a table."""
    keys = (asset.split("/") for asset_table, asset in lake.assets() if asset_table == table)
    return ["/".join(key[1:-1]) for key in keys if (key[0], key[-1]) == (kind, suffix)]


def resolve_source(lake: Lake, corpus: str, graph: str, table: str = "") -> QuestionSource:
    """Check the named source; without a name, use the only corpus, or the only one that was not added by a user.

    A corpus also gets the graph that declared benchmarks pair with it, if it is the same in all and the lake has it.
    """
    corpora = list_corpora(lake)
    graphs = list_graphs(lake)
    if graph and graph not in graphs:
        raise BadInput(
            f"there is no graph {graph!r} in this lake; there are: {', '.join(graphs) or 'none'}. "
            "Add one with `evidence ask … --graph ./FILE`, or build a declared one with `evidence run BENCHMARK`"
        )
    if corpus and corpus not in corpora:
        raise BadInput(
            f"there is no corpus {corpus!r} in this lake; there are: {', '.join(corpora) or 'none'}. "
            "Add one with `evidence ask … --corpus ./FOLDER`, or build a declared one with `evidence run BENCHMARK`"
        )
    if graph or table:
        return QuestionSource(corpus, graph, table)
    if not corpora:
        raise BadInput(
            "the lake has no corpus: give a folder of documents with --corpus ./FOLDER, a table by "
            "--table, or build the sample with `evidence demo`"
        )
    corpus = corpus or _find_default_corpus(lake, corpora)
    joined_graphs = {b.joined_graph for b in benchmarks().values() if b.corpus == corpus and b.joined_graph}
    has_graph = len(joined_graphs) == 1 and joined_graphs <= set(graphs)
    return QuestionSource(corpus, joined_graphs.pop() if has_graph else "")


def _find_default_corpus(lake: Lake, corpora: Sequence[str]) -> str:
    """The only corpus, or the only one that was not added by a user."""
    added = {c.attributes.get("name") for c in declarations_of("Corpus", lake.root / DECLARATIONS_FOLDER)}
    default_corpora = corpora if len(corpora) == 1 else [name for name in corpora if name not in added]
    if len(default_corpora) != 1:
        raise BadInput(
            f"there are several corpora: {', '.join(corpora)}. Choose one, such as "
            f"`evidence ask … --corpus {corpora[-1]}`, or a --graph"
        )
    return default_corpora[0]


def check_corpus(lake: Lake, name: str) -> None:
    """Raise BadInput for an empty corpus."""
    if lake.scan("chunks", f"corpus/{name}/chunks").head(1).collect().is_empty():
        raise BadInput(f"corpus {name} is empty: add documents and build it again, or choose another with --corpus")


def store_question(
    lake: Lake, question: QuestionRecord, table: Table | None = None, joined: Sequence[Table] = ()
) -> None:
    """Write a question, its table, and the tables that this one was joined from."""
    partition = f"{ASKED_BENCHMARK}|{question.question_id}"
    family = FAMILY_OF_TASK[question.task]
    if table is not None:
        lake.write("tables", partition, {"tables": table_rows([table, *joined])})
    lake.write(f"questions/{family}", partition, {"questions": question_rows([question], question.split, 0, 1)})


def answer_question(
    lake: Lake,
    question_id: str,
    task: Task,
    source: QuestionSource,
    stages: Iterable[Stage],
    inform: LogFunction,
    on_stage: LogFunction = discard_message,
) -> PredictionRow:
    """The prediction of the answering stages for this question only; rows with unchanged inputs are reused.

    ``on_stage`` gets the table of each stage before it runs.
    """
    partition = f"{ASKED_BENCHMARK}|{question_id}"

    def run_stage(table: str, key: str, run: Callable[[StageContext], StageOutput]) -> None:
        on_stage(table)
        context = StageContext(lake, table, key, partition, inform, inform, ad_hoc_benchmark=source.benchmark(task))
        output = run(context)
        rows = {table: output.rows, **output.other_tables}
        lake.write(key, partition, rows if output.lineage is None else {**rows, "lineage_edges": output.lineage})

    answering_stages = [stage for stage in stages if stage.table in ANSWER_TABLES]
    if any(item.key == "subgraphs/mcqa" for stage in answering_stages for item in stage.inputs):
        run_stage("subgraphs", "subgraphs/mcqa", build_subgraphs)
    for stage in answering_stages:
        run_stage(stage.table, stage.key, stage.run)
    key = next(stage.key for stage in answering_stages if stage.table == "predictions")
    return typed_rows(lake.read("predictions", key, partition), PredictionRow)[0]


def find_ad_hoc_assets(lake: Lake) -> set[str]:
    """Assets with rows of single questions, including those that Dagster does not load."""
    return {a for table, a in lake.assets() if ASKED_BENCHMARK in child_names(lake.root / table / asset_folder(a))}
