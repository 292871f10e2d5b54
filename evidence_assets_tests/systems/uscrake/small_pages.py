"""A small corpus and graph for USCRaKE, with selectors over them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from evidence_assets.benchmarks.graphs.relations import load_vocabulary
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval.token_store import TokenStore, build_store, source_version
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples
from evidence_assets.systems.uscrake.evidence_judges import Judge, LateInteraction
from evidence_assets.systems.uscrake.passages import Passages, Query
from evidence_assets.systems.uscrake.selector import UscrakeSelector
from evidence_assets.systems.uscrake.settings import UscrakeSettings
from evidence_assets_tests.graphs.small_graph import graph_of_rows
from evidence_assets_tests.lake_rows import graph_edge, node
from evidence_assets_tests.retrieval.written import written_corpus
from evidence_assets_tests.systems.small_models import WordEncoder
from evidence_assets_tests.systems.uscrake.token_models import PieceEncoder

ENCODER = PieceEncoder()
PAGES = {
    "Honey": "Honey is sweet. Bees make honey from nectar. It keeps for years.",
    "Bee": "A bee travels from blossom to blossom. Bees live in hives.",
    "Salt": "Salt is mined or won from the sea. It tastes salty.",
    "Sea": "The sea is salty water. Fish live in it.",
    "Plain": "Rain falls on the plain.",
    "One": "Sugar",
}
QUESTIONS = [
    Question("q1", "b", "mcqa", "Which food is sweet and made by bees?", ("honey", "salt", "sea water")),
    Question("q2", "b", "mcqa", "Where do fish live?", ("sea", "hive")),
]
NODES = [(f"n{i}", name) for i, name in enumerate(("bee", "honey", "hive", "salt", "sea", "fish"))]
NODES += [(f"x{i:03d}", f"thing {i}") for i in range(60)]
EDGES = [
    ("e0", "n0", "CapableOf", "n1"),
    ("e1", "n0", "AtLocation", "n2"),
    ("e2", "n3", "AtLocation", "n4"),
    ("e3", "n5", "AtLocation", "n4"),
    *((f"h{i:03d}", "n4", "RelatedTo", f"x{i:03d}") for i in range(60)),
]


def graph(cap: int = 50) -> ConceptTriples:
    """The triples as a graph whose names have no vectors, so that linking goes by spelling."""
    nodes, edges = [node(*each) for each in NODES], [graph_edge(*each) for each in EDGES]
    return ConceptTriples(graph_of_rows("g", nodes, edges), load_vocabulary(), WordEncoder(), cap=cap)


def passages(folder: Path, pages: dict[str, str] = PAGES, *, titled: bool = True) -> Passages:
    """The pages as chunks named by their titles, in the order of their ids."""
    names = sorted(pages)
    texts = [pages[t] for t in names]
    vectors = ENCODER.encode_sentences(texts) if texts else np.zeros((0, ENCODER.dimensions), np.float32)
    corpus = written_corpus(folder / "index", names, texts, names if titled else (), vectors)
    model = f"{ENCODER.model_id}@{ENCODER.revision}"
    build_store(folder / "store", [texts], ENCODER, model, "chunks")
    expected = source_version("chunks", model)
    return Passages(corpus, TokenStore(folder / "store", expected=expected, cache=folder / "cache"))


def selector(
    corpus: Passages | None, *, triples: ConceptTriples | None = None, judged_by: Judge | None = None, **settings: Any
) -> UscrakeSelector:
    uscrake_settings = UscrakeSettings(**{"cost": "fusion", "R": 4, "k": 2, "s": 3, "titles": False, **settings})
    return UscrakeSelector(uscrake_settings, corpus, ENCODER, ENCODER, judged_by or LateInteraction(ENCODER), triples)


def query(text: str) -> Query:
    return Query(text, ENCODER.encode_tokens([text])[0])


def reasons_of(pick: SelectedEvidence) -> dict[str, Any]:
    return dict(json.loads(pick.why or "{}"))
