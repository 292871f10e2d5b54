"""K-Bloom's stages: triples harvested from a masked language model by relation, merged by collection, scored.

The harvest holds the triples of K-Bloom and, in the same rows' table under their own origin, those of the baseline that
searches with the same prompts; a collection holds K-Bloom's only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from evidence_assets import profiles
from evidence_assets.experiment.scores.published_figures import beside
from evidence_assets.experiment.solvers import asking_version, language_model, pool_of
from evidence_assets.experiment.stage import Read, Stage, StageContext, StageOutput
from evidence_assets.experiment.system import NoSettings, OwnStages, Scope, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.in_use import (
    MASKED_LM,
    encoder,
    masked_lm,
    model_key,
    sentence_writer,
    substitute_proposer,
    text_likelihood,
)
from evidence_assets.models.sample_masked_lm import SAMPLE_MASKED_LM
from evidence_assets.profiles import GeneratorSettings, Profile
from evidence_assets.systems.kbloom import VERSION, collection_scores, judging, rows, scores
from evidence_assets.systems.kbloom.judging import JUDGE, REWORD, PromptedJudge, PromptedParaphraser
from evidence_assets.systems.kbloom.references import Reference, references
from evidence_assets.systems.kbloom.sample_model import masked_model_stages, names_of
from evidence_assets.systems.kbloom.system import (
    KBloomSettings,
    Kinds,
    PromptModels,
    check_kinds,
    check_seeds,
    harvest,
    mine,
)

SEEDS, FOLDER = "knowledge/seeds", "raw/seeds"
"""The seeds of each relation, and the folder of their files."""
ALL_SEEDS = Read(SEEDS, "every")


@dataclass(frozen=True)
class HarvestSettings(KBloomSettings):
    """A harvest and what is made of it.

    ``collections``: Collections of relations that are merged, each into an asset of its own.
    ``baseline``: Whether the baseline is run beside it.
    ``kinds``: Asset of ``triples`` whose types of heads and tails say of what kind an entity is, for seed files that
        name some.
    ``coverage``: Whether its coverage is estimated, which harvests every relation twice more.
    ``truth``: ``sample`` scores it against the facts that the sample corpus states.
    """

    collections: tuple[str, ...] = ()
    baseline: bool = True
    kinds: str = ""
    coverage: bool = False
    truth: Literal["sample", ""] = ""

    @property
    def references(self) -> list[Reference]:
        """What the collections are compared with outside the sample."""
        return [one for one in references().values() if one.collection in self.collections]

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


class _Stages:
    def __init__(self, variant: Variant, settings: HarvestSettings) -> None:
        self._variant, self._settings, self._harvests = variant, settings, settings.harvests
        self._base = variant.place
        self._harvest = f"{self._base}/harvest"
        self._known_as: dict[str, str] = {
            s.variant: variant.at(variant.name if s is self._harvests[0] else s.variant, by="@") for s in self._harvests
        }
        """Under which name each harvest is scored."""

    def all(self) -> list[Stage]:
        settings = self._settings
        made = [self._harvest_stage(), *(self._merged(collection) for collection in settings.collections)]
        made += [self._scores() if settings.truth else self._sizes()]
        made += [self._compared(reference) for reference in settings.references]
        made += [self._coverage()] if settings.coverage else []
        return made + self._judged()

    def _scored(
        self,
        suffix: str,
        make: Callable[[StageContext], StageOutput],
        what: str,
        reads: list[Read],
        version: str,
        **more: Any,
    ) -> Stage:
        return Stage(
            f"scores/{self._base}{suffix}",
            "scores",
            make,
            what,
            [Read(self._harvest, "every"), ALL_SEEDS, *reads],
            version,
            partitions="",
            **more,
        )

    @property
    def _model(self) -> Read:
        return Read(self._variant.at(MASKED_LM, ["masked_model"]))

    @property
    def _kinds_read(self) -> list[Read]:
        return [Read(self._settings.kinds)] if self._settings.kinds else []

    def _kinds(self, step: StageContext) -> Kinds | None:
        return rows.kinds_of(step.read("triples", self._settings.kinds)) if self._settings.kinds else None

    @property
    def _written_by(self) -> str:
        """Which models prompts are written with, for the code version; nothing where it is the masked one alone."""
        stated, settings = self._variant.profile.harvesting, self._settings
        named = [f"{one.name}@{one.revision}" for one in (stated.writer, stated.substitution) if one is not None]
        if settings.baseline and stated.paraphraser == "generator":
            named.append(asking_version(self._variant.profile.generator, REWORD, words=self._variant.words))
        return f":{named}" if named and settings.prompts != "initial" else ""

    def _harvest_stage(self) -> Stage:
        def make(step: StageContext) -> StageOutput:
            relation = rows.relation_of(step.read_here("relation_seeds", SEEDS))
            model, words = masked_lm(step.lake, step.profile.masked_model), encoder(step.profile.encoder)
            if relation.collection not in self._settings.collections:
                known = ", ".join(self._settings.collections)
                step.warn(f"collection {relation.collection!r} is merged nowhere; known: {known}")
            kinds = self._kinds(step)
            others, known_as = _prompt_models(step, self._settings)
            key = rows.harvest_hash(relation, model_key(model), model_key(words), self._harvests, kinds, known_as)
            before = step.read_here("prompts", step.asset)
            whole = step.lake.is_whole(step.table, step.asset, step.partition)
            if whole and before.height and set(before["input_hash"]) == {key}:
                triples, lineage, _ = step.before
                beside = {"prompts": before, "candidate_tuples": step.read_here("candidate_tuples", step.asset)}
                return StageOutput(triples, lineage.to_arrow(), {}, triples.height, beside)
            own = step.profile.harvesting.seed_folders
            check_seeds(relation, model, [step.lake.raw_place(name) for name in ("seeds", *own)])
            check_kinds(relation, kinds)
            prompts = mine(relation, model, words, self._harvests[0], others)
            mined = [prompts, *(mine(relation, model, words, one, others, prompts) for one in self._harvests[1:])]
            harvests = [
                harvest(relation, model, words, one, prompts=own, kinds=kinds)
                for one, own in zip(self._harvests, mined, strict=True)
            ]
            return rows.harvest_rows(relation, harvests, model=model_key(model), source=self._harvest, input_hash=key)

        return Stage(
            self._harvest,
            "triples",
            make,
            "Triples of one relation, from its prompt and seed pairs, with the prompts and candidates that led to them.",
            [Read(SEEDS), self._model, *self._kinds_read],
            f"{VERSION}:{self._harvests}{self._written_by}",
            partitions="relations",
            kinds=("parquet", "pytorch"),
            pool="gpu",
        )

    def _merged(self, collection: str) -> Stage:
        def make(step: StageContext) -> StageOutput:
            triples = rows.in_collection(
                step.read("triples", self._harvest), step.read("relation_seeds", SEEDS), collection, "kbloom"
            )
            return StageOutput(triples, metadata={"relations": triples["relation_id"].n_unique()})

        return Stage(
            f"{self._base}/{collection}",
            "triples",
            make,
            f"Harvested triples of all relations of {collection}, best first in each, flagged by what their reverse says.",
            [Read(self._harvest, "every"), ALL_SEEDS, Read(FOLDER)],
            VERSION,
            partitions="",
        )

    def _scores(self) -> Stage:
        def make(step: StageContext) -> StageOutput:
            folder = step.lake.raw_place("sample")
            scored = scores.score_rows(
                rows.relations_of(step.read("relation_seeds", SEEDS)),
                step.read("triples", self._harvest),
                stated=scores.read_facts(folder / "stated.tsv"),
                held_out=scores.read_facts(folder / "held_out.tsv"),
                variants=self._known_as,
                known=names_of([folder / "graphs" / f"{graph}.tsv" for graph in ("biomedical", "commonsense")]),
            )
            totals = {
                f"{row['selector']}_{row['metric']}_{row['scope_id']}": row["value"]
                for row in scored
                if row["scope_kind"] == "collection" and row["value"] is not None
            }
            return StageOutput(scored, metadata=totals)

        return self._scored(
            "",
            make,
            "What the harvest reaches against the facts that the sample corpus states, seeds left out, and whether facts "
            "that it holds back are recovered above chance.",
            [Read(FOLDER), Read("raw/sample")],
            VERSION,
        )

    def _beside(self, scored: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows of each harvest beside the figures that are printed for its system."""
        made = []
        for origin, variant in self._known_as.items():
            names = [name for name in self._variant.published if name.system == origin]
            made += beside([row for row in scored if row["selector"] == variant], names)
        return made

    def _sizes(self) -> Stage:
        def make(step: StageContext) -> StageOutput:
            relations = rows.relations_of(step.read("relation_seeds", SEEDS))
            scored = collection_scores.size_rows(relations, step.read("triples", self._harvest), self._known_as)
            return StageOutput(self._beside(scored))

        return self._scored(
            "",
            make,
            "How much each collection yields, and how varied it is.",
            [Read(FOLDER)],
            f"{VERSION}:{self._variant.published}",
        )

    def _compared(self, reference: Reference) -> Stage:
        def make(step: StageContext) -> StageOutput:
            relations = rows.relations_of(step.read("relation_seeds", SEEDS))
            scored = collection_scores.reference_rows(
                reference.name,
                reference.pairs(step.lake.raw_with(*reference.paths)),
                [relation for relation in relations if relation.collection == reference.collection],
                step.read("triples", self._harvest),
                self._known_as,
                encoder(step.profile.encoder).sentences,
            )
            return StageOutput(self._beside(scored))

        return self._scored(
            f"_on_{reference.name}",
            make,
            f"The harvest of {reference.collection} compared with {reference.name}.",
            [Read(reference.key)],
            f"{VERSION}:{self._variant.published}",
            kinds=("parquet", "pytorch"),
            pool="gpu",
        )

    def _coverage(self) -> Stage:
        def make(step: StageContext) -> StageOutput:
            model = masked_lm(step.lake, step.profile.masked_model)
            scored = collection_scores.coverage_rows(
                rows.relations_of(step.read("relation_seeds", SEEDS)),
                step.read("prompts", self._harvest),
                model,
                encoder(step.profile.encoder),
                self._harvests[0],
                self._variant.name,
                model_key(model),
                self._kinds(step),
            )
            return StageOutput(scored)

        return self._scored(
            "_coverage",
            make,
            "How much of what the model could yield was found, by two catches with disjoint prompts.",
            [self._model, *self._kinds_read],
            f"{VERSION}:{self._harvests[0]}",
            kinds=("parquet", "pytorch"),
            pool="gpu",
        )

    def _judged(self) -> list[Stage]:
        """What other language models say of the harvest, where the profile names one that judges or rates texts."""
        judges, rated = _judges(), profiles.load().harvesting.likelihood
        if not judges and rated is None:
            return []

        def make(step: StageContext) -> StageOutput:
            relations = rows.relations_of(step.read("relation_seeds", SEEDS))
            triples = step.read("triples", self._harvest)
            asked = [PromptedJudge(language_model(step, settings)) for settings in judges]
            likelihood = None if rated is None else text_likelihood(rated)
            scored = judging.judged_rows(
                relations, triples, variants=self._known_as, judges=asked, likelihood=likelihood
            )
            whole = collection_scores.judged_rows(relations, triples, self._known_as, asked)
            whole += collection_scores.best_rows(relations, triples, self._known_as, asked, likelihood)
            return StageOutput(scored + self._beside(whole))

        asked = [asking_version(settings, JUDGE, words=self._variant.words) for settings in judges]
        names = [*asked, *([f"{rated.name}@{rated.revision}"] if rated else [])]
        return [
            self._scored(
                "_judged",
                make,
                "What language models say of the harvest: judged precision and noise, agreement of two judges, likelihood "
                "of the statements.",
                [],
                f"{VERSION}:{names}:{self._variant.published or ''}",
                pool=pool_of(judges[0]) if judges else "gpu",
            )
        ]


