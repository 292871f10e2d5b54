"""A knowledge graph: arrays, names, types, facts and vectors of its nodes and edges, by number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from evidence_assets.graphs.arrays import GraphArrays, IntArray, TypedGraph, find_positions
from evidence_assets.graphs.entity_linking import EntityLinker, NameVectors
from evidence_assets.graphs.merge import ENDS
from evidence_assets.graphs.passage_files import PassageFiles
from evidence_assets.lake.array_files import create_array
from evidence_assets.lake.atomic import temporary_folder
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.embedding import Encode, vector_matrix
from evidence_assets.retrieval.vector_index import VectorIndex

ReadColumn = Callable[[str], pl.Series]
"""Reads a column of a table by name."""
NODES_PER_BATCH = 65_536
"""Nodes whose vectors are in memory at a time."""


def plain_sentence(head: str, name: str, tail: str) -> str:
    """A fact as a sentence, such as "ferret at location pet store"."""
    words = "".join(" " + c.lower() if c.isupper() and i and name[i - 1].islower() else c for i, c in enumerate(name))
    return f"{head} {words.replace('_', ' ').strip().lower()} {tail}"


class GraphStructure(NamedTuple):
    """Edges in compressed rows, and the relation names by code."""

    arrays: GraphArrays
    relations: tuple[str, ...]


class SurfaceForms(NamedTuple):
    """Names in the order of nodes, then aliases, each with its node number."""

    texts: pl.Series
    owners: IntArray


@dataclass(frozen=True, eq=False)
class GraphVectors:
    """Vectors of a graph's names and passages, opened lazily.

    ``encode`` encodes texts of any length; ``forms`` returns a vector per surface form, ``names`` their index,
    ``passages`` blocks of rows of ``kg_passages``, ``passage_files`` the passages of nodes in files.
    Mapped files are made in ``folder``.
    """

    encode: Encode
    forms: Callable[[], FloatArray]
    names: Callable[[], VectorIndex]
    passages: Callable[[], Iterable[pl.DataFrame]]
    passage_files: Callable[[], PassageFiles]
    folder: Path


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Nodes and edges by number; columns are read lazily from Arrow.

    ``version``: Hash of the rows and of the vectors' model.
    ``read_structure``: Returns the arrays, which may be memory-mapped.
    ``node_column``, ``edge_column``: Read columns of ``kg_nodes`` by ``node_id`` and of ``kg_edges`` by ``edge_id``.
    ``stored_vectors``: None if nothing is encoded.
    """

    name: str
    version: str
    read_structure: Callable[[], GraphStructure]
    node_column: ReadColumn
    edge_column: ReadColumn
    stored_vectors: GraphVectors | None = None

    @cached_property
    def structure(self) -> GraphStructure:
        """Edges in compressed rows, and relations."""
        return self.read_structure()

    @property
    def arrays(self) -> GraphArrays:
        return self.structure.arrays

    @property
    def relations(self) -> tuple[str, ...]:
        return self.structure.relations

    def __len__(self) -> int:
        return len(self.node_ids)

    @cached_property
    def node_ids(self) -> pl.Series:
        """Node ids, ascending."""
        return self.node_column("node_id").set_sorted()

    @cached_property
    def names(self) -> pl.Series:
        return self.node_column("name")

    @cached_property
    def documents(self) -> pl.Series:
        """Text about each node; may be empty."""
        return self.node_column("document").fill_null("")

    @cached_property
    def forms(self) -> SurfaceForms:
        return surface_forms(self.names, self.node_column("aliases"))

    @cached_property
    def linker(self) -> EntityLinker:
        """Linker of phrases by name, alias and similar spelling."""
        return EntityLinker(self.forms.texts, self.forms.owners)

    def node_numbers(self, node_ids: Sequence[str] | pl.Series) -> IntArray:
        """Look up node numbers by id; an unknown id is an error."""
        return self._find_numbers("node", self.node_ids, node_ids)

    def _find_numbers(self, kind: str, sorted_ids: pl.Series, requested_ids: Sequence[str] | pl.Series) -> IntArray:
        ids = pl.Series(requested_ids, dtype=pl.String)
        numbers = find_positions(sorted_ids, ids)
        if (numbers < 0).any():
            missing = ids[int(np.argmin(numbers))]
            raise StaleInput(f"{self.name} has no {kind} {missing}; materialize the assets that reference it again")
        return numbers

    @cached_property
    def _types(self) -> tuple[IntArray, tuple[str, ...]]:
        return encode_categories(self.node_column("type").fill_null(""))

    @property
    def node_types(self) -> IntArray:
        """Type code of each node."""
        return self._types[0]

    @property
    def type_names(self) -> tuple[str, ...]:
        """Node types by code; nodes without a type have the type ""."""
        return self._types[1]

    @cached_property
    def typed_graph(self) -> TypedGraph:
        """The graph by edge type, for neighbours of node sets."""
        arrays = self.arrays
        return TypedGraph(self.node_types, arrays.heads, arrays.relations, arrays.tails)

    @cached_property
    def edge_ids(self) -> pl.Series:
        """Edge ids, ascending; an id is a hash of the edge, so it is also its version."""
        return self.edge_column("edge_id").set_sorted()

    def edge_numbers(self, edge_ids: Sequence[str] | pl.Series) -> IntArray:
        """Look up edge numbers by id; an unknown id is an error."""
        return self._find_numbers("edge", self.edge_ids, edge_ids)

    def triple(self, edge: int) -> tuple[str, str, str]:
        """Head, relation and tail of an edge by name."""
        arrays = self.arrays
        head, relation, tail = (int(array[edge]) for array in (arrays.heads, arrays.relations, arrays.tails))
        return self.names[head], self.relations[relation], self.names[tail]

    def sentence(self, edge: int) -> str:
        """An edge as a sentence."""
        return plain_sentence(*self.triple(edge))

    def first_edges(self, node: int, limit: int) -> list[int]:
        """The first ``limit`` edges of a node by head, relation and tail."""
        arrays = self.arrays
        edges = arrays.edges_at(np.array([node]))
        order = np.lexsort((arrays.tails[edges], arrays.relations[edges], arrays.heads[edges]))
        return [int(edge) for edge in edges[order][:limit]]

    @property
    def vectors(self) -> GraphVectors:
        """Vectors of names and passages."""
        if self.stored_vectors is None:
            raise StaleInput(f"the graph {self.name} has no vectors; open it with an encoder")
        return self.stored_vectors

    @cached_property
    def name_vectors(self) -> NameVectors | None:
        """Index of names for links by meaning; None if nothing is encoded."""
        if self.stored_vectors is None or not len(self.forms.texts):
            return None
        return NameVectors(self.vectors.names(), self.vectors.encode)

    @cached_property
    def node_vectors(self) -> FloatArray:
        """Vector of each node's name, memory-mapped."""
        return self.vectors.forms()[: len(self)]

    def cosine_to(self, vector: FloatArray) -> Callable[[IntArray], FloatArray]:
        """Return a function for the cosine of a vector to node names, independent of the other nodes."""
        unit = unit_rows(vector)

        def cosine(nodes: IntArray) -> FloatArray:
            cosines = np.empty(len(nodes), dtype=np.float32)
            for start in range(0, len(nodes), NODES_PER_BATCH):  # a matrix product rounds by its size
                block = slice(start, start + NODES_PER_BATCH)
                cosines[block] = (self.node_vectors[nodes[block]] * unit).sum(axis=1)
            return cosines

        return cosine

    @cached_property
    def node_passage_vectors(self) -> FloatArray:
        """Vector of the first passage of each node, memory-mapped."""
        return self._map_first_passages("node", self.node_ids)

    @cached_property
    def edge_passage_vectors(self) -> FloatArray:
        """Vector of the first passage of each edge, memory-mapped."""
        return self._map_first_passages("edge", self.edge_ids)

    def _map_first_passages(self, kind: str, ids: pl.Series) -> FloatArray:
        if not len(ids):
            return self.vectors.encode([])
        is_first = (pl.col("owner_kind") == kind) & (pl.col("ordinal") == 0)
        blocks = (block.filter(is_first) for block in self.vectors.passages())
        vectors = map_rows_by_id(blocks, ids, self.vectors.folder)
        if vectors is None:
            raise StaleInput(
                f"some {kind}s of {self.name} have no vectors: knowledge/{self.name}/passages is older than the graph; "
                "materialize it again"
            )
        return vectors


