"""From graph files and harvested triples to the rows and arrays of one knowledge graph.

Belongs here: triples as rows with their file and line, the merge of all of them into nodes and edges that are numbered
the same in every array, and vectors of names. Which files there are, and where the results lie, is said elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from evidence_assets.graphs.entity_linking import Encode, EntityLinker
from evidence_assets.graphs.entity_linking import NameVectors as LinkingVectors
from evidence_assets.graphs.graph import Graph
from evidence_assets.graphs.merge import MergedGraph, merge
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED
from evidence_assets.lake.schemas import TABLES
from evidence_assets.lake.store import replacing_folder
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.chunking import chunks

VERSION = "1"
"""Changes when the same files would give other rows."""

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


# Triples ----------------------------------------------------------------------------------------------------------


def best_of(harvested: pl.DataFrame, most: int | None) -> pl.DataFrame:
    """Harvested triples up to rank ``most`` within their relation; all where no number is given."""
    return harvested if most is None else harvested.filter(pl.col("rank").is_null() | (pl.col("rank") <= most))


# Nodes and edges --------------------------------------------------------------------------------------------------


def node_id(key: str) -> str:
    """Id of a node: hash of its normalised name."""
    return content_id("node", key)


def edge_id(head: str, relation: str, tail: str) -> str:
    """Id of an edge: hash of its two nodes' ids and its relation."""
    return content_id("edge", head, relation, tail)


def merged(triples: pl.DataFrame, declared: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows of ``kg_nodes`` and of ``kg_edges`` that the triples merge into."""
    if not triples.height:
        empty = [pl.from_arrow(TABLES[name].arrow.empty_table()) for name in ("kg_nodes", "kg_edges")]
        assert isinstance(empty[0], pl.DataFrame) and isinstance(empty[1], pl.DataFrame)
        return empty[0], empty[1]
    made: MergedGraph = merge(triples, declared if declared.height else None)
    ids = pl.Series("node_id", [node_id(key) for key in made.nodes["key"]], dtype=pl.String)
    nodes = made.nodes.select(ids, "name", "aliases", "type", pl.lit(None, dtype=pl.String).alias("document"))
    edges = made.edges.with_columns(
        ids.gather(made.edges["head"]).alias("head_id"), ids.gather(made.edges["tail"]).alias("tail_id")
    )
    rows = [edge_id(*row) for row in edges.select("head_id", "relation", "tail_id").iter_rows()]
    return nodes, edges.with_columns(pl.Series("edge_id", rows, dtype=pl.String)).select(TABLES["kg_edges"].names)


def edge_lineage(edges: pl.DataFrame) -> pl.DataFrame:
    """Rows of ``lineage_edges``: each edge was derived from its triples."""
    return edges.select("edge_id", "triple_ids").explode("triple_ids").select(
        pl.lit("edge").alias("child_kind"),
        pl.col("edge_id").alias("child_id"),
        pl.lit(DERIVED).alias("relation"),
        pl.lit("triple").alias("parent_kind"),
        pl.col("triple_ids").alias("parent_id"),
        pl.col("triple_ids").alias("parent_version"),
        pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("edge_id").alias("rank"),
        pl.lit(None, dtype=pl.Float64).alias("score"),
    )  # fmt: skip


# Arrays -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meta:
    """What a folder of arrays was built from: the content of the tables, and the model where there is one."""

    built_from: str
    model_id: str = ""

    def write(self, folder: Path) -> None:
        """Leave it in the folder."""
        (folder / "meta.json").write_text(json.dumps(vars(self), indent=1, sort_keys=True) + "\n", encoding="utf-8")

    def require(self, folder: Path, what: str) -> None:
        """Refuse a folder that was built from something else."""
        path = folder / "meta.json"
        if not path.exists():
            raise StaleInput(f"{what} is missing at {folder}: materialize the asset that builds it")
        if Meta(**json.loads(path.read_text(encoding="utf-8"))) != self:
            raise StaleInput(f"{what} at {folder} was built from other rows or another model: materialize it again")


def build_csr(folder: Path, nodes: pl.DataFrame, edges: pl.DataFrame, built_from: str) -> Graph:
    """Write the graph in compressed rows; node and edge numbers are those of the stored tables' order."""
    numbers = nodes.select("node_id").with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    ends = edges.select("head_id", "tail_id", "relation").join(
        numbers.rename({"number": "head"}), left_on="head_id", right_on="node_id", how="left", maintain_order="left"
    ).join(
        numbers.rename({"number": "tail"}), left_on="tail_id", right_on="node_id", how="left", maintain_order="left"
    )  # fmt: skip
    lost = ends.filter(pl.col("head").is_null() | pl.col("tail").is_null()).height
    if lost:
        raise StaleInput(f"{lost} edges end at nodes that the graph lacks: materialize nodes and edges together")
    relations = edges["relation"].unique().sort().to_list()
    codes = ends["relation"].replace_strict(relations, range(len(relations)), return_dtype=pl.Int32)
    graph = Graph.from_edges(len(nodes), ends["head"].to_numpy(), codes.to_numpy(), ends["tail"].to_numpy())
    with replacing_folder(folder) as temporary:
        graph.save(temporary)
        (temporary / "relations.json").write_text(json.dumps(relations, indent=1) + "\n", encoding="utf-8")
        Meta(built_from).write(temporary)
    return graph


def open_csr(folder: Path, built_from: str) -> tuple[Graph, list[str]]:
    """The graph and the relation names that its codes number; refused where the tables have changed since."""
    Meta(built_from).require(folder, "a graph in compressed rows")
    relations: list[str] = json.loads((folder / "relations.json").read_text(encoding="utf-8"))
    return Graph.open(folder), relations


@dataclass(frozen=True)
class NameVectors:
    """Vectors of every name and alias.

    Attributes
    ----------
    surfaces, owners
        Each form with the number of its node, in order of nodes, a node's name before its aliases.
    vectors
        One row a form.
    """

    surfaces: list[str]
    owners: IntArray
    vectors: FloatArray

    @property
    def of_nodes(self) -> FloatArray:
        """One row a node: the vector of its name."""
        first = np.searchsorted(self.owners, np.arange(self.owners[-1] + 1 if len(self.owners) else 0))
        return self.vectors[first]


def surface_forms(nodes: pl.DataFrame) -> tuple[list[str], IntArray]:
    """Every name and alias with the number of its node, the name first."""
    forms = [
        (number, form)
        for number, (name, aliases) in enumerate(nodes.select("name", "aliases").iter_rows())
        for form in dict.fromkeys((name, *aliases))
    ]
    return [form for _, form in forms], np.array([number for number, _ in forms], dtype=np.int64)


def build_name_vectors(
    folder: Path, nodes: pl.DataFrame, encoder: Encoder, model_id: str, built_from: str
) -> tuple[int, int]:
    """Write a vector for every name and alias, taking over what is there already; returns (forms, taken over)."""
    surfaces, _ = surface_forms(nodes)
    hashes = np.array([content_id("embedding", text, model_id) for text in surfaces], dtype="S32")
    vectors = np.zeros((len(surfaces), encoder.dimensions), np.float32)
    known: dict[bytes, int] = {}
    if (folder / "meta.json").exists():
        before = np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False)
        known = {h: i for i, h in enumerate(np.load(folder / "hashes.npy", allow_pickle=False).tolist())}
        taken = [i for i, h in enumerate(hashes.tolist()) if h in known]
        vectors[taken] = before[[known[hashes[i]] for i in taken]]
    missing = {surfaces[i]: h for i, h in enumerate(hashes.tolist()) if h not in known}
    if missing:
        new = dict(zip(missing, encoded(encoder, list(missing)), strict=True))
        for i, text in enumerate(surfaces):
            if text in new:
                vectors[i] = new[text]
    with replacing_folder(folder) as temporary:
        np.save(temporary / "vectors.npy", vectors, allow_pickle=False)
        np.save(temporary / "hashes.npy", hashes, allow_pickle=False)
        Meta(built_from, model_id).write(temporary)
    return len(surfaces), sum(text not in missing for text in surfaces)


