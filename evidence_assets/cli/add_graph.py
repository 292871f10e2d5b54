"""Adds a file of triples as a graph: validates it, copies it below ``raw``, declares and builds it, or updates it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from evidence_assets.benchmarks.declared_benchmarks import (
    PACKAGE_DEFS,
    check_name,
    declarations_of,
    user_folders,
    write_declarations,
)
from evidence_assets.benchmarks.graphs.formats import read_tab_separated
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.cli.add_corpus import source_name
from evidence_assets.experiment.ad_hoc_questions import list_graphs
from evidence_assets.experiment.graph_building import GraphBuilder, build_graph
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

    Changes nothing until the file is read; builds nothing if it is unchanged. Raises BadInput if the file is
    unreadable or empty, or the name belongs to a graph with other files.
    """
    check_name(name, "graph")
    n_triples = sum(1 for _ in read_tab_separated(file))
    if not n_triples:
        raise BadInput("has no triples: add at least one line of head, relation and tail", file=file)
    path = f"graphs/{name}/graph.tsv"
    attributes = {"name": name, "files": [{"format": "tab_separated", "paths": [path], "licence": LICENCE}]}
    is_declared = _is_declared(lake, attributes)
    raw = lake.raw_path(path)
    is_changed = not raw.exists() or file_id(raw) != file_id(file)
    if is_changed:
        with replacing_folder(raw.parent) as temporary:
            shutil.copyfile(file, temporary / raw.name)
    if not is_declared:
        declaration = lake.root / DECLARATIONS_FOLDER / "graphs" / name
        write_declarations(declaration, ("graph.Graph", attributes), ("graph.GraphPassages", {"graph": name}))
    if is_changed or name not in list_graphs(lake):
        build_graph(lake, GraphBuilder(name, [GraphSource.model_validate(attributes["files"][0])]), inform)
    return n_triples


def _is_declared(lake: Lake, attributes: Mapping[str, object]) -> bool:
    """Whether the graph is declared; raises BadInput if the name belongs to another one."""
    name = attributes["name"]
    places = (PACKAGE_DEFS, *user_folders(lake.root))
    declared = [
        declared
        for kind in ("Graph", "KnowledgeBase")
        for place in places
        for declared in declarations_of(kind, place)
        if declared.attributes.get("name") == name
    ]
    for other in declared:
        if other.attributes.get("files") != attributes["files"]:
            raise BadInput(f"a graph {name!r} of other files exists already: choose another name", file=other.file)
    return bool(declared)
