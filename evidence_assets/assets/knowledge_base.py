"""A semi-structured knowledge base: nodes with their documents, edges, and the passages that stand for nodes, indexed."""

from functools import partial
from typing import Any

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.encoders import further_encoders, tags_of
from evidence_assets.assets.graph import passages_asset, rows_asset, unit_length
from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.raw_files import raw_assets
from evidence_assets.assets.table_asset import dep, files_asset, sound_check, table_asset
from evidence_assets.benchmarks import knowledge_bases
from evidence_assets.experiment.stage import Say, StageContext, StageOutput, progress
from evidence_assets.graphs import stored
from evidence_assets.graphs.base_rows import edge_rows, node_rows
from evidence_assets.lake.ids import with_model
from evidence_assets.lake.store import Lake
from evidence_assets.models.in_use import encoder, model_key
from evidence_assets.retrieval import vector_index
from evidence_assets.systems.four_step_focus import VERSION, node_search


class KnowledgeBase(knowledge_bases.KnowledgeBase, dg.Component, dg.Resolvable):
    """Makes ``knowledge/<name>/nodes``, ``edges``, ``csr``, ``passages`` and ``passage_index`` of a folder.

    A node's id in the lake is ``<name>:<its own id>``; gold answers of benchmarks that name this base as their graph
    are read with the same prefix.
    """

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.runs_in():
            return dg.Definitions()
        place, group = f"knowledge/{self.name}", "knowledge"
        source, raw = raw_assets(self, f"raw/knowledge/{self.name}", [self.folder])

        def make_nodes(step: StageContext) -> StageOutput:
            nodes = node_rows(self.read_nodes(step.lake.raw_place(self.folder)), self.name, self.sources[0])
            return StageOutput(nodes, metadata={"types": nodes["type"].n_unique()})

        def make_edges(step: StageContext) -> StageOutput:
            stated = self.read_edges(step.lake.raw_place(self.folder))
            edges = edge_rows(stated, self.name, self.sources[1], self.licence)
            return StageOutput(edges, metadata={"types": stated["relation"].n_unique()})

        nodes = table_asset(
            f"{place}/nodes",
            "kg_nodes",
            make_nodes,
            description=f"Nodes of {self.name} with their documents.",
            group=group,
            code_version="2",
            deps=[source],
        )
        edges = table_asset(
            f"{place}/edges",
            "kg_edges",
            make_edges,
            description=f"Typed edges of {self.name}.",
            group=group,
            code_version="2",
            deps=[source],
        )
        encoded = [self._encoded(name) for name in ("", *further_encoders(f"{place}/passage_index"))]
        return dg.Definitions(
            assets=[
                *raw,
                nodes,
                edges,
                rows_asset(self.name, group, "1"),
                *(asset for pair in encoded for asset in pair),
            ],
            asset_checks=[
                sound_check(nodes),
                sound_check(edges),
                *(sound_check(passages, unit_length) for passages, _ in encoded),
            ],
        )

    def _encoded(self, name: str) -> tuple[dg.AssetsDefinition, dg.AssetsDefinition]:
        """Passages and their index by one encoder: by the profile's first where none is named."""
        place, group = f"knowledge/{self.name}", "_".join(filter(None, ["knowledge", name]))
        passages_key, by = with_model(f"{place}/passages", name), f" by {name}" if name else ""

        said = f"Documents and relations of the nodes of {self.name} in passages"
        tokens = profiles.load().chunking.passage_tokens
        cut = partial(node_search.node_passages, tokens=tokens)
        passages = passages_asset(self.name, name, said, f"{VERSION}:{tokens}:", cut)

        def make(lake: Lake, say: Say) -> tuple[str, dict[str, Any]]:
            settings = profiles.load().using({"encoder": name} if name else {})
            model, heard = encoder(settings.encoder), progress("vectors in the index", say)
            meta = stored.build_passage_files(
                lake, self.name, model, model_key(model), settings.index.bytes, heard, name
            )
            return meta.built_from, meta.shown

        index = files_asset(
            with_model(f"{place}/passage_index", name),
            make,
            group=group,
            code_version=vector_index.VERSION,
            description=f"Passages of the nodes of {self.name} in files, with an index that finds the nearest nodes{by}.",
            kinds=("faiss",),
            deps=[f"{place}/nodes", dep(passages_key, EVERY)],
            tags=tags_of(name),
        )
        return passages, index