def open_name_vectors(folder: Path, nodes: pl.DataFrame, model_id: str, built_from: str) -> NameVectors:
    """The vectors of the names; refused where nodes or model have changed since."""
    Meta(built_from, model_id).require(folder, "a folder of name vectors")
    surfaces, owners = surface_forms(nodes)
    return NameVectors(surfaces, owners, np.load(folder / "vectors.npy", mmap_mode="r", allow_pickle=False))


@dataclass(frozen=True, eq=False)
class OpenGraph:
    """A knowledge graph in the order in which its arrays count nodes and edges.

    ``node_ids``, ``names`` and ``aliases`` go by node number, ``edge_ids`` (which are also the edges' versions) by edge
    number, ``relations`` by relation code. ``encode`` gives vectors of texts of any length, in the space of the names'.
    """

    name: str
    version: str
    graph: Graph
    node_ids: list[str]
    names: list[str]
    edge_ids: list[str]
    relations: list[str]
    forms: NameVectors
    encode: Encode

    @cached_property
    def node_vectors(self) -> FloatArray:
        """One row a node: the vector of its name."""
        return self.forms.of_nodes

    @cached_property
    def linker(self) -> EntityLinker:
        """Links phrases to nodes by name, alias, similar spelling and meaning."""
        near = LinkingVectors(self.forms.vectors, self.encode) if self.forms.surfaces else None
        return EntityLinker(self.forms.surfaces, self.forms.owners, vectors=near)


def encoded(encoder: Encoder, texts: Sequence[str]) -> FloatArray:
    """Unit vectors of texts of any length: one that the encoder cannot read whole is the mean of its chunks."""
    whole = list(texts)
    counts = encoder.count_tokens(whole) if whole else []
    parts = {
        text: [text]
        if count <= encoder.max_tokens
        else [text[c.start : c.end] for c in chunks(text, encoder.count_tokens, encoder.max_tokens)]
        for text, count in zip(whole, counts, strict=True)
    }
    pieces = list(dict.fromkeys(piece for group in parts.values() for piece in group))
    if not pieces:
        return np.zeros((len(whole), encoder.dimensions), np.float32)
    vector = dict(zip(pieces, encoder.sentences(pieces), strict=True))
    made = np.stack([np.mean([vector[piece] for piece in parts[text]], axis=0) for text in whole])
    return unit_rows(made)
