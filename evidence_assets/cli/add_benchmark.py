"""Adds a user's benchmark: validates everything first, then writes all files or none."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence_assets import profiles
from evidence_assets.benchmarks import user_benchmark
from evidence_assets.benchmarks.corpora import corpus_files, read_documents
from evidence_assets.benchmarks.dataset_info import find_dataset
from evidence_assets.benchmarks.declared_benchmarks import (
    FAMILY_OF_TASK,
    Family,
    check_name,
    declarations_of,
    write_declarations,
)
from evidence_assets.benchmarks.graphs.formats import read_tab_separated
from evidence_assets.benchmarks.json_streams import raise_errors
from evidence_assets.benchmarks.knowledge_bases import BASE_FILES, read_knowledge_base
from evidence_assets.benchmarks.readers import PASSAGES, read_passages, read_questions
from evidence_assets.benchmarks.records import LocatedQuestion, QuestionRecord, Table
from evidence_assets.cli.add_corpus import copy_files, file_hashes
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import DECLARATIONS_FOLDER, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import reject_outside_links
from evidence_assets.lake.store import Lake
from evidence_assets.text.spelling import closest_name

TABLE_FILES = (".csv", ".tsv", ".parquet")
BASE_FOLDER = "knowledge_base"
"""Folder of a knowledge base's files in the benchmark's raw folder."""


@dataclass
class BenchmarkPlan:
    """What will be written, and its counts.

    ``reader``: Dataset whose published files are copied; ``own`` for questions in the format of ``user_benchmark``.
    ``files``: File to copy, or text to write, by path in the benchmark's raw folder.
    ``notes``: What to know about the questions, such as a number that differs from the official one.
    """

    name: str
    task: str
    split: str
    reader: str = "own"
    corpus: str = ""
    files: dict[str, Path | str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def family(self) -> Family:
        return FAMILY_OF_TASK[self.task]

    @property
    def folder(self) -> str:
        """Path below the lake's ``raw``."""
        return f"benchmarks/{self.name}"

    def components(self) -> list[tuple[str, dict[str, Any]]]:
        """The components to declare: the benchmark, and its corpus and graph if included."""
        published = f"{self.folder}/published"
        benchmark = {"name": self.name, "task": self.task, "split": self.split}
        if self.reader != "own":
            benchmark |= {"reader": self.reader, "path": published}
        if self.corpus:
            benchmark["corpus"] = self.corpus
        components: list[tuple[str, dict[str, Any]]] = [("benchmark.Benchmark", benchmark)]
        if "documents" in self.counts:
            corpus = {"name": self.name, "folder": f"{self.folder}/corpus"}
            if not any(file.startswith("corpus/") for file in self.files):  # the passages of the dataset
                corpus |= {"folder": published, "documents": self.reader, "split": self.split}
            components.append(("corpus.Corpus", corpus))
        graph_components = self._graph_components()
        if graph_components:
            benchmark["graph"] = self.name
        return components + graph_components

    def _graph_components(self) -> list[tuple[str, dict[str, Any]]]:
        """The included graph with its passages, or the included knowledge base."""
        if "nodes" in self.counts:
            return [("graph.KnowledgeBase", {"name": self.name, "folder": f"{self.folder}/{BASE_FOLDER}"})]
        if "triples" not in self.counts:
            return []
        paths = [f"{self.folder}/graph.tsv"]
        files = [{"format": "tab_separated", "paths": paths, "licence": "the user's own"}]
        graph = ("graph.Graph", {"name": self.name, "files": files})
        return [graph, ("graph.GraphPassages", {"graph": self.name})]


def plan_benchmark(
    name: str,
    questions: Path,
    *,
    reader: str = "",
    corpus: str | None = None,
    tables: Path | None = None,
    graph: Path | None = None,
    split: str | None = None,
) -> BenchmarkPlan:
    """Read and validate all inputs and plan what to write, without writing.

    ``graph`` is a file of triples, or for ``skb_search`` a folder with the nodes and edges of a knowledge base.
    ``tables`` is a file in the format of ``benchmarks.user_benchmark``, one table file, or a folder of table files,
    whose names are the table ids. With a ``reader``, ``questions`` is the folder of the published files of this
    dataset. Raises BadInput with file, line and field of up to ten errors.
    """
    if reader and tables:
        raise BadInput("--tables is only for your own files; a reader finds the tables of its dataset")
    _check_new_name(name)
    if reader:
        plan = _plan_published_questions(name, reader, questions, split, has_graph=graph is not None)
        if reader in PASSAGES and corpus is None:
            plan.corpus = name
            plan.counts["documents"] = sum(1 for _ in read_passages(reader, questions, plan.split))
    else:
        plan = _plan_own_questions(name, questions, tables, split, graph)
    _add_sources(plan, corpus, graph)
    return plan


