"""The stages of K-Bloom: harvest triples by relation, merge them by collection, score them.

The harvest has the triples of K-Bloom and those of the BertNet baseline, with different origins; a collection has
K-Bloom's only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Literal

from evidence_assets import profiles
from evidence_assets.experiment.methods import NoSettings, ScoreTarget, StagesMethod
from evidence_assets.experiment.solvers import find_pool, open_language_model, prompts_version
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import available_models
from evidence_assets.harvest.prompt_mining import MiningModels
from evidence_assets.models.registry import (
    MASKED_LM_ASSET,
    SAMPLE_MASKED_LM,
    get_encoder,
    get_masked_lm,
    get_sequence_model,
    masked_lm_key,
    model_key,
)
from evidence_assets.profiles import GeneratorSettings, Profile
from evidence_assets.reproduction.published_figures import add_published_figures
from evidence_assets.systems.kbloom import VERSION, rows, scores
from evidence_assets.systems.kbloom.harvesting import (
    EntityKinds,
    Harvest,
    KBloomSettings,
    check_kinds,
    check_seeds,
    harvest_relation,
    mine_relation_prompts,
)
from evidence_assets.systems.kbloom.sample_model import masked_model_stages, read_entity_names
from evidence_assets.systems.kbloom.sample_scores import build_sample_rows, draw_sample_precision, read_facts
from evidence_assets.systems.kbloom.scores import Reference, load_references
from evidence_assets.systems.kbloom.seeds import Relation
from evidence_assets.systems.kbloom.statement_judge import JUDGE, REWORD, StatementForm, reword_statements

SEED_ASSET = "knowledge/seeds"
SEED_FOLDER_ASSET = "raw/seeds"
"""Assets of the seeds of each relation and of the folder of seed files."""
SIDE_TABLES = ("prompts", "candidate_tuples")
"""Tables of a harvest beside its triples."""


@dataclass(frozen=True)
class HarvestSettings(KBloomSettings):
    """Settings of a harvest, its collections and its scores.

    ``collections``: Collections of relations, each merged into an asset.
    ``baseline``: Whether to run the baseline as well.
    ``kinds``: Asset of ``triples`` whose head and tail types give the kinds of entities. Required by seed files that
        restrict them.
    ``statements``: Text of a relation that states a triple to judges: its template, or as published its initial prompt.
    ``compared``: What is compared with reference tuples: statements, or as published the tuples alone.
    ``truth``: ``sample`` scores the harvest against the facts that the sample corpus states.
    """

    collections: tuple[str, ...] = ()
    baseline: bool = True
    kinds: str = ""
    statements: StatementForm = "template"
    compared: scores.ComparedForm = "statements"
    truth: Literal["sample", ""] = ""

    @property
    def references(self) -> list[Reference]:
        """Reference tuples for the collections."""
        return [reference for reference in load_references().values() if reference.collection in self.collections]

    @property
    def harvests(self) -> list[KBloomSettings]:
        """Settings of K-Bloom's harvest and, if enabled, of the baseline's."""
        kbloom = KBloomSettings(**{f.name: getattr(self, f.name) for f in fields(KBloomSettings)})
        return [kbloom, replace(kbloom, variant="bertnet")] if self.baseline else [kbloom]


class KBloom(StagesMethod[HarvestSettings]):
    """K-Bloom and, beside it, BertNet's way: triples harvested from a masked language model."""

    name = "kbloom"
    version = VERSION
    prompted_tasks = (JUDGE, REWORD)
    settings_class = HarvestSettings
    model_kinds = ("masked_model",)

    @classmethod
    def read_defaults(cls, profile: Profile) -> Mapping[str, object]:
        harvesting = profile.harvesting
        # The word vectors of the sample's small model carry little meaning: chosen on one half of the sample's
        # relations.
        is_sample_model = profile.masked_model.name == SAMPLE_MASKED_LM
        return {
            "n": harvesting.n,
            "max_prompts": harvesting.prompts,
            "collections": harvesting.collections,
            "truth": harvesting.truth,
            "fluency": harvesting.fluency or ("probability" if is_sample_model else "corrected"),
            "final": harvesting.final or ("fluency" if is_sample_model else "printed"),
        }

    @property
    def score_targets(self) -> Sequence[ScoreTarget]:
        """The collections with scores of a harvest, and the references that they are compared with."""
        settings = self.settings
        size_metrics = frozenset({"tuples", "fact_count", "diversity", "agreement"})
        metrics_by_asset = {self._score_asset(): size_metrics, self._score_asset("_judged"): self._judged_metrics}
        targets = list[ScoreTarget]()
        for collection in () if settings.truth else settings.collections:
            seed_note = f"the seed files of {collection} (systems/kbloom/relations, or your own)"
            for asset, metrics in metrics_by_asset.items():
                if metrics:
                    targets.append(ScoreTarget(collection, metrics, seed_note, asset, collection))
        novel_only = ["novel_only_precision"] if settings.baseline else []
        of_reference = frozenset({"fact_count", "diversity", "novelty", "accuracy", "accuracy_maximum", *novel_only})
        for reference in settings.references:
            asset = self._score_asset(f"_on_{reference.name}")
            targets.append(ScoreTarget(reference.name, of_reference, reference.contents, asset, reference.collection))
        return targets

    @property
    def _judged_metrics(self) -> frozenset[str]:
        """Metrics that language models compute from a harvest."""
        n_judges = len(find_judges())
        metrics = set[str]()
        if n_judges:
            inspected = f"correct_of_{scores.INSPECTED_TUPLES}:{scores.INSPECTED_RELATION}"
            metrics |= {"precision", "noisy_percent", inspected}
        if n_judges > 1:
            metrics |= {"kappa", "exact_agreement"}
        if profiles.load().harvesting.likelihood is not None:
            extremes = {f"bartscore_{end}:{rounding}" for end in ("max", "min") for rounding in ("range", "rounded")}
            paired = ["pairs_with_higher_bartscore"] if self.settings.baseline else []
            metrics |= {"bartscore_mean", *extremes, *paired}
        return frozenset(metrics)

    def _score_asset(self, suffix: str = "") -> str:
        return f"scores/{self.variant.key}{suffix}"

    def build_stages(self) -> list[Stage]:
        settings = self.settings
        inputs = [StageInput(SEED_ASSET), StageInput(self.variant.with_models(MASKED_LM_ASSET, ["masked_model"]))]
        harvest = Stage(
            self._harvest_asset,
            "triples",
            self._make_harvest,
            "Triples of one relation, with their prompts and candidate tuples.",
            [*inputs, StageInput(settings.kinds)] if settings.kinds else inputs,
            f"{VERSION}:{settings.harvests}:{self._other_models}",
            partitions="relations",
            kinds=("parquet", "pytorch"),
            pool="gpu",
        )
        collections = [
            Stage(
                f"{self.variant.key}/{collection}",
                "triples",
                partial(self._merge_collection, collection),
                f"Harvested triples of all relations of {collection}, flagged by their reverse.",
                [*self._harvest_inputs, StageInput(SEED_FOLDER_ASSET)],
                VERSION,
                partitions="",
            )
            for collection in settings.collections
        ]
        return [harvest, *collections, *self._build_score_stages()]

    def _build_score_stages(self) -> Iterator[Stage]:
        settings = self.settings
        version = f"{VERSION}:{settings.statements}:{self.variant.printed.figures}"
        if settings.truth:
            description = "Scores of the harvest against the facts that the sample corpus states, without the seeds."
            yield self._score_stage(
                "", self._score_on_sample, description, [SEED_FOLDER_ASSET, "raw/sample"], f"{VERSION}:4"
            )
        else:
            description = "Size and diversity of the harvest of each collection."
            yield self._score_stage("", self._score_size, description, [SEED_FOLDER_ASSET], version)
        for reference in settings.references:
            compute = partial(self._score_on_reference, reference)
            description = f"The harvest of {reference.collection} compared with {reference.name}."
            yield self._score_stage(
                f"_on_{reference.name}",
                compute,
                description,
                [reference.key],
                f"{version}:2:{settings.compared}",
                "gpu",
            )
        judges = find_judges()
        likelihood = self.variant.profile.harvesting.likelihood
        if judges or likelihood is not None:
            models = [prompts_version(judge, JUDGE, prompts=self.variant.prompt_settings) for judge in judges]
            models += [f"{likelihood.name}@{likelihood.revision}"] if likelihood else []
            description = (
                "Judgements of the harvest by language models: precision, agreement of two judges, likelihood."
            )
            pool = find_pool(judges[0]) if judges else "gpu"
            yield self._score_stage("_judged", self._score_by_models, description, [], f"{version}:3:{models}", pool)

    def _score_stage(
        self,
        suffix: str,
        compute: Callable[[StageContext], StageOutput],
        description: str,
        inputs: Sequence[str],
        version: str,
        pool: str | None = None,
    ) -> Stage:
        """A stage that scores the harvest."""
        return Stage(
            self._score_asset(suffix),
            "scores",
            compute,
            description,
            [*self._harvest_inputs, *map(StageInput, inputs)],
            version,
            partitions="",
            kinds=("parquet", "pytorch") if pool == "gpu" else ("parquet",),
            pool=pool,
        )

    @property
    def _harvest_asset(self) -> str:
        return f"{self.variant.key}/harvest"

    @property
    def _harvest_inputs(self) -> list[StageInput]:
        """The whole harvest and its seeds."""
        return [StageInput(self._harvest_asset, "every"), StageInput(SEED_ASSET, "every")]

    @property
    def _selectors(self) -> dict[str, str]:
        """The selector that the scores of each origin name."""
        first, *others = (settings.variant for settings in self.settings.harvests)
        names = {first: self.variant.name} | {other: other for other in others}
        return {origin: self.variant.with_models(name, separator="@") for origin, name in names.items()}

    @property
    def _other_models(self) -> list[str]:
        """Models other than the masked one and the encoder, as far as they are known without loading them."""
        harvesting = self.variant.profile.harvesting
        models = list[str]()
        if self.settings.prompts != "initial":
            writers = [model for model in (harvesting.writer, harvesting.substitution) if model is not None]
            models += [f"{model.name}@{model.revision}" for model in writers]
            if self.rewords_prompts:
                prompts = self.variant.prompt_settings
                models.append(prompts_version(self.variant.profile.generator, REWORD, prompts=prompts))
        causal = harvesting.causal
        return models + ([f"{causal.name}@{causal.revision}"] if causal else [])

    @property
    def rewords_prompts(self) -> bool:
        """Whether the language model rewords prompts for the baseline."""
        return self.settings.baseline and self.variant.profile.harvesting.paraphraser == "generator"

    def _make_harvest(self, context: StageContext) -> StageOutput:
        relation = rows.build_relation(context.read("relation_seeds", SEED_ASSET, context.partition))
        if relation.collection not in self.settings.collections:
            collections = ", ".join(self.settings.collections)
            context.warn(
                f"no asset merges collection {relation.collection!r}. Set the relation's collection to one of "
                f"{collections}, or add it to `collections` of the variant"
            )
        kinds = rows.read_entity_kinds(context.read("triples", self.settings.kinds)) if self.settings.kinds else None
        model_id = masked_lm_key(context.lake, context.profile.masked_model)
        encoder_id = model_key(get_encoder(context.profile.encoder))
        settings = self.settings.harvests
        input_hash = rows.hash_harvest_inputs(relation, model_id, encoder_id, settings, kinds, self._other_models)
        if previous_output := _read_unchanged(context, input_hash):
            return previous_output
        harvests = self._run_harvests(context, relation, kinds)
        source = self._harvest_asset
        return rows.build_harvest_rows(relation, harvests, model=model_id, source=source, input_hash=input_hash)

    def _run_harvests(self, context: StageContext, relation: Relation, kinds: EntityKinds | None) -> list[Harvest]:
        """K-Bloom's harvest of a relation and, if enabled, the baseline's."""
        from evidence_assets.models.sequence_models import TextLikelihood  # imports torch, which planning does not need

        models = self._open_mining_models(context)
        causal_settings = context.profile.harvesting.causal
        causal = get_sequence_model(TextLikelihood, causal_settings) if causal_settings else None
        check_seeds(relation, models.masked)
        check_kinds(relation, kinds)
        harvests = list[Harvest]()
        for settings in self.settings.harvests:
            prompts = mine_relation_prompts(relation, models, settings, harvests[0].prompts if harvests else None)
            harvests.append(harvest_relation(relation, models.masked, prompts, settings, kinds, causal))
        return harvests

    def _open_mining_models(self, context: StageContext) -> MiningModels:
        from evidence_assets.models.sequence_models import PermutedLM, SentenceWriter  # imports torch

        harvesting = context.profile.harvesting
        masked = get_masked_lm(context.lake, context.profile.masked_model)
        models = MiningModels(masked, get_encoder(context.profile.encoder))
        if self.settings.prompts == "initial":
            return models
        if harvesting.writer:
            models = replace(models, write=get_sequence_model(SentenceWriter, harvesting.writer).write)
        if harvesting.substitution:
            models = replace(models, propose=get_sequence_model(PermutedLM, harvesting.substitution))
        if self.rewords_prompts:
            generator = open_language_model(context, context.profile.generator)
            models = replace(models, paraphrase=partial(reword_statements, generator))
        return models

    def _merge_collection(self, collection: str, context: StageContext) -> StageOutput:
        seeds = context.read("relation_seeds", SEED_ASSET)
        triples = rows.select_collection(context.read("triples", self._harvest_asset), seeds, collection, "kbloom")
        return StageOutput(triples, metadata={"relations": triples["relation_id"].n_unique()})

    def _score_on_sample(self, context: StageContext) -> StageOutput:
        folder = context.lake.raw_path("sample")
        harvest = self._read_harvest(context)
        stated_facts = read_facts(folder / "stated.tsv")
        score_rows = build_sample_rows(
            harvest,
            stated_facts=stated_facts,
            held_out_facts=read_facts(folder / "held_out.tsv"),
            known_entities=read_entity_names(context.lake),
        )
        return StageOutput(score_rows, pictures=draw_sample_precision(harvest, stated_facts))

    def _score_size(self, context: StageContext) -> StageOutput:
        return self._with_published(scores.build_size_rows(self._read_harvest(context)))

    def _score_on_reference(self, reference: Reference, context: StageContext) -> StageOutput:
        pairs = reference.read_pairs(context.lake.fetch_raw(*reference.paths))
        encode = get_encoder(context.profile.encoder).encode_sentences
        harvest = self._read_harvest(context, reference.collection)
        return self._with_published(scores.build_reference_rows(harvest, reference.name, pairs, encode))

    def _score_by_models(self, context: StageContext) -> StageOutput:
        from evidence_assets.models.sequence_models import TextLikelihood  # imports torch, which planning does not need

        settings = context.profile.harvesting.likelihood
        harvest = self._read_harvest(context)
        judges = [open_language_model(context, generator) for generator in find_judges()]
        likelihood = None if settings is None else get_sequence_model(TextLikelihood, settings)
        verdicts = scores.judge_harvest(harvest, judges)
        judgements = scores.build_judgement_rows(harvest, judges, verdicts)
        inspections = scores.build_inspection_rows(harvest, judges, likelihood)
        pictures = scores.draw_judged_precision(harvest, verdicts)
        return replace(self._with_published([*judgements, *inspections]), pictures=pictures)

    def _read_harvest(self, context: StageContext, collection: str = "") -> scores.HarvestedRelations:
        """The harvest of one collection, or of all."""
        relations = rows.build_relations(context.read("relation_seeds", SEED_ASSET))
        selected = [relation for relation in relations if collection in ("", relation.collection)]
        triples = context.read("triples", self._harvest_asset)
        return scores.HarvestedRelations(
            selected, triples, self._selectors, self.settings.statements, self.settings.compared
        )

    def _with_published(self, score_rows: Sequence[rows.Row]) -> StageOutput:
        """The rows of each harvest, with the published figures of its system."""
        output_rows = list[rows.Row]()
        for origin, selector in self._selectors.items():
            published = [name for name in self.variant.printed.figures if name.system == origin]
            output_rows += add_published_figures([row for row in score_rows if row["selector"] == selector], published)
        return StageOutput(output_rows)


