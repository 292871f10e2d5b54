"""A user's own benchmark, added by one command: everything is read before anything is written, then all or nothing.

Belongs here: what is checked across files, where they go, and the YAML that declares them. How a file is read belongs
to the readers.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from evidence_assets.assets.benchmark import Benchmark
from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.graph import Graph, GraphPassages
from evidence_assets.assets.knowledge_base import KnowledgeBase
from evidence_assets.benchmarks import own
from evidence_assets.benchmarks.corpora import corpus_files, read_documents
from evidence_assets.benchmarks.declarations import DECLARED, declarations, instances
from evidence_assets.benchmarks.declared import FAMILY_OF_TASK, Family, benchmarks, declared
from evidence_assets.benchmarks.graphs.formats import tab_separated
from evidence_assets.benchmarks.knowledge_bases import knowledge_bases, read_knowledge_base
from evidence_assets.benchmarks.reading_json import jsonl
from evidence_assets.benchmarks.records import Question, Table
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.fetching import removed
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.input_files import refuse_links_out
from evidence_assets.lake.store import Lake

NAME = re.compile(r"[a-z0-9][a-z0-9_]*")
TABLE_FILES = (".csv", ".tsv", ".parquet")
BASE_FILES = ("nodes.jsonl", "edges.tsv")
INSTANCES = ("Corpus", "Graph", "KnowledgeBase")


@dataclass
class Plan:
    """What will be written: files to copy by their place in the benchmark's raw folder, and what they hold."""

    name: str
    family: Family
    task: str
    split: str
    corpus: str = ""
    copies: dict[str, Path] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """Files written anew, such as tables that were converted."""
    counts: dict[str, int] = field(default_factory=dict)
    own_corpus: bool = False
    graph: str = ""
    """``triples`` or ``base``, where it brings a graph or a knowledge base."""

    @property
    def folder(self) -> str:
        """Place below the lake's ``raw``."""
        return f"benchmarks/{self.name}"

    def copy(self, name: str, source: Path) -> None:
        """Have ``source`` copied as ``name``; a packed file keeps its ``.gz``, by which the readers know it."""
        self.copies[f"{name}.gz" if source.suffix == ".gz" else name] = source

    def place(self, name: str) -> str:
        """Where the file ``name`` will lie below the lake's ``raw``, packed or not."""
        return f"{self.folder}/{name}.gz" if f"{name}.gz" in self.copies else f"{self.folder}/{name}"

    def yaml(self) -> str:
        """The declaration: the benchmark and, where it brings them, its corpus and its graph."""
        attributes: dict[str, Any] = {"name": self.name, "task": self.task, "path": self.place("questions.jsonl")}
        if "tables" in self.counts:
            attributes["tables"] = self.place("tables.jsonl")
        if self.split != "test":
            attributes["split"] = self.split
        if self.corpus:
            attributes["corpus"] = self.corpus
        if self.graph:
            attributes["graph"] = self.name
        documents = [_document(Benchmark, attributes)]
        if self.own_corpus:
            documents.append(_document(Corpus, {"name": self.name, "folder": f"{self.folder}/corpus"}))
        if self.graph == "triples":
            files = [{"format": "tab_separated", "paths": [self.place("graph.tsv")], "licence": "the user's own"}]
            documents.append(_document(Graph, {"name": self.name, "files": files}))
            documents.append(_document(GraphPassages, {"graph": self.name}))
        if self.graph == "base":
            documents.append(_document(KnowledgeBase, {"name": self.name, "folder": f"{self.folder}/graph"}))
        return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)


def _document(component: type, attributes: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"{component.__module__}.{component.__name__}", "attributes": attributes}