def _prompt_models(step: StageContext, settings: HarvestSettings) -> tuple[PromptModels, list[str]]:
    """The models that prompts are written with besides the masked one, and their names for a hash."""
    stated = step.profile.harvesting
    if settings.prompts == "initial":
        return PromptModels(), []
    writer = sentence_writer(stated.writer) if stated.writer else None
    proposer = substitute_proposer(stated.substitution) if stated.substitution else None
    asked = None
    if settings.baseline and stated.paraphraser == "generator":
        asked = PromptedParaphraser(language_model(step, step.profile.generator))
    names = [model_key(model) for model in (writer, proposer) if model is not None]
    made = PromptModels(writer.write if writer else None, proposer, asked.reword if asked else None)
    return made, [*names, *([asked.version] if asked else [])]


def _judges() -> list[GeneratorSettings]:
    """The generators that judge: those that the profile names for it, else its language model, if it has one."""
    profile = profiles.load()
    names = [profile.known("generator", name) for name in profile.harvesting.judges] or profile.names("generator")[:1]
    return [profile.generators[name] for name in names if profile.generators[name].backend != "extractive"]


def judge_first(variant: Variant, settings: HarvestSettings, step: StageContext) -> None:
    """Ask a judge about the first harvested triple."""
    harvest = f"{variant.place}/harvest"
    triples = step.read("triples", harvest).sort("relation_id", "origin", "rank")
    if triples.is_empty():
        raise BadInput(f"there is no triple to ask about: materialize {harvest} first")
    first = triples.row(0, named=True)
    by_id = {relation.id: relation for relation in rows.relations_of(step.read("relation_seeds", SEEDS))}
    said = judging.statement(by_id[first["relation_id"]], first["head"], first["tail"])
    PromptedJudge(language_model(step, step.profile.generator)).judge([said])


