"""A relevance classifier tuned on questions that are not reported on."""

from __future__ import annotations

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.benchmark import declared
from evidence_assets.assets.inputs import open_graph
from evidence_assets.assets.models_in_use import RELEVANCE_CLASSIFIER, encoder
from evidence_assets.assets.readers import questions_of
from evidence_assets.assets.table_asset import Made, Step, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.experiment.selection import Asked
from evidence_assets.lake.errors import BadInput
from evidence_assets.models.encoders import EMBEDDED
from evidence_assets.models.reranker_training import TuningSettings
from evidence_assets.models.rerankers import MAXSIM
from evidence_assets.systems.a2q import classifier_tuning
from evidence_assets.systems.a2q import system as a2q


class TunedClassifier(dg.Component, Variant):
    """Makes ``models/relevance_classifier``: the profile's reranker, tuned on the triples of a benchmark's first half.

    A triple of a question is relevant if a right answer is an end of it. Where the profile's reranker has no weights of
    its own, the embedded encoder is tuned.
    """

    benchmark: str
    split: str = "dev"
    """Split that it learns from; never the one that is reported."""
    triples: int = 40
    """Triples of a question, best by attention."""
    epochs: int = 3
    rate: float = 1e-5
    group: str = "a2q"

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        source = declared().get(self.benchmark)
        if source is None or not source.graph:
            raise ValueError(f"{self.benchmark!r} is no declared benchmark with a graph: name one to tune on")
        if source.split == self.split:
            raise ValueError(f"the split {self.split!r} of {self.benchmark} is the one reported: tune on another")
        if not self.loaded or not source.runs_in(profiles.load().name):
            return dg.Definitions()

        def make(step: Step) -> Made:
            graph = open_graph(step.lake, source.graph)
            questions = [q for q in questions_of(step.lake, source) if q.split == self.split]
            picker = a2q.A2Q(
                "candidates", graph, encoder(step.profile.encoder), None,
                a2q.A2QSettings(top_n=self.triples),
            )  # fmt: skip
            picks = picker.select([Asked(q.question_id, q.benchmark, q.task, q.text, q.options) for q in questions])
            pairs = classifier_tuning.labelled_triples(questions, picks)
            if not pairs:
                raise BadInput(
                    f"no triple of the split {self.split!r} of {self.benchmark} holds an answer: there is nothing to "
                    "tune on"
                )
            name = step.profile.reranker.name
            base = EMBEDDED if name == MAXSIM else name
            folder = step.lake.index_folder(RELEVANCE_CLASSIFIER)
            report = classifier_tuning.tuned(folder, base, pairs, TuningSettings(epochs=self.epochs, rate=self.rate))
            row = classifier_tuning.model_row(folder, f"relevance-classifier-of-{base.replace('/', '-')}", report)
            return Made([row], metadata={"tuned_from": base, **report})

        asset = table_asset(
            RELEVANCE_CLASSIFIER, "models", make,
            description="A cross-encoder tuned to tell triples that hold an answer from those that do not.",
            group=self.group, tags=self.tags, kinds=("pytorch",), pool="gpu",
            code_version=f"{classifier_tuning.VERSION}:{a2q.VERSION}:{self.split}:{self.triples}:{self.epochs}:{self.rate}",
            deps=[source.raw, *(f"knowledge/{source.graph}/{part}" for part in ("nodes", "edges", "passages"))],
        )  # fmt: skip
        return dg.Definitions(assets=[asset], asset_checks=[sound_check(asset)])
