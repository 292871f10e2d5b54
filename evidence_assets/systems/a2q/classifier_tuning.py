"""The relevance classifier of Attention2Query, tuned: what it learns from, and when it need not learn again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.declared import declared
from evidence_assets.benchmarks.readers import questions_of
from evidence_assets.benchmarks.records import Question, option_labels
from evidence_assets.experiment.evidence.selection import Asked, Pick
from evidence_assets.experiment.evidence.sources import open_graph
from evidence_assets.experiment.scores.metrics import normalise_answer
from evidence_assets.experiment.stage import Read, Stage, StageContext, StageOutput
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.encoders import EMBEDDED
from evidence_assets.models.in_use import RELEVANCE_CLASSIFIER, encoder
from evidence_assets.models.rerankers import MAXSIM, Labelled, TuningSettings, tune_reranker
from evidence_assets.models.running import folder_revision
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.selection import A2Q
from evidence_assets.systems.a2q.settings import A2QSettings, ClassifierSettings

_REPORT = "tuning.json"


def classifier_stages(variant: Variant, settings: ClassifierSettings) -> list[Stage]:
    """``models/relevance_classifier``: the profile's reranker, tuned on triples of a benchmark.

    A triple of a question is relevant if a right answer is an end of it. Where the profile's reranker has no weights of
    its own, the embedded encoder is tuned.
    """
    source = declared().get(settings.benchmark)
    if source is None or not source.graph:
        raise BadInput(f"{settings.benchmark!r} is no declared benchmark with a graph: name one to tune on")
    if source.split == settings.split:
        raise BadInput(f"the split {settings.split!r} of {source.name} is the one reported: tune on another")
    if not source.runs_in():
        return []

    def make(context: StageContext) -> StageOutput:
        asked = source.model_copy(update={"split": settings.split})
        questions = [q for q in questions_of(context.lake, asked) if q.split == settings.split][: settings.questions]
        picker = A2Q(
            open_graph(context.lake, source.graph),
            encoder(context.profile.encoder),
            None,
            A2QSettings(top_n=settings.triples),
        )
        picks = picker.select([Asked(q.question_id, q.benchmark, q.task, q.text, q.options) for q in questions])
        pairs = labelled_triples(questions, picks)
        if not pairs:
            raise BadInput(f"no triple of the split {settings.split!r} of {source.name} holds an answer to tune on")
        name = context.profile.rerankers.get(settings.base, context.profile.reranker).name
        base = EMBEDDED if name == MAXSIM else name
        folder = context.lake.index_folder(RELEVANCE_CLASSIFIER)
        report = tuned(folder, base, pairs, TuningSettings(epochs=settings.epochs, rate=settings.rate))
        row = model_row(folder, f"relevance-classifier-of-{base.replace('/', '-')}", report)
        return StageOutput([row], metadata={"tuned_from": base, **report})

    return [
        Stage(
            variant.place,
            "models",
            make,
            "A cross-encoder tuned to tell triples that hold an answer from those that do not.",
            [Read(source.raw), *(Read(f"knowledge/{source.graph}/{part}") for part in ("nodes", "edges", "passages"))],
            f"{VERSION}:{settings}",
            partitions="",
            pool="gpu",
            kinds=("pytorch",),
        )
    ]


def labelled_triples(questions: Sequence[Question], picks: Sequence[Sequence[Pick]]) -> list[Labelled]:
    """Each question with each of its triples; relevant are those that a right answer is an end of.

    Questions of which no triple or every triple is relevant teach nothing about ranking and are left out.
    """
    pairs = []
    for question, own in zip(questions, picks, strict=True):
        told = dict(zip(option_labels(question.task, question.options), question.options, strict=True))
        forms = [*(told.get(g, g) for g in question.gold), *(form for forms in question.aliases for form in forms)]
        wanted = {normalise_answer(form) for form in forms}
        made = []
        for pick in own:
            head, _, tail = json.loads(pick.why or "{}")["triple"]
            relevant = bool({normalise_answer(head), normalise_answer(tail)} & wanted)
            made.append(Labelled(question.text, pick.text, relevant))
        if len({pair.relevant for pair in made}) == 2:
            pairs += made
    return pairs


def tuned(folder: Path, base: str, pairs: Sequence[Labelled], settings: TuningSettings) -> dict[str, Any]:
    """Tune into ``folder``, or leave what lies there where it was tuned on the same; returns what is to say of it."""
    wanted = content_id("tuned classifier", VERSION, base, [asdict(pair) for pair in pairs], asdict(settings))
    kept = folder / _REPORT
    if kept.exists():
        report: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        if report["input_hash"] == wanted:
            return report
    with replacing_folder(folder) as temporary:
        losses = tune_reranker(base, pairs, temporary, settings)
        report = {
            "input_hash": wanted,
            "pairs": len(pairs),
            "relevant": sum(pair.relevant for pair in pairs),
            "losses": [round(loss, 4) for loss in losses],
        }
        (temporary / _REPORT).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def model_row(folder: Path, name: str, report: dict[str, Any]) -> dict[str, Any]:
    vocabulary = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    revision = folder_revision(folder)
    return {
        "model_id": f"{name}@{revision}",
        "name": name,
        "revision": revision,
        "task": "relevance classifier",
        "vocabulary": vocabulary,
        "sentences": report["pairs"],
        "input_hash": report["input_hash"],
    }