def _plan_own_questions(
    name: str, questions: Path, tables: Path | None, split: str | None, graph: Path | None
) -> BenchmarkPlan:
    """Plan to copy a file of questions in the format of ``benchmarks.user_benchmark``, its tables or knowledge base."""
    notes: list[str] = []
    located_questions = _read_questions(questions, name, notes)
    records = [question for _, question in located_questions]
    plan = BenchmarkPlan(name, records[0].task, _select_split(records, questions, split), notes=notes)
    plan.files["questions.jsonl"] = questions
    _count_questions(plan, records)
    if plan.family == "table":
        _add_tables(plan, located_questions, questions, tables)
    elif tables is not None:
        raise BadInput(f"{plan.task} questions need no tables: remove --tables", file=questions)
    if plan.family == "search":
        _add_knowledge_base(plan, located_questions, graph)
    return plan


def _plan_published_questions(
    name: str, reader: str, published: Path, split: str | None, *, has_graph: bool
) -> BenchmarkPlan:
    """Plan to copy the published files of a dataset; an unknown reader's error lists all.

    Without a graph, questions of a dataset with passages that need a graph are scored as retrieval.
    """
    info = find_dataset(reader)
    if info.task is None:
        raise BadInput(f"{info.title} has no questions: use another --reader, or --corpus or --graph for its files")
    if not published.is_dir():
        raise BadInput("with --reader, --questions is the folder of the published files", file=published)
    reject_outside_links(published)
    split = split or info.find_public_split(published)
    questions = list(read_questions(reader, published, split))
    needs_graph = FAMILY_OF_TASK[info.task] in ("graph", "search")
    task = "retrieval" if reader in PASSAGES and needs_graph and not has_graph else info.task
    plan = BenchmarkPlan(name, task, split, reader)
    _count_questions(plan, questions)
    if note := info.count_note(split, len(questions)):
        plan.notes.append(note)
    for file in sorted(path for path in published.rglob("*") if path.is_file()):
        plan.files[f"published/{file.relative_to(published).as_posix()}"] = file
    return plan


def _check_new_name(name: str) -> None:
    """Raise BadInput if the name is invalid, or belongs to what `evidence add benchmark` did not add."""
    check_name(name, "benchmark")
    own_folder = find_lake() / DECLARATIONS_FOLDER / "benchmarks" / name
    kinds = ("Benchmark", "Corpus", "Graph", "KnowledgeBase")
    for other in (declaration for kind in kinds for declaration in declarations_of(kind)):
        if other.attributes.get("name") == name and other.file.parent != own_folder:
            message = f"a benchmark, corpus or graph {name!r} exists already: choose another name, or delete this file"
            raise BadInput(message, file=other.file)


def _read_questions(file: Path, name: str, notes: list[str]) -> list[LocatedQuestion]:
    """Every question with its row; all must belong to one task family. Earlier names of fields are noted."""
    questions = list(user_benchmark.read_located_questions(file, name, notes.append))
    first = questions[0][1].task
    for row, question in questions:
        if FAMILY_OF_TASK[question.task] != FAMILY_OF_TASK[first]:
            message = f"is {question.task}, but earlier questions are {first}: split them into two benchmarks"
            raise row.error(message, "task")
    return questions


def _select_split(questions: list[QuestionRecord], file: Path, split: str | None) -> str:
    counts = Counter(question.split for question in questions)
    names = ", ".join(f"{name} ({n})" for name, n in sorted(counts.items()))
    if split is None and "test" not in counts and len(counts) > 1:
        raise BadInput(f"there are several splits, {names}: choose one with --split", file=file, field="split")
    split = split or ("test" if "test" in counts else next(iter(counts)))
    if split not in counts:
        raise BadInput(f"there is no split {split!r}: choose one of {names}", file=file, field="split")
    return split


def _count_questions(plan: BenchmarkPlan, questions: list[QuestionRecord]) -> None:
    """Count the questions of the plan's split; note how many others there are, and how many cannot be graded."""
    graded = [question.is_graded for question in questions if question.split == plan.split]
    plan.counts["questions"] = len(graded)
    if others := len(questions) - len(graded):
        plan.notes.append(f"{others:,} more questions are of other splits: they are stored, but not answered")
    if ungraded := graded.count(False):
        plan.notes.append(
            f"{ungraded:,} of {len(graded):,} questions have no gold answer: they are answered, but not graded"
        )


def _add_sources(plan: BenchmarkPlan, corpus: str | None, graph: Path | None) -> None:
    """Plan to copy the documents and the graph; raises BadInput if the questions need one that is not given."""
    if corpus is not None:
        _add_corpus(plan, corpus)
    elif plan.family == "mcqa" and graph is None and not plan.corpus:
        raise BadInput(
            "multiple-choice questions need documents or a graph: add --corpus with a folder or the name of a corpus, "
            "or --graph with a file of triples"
        )
    if plan.family == "search":
        if "nodes" not in plan.counts:
            raise BadInput(f"{plan.reader} needs its knowledge base: declare both in YAML, see docs/own-data.md")
    elif graph is not None:
        plan.counts["triples"] = sum(1 for _ in read_tab_separated(graph))
        if not plan.counts["triples"]:
            raise BadInput("has no triples: add at least one line", file=graph)
        plan.files["graph.tsv"] = graph
    elif plan.family == "graph":
        raise BadInput(
            f"{plan.task} questions have short answers, which need a graph: add --graph with a file of triples. "
            "Questions about documents need options"
        )


