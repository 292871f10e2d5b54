"""The stages that harvest a relation: its prompts, its candidates and its triples are assets of their own.

Each reuses its rows while the hash of its inputs is the same: another template does not mine or search again, and
another scoring formula scores the stored candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from evidence_assets.experiment.solvers import open_language_model
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import Variant
from evidence_assets.harvest.prompt_mining import MiningModels
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.models.registry import (
    MASKED_LM_ASSET,
    get_encoder,
    get_masked_lm,
    get_sequence_model,
    masked_lm_key,
    model_key,
)
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.systems.kbloom import VERSION, rows
from evidence_assets.systems.kbloom.harvesting import (
    EntityKinds,
    HarvestedTriple,
    KBloomSettings,
    check_kinds,
    check_seeds,
    mine_relation_prompts,
    score_candidates,
    search_candidates,
)
from evidence_assets.systems.kbloom.sample_model import training_corpus
from evidence_assets.systems.kbloom.searches import SharedSearch
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judge import reword_statements

if TYPE_CHECKING:  # it imports torch
    from evidence_assets.models.sequence_models import TextLikelihood

SEED_ASSET = "knowledge/seeds"
"""Asset of the seeds of each relation."""
SEARCH_TABLES = ("prompts", "candidate_tuples")
"""Tables of the stages before the triples."""


def harvest_key(variant: Variant) -> str:
    """The asset with the triples of a variant, by relation."""
    return f"{variant.key}/harvest"


@dataclass(frozen=True)
class HarvestStages:
    """The stages of a variant from the seeds of a relation to its triples.

    ``settings``, ``searches``: Those of K-Bloom and, if enabled, of the baseline.
    ``kinds``: Asset of triples whose types give the kinds of entities; empty for none.
    ``collections``: The collections that are merged and scored.
    ``rewriter``: The language model that rewords prompts for the baseline; None if it weighs K-Bloom's prompts.
    """

    variant: Variant
    settings: Sequence[KBloomSettings]
    searches: Sequence[SharedSearch]
    kinds: str
    collections: Sequence[str]
    rewriter: GeneratorSettings | None

    def build(self) -> Iterator[Stage]:
        for shared in self.searches:
            search = shared.search
            method = "K-Bloom" if search.settings.variant == "kbloom" else "BertNet"
            texts = [StageInput(self.searches[0].prompts)] if self._weighs_kbloom_prompts(shared) else []
            yield self._build_stage(
                shared.prompts,
                "prompts",
                partial(self._mine_prompts, shared),
                f"Paraphrases of a relation's prompt, mined and weighted as by {method}.",
                texts,
                search.version("prompts"),
            )
            yield self._build_stage(
                shared.candidates,
                "candidate_tuples",
                partial(self._search_candidates, shared),
                f"The most probable pairs of a relation's prompts, searched as by {method}.",
                [StageInput(shared.prompts)],
                search.version("candidates"),
            )
        candidates = [StageInput(shared.candidates) for shared in self.searches]
        yield self._build_stage(
            harvest_key(self.variant),
            "triples",
            self._score_candidates,
            "Triples of one relation: its candidates, scored.",
            [*candidates, StageInput(self.kinds)] if self.kinds else candidates,
            f"{VERSION}:{list(self.settings)}:{self._causal_model}",
        )

    def _build_stage(
        self,
        key: str,
        table: str,
        compute: Callable[[StageContext], StageOutput],
        description: str,
        inputs: Sequence[StageInput],
        version: str,
    ) -> Stage:
        """A stage by relation that runs the masked model."""
        masked_lm = self.variant.with_models(MASKED_LM_ASSET, ["masked_model"])
        return Stage(
            key,
            table,
            compute,
            description,
            [StageInput(SEED_ASSET), StageInput(masked_lm), *inputs],
            version,
            partitions="relations",
            kinds=("parquet", "pytorch"),
            pool="gpu",
        )

    def _weighs_kbloom_prompts(self, shared: SharedSearch) -> bool:
        """Whether the prompts of a search are K-Bloom's with the baseline's weights."""
        settings = shared.search.settings
        return settings.variant == "bertnet" and settings.prompts != "initial" and self.rewriter is None

    @property
    def _causal_model(self) -> str:
        causal = self.variant.profile.harvesting.causal
        return f"{causal.name}@{causal.revision}" if causal else ""

    # Stage 1 --------------------------------------------------------------------------------------------------------

    def _mine_prompts(self, shared: SharedSearch, context: StageContext) -> StageOutput:
        relation = _read_relation(context)
        settings = shared.search.mining
        texts = list[str]()
        if self._weighs_kbloom_prompts(shared):
            texts = context.read("prompts", self.searches[0].prompts, context.partition)["text"].to_list()
        model_id = masked_lm_key(context.lake, context.profile.masked_model)
        models = [model_id, model_key(get_encoder(context.profile.encoder)), *shared.search.models]
        input_hash = rows.hash_prompt_inputs(relation, models, settings, texts)
        previous = context.previous_rows()
        if set(previous["input_hash"]) == {input_hash}:
            # The lineage is written again: it has the version of the seed file, of which other fields may have changed.
            lineage = rows.link_prompts(relation, previous["prompt_id"], model_id)
            return StageOutput(previous, lineage, reused=previous.height)
        mining_models = self._open_mining_models(shared, context)
        check_seeds(relation, mining_models.masked, training_corpus(context.profile))
        prompts = mine_relation_prompts(relation, mining_models, settings, texts)
        prompt_rows = rows.build_prompt_rows(relation, settings.variant, prompts, input_hash)
        lineage = rows.link_prompts(relation, [str(row["prompt_id"]) for row in prompt_rows], model_id)
        return StageOutput(prompt_rows, lineage, {"kept": sum(prompt.kept for prompt in prompts)}, reused=0)

    def _open_mining_models(self, shared: SharedSearch, context: StageContext) -> MiningModels:
        from evidence_assets.models.sequence_models import PermutedLM, SentenceWriter  # imports torch

        harvesting = context.profile.harvesting
        settings = shared.search.settings
        masked = get_masked_lm(context.lake, context.profile.masked_model)
        models = MiningModels(masked, get_encoder(context.profile.encoder))
        if settings.prompts == "initial":
            return models
        if settings.variant == "bertnet":
            if self.rewriter is None:
                return models
            generator = open_language_model(context, self.rewriter)
            return replace(models, paraphrase=partial(reword_statements, generator))
        if harvesting.writer:
            models = replace(models, write=get_sequence_model(SentenceWriter, harvesting.writer).write)
        if harvesting.substitution:
            models = replace(models, propose=get_sequence_model(PermutedLM, harvesting.substitution))
        return models

    # Stage 2 --------------------------------------------------------------------------------------------------------

    def _search_candidates(self, shared: SharedSearch, context: StageContext) -> StageOutput:
        relation = _read_relation(context)
        settings = shared.search.settings
        prompts = rows.read_kept_prompts(context.read("prompts", shared.prompts, context.partition))
        if not prompts:
            raise StaleInput(f"{shared.prompts} has no prompts of this relation; materialize it first")
        model_id = masked_lm_key(context.lake, context.profile.masked_model)
        input_hash = rows.hash_search_inputs(relation, model_id, settings, prompts.values())
        previous_rows, previous_lineage, _ = context.previous_output
        if set(previous_rows["input_hash"]) == {input_hash}:
            return StageOutput(previous_rows, previous_lineage.to_arrow(), reused=previous_rows.height)
        model = get_masked_lm(context.lake, context.profile.masked_model)
        candidates, finders = search_candidates(relation, model, list(prompts.values()), settings)
        if not candidates:
            raise BadInput(
                f"relation {relation.id!r}: {model_id} yields no pair. Its vocabulary has no candidate entity for this "
                "prompt. Change the prompt, or use another model"
            )
        table = rows.CandidateRows(relation.id, settings.variant, model_id)
        return StageOutput(
            table.build(candidates, input_hash), table.link(candidates, finders, list(prompts)), reused=0
        )

    # Stage 3 --------------------------------------------------------------------------------------------------------

    def _score_candidates(self, context: StageContext) -> StageOutput:
        relation = _read_relation(context)
        self._check_collection(relation, context)
        kinds = rows.read_entity_kinds(context.read("triples", self.kinds)) if self.kinds else None
        check_kinds(relation, kinds)
        model_id = masked_lm_key(context.lake, context.profile.masked_model)
        tables = [_read_candidates(shared.candidates, model_id, context) for shared in self.searches]
        search_hashes = [str(table["input_hash"][0]) for table in tables]
        input_hash = rows.hash_harvest_inputs(
            relation, model_id, self.settings, search_hashes, kinds, self._causal_model
        )
        previous_rows, previous_lineage, _ = context.previous_output
        if set(previous_rows["input_hash"]) == {input_hash}:
            return StageOutput(previous_rows, previous_lineage.to_arrow(), reused=previous_rows.height)
        harvests = self._score_tables(context, relation, tables, kinds)
        for name in SEARCH_TABLES:  # earlier releases wrote them with the triples
            context.lake.delete(name, context.asset, context.partition)
        return rows.build_triple_rows(relation, harvests, model_id, context.asset, input_hash)

    def _score_tables(
        self, context: StageContext, relation: Relation, tables: Sequence[pl.DataFrame], kinds: EntityKinds | None
    ) -> dict[str, Sequence[HarvestedTriple]]:
        """The triples of K-Bloom and of the baseline, by name, from the table of candidates of each."""
        model = get_masked_lm(context.lake, context.profile.masked_model)
        causal = _open_causal_model(context)
        harvests: dict[str, Sequence[HarvestedTriple]] = {
            settings.variant: score_candidates(relation, rows.read_candidates(table), model, settings, kinds, causal)
            for settings, table in zip(self.settings, tables, strict=True)
        }
        if not all(harvests.values()):
            raise BadInput(
                f"relation {relation.id!r}: no candidate is of an allowed kind. Change the allowed kinds or the "
                "prompt, or use another model"
            )
        return harvests

    def _check_collection(self, relation: Relation, context: StageContext) -> None:
        if relation.collection not in self.collections:
            context.warn(
                f"no graph joins collection {relation.collection!r}: name {self.variant.key}/{relation.collection} in "
                f"`harvested` of a graph's declaration, or choose one of {', '.join(self.collections)}"
            )


def _read_relation(context: StageContext) -> Relation:
    return rows.build_relation(context.read("relation_seeds", SEED_ASSET, context.partition))


def _read_candidates(asset: str, model_id: str, context: StageContext) -> pl.DataFrame:
    """The candidates of the relation, which must be those of the current model."""
    candidates = context.read("candidate_tuples", asset, context.partition)
    if set(candidates["model_id"]) != {model_id}:
        raise StaleInput(f"{asset} has no candidates of {model_id}; materialize it first")
    return candidates


def _open_causal_model(context: StageContext) -> TextLikelihood | None:
    from evidence_assets.models.sequence_models import TextLikelihood  # imports torch, which planning does not need

    settings = context.profile.harvesting.causal
    return get_sequence_model(TextLikelihood, settings) if settings else None
