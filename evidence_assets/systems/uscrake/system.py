"""USCRaKE as a system: opens its selector for a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache, partial

from evidence_assets.benchmarks.graphs import relations
from evidence_assets.experiment.evidence.selection import Selector
from evidence_assets.experiment.evidence.sources import SourceKind, open_benchmark_corpus, open_graph, source_inputs
from evidence_assets.experiment.methods import SelectionMethod
from evidence_assets.experiment.question_rows import build_questions
from evidence_assets.experiment.solvers import find_pool
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import variants_of
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.lake.ids import content_id
from evidence_assets.models.registry import get_encoder, get_reranker, model_key
from evidence_assets.models.rerankers import MAXSIM
from evidence_assets.profiles import ModelKind, ModelSettings, Profile
from evidence_assets.retrieval import token_store
from evidence_assets.retrieval.corpus import chunks_version
from evidence_assets.retrieval.token_cache import token_cache_folder
from evidence_assets.systems.uscrake import VERSION
from evidence_assets.systems.uscrake.concept_triples import ConceptTriples
from evidence_assets.systems.uscrake.cost_rankings import (
    TABLE,
    CostRankings,
    StoredRankings,
    keep_most_chunks,
    ranking_rows,
)
from evidence_assets.systems.uscrake.evidence_judges import Judge, LateInteraction, PairJudge
from evidence_assets.systems.uscrake.passages import Passages
from evidence_assets.systems.uscrake.selector import FirstRows, FirstRowsSettings, UscrakeSelector
from evidence_assets.systems.uscrake.settings import MeanFirstSettings, UscrakeSettings

MODEL_KINDS: tuple[ModelKind, ...] = ("encoder", "reranker")


def _open_passages(context: StageContext) -> Passages:
    corpus = open_benchmark_corpus(context)
    lake = context.lake
    token_model = model_key(get_encoder(context.profile.token_encoder))
    store = token_store.TokenStore(
        lake.index_folder(f"corpus/{corpus.name}/token_store"),
        expected=token_store.source_version(chunks_version(lake, corpus.name), token_model),
        cache=token_cache_folder(lake, corpus.name),
        max_bytes=context.profile.retrieval.token_cache_bytes,
    )
    return Passages(corpus, store, start_report=partial(context.progress, "mean points of chunks"))


@lru_cache(maxsize=2)
def _triples(graph: KnowledgeGraph, cap: int, by_meaning: bool, encoder: ModelSettings) -> ConceptTriples:
    return ConceptTriples(graph, relations.load_vocabulary(), get_encoder(encoder), cap=cap, by_meaning=by_meaning)


def _rank_by_costs(settings: Sequence[UscrakeSettings], context: StageContext) -> StageOutput:
    """Rank the chunks of a partition's questions by several costs."""
    if not context.benchmark.corpus:
        return StageOutput([], [])
    profile = context.profile
    rankings = CostRankings(_open_passages(context), get_encoder(profile.encoder), get_encoder(profile.token_encoder))
    questions = build_questions(context.read_input("questions"))
    progress = None if context.ad_hoc_benchmark else context.progress("questions")  # one question has no progress
    return ranking_rows(rankings, settings, questions, context.previous_output, progress)


