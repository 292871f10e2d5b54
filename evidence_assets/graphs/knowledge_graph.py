"""A knowledge graph: nodes and edges by number, seen as arrays, names, types, facts and vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evidence_assets.graphs.arrays import GraphArrays, IntArray
from evidence_assets.graphs.entity_linking import Encode, EntityLinker, NameVectors
from evidence_assets.graphs.passage_files import PassageFiles
from evidence_assets.graphs.typed_graph import TypedGraph
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import unit_rows
from evidence_assets.retrieval.corpus import vector_matrix
from evidence_assets.retrieval.vector_index import VectorIndex

ReadColumn = Callable[[str], pl.Series]
"""Gives a column of a table by its name."""
NODES_PER_BATCH = 65_536
"""Nodes whose vectors are held in memory together."""


def plain_sentence(head: str, relation: str, tail: str) -> str:
    """A fact as a sentence, such as "ferret at location pet store"."""
    words = "".join(
        " " + c.lower() if c.isupper() and i and relation[i - 1].islower() else c for i, c in enumerate(relation)
    )
    return f"{head} {words.replace('_', ' ').strip().lower()} {tail}"


class GraphStructure(NamedTuple):
    """Edges in compressed rows, and the names of the relations that their codes number."""

    arrays: GraphArrays
    relations: tuple[str, ...]


class SurfaceForms(NamedTuple):
    """Every name and alias with the number of its node: first the names in the order of nodes, then the aliases."""

    texts: pl.Series
    owners: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GraphVectors:
    """Vectors of a graph's names and passages, each opened when it is first asked for.

    ``encode`` gives vectors of texts of any length, ``forms`` a row for each of the graph's forms, ``names`` an index
    over these, ``passages`` rows of ``kg_passages``, ``passage_files`` those of nodes in files.
    """

    encode: Encode
    forms: Callable[[], FloatArray]
    names: Callable[[], VectorIndex]
    passages: Callable[[], pl.DataFrame]
    passage_files: Callable[[], PassageFiles]


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Nodes and edges by number; columns are read from Arrow when they are first asked for.

    ``version``: Hash of the rows, and of the model of the vectors where there are any.
    ``read_shape``: Gives the arrays; they may be memory-mapped.
    ``node_column``, ``edge_column``: Columns of ``kg_nodes`` in the order of ``node_id`` and of ``kg_edges`` in the
        order of ``edge_id``.
    ``stored_vectors``: None where nothing was encoded.
    """

    name: str
    version: str
    read_shape: Callable[[], GraphStructure]
    node_column: ReadColumn
    edge_column: ReadColumn
    stored_vectors: GraphVectors | None = None

    @cached_property
    def shape(self) -> GraphStructure:
        """The edges in compressed rows, and the relations."""
        return self.read_shape()

    @property
    def arrays(self) -> GraphArrays:
        return self.shape.arrays

    @property
    def relations(self) -> tuple[str, ...]:
        return self.shape.relations

    def __len__(self) -> int:
        return len(self.node_ids)

    @cached_property
    def node_ids(self) -> pl.Series:
        """Ids of the nodes, ascending."""
        return self.node_column("node_id").set_sorted()

    @cached_property
    def names(self) -> pl.Series:
        return self.node_column("name")

    @cached_property
    def documents(self) -> pl.Series:
        """Text about each node, empty where there is none."""
        return self.node_column("document").fill_null("")

    @cached_property
    def forms(self) -> SurfaceForms:
        return surface_forms(self.names, self.node_column("aliases"))

    @cached_property
    def linker(self) -> EntityLinker:
        """Links phrases to nodes by name, alias and similar spelling."""
        return EntityLinker(self.forms.texts, self.forms.owners)

    def node_numbers(self, node_ids: Sequence[str] | pl.Series) -> IntArray:
        """Numbers of nodes by their ids; an id that is not there is refused."""
        return self._places("node", self.node_ids, node_ids)

    def _places(self, kind: str, known: pl.Series, wanted: Sequence[str] | pl.Series) -> IntArray:
        ids = pl.Series(wanted, dtype=pl.String)
        places = known.search_sorted(ids).to_numpy().astype(np.int64) if len(ids) else np.zeros(0, np.int64)
        inside = np.minimum(places, max(len(known) - 1, 0))
        lost = ids if not len(known) else ids.filter(known.gather(inside) != ids)
        if len(lost):
            raise StaleInput(f"{self.name} has no {kind} {lost[0]}: materialize again what names it")
        return places

    @cached_property
    def _types(self) -> tuple[IntArray, tuple[str, ...]]:
        return encode_categories(self.node_column("type").fill_null(""))

    @property
    def node_types(self) -> IntArray:
        """Type code of each node."""
        return self._types[0]

    @property
    def type_names(self) -> tuple[str, ...]:
        """Names of the node types by their code; a node without a type has the empty one."""
        return self._types[1]

    @cached_property
    def typed_graph(self) -> TypedGraph:
        """Neighbours of sets of nodes by type."""
        arrays = self.arrays
        return TypedGraph(self.node_types, arrays.heads, arrays.relations, arrays.tails)

    @cached_property
    def edge_ids(self) -> pl.Series:
        """Ids of the edges, ascending; an id hashes what the edge says, so that it is its version as well."""
        return self.edge_column("edge_id").set_sorted()

    def edge_numbers(self, edge_ids: Sequence[str] | pl.Series) -> IntArray:
        """Numbers of edges by their ids; an id that is not there is refused."""
        return self._places("edge", self.edge_ids, edge_ids)

    def triple(self, edge: int) -> tuple[str, str, str]:
        arrays = self.arrays
        head, relation, tail = (int(part[edge]) for part in (arrays.heads, arrays.relations, arrays.tails))
        return self.names[head], self.relations[relation], self.names[tail]

    def sentence(self, edge: int) -> str:
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
            raise StaleInput(f"the graph {self.name} has no vectors: open it with an encoder")
        return self.stored_vectors

    @cached_property
    def name_vectors(self) -> NameVectors | None:
        """Links phrases by meaning; None where nothing was encoded."""
        if self.stored_vectors is None or not len(self.forms.texts):
            return None
        return NameVectors(self.vectors.names(), self.vectors.encode)

    @cached_property
    def node_vectors(self) -> FloatArray:
        """One row a node: the vector of its name; memory-mapped, so that only rows asked for are read."""
        return self.vectors.forms()[: len(self)]

    def cosine_to(self, vector: FloatArray) -> Callable[[IntArray], FloatArray]:
        """The cosine of a vector with the names of some nodes; of each the same whichever are asked for with it."""
        unit = unit_rows(vector)

        def nearness(nodes: IntArray) -> FloatArray:
            found = np.empty(len(nodes), dtype=np.float32)
            for start in range(0, len(nodes), NODES_PER_BATCH):  # a product of matrices rounds by its size
                block = slice(start, start + NODES_PER_BATCH)
                found[block] = (self.node_vectors[nodes[block]] * unit).sum(axis=1)
            return found

        return nearness

    def passage_vectors(self, kind: str) -> FloatArray:
        """One row each ``node`` or ``edge``: the vector of the passage that stands for it."""
        ids = self.node_ids if kind == "node" else self.edge_ids
        rows = (
            self.vectors.passages().filter((pl.col("owner_kind") == kind) & (pl.col("ordinal") == 0)).sort("owner_id")
        )
        if not rows["owner_id"].equals(ids):
            raise StaleInput(
                f"some {kind} of {self.name} has no vector: knowledge/{self.name}/passages is older than the graph, "
                "materialize it again"
            )
        return vector_matrix(rows["vector"]) if len(ids) else self.vectors.encode([])