def plan(
    name: str,
    questions: Path,
    *,
    corpus: str | None = None,
    tables: Path | None = None,
    graph: Path | None = None,
    split: str | None = None,
    folder: Path | None = None,
) -> Plan:
    """Read everything and decide what will be written; nothing is.

    ``corpus``: A folder of documents, or the name of a corpus that is declared already.
    ``graph``: A file of triples; for ``skb_search`` a folder with ``nodes.jsonl`` and ``edges.tsv``.
    ``tables``: A file in the format of ``benchmarks.own``, one table, or a folder of tables; a table is named by its
        file.
    ``split``: The split to answer; where none is named, ``test`` or the only one there is.

    Raises BadInput with file, line and field of the first thing that is wrong.
    """
    if not NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name for a benchmark: use small letters, digits and '_'")
    taken = {str(c.attributes.get("name")) for kind in INSTANCES for c in instances(kind)} | set(declared(folder))
    if name in taken:
        raise BadInput(
            f"there is a benchmark, corpus or graph {name!r} already: choose another name, or delete its YAML first"
        )
    asked = _read_questions(questions, name)
    family = FAMILY_OF_TASK[asked[0][1].task]
    made = Plan(name, family, asked[0][1].task, _split(asked, questions, split))
    made.copy("questions.jsonl", questions)
    made.counts["questions"] = sum(q.split == made.split for _, q in asked)
    if family == "table":
        _add_tables(made, asked, questions, tables)
    elif tables is not None:
        raise BadInput(f"its questions are {made.task}; tables are for verification and table_qa", file=questions)
    if corpus is not None:
        _add_corpus(made, corpus)
    elif family == "mcqa" and graph is None:
        raise BadInput(
            "multiple-choice questions are answered from documents or a graph: name a folder of documents by --corpus, or "
            "a file of triples by --graph"
        )
    if graph is not None:
        _add_graph(made, asked, questions, graph)
    elif family in ("graph", "search"):
        raise BadInput(f"{made.task} questions are answered from a graph: name it by --graph")
    return made


def _read_questions(file: Path, name: str) -> list[tuple[int, Question]]:
    """Every question with the line that it stands on; all of one task family."""
    found = list(zip((row.line or 0 for row in jsonl(file)), own.read_questions(file, name), strict=True))
    first = FAMILY_OF_TASK[found[0][1].task]
    for line, question in found:
        if FAMILY_OF_TASK[question.task] != first:
            raise BadInput(
                f"is {question.task}, the questions before are {found[0][1].task}: make a benchmark of each",
                file=file,
                line=line,
                field="task",
            )
    return found


def _split(asked: list[tuple[int, Question]], file: Path, wanted: str | None) -> str:
    counts = Counter(question.split for _, question in asked)
    names = ", ".join(f"{name} ({n})" for name, n in sorted(counts.items()))
    if wanted is not None:
        if wanted not in counts:
            raise BadInput(f"there is no split {wanted!r}; there are {names}", file=file, field="split")
        return wanted
    if "test" in counts:
        return "test"
    if len(counts) > 1:
        raise BadInput(f"there are several splits, {names}: choose one by --split", file=file, field="split")
    return next(iter(counts))


def _add_corpus(made: Plan, corpus: str) -> None:
    if corpus in {str(c.attributes.get("name")) for c in instances("Corpus")}:
        made.corpus = corpus
        return
    folder = Path(corpus)
    refuse_links_out(folder)
    made.counts["documents"] = sum(1 for _ in read_documents(folder))
    made.copies |= {f"corpus/{path.relative_to(folder).as_posix()}": path for path in corpus_files(folder)}
    made.corpus, made.own_corpus = made.name, True


def _add_graph(made: Plan, asked: list[tuple[int, Question]], questions: Path, place: Path) -> None:
    if made.family == "search":
        if not place.is_dir():
            raise BadInput(
                f"skb_search questions are answered from nodes with documents: name a folder with {', '.join(BASE_FILES)}",
                file=place,
            )
        refuse_links_out(place)
        base = read_knowledge_base(place, frozenset())
        known = set(base.nodes["node_id"])
        for line, question in asked:
            for gold in question.gold:
                if gold not in known:
                    raise BadInput(
                        f"{gold!r} is no node of {place / BASE_FILES[0]}", file=questions, line=line, field="gold"
                    )
        made.counts["nodes"] = base.nodes.height
        made.copies |= {f"graph/{name}": place / name for name in BASE_FILES}
        made.graph = "base"
        return
    made.counts["triples"] = sum(1 for _ in tab_separated(place))
    if not made.counts["triples"]:
        raise BadInput("holds no triple", file=place)
    made.copy("graph.tsv", place)
    made.graph = "triples"


