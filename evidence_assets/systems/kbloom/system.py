"""K-Bloom's stages: triples harvested from a masked language model by relation, merged by collection, scored.

The harvest holds the triples of K-Bloom and, under their own origin, those of the baseline that searches with the same
prompts; a collection holds K-Bloom's only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal

from evidence_assets import profiles
from evidence_assets.experiment.scores.published_figures import add_published_figures
from evidence_assets.experiment.solvers import find_pool, open_language_model, prompts_version
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.system import CustomStages, NoSettings, ScoreTarget, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.harvest.prompt_mining import MiningModels
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.registry import (
    MASKED_LM_ASSET,
    SAMPLE_MASKED_LM,
    get_encoder,
    get_masked_lm,
    get_sequence_model,
    model_key,
)
from evidence_assets.profiles import GeneratorSettings, Profile
from evidence_assets.systems.kbloom import VERSION, rows, scores
from evidence_assets.systems.kbloom.harvesting import (
    KBloomSettings,
    check_kinds,
    check_seeds,
    harvest_relation,
    mine_relation_prompts,
)
from evidence_assets.systems.kbloom.references import Reference, load_references
from evidence_assets.systems.kbloom.sample_model import masked_model_stages, read_entity_names
from evidence_assets.systems.kbloom.sample_scores import build_sample_rows, read_facts
from evidence_assets.systems.kbloom.statement_judge import (
    JUDGE,
    REWORD,
    PromptedJudge,
    reword_statements,
    verbalise_triple,
)

SEED_ASSET, SEED_FOLDER_ASSET = "knowledge/seeds", "raw/seeds"
"""The seeds of each relation, and the folder of their files."""
ALL_SEEDS = StageInput(SEED_ASSET, "every")


@dataclass(frozen=True)
class HarvestSettings(KBloomSettings):
    """A harvest and what is made of it.

    ``collections``: Collections of relations that are merged, each into an asset of its own.
    ``baseline``: Whether the baseline is run beside it.
    ``kinds``: Asset of ``triples`` whose types of heads and tails say of what kind an entity is, for seed files that
        name some.
    ``truth``: ``sample`` scores it against the facts that the sample corpus states.
    """

    collections: tuple[str, ...] = ()
    baseline: bool = True
    kinds: str = ""
    truth: Literal["sample", ""] = ""

    @property
    def references(self) -> list[Reference]:
        """What the collections are compared with outside the sample."""
        return [one for one in load_references().values() if one.collection in self.collections]

    @property
    def harvests(self) -> list[KBloomSettings]:
        """The harvest itself, and the baseline beside it."""
        own = KBloomSettings(**{f.name: getattr(self, f.name) for f in fields(KBloomSettings)})
        return [own, replace(own, variant="bertnet")] if self.baseline else [own]


def _defaults(profile: Profile) -> Mapping[str, Any]:
    stated = profile.harvesting
    # The sample's model is small and its word vectors say little: chosen on one half of the sample's relations.
    small = profile.masked_model.name == SAMPLE_MASKED_LM
    return {
        "n": stated.n,
        "max_prompts": stated.prompts,
        "collections": stated.collections,
        "truth": stated.truth,
        "fluency": stated.fluency or ("probability" if small else "corrected"),
        "final": stated.final or ("fluency" if small else "printed"),
    }


@dataclass(frozen=True)
class _Stages:
    """The stages of one variant."""

    variant: Variant
    settings: HarvestSettings

    @property
    def harvest(self) -> str:
        """Asset of the harvest itself."""
        return f"{self.variant.key}/harvest"

    @property
    def names(self) -> dict[str, str]:
        """Under which name the triples of each origin are scored."""
        own, *others = (one.variant for one in self.settings.harvests)
        return {
            own: self.variant.with_models(self.variant.name, by="@"),
            **{o: self.variant.with_models(o, by="@") for o in others},
        }

    def all(self) -> list[Stage]:
        settings, version = self.settings, f"{VERSION}:{self.variant.published}"
        reads = [StageInput(SEED_ASSET), StageInput(self.variant.with_models(MASKED_LM_ASSET, ["masked_model"]))]
        reads += [StageInput(settings.kinds)] if settings.kinds else []
        about = "Triples of one relation, with the prompts and candidates that led to them."
        code, kinds = f"{VERSION}:{settings.harvests}:{self._written_by}", ("parquet", "pytorch")
        where: dict[str, Any] = {"partitions": "relations", "kinds": kinds, "pool": "gpu"}
        stages = [Stage(self.harvest, "triples", self._harvested, about, reads, code, **where)]
        for collection in settings.collections:
            about = f"Harvested triples of all relations of {collection}, flagged by what their reverse says."
            reads = [StageInput(self.harvest, "every"), ALL_SEEDS, StageInput(SEED_FOLDER_ASSET)]
            key, merge = f"{self.variant.key}/{collection}", partial(self._merged, collection)
            stages.append(Stage(key, "triples", merge, about, reads, VERSION, partitions=""))
        if settings.truth:
            about = "What the harvest reaches against the facts that the sample corpus states, seeds left out."
            stages.append(
                self._scored(
                    "", self._on_the_sample, about, [StageInput(SEED_FOLDER_ASSET), StageInput("raw/sample")], VERSION
                )
            )
        else:
            about = "How much each collection yields, and how varied it is."
            stages.append(self._scored("", self._sizes, about, [StageInput(SEED_FOLDER_ASSET)], version))
        for reference in settings.references:
            compare = partial(self._compared, reference)
            about = f"The harvest of {reference.collection} compared with {reference.name}."
            stages.append(
                self._scored(f"_on_{reference.name}", compare, about, [StageInput(reference.key)], version, "gpu")
            )
        judges, rated = _judge_settings(), self.variant.profile.harvesting.likelihood
        if judges or rated is not None:
            asked = [prompts_version(one, JUDGE, prompts=self.variant.words) for one in judges]
            asked += [f"{rated.name}@{rated.revision}"] if rated else []
            pool = find_pool(judges[0]) if judges else "gpu"
            about = "What language models say of the harvest: precision, agreement of two judges, likelihood."
            stages.append(self._scored("_judged", self._judged, about, [], f"{version}:2:{asked}", pool))
        return stages

    def _scored(
        self,
        suffix: str,
        make: Callable[[StageContext], StageOutput],
        about: str,
        reads: list[StageInput],
        version: str,
        pool: str | None = None,
    ) -> Stage:
        kinds = ("parquet", "pytorch") if pool == "gpu" else ("parquet",)
        reads = [StageInput(self.harvest, "every"), ALL_SEEDS, *reads]
        key = f"scores/{self.variant.key}{suffix}"
        return Stage(key, "scores", make, about, reads, version, partitions="", kinds=kinds, pool=pool)

    @property
    def _written_by(self) -> list[str]:
        """The models that prompts are written with besides the masked one, as far as they are known unloaded."""
        stated = self.variant.profile.harvesting
        named = [f"{one.name}@{one.revision}" for one in (stated.writer, stated.substitution) if one is not None]
        if self.settings.baseline and stated.paraphraser == "generator":
            named.append(prompts_version(self.variant.profile.generator, REWORD, prompts=self.variant.words))
        return named if self.settings.prompts != "initial" else []

    def _models(self, step: StageContext) -> tuple[MiningModels, list[str]]:
        """The models that prompts are mined with, and the names of those besides the masked one and the encoder."""
        from evidence_assets.models.sequence_models import PermutedLM, SentenceWriter  # with torch, as below

        stated = step.profile.harvesting
        models = MiningModels(get_masked_lm(step.lake, step.profile.masked_model), get_encoder(step.profile.encoder))
        if self.settings.prompts == "initial":
            return models, []
        writer = get_sequence_model(SentenceWriter, stated.writer) if stated.writer else None
        proposer = get_sequence_model(PermutedLM, stated.substitution) if stated.substitution else None
        rewords = self.settings.baseline and stated.paraphraser == "generator"
        rewording = partial(reword_statements, open_language_model(step, step.profile.generator)) if rewords else None
        names = [model_key(model) for model in (writer, proposer) if model is not None]
        write = writer.write if writer else None
        return replace(models, write=write, propose=proposer, paraphrase=rewording), [*names, *self._written_by]

    def _read(self, step: StageContext, collection: str = "") -> scores.HarvestedRelations:
        """The harvest to be scored, of one collection or all."""
        relations = rows.build_relations(step.read("relation_seeds", SEED_ASSET))
        chosen = [one for one in relations if collection in ("", one.collection)]
        return scores.HarvestedRelations(chosen, step.read("triples", self.harvest), self.names)

    def _beside(self, scored: list[dict[str, Any]]) -> StageOutput:
        """The rows of each harvest beside the figures that are printed for its system."""
        made = []
        for origin, variant in self.names.items():
            names = [name for name in self.variant.published if name.system == origin]
            made += add_published_figures([row for row in scored if row["selector"] == variant], names)
        return StageOutput(made)

    def _harvested(self, step: StageContext) -> StageOutput:
        relation, settings = (
            rows.build_relation(step.read_partition("relation_seeds", SEED_ASSET)),
            self.settings.harvests,
        )
        if relation.collection not in self.settings.collections:
            known = ", ".join(self.settings.collections)
            step.warn(f"collection {relation.collection!r} is merged nowhere; known: {known}")
        kinds = rows.read_entity_kinds(step.read("triples", self.settings.kinds)) if self.settings.kinds else None
        models, others = self._models(step)
        model = model_key(models.masked)
        key = rows.hash_harvest_inputs(relation, model, model_key(models.encoder), settings, kinds, others)
        before = step.read_partition("prompts", step.asset)
        whole = step.lake.is_complete(step.table, step.asset, step.partition)
        if whole and before.height and set(before["input_hash"]) == {key}:
            triples, lineage, _ = step.previous_output
            beside = {"prompts": before, "candidate_tuples": step.read_partition("candidate_tuples", step.asset)}
            return StageOutput(triples, lineage.to_arrow(), {}, triples.height, beside)
        check_seeds(relation, models.masked, [step.lake.raw_path("seeds")])
        check_kinds(relation, kinds)
        prompts = mine_relation_prompts(relation, models, settings[0])
        mined = [prompts, *(mine_relation_prompts(relation, models, one, prompts) for one in settings[1:])]
        harvests = [
            harvest_relation(relation, models.masked, own, one, kinds) for one, own in zip(settings, mined, strict=True)
        ]
        return rows.build_harvest_rows(relation, harvests, model=model, source=self.harvest, input_hash=key)

    def _merged(self, collection: str, step: StageContext) -> StageOutput:
        seeds = step.read("relation_seeds", SEED_ASSET)
        triples = rows.select_collection(step.read("triples", self.harvest), seeds, collection, "kbloom")
        return StageOutput(triples, metadata={"relations": triples["relation_id"].n_unique()})

    def _on_the_sample(self, step: StageContext) -> StageOutput:
        folder = step.lake.raw_path("sample")
        known = read_entity_names([folder / "graphs" / f"{graph}.tsv" for graph in ("biomedical", "commonsense")])
        stated, held_out = (read_facts(folder / f"{facts}.tsv") for facts in ("stated", "held_out"))
        return StageOutput(build_sample_rows(self._read(step), stated=stated, held_out=held_out, known=known))

    def _sizes(self, step: StageContext) -> StageOutput:
        return self._beside(scores.build_size_rows(self._read(step)))

    def _compared(self, reference: Reference, step: StageContext) -> StageOutput:
        stated = reference.pairs(step.lake.fetch_raw(*reference.paths))
        encode, harvested = get_encoder(step.profile.encoder).encode_sentences, self._read(step, reference.collection)
        return self._beside(scores.build_reference_rows(harvested, reference.name, stated, encode))

    def _judged(self, step: StageContext) -> StageOutput:
        from evidence_assets.models.sequence_models import TextLikelihood  # with torch, which a plan need not wait for

        rated, harvested = step.profile.harvesting.likelihood, self._read(step)
        judges = [PromptedJudge(open_language_model(step, settings)) for settings in _judge_settings()]
        likelihood = None if rated is None else get_sequence_model(TextLikelihood, rated)
        scored = scores.build_judgement_rows(harvested, judges, likelihood)
        return self._beside([*scored, *scores.build_inspection_rows(harvested, judges, likelihood)])


def _judge_settings() -> list[GeneratorSettings]:
    """The generators that judge: those that the profile names for it, else its language model, if it has one."""
    profile = profiles.load()
    names = [profile.check_name("generator", name) for name in profile.harvesting.judges] or profile.model_names(
        "generator"
    )[:1]
    return [profile.generators[name] for name in names if profile.generators[name].backend != "extractive"]


def judge_first_triple(variant: Variant, settings: HarvestSettings, step: StageContext) -> None:
    """Ask a judge about the first harvested triple."""
    harvest = f"{variant.key}/harvest"
    triples = step.read("triples", harvest).sort("relation_id", "origin", "rank")
    if triples.is_empty():
        raise BadInput(f"there is no triple to ask about: materialize {harvest} first")
    first = triples.row(0, named=True)
    by_id = {relation.id: relation for relation in rows.build_relations(step.read("relation_seeds", SEED_ASSET))}
    said = verbalise_triple(by_id[first["relation_id"]], first["head"], first["tail"])
    PromptedJudge(open_language_model(step, step.profile.generator)).judge([said])


def list_scopes(settings: HarvestSettings) -> list[ScoreTarget]:
    """The collections that harvests are scored for, and the references that they are compared with."""
    judged = {"kappa", "exact_agreement"} if len(_judge_settings()) > 1 else set[str]()
    if _judge_settings():
        judged |= {"precision", "noisy_percent", f"correct_of_{scores.INSPECTED_TUPLES}:{scores.INSPECTED_RELATION}"}
    if profiles.load().harvesting.likelihood is not None:
        extremes = {f"bartscore_{end}:{said}" for end in ("max", "min") for said in ("range", "rounded")}
        judged |= {"bartscore_mean", *extremes} | ({"pairs_with_higher_bartscore"} if settings.baseline else set())
    sizes = frozenset({"tuples", "fact_count", "diversity", "agreement"} | judged)
    of_two = ["novel_only_precision"] if settings.baseline else []
    compared = frozenset({"fact_count", "diversity", "novelty", "accuracy", "accuracy_maximum", *of_two})
    collections = () if settings.truth else settings.collections
    files = "the seed files of {} (systems/kbloom/relations, or your own)"
    return [
        *(ScoreTarget(name, sizes, files.format(name)) for name in collections),
        *(ScoreTarget(one.name, compared, one.holds) for one in settings.references),
    ]


SYSTEM = System(
    "kbloom",
    VERSION,
    {
        "kbloom": CustomStages(
            settings=HarvestSettings,
            stages=lambda variant, settings: _Stages(variant, settings).all(),
            defaults=_defaults,
            model_kinds=("masked_model",),
            score_targets=list_scopes,
            preview_prompt=judge_first_triple,
        ),
        "masked_model": CustomStages(settings=NoSettings, stages=masked_model_stages, model_kinds=("masked_model",)),
    },
)