def encode_categories(values: pl.Series) -> tuple[IntArray, tuple[str, ...]]:
    """A code for each value, and the values by their codes, in alphabetical order."""
    names = values.unique().sort()
    return names.search_sorted(values).to_numpy().astype(np.int32) if len(values) else np.zeros(0, np.int32), tuple(
        names.to_list()
    )


def build_structure(node_ids: pl.Series, edges: Iterable[pl.DataFrame]) -> GraphStructure:
    """Rows of ``kg_edges``, block by block, as arrays over the nodes of these ids, which ascend."""
    numbers = pl.DataFrame({"id": node_ids, "number": np.arange(len(node_ids), dtype=np.int32)})
    code: dict[str, int] = {}
    parts: dict[str, list[IntArray]] = {name: [np.zeros(0, np.int32)] for name in ("head_id", "relation", "tail_id")}
    for block in edges:
        for side in ("head_id", "tail_id"):
            found = block.select(side).join(numbers, left_on=side, right_on="id", how="left", maintain_order="left")
            if found["number"].null_count():
                raise StaleInput(
                    f"{found['number'].null_count()} edges end at nodes that the graph lacks: materialize nodes "
                    "and edges together"
                )
            parts[side].append(found["number"].to_numpy())
        codes, names = encode_categories(block["relation"])
        parts["relation"].append(np.array([code.setdefault(name, len(code)) for name in names], np.int32)[codes])
    heads, relations, tails = (np.concatenate(parts.pop(name)) for name in tuple(parts))
    place = {name: number for number, name in enumerate(sorted(code))}
    numbered = np.array([place[name] for name in code], np.int32)
    return GraphStructure(GraphArrays.from_edges(len(node_ids), heads, numbered[relations], tails), tuple(place))


def surface_forms(names: pl.Series, aliases: pl.Series) -> SurfaceForms:
    """Every name and alias with the number of its node; what a node is called twice counts once."""
    others = (
        pl.DataFrame({"name": names, "alias": aliases, "owner": np.arange(len(names))})
        .explode("alias", empty_as_null=False)
        .filter(pl.col("alias").is_not_null() & (pl.col("alias") != pl.col("name")))
        .unique(["owner", "alias"], maintain_order=True)
    )
    owners = np.concatenate([np.arange(len(names)), others["owner"].to_numpy()])
    return SurfaceForms(pl.concat([names.alias("form"), others["alias"].alias("form")]), owners)