def map_rows_by_id(blocks: Iterable[pl.DataFrame], ids: pl.Series, folder: Path) -> FloatArray | None:
    """The vectors of rows by ``owner_id`` in the order of ``ids``, ascending, in a memory-mapped file without a name.

    None if an id has no row, or a row's id is not among them. Memory: one block, and a byte for each id.
    """
    is_filled = np.zeros(len(ids), np.bool_)
    vectors: FloatArray | None = None
    with temporary_folder(folder) as temporary:
        for block in blocks:
            rows = find_positions(ids, block["owner_id"])
            if (rows < 0).any():
                return None
            matrix = vector_matrix(block["vector"].to_arrow())
            if vectors is None and len(rows):
                shape = (len(ids), matrix.shape[1])
                vectors = np.asarray(create_array(temporary / "vectors.npy", np.float32, shape))
            if vectors is not None:
                vectors[rows] = matrix
            is_filled[rows] = True
    return vectors if is_filled.all() else None


def encode_categories(values: pl.Series) -> tuple[IntArray, tuple[str, ...]]:
    """Encode values as codes of the sorted distinct values; returns codes and values."""
    names = values.unique().sort()
    codes = names.search_sorted(values).to_numpy().astype(np.int32) if len(values) else np.zeros(0, np.int32)
    return codes, tuple(names.to_list())


