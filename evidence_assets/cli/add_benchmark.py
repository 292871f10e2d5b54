"""Adds a user's benchmark: validates everything first, then writes all files or none."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evidence_assets import profiles
from evidence_assets.benchmarks import user_benchmark
from evidence_assets.benchmarks.corpora import corpus_files, read_documents
from evidence_assets.benchmarks.dataset_info import DatasetInfo, find_dataset
from evidence_assets.benchmarks.declared_benchmarks import (
    FAMILY_OF_TASK,
    Family,
    benchmarks,
    declarations,
    declarations_of,
    write_declarations,
)
from evidence_assets.benchmarks.graphs.formats import read_tab_separated
from evidence_assets.benchmarks.json_streams import jsonl_rows
from evidence_assets.benchmarks.knowledge_bases import knowledge_bases, read_knowledge_base
from evidence_assets.benchmarks.readers import PASSAGES, read_passages, read_questions
from evidence_assets.benchmarks.records import QuestionRecord, Table
from evidence_assets.cli.add_corpus import check_name, file_hashes
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import DECLARATIONS_FOLDER, find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import reject_outside_links
from evidence_assets.lake.store import Lake
from evidence_assets.text.spelling import closest_name

TABLE_FILES = (".csv", ".tsv", ".parquet")
BASE_FILES = ("nodes.jsonl", "edges.tsv")
NumberedQuestion = tuple[int, QuestionRecord]
"""A question with its line in the file."""


@dataclass
class BenchmarkPlan:
    """What will be written: files by their path in the benchmark's raw folder, and their counts."""

    name: str
    family: Family
    task: str
    split: str
    corpus: str = ""
    graph: str = ""
    """``triples`` or ``base`` if it includes a graph or a knowledge base."""
    reader: str = "own"
    """Dataset whose published files are copied; ``own`` for questions in the format of ``user_benchmark``."""
    notes: list[str] = field(default_factory=list)
    """What to know about the questions, such as a number that differs from the official one."""
    copies: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """New files to write, such as converted tables."""
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Path below the lake's ``raw``."""
        return f"benchmarks/{self.name}"

    def add_copy(self, name: str, source: Path) -> None:
        """Plan to copy ``source`` as ``name``; a compressed file keeps its suffix ``.gz``."""
        self.copies[f"{name}.gz" if source.suffix == ".gz" else name] = source

    def target(self, name: str) -> str:
        """Path of ``name`` below the lake's ``raw``, with ``.gz`` if compressed."""
        return f"{self.folder}/{name}.gz" if f"{name}.gz" in self.copies else f"{self.folder}/{name}"

    def components(self) -> list[tuple[str, dict[str, Any]]]:
        """The components to declare: the benchmark, and its corpus and graph if included."""
        published = f"{self.folder}/published"
        benchmark = {"name": self.name, "task": self.task, "path": self.target("questions.jsonl")}
        if self.reader != "own":
            benchmark |= {"reader": self.reader, "path": published}
        if "tables" in self.counts:
            benchmark["tables"] = self.target("tables.jsonl")
        if self.split != "test":
            benchmark["split"] = self.split
        benchmark |= {"corpus": self.corpus} if self.corpus else {}
        benchmark |= {"graph": self.name} if self.graph else {}
        components: list[tuple[str, dict[str, Any]]] = [("benchmark.Benchmark", benchmark)]
        if "documents" in self.counts:
            corpus = {"name": self.name, "folder": f"{self.folder}/corpus"}
            if not any(file.startswith("corpus/") for file in self.copies):  # the passages of the dataset
                corpus |= {"folder": published, "documents": self.reader, "split": self.split}
            components.append(("corpus.Corpus", corpus))
        if self.graph == "triples":
            files = [{"format": "tab_separated", "paths": [self.target("graph.tsv")], "licence": "the user's own"}]
            components.append(("graph.Graph", {"name": self.name, "files": files}))
            components.append(("graph.GraphPassages", {"graph": self.name}))
        if self.graph == "base":
            components.append(("knowledge_base.KnowledgeBase", {"name": self.name, "folder": f"{self.folder}/graph"}))
        return components


def plan_benchmark(
    name: str,
    questions: Path,
    *,
    corpus: str | None = None,
    tables: Path | None = None,
    graph: Path | None = None,
    split: str | None = None,
) -> BenchmarkPlan:
    """Read and validate all inputs and plan what to write, without writing.

    ``graph`` is a file of triples, or for ``skb_search`` a folder with ``nodes.jsonl`` and ``edges.tsv``. ``tables``
    is a file in the format of ``benchmarks.user_benchmark``, one table file, or a folder of table files, whose names
    are the table ids. Raises BadInput with file, line and field of the first error.
    """
    check_new_name(name)
    numbered_questions = _read_questions(questions, name)
    task = numbered_questions[0][1].task
    plan = BenchmarkPlan(name, FAMILY_OF_TASK[task], task, _select_split(numbered_questions, questions, split))
    plan.add_copy("questions.jsonl", questions)
    add_question_counts(plan, [question for _, question in numbered_questions])
    if plan.family == "table":
        _add_tables(plan, numbered_questions, questions, tables)
    elif tables is not None:
        raise BadInput(
            f"its questions are of task {task}, but --tables is only for verification and table_qa: remove --tables",
            file=questions,
        )
    add_sources(plan, numbered_questions, questions, corpus, graph)
    return plan


