"""The method K-Bloom: its settings, the scores of its harvests, and all its stages.

The stages that harvest a relation are in ``harvest_stages``; here its triples are merged by collection and scored. A
harvest has the triples of K-Bloom and those of the BertNet baseline, with different origins; a collection has K-Bloom's
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from evidence_assets import profiles
from evidence_assets.experiment.methods import NoSettings, ScoreTarget, StagesMethod
from evidence_assets.experiment.solvers import find_pool, open_language_model, prompts_version
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import available_models, variants_of
from evidence_assets.harvest.bertnet_prompts import MIN_PROMPTS
from evidence_assets.models.registry import SAMPLE_MASKED_LM, get_encoder, get_sequence_model
from evidence_assets.profiles import GeneratorSettings, Profile
from evidence_assets.reproduction.published_figures import add_published_figures
from evidence_assets.systems.kbloom import VERSION, rows, scores
from evidence_assets.systems.kbloom.harvest_stages import SEED_ASSET, HarvestStages, harvest_key
from evidence_assets.systems.kbloom.harvesting import KBloomSettings, SearchSettings, narrow_settings
from evidence_assets.systems.kbloom.sample_model import masked_model_stages, read_entity_names
from evidence_assets.systems.kbloom.sample_scores import build_sample_rows, draw_sample_precision, read_facts
from evidence_assets.systems.kbloom.scores import Reference, load_references
from evidence_assets.systems.kbloom.searches import Search, share_search
from evidence_assets.systems.kbloom.seeds import Relation, merged_collections
from evidence_assets.systems.kbloom.statement_judge import JUDGE, REWORD, StatementForm

SEED_FOLDER_ASSET = "raw/seeds"
"""Asset of the folder of seed files."""


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
        kbloom = narrow_settings(self, KBloomSettings)
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
            "collections": merged_collections(),
            "truth": harvesting.truth if harvesting.is_of_sample else "",
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
        declared = self._declared_searches()
        searches = [share_search(search, declared) for search in self.list_searches()]
        rewriter = self.variant.profile.generator if self.rewords_prompts else None
        harvest = HarvestStages(
            self.variant, settings.harvests, searches, settings.kinds, settings.collections, rewriter
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
        return [*harvest.build(), *collections, *self._build_score_stages()]

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
        return harvest_key(self.variant)

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

    def list_searches(self) -> list[Search]:
        """The searches of K-Bloom and, if enabled, of the baseline."""
        return [
            Search(self.variant.key, narrow_settings(settings, SearchSettings), self._mining_models(settings.variant))
            for settings in self.settings.harvests
        ]

    def _declared_searches(self) -> list[Search]:
        """The searches of all declared variants, loaded or not, with the models of this one."""
        update = {"active_models": self.variant.active_models}
        declared = [other for other in variants_of(self.name) if other.method in ("", self.name)]
        return [search for other in declared for search in KBloom(other.model_copy(update=update)).list_searches()]

    def _mining_models(self, variant: str) -> tuple[str, ...]:
        """Models that write prompts, as far as they are known without loading them."""
        harvesting = self.variant.profile.harvesting
        if self.settings.prompts == "initial":
            return ()
        writers = [model for model in (harvesting.writer, harvesting.substitution) if model is not None]
        models = [f"{model.name}@{model.revision}" for model in writers]
        if self.rewords_prompts and variant == "bertnet":
            prompts = self.variant.prompt_settings
            models.append(prompts_version(self.variant.profile.generator, REWORD, prompts=prompts))
        return tuple(models)

    @property
    def rewords_prompts(self) -> bool:
        """Whether the language model rewords prompts for the baseline."""
        return self.settings.baseline and self.variant.profile.harvesting.paraphraser == "generator"

    def count_tasks(self, relations: Sequence[Relation], *, is_judged: bool) -> dict[str, int]:
        """Inputs of each prompted task for these relations; at most."""
        judged = is_judged * len(relations) * self.settings.n * len(self.settings.harvests) * len(find_judges())
        # A round of rewording repeats the requests of earlier ones, and none starts with MIN_PROMPTS prompts.
        reworded = MIN_PROMPTS * sum(len(relation.pairs) for relation in relations)
        is_reworded = self.rewords_prompts and self.settings.prompts != "initial"
        return {JUDGE.name: judged, REWORD.name: is_reworded * reworded}

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


def find_judges() -> list[GeneratorSettings]:
    """The generators that judge: the profile's ``judges``, else its language model if there is one.

    A judge of another packaged profile is left out: a profile that extends `companions` may have other models.
    """
    profile = profiles.load()
    names = available_models(profile, "generator", profile.harvesting.judges) or profile.model_names("generator")[:1]
    return [profile.generators[name] for name in names if profile.generators[name].backend != "extractive"]


class MaskedModelTraining(StagesMethod[NoSettings]):
    """Trains a small masked language model on a corpus of the lake."""

    name = "masked_model"
    version = VERSION
    settings_class = NoSettings
    model_kinds = ("masked_model",)

    def build_stages(self) -> list[Stage]:
        return masked_model_stages(self.variant)
