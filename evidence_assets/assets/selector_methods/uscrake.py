"""USCRaKE: chunks by exact transport and fusion, triples of a commonsense graph."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from evidence_assets import profiles
from evidence_assets.assets.benchmark import benchmarks
from evidence_assets.assets.inputs import open_corpus
from evidence_assets.assets.models_in_use import encoder, model_key, reranker
from evidence_assets.assets.selector_methods.method import Method, chunks_kept, joined_graph_of
from evidence_assets.assets.table_asset import Step
from evidence_assets.benchmarks.graphs import relations
from evidence_assets.experiment.selection import Selector
from evidence_assets.graphs.knowledge import OpenGraph
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.models.rerankers import MAXSIM
from evidence_assets.profiles import ModelSettings
from evidence_assets.retrieval.token_store import TokenStore, source_version
from evidence_assets.systems.uscrake import chunk_ranking, concept_triples
from evidence_assets.systems.uscrake import system as uscrake
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples, facts_of
from evidence_assets.systems.uscrake.evidence_judges import Judge, LateInteraction, PairJudge
from evidence_assets.transport import ground_costs

PUBLISHED: dict[str, Any] = {"cost": "jsd", "grain": "chunk"}
"""What the published variant has, beside R, k and s of the profile."""
TRIPLES_JUDGED = 10
"""Triples of an option that the reranker reads, for each triple that is kept."""


def _passages(lake: Lake, name: str) -> uscrake.Passages:
    corpus = open_corpus(lake, name)
    return _open_passages(str(lake.root), name, corpus.version, model_key(encoder(profiles.load().token_encoder)))


@lru_cache(maxsize=2)
def _open_passages(root: str, name: str, version: str, token_model: str) -> uscrake.Passages:
    lake = Lake(root)
    corpus = open_corpus(lake, name)
    ids = corpus.chunks["chunk_id"].to_list()
    store = TokenStore(lake.index_folder(f"corpus/{name}/token_store"), expected=source_version(ids, token_model))
    spans = [[(s["start"], s["end"]) for s in row] for row in corpus.chunks["sentence_offsets"].to_list()]
    texts, titles, documents = (corpus.chunks[name].to_list() for name in ("text", "title", "doc_id"))
    return uscrake.Passages(version, ids, texts, titles, documents, spans, corpus.index, store)


@lru_cache(maxsize=2)
def _triples(graph: OpenGraph, cap: int, settings: ModelSettings) -> ConceptTriples:
    return ConceptTriples(facts_of(graph, relations.load()), graph.linker, encoder(settings), cap=cap)


def _judge(settings: ModelSettings, token_encoder: ModelSettings) -> Judge:
    if settings.name == MAXSIM:
        return LateInteraction(encoder(token_encoder))
    return PairJudge(reranker(settings, token_encoder))


def _settings(name: str, parameters: dict[str, Any]) -> uscrake.Settings:
    retrieval = profiles.load().retrieval
    kept = chunks_kept(parameters)
    stated = {key: value for key, value in parameters.items() if key not in ("k", "s", "R", "published")}
    ground = ground_costs().get(str(parameters.get("cost")))
    made = {
        "cost": "fusion", "pool": int(parameters.get("R", retrieval.pool)), "chunks": kept,
        "triples": int(parameters.get("s", retrieval.triples)), "sentences": 2 * kept,
        **(PUBLISHED if parameters.get("published") else {}),
        **({"weights": ground.weighting} if ground and ground.weighting else {}), **stated,
    }  # fmt: skip
    try:
        return uscrake.Settings(**made)
    except ValueError as error:
        raise BadInput(f"selector {name}: {error}") from error


def _uscrake(name: str, step: Step, parameters: dict[str, Any]) -> Selector:
    profile, settings = profiles.load(), _settings(name, parameters)
    declared = benchmarks()[step.benchmark]
    passages = _passages(step.lake, declared.corpus) if declared.corpus else None
    used = declared.joined_graph and settings.parts != "chunks" and settings.triples
    graph = _triples(joined_graph_of(step), TRIPLES_JUDGED * settings.triples, profile.encoder) if used else None
    judge = _judge(profile.reranker, profile.token_encoder)
    models = encoder(profile.encoder), encoder(profile.token_encoder)
    return uscrake.Uscrake(name, settings, passages, *models, judge, graph)


METHODS: dict[str, Method] = {
    "uscrake": Method(
        _uscrake,
        ("corpus", "token_store", "joined_graph"),
        (
            "R",
            "k",
            "s",
            "published",
            "cost",
            "coarse",
            "parts",
            "grain",
            "sentences",
            "temperature",
            "links",
            "tokens",
            "weights",
        ),
        f"{uscrake.VERSION}.{chunk_ranking.VERSION}.{concept_triples.VERSION}",
    )
}