def scored_on(settings: HarvestSettings) -> list[Scope]:
    """The collections that harvests of these settings are scored for, and the references that they are compared with."""
    judged = {"kappa", "exact_agreement"} if len(_judges()) > 1 else set[str]()
    if _judges():
        best = f"correct_of_{collection_scores.BEST}:{collection_scores.LOOKED_AT}"
        judged |= {"precision", "noisy_percent", best}
    if profiles.load().harvesting.likelihood is not None:
        extremes = {f"bartscore_{end}:{said}" for end in ("max", "min") for said in ("range", "rounded")}
        judged |= {"bartscore_mean", *extremes} | ({"pairs_with_higher_bartscore"} if settings.baseline else set())
    sizes = frozenset({"tuples", "fact_count", "diversity", "agreement"} | judged)
    of_two = ["novel_only_precision"] if settings.baseline else []
    compared = frozenset({"fact_count", "diversity", "novelty", "accuracy", "accuracy_maximum", *of_two})
    collections = () if settings.truth else settings.collections
    return [
        *(
            Scope(name, sizes, f"the seed files of {name} (systems/kbloom/relations, or your own)")
            for name in collections
        ),
        *(Scope(one.name, compared, one.holds) for one in settings.references),
    ]


SYSTEM = System(
    "kbloom",
    VERSION,
    {
        "kbloom": OwnStages(
            settings=HarvestSettings,
            stages=lambda variant, settings: _Stages(variant, settings).all(),
            defaults=_defaults,
            uses=("masked_model",),
            scored_on=scored_on,
            asks_first=judge_first,
        ),
        "masked_model": OwnStages(settings=NoSettings, stages=masked_model_stages, uses=("masked_model",)),
    },
)