def _add_tables(made: Plan, asked: list[tuple[int, Question]], questions: Path, place: Path | None) -> None:
    if place is None:
        raise BadInput("claims and questions about tables need them: name a file or folder by --tables", file=questions)
    if place.is_dir() or place.suffix.lower() in TABLE_FILES:
        tables = list(_own_files(place, made.name))
        shown = ("table_id", "caption", "header", "rows")
        lines = (json.dumps({name: getattr(t, name) for name in shown}, ensure_ascii=False) for t in tables)
        made.texts["tables.jsonl"] = "".join(f"{line}\n" for line in lines)
    else:
        tables = list(own.read_tables(place, made.name))
        made.copy("tables.jsonl", place)
    known = {table.table_id for table in tables}
    for line, question in asked:
        if question.table_id not in known:
            what = "names no table" if question.table_id is None else f"there is no table {question.table_id!r}"
            raise BadInput(f"{what} in {place}", file=questions, line=line, field="table_id")
    made.counts["tables"] = len(tables)


def _own_files(place: Path, name: str) -> Iterable[Table]:
    if place.is_dir():
        refuse_links_out(place)
    files = sorted(p for p in place.iterdir() if p.suffix.lower() in TABLE_FILES) if place.is_dir() else [place]
    if not files:
        raise BadInput(f"holds no table; put {', '.join(TABLE_FILES)} files there", file=place)
    return (own.read_table_file(file, name) for file in files)


def write(made: Plan, lake: Lake, check: Callable[[], Any] = lambda: None, folder: Path | None = None) -> list[Path]:
    """Copy the files into the lake, write the YAML below its declarations, and ``check`` that what was declared loads; all of it or nothing.

    The YAML comes last and in one piece: a process killed before leaves files that a second try takes over.
    """
    raw, declaration = lake.raw_place(made.folder), (folder or lake.folder(f"{DECLARED}/benchmarks")) / made.name
    if declaration.exists():
        raise BadInput("is there already: choose another name, or delete it first", file=declaration)
    before = _contents(raw)
    if before and before != _planned(made):
        raise BadInput("is there already and holds other files: move it away, or choose another name", file=raw)
    with _undone_on_error([declaration, *([] if before else [raw])]):
        with replacing_folder(raw) as temporary:
            for name, source in made.copies.items():
                (temporary / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, temporary / name)
            for name, text in made.texts.items():
                (temporary / name).write_text(text, encoding="utf-8")
        with replacing_folder(declaration) as temporary:
            (temporary / "defs.yaml").write_text(made.yaml(), encoding="utf-8")
        forget()
        check()
    return sorted(path for place in (raw, declaration) for path in place.rglob("*") if path.is_file())


def forget() -> None:
    """Read the declarations anew when they are next asked for."""
    declarations.cache_clear()
    benchmarks.cache_clear()
    knowledge_bases.cache_clear()


@contextmanager
def _undone_on_error(places: list[Path]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for place in places:
            removed(place)
        forget()
        raise
    finally:
        for place in places:
            (place.parent / f".{place.name}.lock").unlink(missing_ok=True)


def _contents(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    return {path.relative_to(folder).as_posix(): file_id(path) for path in files}


def _planned(made: Plan) -> dict[str, str]:
    texts = {n: hashlib.blake2b(t.encode(), digest_size=16).hexdigest() for n, t in made.texts.items()}
    return dict(sorted(({name: file_id(path) for name, path in made.copies.items()} | texts).items()))
