"""Triples around a question's topic entities, with what a language model recalls or without: how they are opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evidence_assets.experiment.inputs import LINKS, LinkedElsewhere, open_graph
from evidence_assets.experiment.selection import Selector, asked
from evidence_assets.experiment.solvers import asking_version, pool_of, reader_of_profile
from evidence_assets.experiment.stage import Read, Stage
from evidence_assets.experiment.step import Made, Step
from evidence_assets.experiment.system import Method, NoSettings, OwnStages, System
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.models.in_use import encoder
from evidence_assets.profiles import Kind
from evidence_assets.systems.background import VERSION
from evidence_assets.systems.background import system as background
from evidence_assets.systems.background.recall import RECALL_ENTITIES, RECALL_RELATIONS, RECALL_TRIPLES
from evidence_assets.systems.background.system import BackgroundSettings

QUESTIONS = "questions/graph"


def _recalled(step: Step, settings: BackgroundSettings) -> background.StoredBackground:
    """What was recalled for the partition's questions, each of which it must have a row of, if only a failed one."""
    asset = step.at(f"chains/graph/{settings.recall}")
    rows = step.read_here("chains", asset)
    questions = step.read_here("questions", QUESTIONS)["question_id"].to_list()
    missing = len(set(questions) - set(rows["question_id"].to_list()))
    if missing:
        raise StaleInput(
            f"{asset} has nothing on {missing} of {len(questions)} questions of {step.partition}: materialize it first"
        )
    return background.stored_background(rows)


def _open(name: str, step: Step, settings: BackgroundSettings) -> Selector:
    recalled = _recalled(step, settings) if settings.recall else None
    selector = background.BackgroundKnowledge(
        name, open_graph(step.lake, step.benchmark.graph), encoder(step.profile.encoder), settings, recalled
    )
    return LinkedElsewhere(selector, step, settings.links) if settings.links else selector


def _failed(step: Step, settings: BackgroundSettings) -> Mapping[str, str]:
    """Questions for which recalling failed."""
    if not settings.recall:
        return {}
    return background.stored_background(step.read_here("chains", step.at(f"chains/graph/{settings.recall}"))).failed


def _reads(variant: Variant, settings: BackgroundSettings) -> Sequence[Read]:
    links = [Read(f"raw/{LINKS}")] if settings.links else []
    if not settings.recall:
        return links
    return links + [
        Read(variant.at(f"{table}/graph/{settings.recall}", ["generator"])) for table in ("chains", "triples")
    ]


def _models(settings: BackgroundSettings) -> tuple[Kind, ...]:
    return ("generator", "encoder") if settings.recall else ("encoder",)


def _recall_stages(variant: Variant, settings: NoSettings) -> list[Stage]:
    """``chains/graph/<name>``, what the model recalled, and ``triples/graph/<name>`` with the origin ``background``."""
    chains = f"chains/{variant.place}"
    recalls = asking_version(
        variant.profile.generator, RECALL_ENTITIES, RECALL_RELATIONS, RECALL_TRIPLES, words=variant.words
    )

    def make_chains(step: Step) -> Made:
        model = reader_of_profile(step)
        if model is None:
            raise BadInput(
                f"background knowledge takes a language model: name one under `generator` in the profile "
                f"{step.profile.name}, or leave this variant out"
            )
        source = background.PromptedBackground(model)
        questions = asked(step.read_here("questions", QUESTIONS))
        return background.recall_rows(source, variant.name, questions, step.before)

    def make_triples(step: Step) -> Made:
        return background.triple_rows(step.read_here("chains", chains))

    return [
        Stage(
            chains,
            "chains",
            make_chains,
            "Entities, relations and facts that a language model recalls.",
            [Read(QUESTIONS)],
            f"{VERSION}:{recalls}",
            family="graph",
            pool=pool_of(variant.profile.generator),
        ),
        Stage(
            f"triples/{variant.place}",
            "triples",
            make_triples,
            "Recalled facts as triples: model knowledge, stated in no source.",
            [Read(chains)],
            VERSION,
            family="graph",
        ),
    ]


SYSTEM = System(
    "background",
    VERSION,
    {
        "background": Method(
            settings=BackgroundSettings,
            open=_open,
            reads=("graph",),
            own_encoder=True,
            more_reads=_reads,
            failed=_failed,
            models=_models,
        ),
        "recall": OwnStages(settings=NoSettings, stages=_recall_stages, models=lambda settings: ("generator",)),
    },
)
