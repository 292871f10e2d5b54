"""Small graphs as the lake would hold them, with a stand-in for the encoder."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import NamedTuple

import polars as pl

from evidence_assets.benchmarks.graphs import rows as graph_rows
from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.benchmarks.graphs.rows import GraphSource
from evidence_assets.graphs.graph_store import encode_texts
from evidence_assets.graphs.knowledge_graph import GraphVectors, KnowledgeGraph, build_structure
from evidence_assets.graphs.merge import merge_edges, merge_nodes
from evidence_assets.graphs.passage_files import PassageFiles, write_passage_files
from evidence_assets.graphs.passages import Passage, fact_passages, passage_table
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.rows import Rows, prepare_rows, version_of
from evidence_assets.lake.sorted_rows import store_sorted
from evidence_assets.models.protocols import Encoder, FloatArray
from evidence_assets.retrieval.embedding import Encode
from evidence_assets.retrieval.vector_index import VectorIndex
from evidence_assets_tests.lake_rows import as_stored, graph_edge, node
from evidence_assets_tests.retrieval.written import build_index
from evidence_assets_tests.systems.small_models import WordEncoder

TRIPLES = [
    ("metformin", "may_treat", "diabetes"),
    ("metformin", "belongs_to_the_drug_family_of", "biguanide"),
    ("excessive thirst", "is_associated_with", "diabetes"),
    ("Excessive Thirst", "is_associated_with", "diabetes"),
    ("excessive thirst", "see_also", "dehydration"),
    ("aspirin", "may_treat", "fever"),
    ("aspirin", "may_contraindicate", "fever"),
    ("cell", "see_also", "cell"),
    ("pen", "UsedFor", "writing"),
]
_FOLDER = TemporaryDirectory()
Passages = Callable[[KnowledgeGraph, Encoder], Iterable[Passage]]


def graph_of_rows(name: str, nodes: Rows, edges: Rows) -> KnowledgeGraph:
    """The graph that rows of ``kg_nodes`` and ``kg_edges`` stand for, whatever their order."""
    tables = [prepare_rows("kg_nodes", nodes), prepare_rows("kg_edges", edges)]
    node_rows, edge_rows = (pl.DataFrame(table) for table in tables)
    version = content_id(*map(version_of, tables))
    return KnowledgeGraph(
        name,
        version,
        lambda: build_structure(node_rows["node_id"], [edge_rows]),
        node_rows.get_column,
        edge_rows.get_column,
    )


def read_triples(sources: Iterable[GraphSource], raw: Path) -> pl.DataFrame:
    """Rows of ``triples`` of some sources."""
    with TemporaryDirectory() as folder:
        frames = (frame for source in sources for frame in graph_rows.triple_frames(source, raw, load_vocabulary()))
        blocks = graph_rows.sort_triples(frames, Path(folder))
        return pl.DataFrame(store_sorted("triples", blocks, Path(folder)).rows)


def write_triples(raw: Path, triples: list[tuple[str, str, str]] = TRIPLES, name: str = "graph.tsv") -> GraphSource:
    """A tab-separated file of triples."""
    raw.mkdir(parents=True, exist_ok=True)
    (raw / name).write_text("".join("\t".join(triple) + "\n" for triple in triples), encoding="utf-8")
    return GraphSource(format="tab_separated", paths=(name,), licence="CC0-1.0")


def with_vectors(
    graph: KnowledgeGraph, model: Encoder | None = None, passages: Passages = lambda graph, _: fact_passages(graph)
) -> KnowledgeGraph:
    """The graph with vectors of its names and passages, made when they are asked for."""
    encoder = model or WordEncoder()

    def rows() -> pl.DataFrame:
        table, _ = passage_table(passages(graph, encoder), as_stored("kg_passages", []), encoder, "words@1")
        return as_stored("kg_passages", table)

    return replace(graph, stored_vectors=vectors_of(graph, partial(encode_texts, encoder), rows))


def vectors_of(graph: KnowledgeGraph, encode: Encode, rows: Callable[[], pl.DataFrame]) -> GraphVectors:
    """Vectors by ``encode`` of the graph's names, and its passages as these rows, in files where they are opened."""

    def forms() -> FloatArray:
        return encode(graph.forms.texts.to_list())

    def names() -> VectorIndex:
        build_index(folder / "names", forms(), built_from="", model_id="")
        return VectorIndex(folder / "names", expected="")

    def passages() -> PassageFiles:
        (folder / "passages").mkdir()
        batches, width = rows().to_arrow().to_batches(), encode(["a"]).shape[1]
        write_passage_files(
            folder / "passages", graph.node_ids, batches, width, built_from="", model_id="", memory=10**9
        )
        return PassageFiles(folder / "passages", VectorIndex(folder / "passages", expected=""))

    folder = Path(mkdtemp(dir=_FOLDER.name))
    return GraphVectors(encode, cache(forms), cache(names), lambda: [rows()], cache(passages), folder)


