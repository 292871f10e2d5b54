"""USCRaKE as a system: opens its selector for a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

import polars as pl

from evidence_assets.benchmarks.graphs import relations
from evidence_assets.experiment.evidence.selection import Selector, evidence_hash
from evidence_assets.experiment.evidence.sources import open_benchmark_corpus, open_graph
from evidence_assets.experiment.stage import StageContext, StageInput
from evidence_assets.experiment.system import Method, System
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.store import Lake
from evidence_assets.models.registry import get_encoder, get_reranker, model_key
from evidence_assets.models.rerankers import MAXSIM
from evidence_assets.profiles import EncoderSettings, ModelSettings, Profile
from evidence_assets.retrieval import token_store
from evidence_assets.retrieval.corpus import IndexedCorpus, chunks_version
from evidence_assets.systems.uscrake import VERSION
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples
from evidence_assets.systems.uscrake.evidence_judges import Judge, LateInteraction, PairJudge
from evidence_assets.systems.uscrake.passages import Passages
from evidence_assets.systems.uscrake.selector import UscrakeSelector, WiderEvidence
from evidence_assets.systems.uscrake.settings import UscrakeSettings

_OPEN_LOCK = Lock()


def _passages(context: StageContext) -> Passages:
    corpus, profile = open_benchmark_corpus(context), context.profile
    max_bytes = int(profile.retrieval.token_cache_gb * 1e9)
    with _OPEN_LOCK:
        return _open_passages(str(context.lake.root), corpus, model_key(get_encoder(profile.token_encoder)), max_bytes)


@lru_cache(maxsize=2)
def _open_passages(root: str, corpus: IndexedCorpus, token_model: str, max_bytes: int) -> Passages:
    lake = Lake(root)
    expected = token_store.source_version(chunks_version(lake, corpus.name), token_model)
    folder, cache = lake.index_folder(f"corpus/{corpus.name}/token_store"), lake.cache / "tokens" / corpus.name
    return Passages(corpus, token_store.TokenStore(folder, expected=expected, cache=cache, max_bytes=max_bytes))


@lru_cache(maxsize=2)
def _triples(graph: KnowledgeGraph, cap: int, by_meaning: bool, encoder: ModelSettings) -> ConceptTriples:
    return ConceptTriples(graph, relations.load_vocabulary(), get_encoder(encoder), cap=cap, by_meaning=by_meaning)


def _judge(settings: ModelSettings, token_encoder: EncoderSettings) -> Judge:
    if settings.name == MAXSIM:
        return LateInteraction(get_encoder(token_encoder))
    return PairJudge(get_reranker(settings, token_encoder))


def _defaults(profile: Profile) -> Mapping[str, Any]:
    sizes = profile.retrieval
    return {"R": sizes.R, "k": sizes.k, "s": sizes.s}


def _open_ranking(context: StageContext, settings: UscrakeSettings) -> UscrakeSelector:
    """Open the selector that ranks."""
    profile, benchmark, triples = context.profile, context.benchmark, None
    passages = _passages(context) if benchmark.corpus else None
    if benchmark.joined_graph and settings.parts != "chunks" and settings.s:
        graph = open_graph(context.lake, benchmark.joined_graph, context.encoder)
        triples = _triples(graph, settings.max_triples, settings.linking == "meaning", profile.encoder)
    judge = _judge(profile.reranker, profile.token_encoder)
    models = get_encoder(profile.encoder), get_encoder(profile.token_encoder).inner
    return UscrakeSelector(settings, passages, *models, judge, triples)


# One ranking for a grid of k and s ----------------------------------------------------------------------------------


def _settings_of(variant: Variant) -> UscrakeSettings:
    settings: UscrakeSettings = SYSTEM.methods["uscrake"].settings_of(variant)
    return settings


def find_wider_variant(variant: Variant, settings: UscrakeSettings) -> Variant | None:
    """The loaded variant with the largest k and s whose evidence contains that of this variant; None if it is itself.

    A variant whose running time is compared with a published one ranks itself, and so does one with other models.
    """
    if variant.timed or variant.using:
        return None
    wider = {
        other.name: other
        for other in variants_of("uscrake")
        if other.family == variant.family and other.is_loaded and not other.evidence
        if _settings_of(other).contains_evidence_of(settings)
    }
    widest = max(wider.values(), key=lambda v: (_settings_of(v).k, _settings_of(v).s, v.name), default=variant)
    return None if widest.name == variant.name else widest


def _extra_inputs(variant: Variant, settings: UscrakeSettings) -> Sequence[StageInput]:
    wider = find_wider_variant(variant, settings)
    return [StageInput(f"evidence/{wider.key}")] if wider else []


def _open(context: StageContext, settings: UscrakeSettings) -> Selector:
    """Open the selector; with wider evidence among the inputs, it selects from its current rows."""
    selector = _open_ranking(context, settings)
    key = next((each.key for each in context.inputs if each.key.startswith("evidence/")), "")
    if not key:
        return selector
    wider = next(v for v in variants_of("uscrake") if f"evidence/{v.key}" == key)
    version, rows = _open_ranking(context, _settings_of(wider)).version, context.read_input("evidence")
    hashes = [evidence_hash(question_id, wider.selector, version) for question_id in rows["question_id"]]
    current_rows = rows.filter(pl.col("input_hash") == pl.Series(hashes, dtype=pl.String))
    return WiderEvidence(selector, current_rows, settings.k, settings.s)


SYSTEM = System(
    "uscrake",
    VERSION,
    {
        "uscrake": Method(
            settings=UscrakeSettings,
            open_selector=_open,
            sources=("corpus", "token_store", "joined_graph"),
            extra_inputs=_extra_inputs,
            neighbours=lambda settings: settings.R,
            defaults=_defaults,
            model_kinds=("encoder", "reranker"),
            published_style="chains",
        )
    },
)