def add_question_counts(plan: BenchmarkPlan, questions: list[QuestionRecord]) -> None:
    """Count the questions of the plan's split, and note how many of them cannot be graded."""
    graded = [question.is_graded for question in questions if question.split == plan.split]
    plan.counts["questions"] = len(graded)
    if ungraded := graded.count(False):
        plan.notes.append(
            f"{ungraded:,} of {len(graded):,} questions have no gold answer: they are answered, but not graded"
        )


def check_new_name(name: str) -> None:
    """Raise BadInput if the name is invalid, or belongs to what `evidence add benchmark` did not add."""
    check_name(name, "benchmark")
    own_folder = find_lake() / DECLARATIONS_FOLDER / "benchmarks" / name
    kinds = ("Benchmark", "Corpus", "Graph", "KnowledgeBase")
    for other in (declaration for kind in kinds for declaration in declarations_of(kind)):
        if other.attributes.get("name") == name and other.file.parent != own_folder:
            message = f"a benchmark, corpus or graph {name!r} exists already: choose another name, or delete this file"
            raise BadInput(message, file=other.file)


def add_sources(
    plan: BenchmarkPlan,
    numbered_questions: list[NumberedQuestion],
    questions: Path,
    corpus: str | None,
    graph: Path | None,
) -> None:
    """Plan to copy the documents and the graph; raises BadInput if the questions need one that is not given."""
    if corpus is not None:
        _add_corpus(plan, corpus)
    elif plan.family == "mcqa" and not plan.corpus and graph is None:
        raise BadInput(
            "multiple-choice questions need documents or a graph: add --corpus with a folder or the name of a corpus, "
            "or --graph with a file of triples"
        )
    if graph is not None and plan.family == "search":
        _add_base(plan, numbered_questions, questions, graph)
    elif graph is not None:
        _add_triples(plan, graph)
    elif plan.family in ("graph", "search"):
        raise BadInput(f"{plan.task} questions need a graph: add --graph")


def _read_questions(file: Path, name: str) -> list[NumberedQuestion]:
    """Every question with its line; all must belong to one task family."""
    lines = (row.line or 0 for row in jsonl_rows(file))
    numbered_questions = list(zip(lines, user_benchmark.read_questions(file, name), strict=True))
    first = numbered_questions[0][1].task
    for line, question in numbered_questions:
        if FAMILY_OF_TASK[question.task] != FAMILY_OF_TASK[first]:
            raise BadInput(
                f"is {question.task}, but earlier questions are {first}: split them into two benchmarks",
                file=file,
                line=line,
                field="task",
            )
    return numbered_questions


def _select_split(numbered_questions: list[NumberedQuestion], file: Path, split: str | None) -> str:
    counts = Counter(question.split for _, question in numbered_questions)
    names = ", ".join(f"{name} ({n})" for name, n in sorted(counts.items()))
    if split is None and "test" not in counts and len(counts) > 1:
        raise BadInput(f"there are several splits, {names}: choose one with --split", file=file, field="split")
    split = split or ("test" if "test" in counts else next(iter(counts)))
    if split not in counts:
        raise BadInput(f"there is no split {split!r}: choose one of {names}", file=file, field="split")
    return split


def _add_corpus(plan: BenchmarkPlan, corpus: str) -> None:
    plan.corpus, folder = corpus, Path(corpus)
    declared = [c for c in declarations_of("Corpus") if profiles.load().is_any_of(c.attributes.get("profiles") or ())]
    names = sorted({str(c.attributes.get("name")) for c in declared})
    if corpus not in names:
        if "/" not in corpus and not folder.is_dir():
            raise BadInput(
                f"{corpus!r} is neither a folder nor a corpus of this lake; there are: {', '.join(names)}. "
                "Add one with `evidence add corpus NAME FOLDER`, or give --corpus a folder"
            )
        reject_outside_links(folder)
        plan.corpus, plan.counts["documents"] = plan.name, sum(1 for _ in read_documents(folder))
        plan.copies |= {f"corpus/{path.relative_to(folder).as_posix()}": path for path in corpus_files(folder)}


