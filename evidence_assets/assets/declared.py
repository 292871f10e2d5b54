"""What the lake itself declares: its own corpora, graphs and benchmarks, as `evidence add` writes them."""

from __future__ import annotations

import dagster as dg

from evidence_assets.assets.benchmark import Benchmark
from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.graph import Graph, GraphPassages
from evidence_assets.assets.knowledge_base import KnowledgeBase
from evidence_assets.benchmarks.declarations import DECLARED, Declaration, declarations
from evidence_assets.lake.catalogue import find_lake
from evidence_assets.lake.errors import BadInput
from evidence_assets.text.nearest import nearest

COMPONENTS: dict[str, type[dg.Component]] = {
    kind.__name__: kind for kind in (Benchmark, Corpus, Graph, GraphPassages, KnowledgeBase)
}
"""All that a lake may declare: it is data, and names no other code."""


class Declared(dg.Component, dg.Model, dg.Resolvable):
    """Makes of every document below the lake's ``declarations`` what it would be below ``defs``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return dg.Definitions.merge(*(_defs_of(document, context) for document in declarations(find_lake() / DECLARED)))


def _defs_of(document: Declaration, context: dg.ComponentLoadContext) -> dg.Definitions:
    kind = COMPONENTS.get(document.component)
    if kind is None:
        near = nearest(document.component, COMPONENTS)
        raise BadInput(
            f"a lake cannot declare a {document.component!r}; did you mean {near!r}?", file=document.file, field="type"
        )
    try:
        return kind.from_attributes_dict(attributes=document.attributes, context=context).build_defs(context)
    except BadInput as error:
        raise BadInput(error.message, file=error.file or document.file, field=error.field) from error
