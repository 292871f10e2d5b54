"""Passages of the nodes and edges of a graph, and their vectors as rows of ``kg_passages``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice

import numpy as np
import polars as pl
import pyarrow as pa

from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.blocks import Blocks
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED
from evidence_assets.lake.rows import build_table
from evidence_assets.models.protocols import Encoder
from evidence_assets.retrieval.embedding import TEXTS_PER_BLOCK, VectorCache, fill_vectors, vector_column
from evidence_assets.text.chunking import split_chunks

VERSION = "1"
NODE_PASSAGES_VERSION = "7"
"""Bump when equal nodes get other passages."""
MAX_RELATIONS = 50
"""Maximum relations of a node in its passages; further ones of a hub are ignored."""
OwnerFilter = Callable[[str], bool]
"""Whether to build the passages of a node or an edge, by id."""


@dataclass(frozen=True)
class Passage:
    """A text for a node or an edge; ``char_start`` is −1 if it is not part of the node's document."""

    owner_kind: str
    owner_id: str
    ordinal: int
    char_start: int
    char_end: int
    text: str

    @property
    def passage_id(self) -> str:
        return content_id("passage", self.owner_kind, self.owner_id, self.char_start, self.char_end, self.text)


def fact_passages(graph: KnowledgeGraph, accepts: OwnerFilter = lambda owner_id: True) -> Iterator[Passage]:
    """Yield the name of each node and the sentence of each edge that ``accepts`` selects."""
    for node_id, name in zip(graph.node_ids, graph.names, strict=True):
        if accepts(node_id):
            yield Passage("node", node_id, 0, -1, -1, name)
    for number, edge_id in enumerate(graph.edge_ids):
        if accepts(edge_id):
            yield Passage("edge", edge_id, 0, -1, -1, graph.sentence(number))


def node_passages(
    graph: KnowledgeGraph, encoder: Encoder, accepts: OwnerFilter = lambda owner_id: True, *, tokens: int | None = None
) -> Iterator[Passage]:
    """Yield passages of each node's name, type and document, then of its relations as sentences.

    ``accepts``: Selects nodes.
    ``tokens``: Maximum tokens of a passage, at most the encoder's limit, which is the default.
    """
    limit = min(tokens or encoder.max_tokens, encoder.max_tokens)
    nodes = zip(graph.node_ids, graph.names, graph.node_types.tolist(), graph.documents, strict=True)
    for node, (node_id, name, kind, document) in enumerate(nodes):
        if not accepts(node_id):
            continue
        pieces = _split_document(f"{name} ({graph.type_names[kind]})", document, encoder, limit)
        relations = ". ".join(graph.sentence(edge) for edge in graph.first_edges(node, MAX_RELATIONS))
        pieces += [(-1, -1, relations[c.start : c.end]) for c in split_chunks(relations, encoder.count_tokens, limit)]
        for ordinal, piece in enumerate(pieces):
            yield Passage("node", node_id, ordinal, *piece)


def _split_document(title: str, document: str, encoder: Encoder, limit: int) -> list[tuple[int, int, str]]:
    """(start, end, text) of the pieces of a node's document, each after the title."""
    document_limit = max(1, limit - encoder.count_tokens([title])[0] - 1)
    chunks = split_chunks(document, encoder.count_tokens, document_limit)
    return [(c.start, c.end, f"{title}: {document[c.start : c.end]}") for c in chunks] or [(0, 0, title)]


def passage_table(
    passages: Iterable[Passage], previous: pl.DataFrame, encoder: Encoder, model_id: str, blocks: Blocks | None = None
) -> tuple[pa.Table, int]:
    """Build rows of ``kg_passages``; returns them and the number of reused vectors.

    At most ``TEXTS_PER_BLOCK`` passages are in memory as Python objects; rows are checkpointed in ``blocks``.
    """
    cache = VectorCache.of(previous)
    tables = [build_table("kg_passages", [])]
    reused = 0
    n_stored = 1
    stream = iter(passages)
    while block := list(islice(stream, TEXTS_PER_BLOCK)):
        vectors = np.zeros((len(block), encoder.dimensions), np.float32)
        hashes, block_reused = fill_vectors([p.text for p in block], model_id, cache, encoder.encode_sentences, vectors)
        reused += block_reused
        names = ("passage_id", *(field.name for field in fields(Passage)))
        columns = {
            **{name: [getattr(passage, name) for passage in block] for name in names},
            "vector": vector_column(vectors),
            "model_id": [model_id] * len(block),
            "input_hash": hashes.astype("U32"),
        }
        tables.append(build_table("kg_passages", columns))
        if blocks is not None and blocks.is_due():
            blocks.store({"kg_passages": pa.concat_tables(tables[n_stored:])})
            n_stored = len(tables)
    return pa.concat_tables(tables), reused


def passage_lineage(table: pa.Table, encoded_by: str = "") -> pa.Table:
    """Lineage of passages: from their node or edge and, with ``encoded_by``, from that encoder."""
    repeat = partial(pa.repeat, size=len(table))
    child = {"child_kind": repeat("passage"), "child_id": table.column("passage_id")}
    parents = [(DERIVED, table.column("owner_kind"), table.column("owner_id"))]
    if encoded_by:
        parents.append((GENERATED, repeat("model"), repeat(encoded_by)))
    edges = [
        {**child, "relation": repeat(name), "parent_kind": kind, "parent_id": parent, "parent_version": parent}
        for name, kind, parent in parents
    ]
    return pa.concat_tables([build_table("lineage_edges", columns) for columns in edges])