def _add_base(plan: BenchmarkPlan, numbered_questions: list[NumberedQuestion], questions: Path, path: Path) -> None:
    if not path.is_dir():
        raise BadInput(
            f"skb_search questions need a knowledge base: give --graph a folder with {', '.join(BASE_FILES)}", file=path
        )
    reject_outside_links(path)
    nodes = set(read_knowledge_base(path).nodes["node_id"])
    for line, question in numbered_questions:
        for gold in set(question.gold) - nodes:
            raise BadInput(f"{gold!r} is not a node in {path / BASE_FILES[0]}", file=questions, line=line, field="gold")
    plan.counts["nodes"], plan.graph = len(nodes), "base"
    plan.copies |= {f"graph/{name}": path / name for name in BASE_FILES}


def _add_triples(plan: BenchmarkPlan, file: Path) -> None:
    plan.counts["triples"], plan.graph = sum(1 for _ in read_tab_separated(file)), "triples"
    if not plan.counts["triples"]:
        raise BadInput("has no triples: add at least one line", file=file)
    plan.add_copy("graph.tsv", file)


def _add_tables(
    plan: BenchmarkPlan, numbered_questions: list[NumberedQuestion], questions: Path, path: Path | None
) -> None:
    if path is None:
        raise BadInput("questions about tables need tables: add --tables with a file or folder", file=questions)
    if path.is_dir() or path.suffix.lower() in TABLE_FILES:
        tables = _read_table_files(path, plan.name)
        rows = ({name: getattr(table, name) for name in user_benchmark.TABLE_FIELDS} for table in tables)
        plan.texts["tables.jsonl"] = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    else:
        tables = list(user_benchmark.read_tables(path, plan.name))
        plan.add_copy("tables.jsonl", path)
    ids = dict.fromkeys(table.table_id for table in tables)
    for line, question in numbered_questions:
        if question.table_id not in ids:
            problem = "name a table" if question.table_id is None else f"there is no table {question.table_id!r}"
            nearest = closest_name(question.table_id or "", ids)
            raise BadInput(f"{problem} in {path}, such as {nearest!r}", file=questions, line=line, field="table_id")
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
        for name, source in plan.copies.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, temporary / name)
        for name, text in plan.texts.items():
            (temporary / name).write_text(text, encoding="utf-8")
        if not declaration.exists() and file_hashes(raw) not in ({}, file_hashes(temporary)):
            raise BadInput("exists already with other files: move it away, or choose another name", file=raw)
    write_declarations(declaration, *plan.components())
    clear_declaration_caches()


def clear_declaration_caches() -> None:
    """Clear the caches, so that the declarations are read again."""
    declarations.cache_clear()
    benchmarks.cache_clear()
    knowledge_bases.cache_clear()


# Plans to add a benchmark from the published files of a known dataset (``evidence add benchmark --reader``)


def plan_published_benchmark(
    name: str,
    reader: str,
    published: Path,
    *,
    corpus: str | None = None,
    graph: Path | None = None,
    split: str | None = None,
) -> BenchmarkPlan:
    """Read all questions of the published files in a folder and plan to copy it, without writing.

    A dataset with passages brings its own corpus, unless ``corpus`` names another; without a graph, questions that
    need one are then scored as retrieval. Raises BadInput with file, line and
    field of the first error; an unknown reader's error lists all.
    """
    check_new_name(name)
    info = find_dataset(reader)
    if info.task is None:
        raise BadInput(f"{info.title} has no questions: use another --reader, or --corpus or --graph for its files")
    if not published.is_dir():
        raise BadInput("with --reader, --questions is the folder of the published files", file=published)
    reject_outside_links(published)
    split = split or _find_split(info, published)
    questions: list[NumberedQuestion] = [(0, question) for question in read_questions(reader, published, split)]
    has_passages = reader in PASSAGES and corpus is None
    needs_graph = FAMILY_OF_TASK[info.task] in ("graph", "search")
    task = "retrieval" if has_passages and needs_graph and graph is None else info.task
    plan = BenchmarkPlan(name, FAMILY_OF_TASK[task], task, split, reader=reader)
    add_question_counts(plan, [question for _, question in questions])
    if note := info.count_note(split, len(questions)):
        plan.notes.append(note)
    if has_passages:
        plan.corpus, plan.counts["documents"] = name, sum(1 for _ in read_passages(reader, published, split))
    add_sources(plan, questions, published, None if has_passages else corpus, graph)
    for file in sorted(path for path in published.rglob("*") if path.is_file()):
        plan.copies[f"published/{file.relative_to(published).as_posix()}"] = file
    return plan


def _find_split(info: DatasetInfo, folder: Path) -> str:
    """The test split if its files are there and its answers public, else the first such split."""
    public = [split for split in dict.fromkeys(("test", "dev", *info.splits)) if split in set(info.splits)]
    public = [split for split in public if split not in info.hidden]
    for split in public:
        try:
            info.find_files(folder, split)
        except BadInput:
            continue
        return split
    info.find_files(folder, public[0])  # its error says which files are missing
    return public[0]