def _read_unchanged(context: StageContext, input_hash: str) -> StageOutput | None:
    """The previous harvest if it is complete and has these inputs."""
    side_tables = {name: context.read(name, context.asset, context.partition) for name in SIDE_TABLES}
    is_complete = context.lake.is_complete(context.table, context.asset, context.partition)
    if not is_complete or set(side_tables["prompts"]["input_hash"]) != {input_hash}:
        return None
    triples, lineage, _ = context.previous_output
    return StageOutput(triples, lineage.to_arrow(), {}, triples.height, side_tables)


def find_judges() -> list[GeneratorSettings]:
    """The generators that judge: the profile's ``judges``, else its language model if there is one.

    A judge of another packaged profile is left out: a profile that extends `companions` may have other models.
    """
    profile = profiles.load()
    names = available_models(profile, "generator", profile.harvesting.judges) or profile.model_names("generator")[:1]
    return [profile.generators[name] for name in names if profile.generators[name].backend != "extractive"]


class MaskedModelTraining(StagesMethod[NoSettings]):
    """Trains the sample's masked language model."""

    name = "masked_model"
    version = VERSION
    settings_class = NoSettings
    model_kinds = ("masked_model",)

    def build_stages(self) -> list[Stage]:
        return masked_model_stages(self.variant)
