"""Adds a file of triples as a graph: validates it, copies it below ``raw``, declares and builds it, or updates it."""

from __future__ import annotations

import shutil
from pathlib import Path

from evidence_assets.benchmarks.declared_benchmarks import (
    PACKAGE_DEFS,
    Declaration,
    check_name,
    declarations_of,
    user_folders,
    write_declarations,
)
from evidence_assets.benchmarks.graphs.formats import read_tab_separated
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.cli.add_corpus import source_name
from evidence_assets.experiment.graph_building import GraphBuilder, build_graph, is_built, is_started
from evidence_assets.experiment.stage import LogFunction, discard_message
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import DECLARATIONS_FOLDER
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import file_id
from evidence_assets.lake.store import Lake

LICENCE = "the user's own"


def graph_name(file: Path) -> str:
    """Graph name derived from a file's name."""
    return source_name(file, file.stem, "evidence add graph NAME FILE")


def add_graph(lake: Lake, name: str, file: Path, inform: LogFunction = discard_message) -> int:
    """Copy a file of triples to the lake, declare a new graph and build it; returns the number of its triples.

    Changes nothing until the file is read; builds nothing if all parts of the graph are those of this file. Raises
    BadInput if the file is unreadable or empty, or the name belongs to a graph with other files.
    """
    check_name(name, "graph")
    n_triples = sum(1 for _ in read_tab_separated(file))
    if not n_triples:
        raise BadInput("has no triples: add at least one line of head, relation and tail", file=file)
    declared = _find_declarations(lake, name)
    for other in declared:
        if other.attributes.get("files") != _source_attributes(name):
            raise BadInput(f"a graph {name!r} of other files exists already: choose another name", file=other.file)
    raw = lake.raw_path(_raw_name(name))
    with lake.lock(f"knowledge/{name}/parts"):
        if not raw.exists() or file_id(raw) != file_id(file):
            with replacing_folder(raw.parent) as temporary:
                shutil.copyfile(file, temporary / raw.name)
        if not declared:
            attributes = {"name": name, "files": _source_attributes(name)}
            declaration = lake.root / DECLARATIONS_FOLDER / "graphs" / name
            write_declarations(declaration, ("graph.Graph", attributes), ("graph.GraphPassages", {"graph": name}))
        _record_source(lake, name, file)
        if not is_built(lake, _builder(name)):
            build_graph(lake, _builder(name), inform)
    return n_triples


def _source_path(lake: Lake, name: str) -> Path:
    """A file of this machine that contains the path of the file that a graph was added from."""
    return lake.cache / "graph_sources" / name


def _record_source(lake: Lake, name: str, file: Path) -> None:
    """Store the path of the file that a graph was added from."""
    path = _source_path(lake, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(file.resolve()), encoding="utf-8")


def source_file(lake: Lake, name: str) -> Path | None:
    """The file that a graph was added from; None if this machine does not know it."""
    path = _source_path(lake, name)
    return Path(path.read_text(encoding="utf-8")) if path.exists() else None


def complete_graph(lake: Lake, name: str, inform: LogFunction) -> None:
    """Build a graph of `add_graph` again, if a killed process has built only a part of it on this machine."""
    is_added = any(each.attributes.get("files") == _source_attributes(name) for each in _find_declarations(lake, name))
    if is_added and is_started(lake, name) and lake.raw_path(_raw_name(name)).exists():
        with lake.lock(f"knowledge/{name}/parts"):
            if not is_built(lake, _builder(name)):
                build_graph(lake, _builder(name), inform)


def _raw_name(name: str) -> str:
    """The file of a graph below ``raw``."""
    return f"graphs/{name}/graph.tsv"


def _source_attributes(name: str) -> list[dict[str, object]]:
    """The declared files of a graph."""
    return [{"format": "tab_separated", "paths": [_raw_name(name)], "licence": LICENCE}]


def _builder(name: str) -> GraphBuilder:
    return GraphBuilder(name, [GraphSource.model_validate(source) for source in _source_attributes(name)])


def _find_declarations(lake: Lake, name: str) -> list[Declaration]:
    """The declarations of graphs and knowledge bases with this name."""
    places = (PACKAGE_DEFS, *user_folders(lake.root))
    return [
        declared
        for kind in ("Graph", "KnowledgeBase")
        for place in places
        for declared in declarations_of(kind, place)
        if declared.attributes.get("name") == name
    ]