class Uscrake(SelectionMethod[UscrakeSettings]):
    """USCRaKE: passages by optimal transport, and triples of the graph."""

    name = "uscrake"
    version = VERSION
    settings_class = UscrakeSettings
    model_kinds = MODEL_KINDS
    published_style = "chains"

    @property
    def sources(self) -> Sequence[SourceKind]:
        graph: list[SourceKind] = [] if self.settings.parts == "chunks" else ["joined_graph"]
        chunks: list[SourceKind] = [] if self.settings.parts == "graph" else ["corpus", "token_store"]
        return [*chunks, *graph]

    @cached_property
    def _sharing(self) -> list[Uscrake]:
        """This and the other variants of the file that rank the same pools, whose costs one pass ranks by."""
        pools = self.settings.pools
        if pools is None or type(self) is not Uscrake:
            return []
        declared = [v for v in variants_of(self.variant.system) if v.family == self.variant.family and not v.evidence]
        methods = [Uscrake(variant) for variant in declared if variant.method in ("", Uscrake.name)]
        sharing = [method for method in methods if method.settings.pools == pools]
        is_declared = any(method.variant.name == self.variant.name for method in sharing)
        return sharing if is_declared and len(sharing) > 1 else []

    @property
    def _ranking(self) -> str:
        """The asset with the rankings of all sharing variants, named after the first."""
        return self.variant.with_models(f"{TABLE}/{self._sharing[0].variant.key}", ["encoder"])

    @property
    def extra_inputs(self) -> Sequence[StageInput]:
        return [StageInput(self._ranking)] if self._sharing else []

    @property
    def shared_stages(self) -> Sequence[Stage]:
        if not self._sharing:
            return []
        variant = self.variant
        models: dict[ModelKind, str] = {k: name for k, name in variant.active_models.items() if k == "encoder"}
        settings = keep_most_chunks(method.settings for method in self._sharing)
        return [
            Stage(
                self._ranking,
                TABLE,
                partial(_rank_by_costs, settings),
                f"Chunks ranked by several costs in one pass: {', '.join(each.ranking for each in settings)}.",
                [
                    StageInput(f"questions/{variant.family}"),
                    *source_inputs(variant.family, self.sources, models.get("encoder", "")),
                ],
                f"{VERSION}:{content_id([asdict(each) for each in settings])[:12]}",
                family=variant.family,
                pool=find_pool(variant.profile.generator, self.model_kinds),
                models=models,
            )
        ]

    @property
    def chunks_per_option(self) -> int:
        return 0 if self.settings.parts == "graph" else self.settings.k

    @classmethod
    def read_defaults(cls, profile: Profile) -> Mapping[str, object]:
        return profile.retrieval.model_dump(include={"R", "k", "s"})

    def open_selector(self, context: StageContext) -> Selector:
        settings = self.settings
        if self._sharing:
            corpus = open_benchmark_corpus(context)
            return StoredRankings(context.read_input(TABLE), settings, corpus, self._ranking)
        profile = context.profile
        benchmark = context.benchmark
        passages = _open_passages(context) if benchmark.corpus and settings.parts != "graph" else None
        triples = None
        if benchmark.joined_graph and settings.parts != "chunks" and settings.s:
            graph = open_graph(context.lake, benchmark.joined_graph, context.encoder)
            triples = _triples(graph, settings.max_triples, settings.linking == "meaning", profile.encoder)
        token_encoder = get_encoder(profile.token_encoder)
        if profile.reranker.name == MAXSIM:
            judge: Judge = LateInteraction(token_encoder)
        else:
            judge = PairJudge(get_reranker(profile.reranker, profile.token_encoder))
        return UscrakeSelector(settings, passages, get_encoder(profile.encoder), token_encoder, judge, triples)


class MeanFirst(Uscrake):
    """USCRaKE with pools that the mean points of chunks narrow before tokens are encoded."""

    name = "mean_first"
    settings_class = MeanFirstSettings


class RankedRows(SelectionMethod[FirstRowsSettings]):
    """The first rows of another variant's ranking: one ranking serves a grid of k and s."""

    name = "first_rows"
    version = VERSION
    settings_class = FirstRowsSettings
    model_kinds = MODEL_KINDS
    published_style = "chains"

    @property
    def extra_inputs(self) -> Sequence[StageInput]:
        variant = self.variant
        ranking = f"evidence/{variant.family}/{self.settings.ranking}"
        return [StageInput(variant.with_models(ranking, MODEL_KINDS))]

    @property
    def chunks_per_option(self) -> int:
        return self.settings.k

    def open_selector(self, context: StageContext) -> Selector:
        return FirstRows(context.read_input("evidence"), self.settings)