def build_structure(node_ids: pl.Series, edges: Iterable[pl.DataFrame]) -> GraphStructure:
    """Build arrays from batches of ``kg_edges`` rows and ascending node ids."""
    first_codes: dict[str, int] = {}
    columns: dict[str, list[IntArray]] = {name: [np.zeros(0, np.int32)] for name in ENDS}
    for block in edges:
        for side in ("head_id", "tail_id"):
            numbers = find_positions(node_ids, block[side]).astype(np.int32)
            if n_missing := int((numbers < 0).sum()):
                raise StaleInput(f"{n_missing} edges have unknown nodes; materialize nodes and edges together")
            columns[side].append(numbers)
        codes, names = encode_categories(block["relation"])
        columns["relation"].append(
            np.array([first_codes.setdefault(name, len(first_codes)) for name in names], np.int32)[codes]
        )
    heads, relations, tails = (np.concatenate(columns.pop(name)) for name in ENDS)
    code_of = {name: number for number, name in enumerate(sorted(first_codes))}
    new_codes = np.array([code_of[name] for name in first_codes], np.int32)
    return GraphStructure(GraphArrays.from_edges(len(node_ids), heads, new_codes[relations], tails), tuple(code_of))


def surface_forms(names: pl.Series, aliases: pl.Series) -> SurfaceForms:
    """List names and aliases with their node numbers, without duplicates per node."""
    distinct_aliases = (
        pl.DataFrame({"name": names, "alias": aliases, "owner": np.arange(len(names))})
        .explode("alias", empty_as_null=False)
        .filter(pl.col("alias").is_not_null() & (pl.col("alias") != pl.col("name")))
        .unique(["owner", "alias"], maintain_order=True)
    )
    owners = np.concatenate([np.arange(len(names)), distinct_aliases["owner"].to_numpy()])
    return SurfaceForms(pl.concat([names.alias("form"), distinct_aliases["alias"].alias("form")]), owners)
