"""Tunes the relevance classifier of Attention2Query on a benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from pydantic import PositiveInt

from evidence_assets.benchmarks.declared_benchmarks import Benchmark, all_benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.experiment.evidence.selection import SelectedEvidence
from evidence_assets.experiment.evidence.sources import open_graph
from evidence_assets.experiment.question_rows import hide_gold
from evidence_assets.experiment.scores.metrics import normalise_answer
from evidence_assets.experiment.stage import Stage, StageContext, StageInput, StageOutput
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.models.encoders import EMBEDDED_ENCODER
from evidence_assets.models.inference import hash_model_folder, train_if_changed
from evidence_assets.models.registry import RELEVANCE_CLASSIFIER_ASSET, get_encoder
from evidence_assets.models.rerankers import MAXSIM, LabelledPair, TuningSettings, tune_reranker
from evidence_assets.systems.a2q import VERSION
from evidence_assets.systems.a2q.selection import A2Q, A2QSettings


@dataclass(frozen=True)
class ClassifierSettings:
    """Settings of the tuning.

    The training set has the ``triples`` best triples by attention of each of the first ``questions`` of a ``split``,
    which must not be the reported one. ``base`` names the profile's reranker to tune; if the profile has none of this
    name, its first reranker is tuned.
    """

    benchmark: str
    split: str = "dev"
    questions: int = 1000
    base: str = "ms_marco_minilm"
    triples: PositiveInt = 40
    epochs: int = 3
    rate: float = 1e-5


def classifier_stages(variant: Variant, settings: ClassifierSettings) -> list[Stage]:
    """The stage ``models/relevance_classifier``: the profile's reranker, tuned on triples of a benchmark.

    A triple is relevant if its head or tail is a correct answer. If the profile's reranker has no weights, the embedded
    encoder is tuned.
    """
    source = all_benchmarks().get(settings.benchmark)
    if source is None or not source.graph:
        raise BadInput(f"{settings.benchmark!r} is not a declared benchmark with a graph. Choose one to tune on")
    if source.split == settings.split:
        raise BadInput(f"the split {settings.split!r} of {source.name} is the reported split. Choose another one")
    if not source.is_in_profile():
        return []

    parts = (StageInput(f"knowledge/{source.graph}/{part}") for part in ("nodes", "edges", "passages"))
    stage = Stage(
        variant.key,
        "models",
        partial(_tune_on_benchmark, source=source, settings=settings),
        "A cross-encoder tuned to distinguish triples with a correct answer from those without.",
        [StageInput(source.raw_asset, split=settings.split), *parts],
        f"{VERSION}:{settings}",
        partitions="",
        pool="gpu",
        kinds=("pytorch",),
    )
    return [stage]


def _tune_on_benchmark(context: StageContext, source: Benchmark, settings: ClassifierSettings) -> StageOutput:
    split = settings.split
    records = read_benchmark_questions(context.lake, source.model_copy(update={"split": split}))
    questions = list(islice((record for record in records if record.split == split), settings.questions))
    encoder = get_encoder(context.profile.encoder)
    selector = A2Q(open_graph(context.lake, source.graph), encoder, settings=A2QSettings(top_n=settings.triples))
    pairs = label_triples(questions, list(selector.select([hide_gold(question) for question in questions])))
    if not pairs:
        raise BadInput(f"no triple of the split {split!r} of {source.name} has an answer. Choose another")
    name = context.profile.rerankers.get(settings.base, context.profile.reranker).name
    base = EMBEDDED_ENCODER if name == MAXSIM else name
    folder = context.lake.index_folder(RELEVANCE_CLASSIFIER_ASSET)
    report = tune_classifier(folder, base, pairs, TuningSettings(epochs=settings.epochs, rate=settings.rate))
    row = build_model_row(folder, f"relevance-classifier-of-{base.replace('/', '-')}", report)
    return StageOutput([row], metadata={"tuned_from": base, **report})


def label_triples(
    questions: Sequence[QuestionRecord], evidence: Sequence[Sequence[SelectedEvidence]]
) -> list[LabelledPair]:
    """Pairs of a question and a triple; a triple is relevant if its head or tail is a correct answer.

    Questions with only relevant or only irrelevant triples are skipped: they do not teach a ranking.
    """
    pairs = []
    for question, selected in zip(questions, evidence, strict=True):
        option_texts = dict(zip(question.labels, question.options, strict=True))
        answers = [option_texts.get(gold, gold) for gold in question.gold]
        answers += [alias for aliases in question.aliases for alias in aliases]
        answer_keys = {normalise_answer(answer) for answer in answers}
        labelled = []
        for item in selected:
            head, _, tail = json.loads(item.why or "{}")["triple"]
            relevant = bool({normalise_answer(head), normalise_answer(tail)} & answer_keys)
            labelled.append(LabelledPair(question.text, item.text, relevant))
        if len({pair.relevant for pair in labelled}) == 2:
            pairs += labelled
    return pairs


def tune_classifier(
    folder: Path, base: str, pairs: Sequence[LabelledPair], settings: TuningSettings
) -> dict[str, object]:
    """Tune into ``folder``, or reuse its model if the inputs are unchanged; returns the training report."""

    def train(temporary: Path) -> dict[str, object]:
        losses = [round(loss, 4) for loss in tune_reranker(base, pairs, temporary, settings)]
        return {"pairs": len(pairs), "relevant": sum(pair.relevant for pair in pairs), "losses": losses}

    input_hash = content_id("tuned classifier", VERSION, base, [asdict(pair) for pair in pairs], asdict(settings))
    return train_if_changed(folder, input_hash, train)


def build_model_row(folder: Path, name: str, report: Mapping[str, object]) -> dict[str, object]:
    revision = hash_model_folder(folder)
    return {
        "model_id": f"{name}@{revision}",
        "name": name,
        "revision": revision,
        "task": "relevance classifier",
        "sentences": report["pairs"],
        "input_hash": report["input_hash"],
    }