def _add_knowledge_base(plan: BenchmarkPlan, located_questions: list[LocatedQuestion], folder: Path | None) -> None:
    """Plan to copy the files of a knowledge base; raises BadInput if it lacks a gold answer of the questions."""
    if folder is None or not folder.is_dir():
        files = " and ".join(BASE_FILES)
        raise BadInput(f"skb_search questions need a knowledge base: give --graph a folder with {files}", file=folder)
    reject_outside_links(folder)
    node_ids = dict.fromkeys(read_knowledge_base(folder).nodes["node_id"])
    example = f"a node_id of {folder / BASE_FILES[0]}, such as {next(iter(node_ids))!r}"
    errors = [
        row.error(f"{answer!r} is not {example}", "gold")
        for row, question in located_questions
        for answer in question.gold
        if answer not in node_ids
    ]
    raise_errors(errors)
    plan.counts["nodes"] = len(node_ids)
    plan.files |= {f"{BASE_FOLDER}/{name}": folder / name for name in BASE_FILES}
    if profiles.load().generator.backend == "extractive":
        plan.notes.append(
            f"fourstepfocus needs a language model; without one: `evidence run {plan.name} --variants vector_search`"
        )


def _add_corpus(plan: BenchmarkPlan, corpus: str) -> None:
    plan.corpus = corpus
    folder = Path(corpus)
    declared = [c for c in declarations_of("Corpus") if profiles.load().is_any_of(c.attributes.get("profiles") or ())]
    names = sorted({str(c.attributes.get("name")) for c in declared})
    if corpus not in names:
        if "/" not in corpus and not folder.is_dir():
            raise BadInput(
                f"{corpus!r} is neither a folder nor a corpus of this lake; there are: {', '.join(names)}. "
                "Add one with `evidence add corpus NAME FOLDER`, or give --corpus a folder"
            )
        reject_outside_links(folder)
        plan.corpus = plan.name
        plan.counts["documents"] = sum(1 for _ in read_documents(folder))
        plan.files |= {f"corpus/{path.relative_to(folder).as_posix()}": path for path in corpus_files(folder)}


def _add_tables(
    plan: BenchmarkPlan, located_questions: list[LocatedQuestion], questions: Path, path: Path | None
) -> None:
    if path is None:
        raise BadInput("questions about tables need tables: add --tables with a file or folder", file=questions)
    if path.is_dir() or path.suffix.lower() in TABLE_FILES:
        tables = _read_table_files(path, plan.name)
        records = ({name: getattr(table, name) for name in user_benchmark.TABLE_FIELDS} for table in tables)
        plan.files["tables.jsonl"] = "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)
    else:
        tables = list(user_benchmark.read_tables(path, plan.name))
        plan.files["tables.jsonl"] = path
    ids = dict.fromkeys(table.table_id for table in tables)
    errors = []
    for row, question in located_questions:
        if question.table_id not in ids:
            problem = "name a table" if question.table_id is None else f"there is no table {question.table_id!r}"
            example = closest_name(question.table_id or "", ids) or next(iter(ids), "")
            errors.append(row.error(f"{problem} in {path}, such as {example!r}", "table_id"))
    raise_errors(errors)
    plan.counts["tables"] = len(tables)


def _read_table_files(path: Path, name: str) -> list[Table]:
    if path.is_dir():
        reject_outside_links(path)
    files = sorted(p for p in path.iterdir() if p.suffix.lower() in TABLE_FILES) if path.is_dir() else [path]
    if not files:
        raise BadInput(f"has no tables: put {', '.join(TABLE_FILES)} files there", file=path)
    return [user_benchmark.read_table_file(file, name) for file in files]


def write_benchmark(plan: BenchmarkPlan, lake: Lake) -> None:
    """Copy the files to the lake and declare the benchmark, or replace one that was added before.

    Writes the YAML last: after a kill, a retry reuses the copied files.
    """
    declaration = lake.folder(f"{DECLARATIONS_FOLDER}/benchmarks") / plan.name
    raw = lake.raw_path(plan.folder)
    with replacing_folder(raw) as temporary:
        copy_files(plan.files, temporary)
        if not declaration.exists() and file_hashes(raw) not in ({}, file_hashes(temporary)):
            raise BadInput("exists already with other files: move it away, or choose another name", file=raw)
    write_declarations(declaration, *plan.components())