def graph_of(
    names: Sequence[str],
    relations: Sequence[str],
    edges: Sequence[tuple[int, int, int]],
    *,
    types: Sequence[str | None] | None = None,
    aliases: Sequence[Sequence[str]] | None = None,
    documents: Sequence[str] | None = None,
) -> KnowledgeGraph:
    """A graph of named nodes and of edges (head, relation, tail) by number, which their ids keep."""
    node_id, edge_id = (
        f"{kind}{{:0{len(str(max(len(of) - 1, 0)))}}}".format for kind, of in (("n", names), ("e", edges))
    )
    nodes = [node(node_id(i), name) for i, name in enumerate(names)]
    for column, values in (("type", types), ("aliases", aliases), ("document", documents)):
        for row, value in zip(nodes, values or [], strict=values is not None):
            row[column] = value
    ends = ((node_id(head), relations[kind], node_id(tail)) for head, kind, tail in edges)
    return graph_of_rows("small", nodes, [graph_edge(edge_id(i), *each) for i, each in enumerate(ends)])


class MergedGraph(NamedTuple):
    """Rows of ``kg_nodes`` and of ``kg_edges``, sorted by their ids."""

    nodes: pl.DataFrame
    edges: pl.DataFrame


def merge_triples(
    triples: pl.DataFrame,
    synonyms: pl.DataFrame | None = None,
    rows_per_block: int = 1 << 20,
    labels: pl.DataFrame | None = None,
) -> MergedGraph:
    """Merge triples into nodes and edges, reading them in blocks."""
    pairs = pl.DataFrame(schema={"name": pl.String, "alias": pl.String}) if synonyms is None else synonyms
    with TemporaryDirectory() as name:
        folder = Path(name)
        nodes = merge_nodes(triples.iter_slices(rows_per_block), pairs, folder, labels)
        node_rows = pl.DataFrame(store_sorted("kg_nodes", nodes, folder).rows)
        edges = merge_edges(triples.iter_slices(rows_per_block), pairs, folder)
        return MergedGraph(node_rows, pl.DataFrame(store_sorted("kg_edges", edges, folder).rows))


def merged(folder: Path, triples: list[tuple[str, str, str]] = TRIPLES) -> MergedGraph:
    """Nodes and edges of some triples in a file."""
    return merge_source(write_triples(folder / "raw", triples), folder / "raw")


def merge_source(source: GraphSource, raw: Path) -> MergedGraph:
    """Nodes and edges of a source, as the component ``Graph`` makes them."""
    triples = read_triples([source], raw)
    synonyms = graph_rows.read_synonyms([source], raw)
    return merge_triples(triples, synonyms, labels=graph_rows.read_node_labels([source], raw))


def small_graph(folder: Path, triples: list[tuple[str, str, str]] = TRIPLES) -> KnowledgeGraph:
    """The graph of some triples, with vectors."""
    return with_vectors(graph_of_rows("small", *merged(folder, triples)))
