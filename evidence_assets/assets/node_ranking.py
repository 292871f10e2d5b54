"""A variant that ranks the nodes of a knowledge base: 4StepFocus and the searches that it is compared with."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from typing import Any, Literal

import dagster as dg
import yaml

from evidence_assets.assets.benchmark import benchmarks, of_family
from evidence_assets.assets.counterfactuals import counterfactual_asset
from evidence_assets.assets.inputs import open_graph
from evidence_assets.assets.knowledge_base import KnowledgeBase, declared_base
from evidence_assets.assets.models_in_use import encoder, model_key, reranker
from evidence_assets.assets.partitions import question_partitions
from evidence_assets.assets.reasoner import Published, failed_share
from evidence_assets.assets.scores import scores_asset
from evidence_assets.assets.solvers import reader_of_profile
from evidence_assets.assets.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.experiment.selection import asked, evidence_rows
from evidence_assets.graphs.knowledge_graph import KnowledgeGraph
from evidence_assets.systems.four_step_focus import node_answers, node_search
from evidence_assets.systems.four_step_focus import system as four_step_focus
from evidence_assets.systems.four_step_focus.asked_again import RankingAgain
from evidence_assets.systems.four_step_focus.grading import Grader, PromptedGrader, RerankerGrader
from evidence_assets.systems.four_step_focus.node_search import NodeSearch
from evidence_assets.systems.four_step_focus.question_forms import FormParser, forms_of
from evidence_assets.systems.four_step_focus.system import FocusSettings, FourStepFocus, schema_of
from evidence_assets.systems.four_step_focus.triplets import PromptedTriplets, TripletReader


class NodeRanking(dg.Component, Variant):
    """Makes ``evidence``, ``predictions`` and ``scores`` of ``search/<name>``.

    Triplets are read by the profile's language model; a profile without one reads them by the forms in which the base's
    questions are written, and the column ``reasoner`` then says ``form_parser``.
    """

    name: str
    triplets: Literal["", "corrected", "printed"] = ""
    """How triplets narrow the nodes (see ``graphs.substitution``); none where empty, which is the baselines."""
    edge_types: bool = True
    """Whether an edge must be of its triplet's type; the printed form looks at no types whatever is said here."""
    direction: bool = True
    """Whether an edge must run from a triplet's head to its tail."""
    fallback: bool = False
    """Whether a question that is not read as triplets is searched for by vectors alone, in place of a failed row."""
    search: Literal["vector", "multi_vector"] = "multi_vector"
    rerank: bool = False
    """Whether the profile's language model, or its reranker where it has none, grades the best nodes."""
    counterfactual: bool = False
    """Also ask which node ranks first without the edges by which the answer satisfies the triplets; for bases of
    thousands of edges."""
    group: str = "four_step_focus"
    published: Published | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.loaded or not of_family("search"):
            return dg.Definitions()
        place, partitions = f"search/{self.name}", question_partitions("search")
        questions, evidence = "questions/search", f"evidence/{place}"
        about = f"nodes by {self.search.replace('_', '-')} search"
        about += f" among those that fit triplets ({self._manner})" if self.triplets else ""
        about += ", reranked" if self.rerank else ""

        def make_evidence(step: Step) -> Made:
            rows = evidence_rows(
                self.system(step),
                asked(step.read("questions", questions, step.partition)),
                step.previous(),
                step.previous_lineage(),
            )
            return Made.of(rows)

        def make_predictions(step: Step) -> Made:
            rows = node_answers.ranking_rows(
                self.system(step),
                *self.reasoner(step),
                asked(step.read("questions", questions, step.partition)),
                step.read("evidence", evidence, step.partition),
                step.previous(),
                step.previous_lineage(),
            )
            return Made.of(rows)

        def asked_again(step: Step) -> RankingAgain:
            return RankingAgain(
                self.system(step),
                asked(step.read("questions", questions, step.partition)),
                step.read("evidence", evidence, step.partition),
            )

        version = f"{four_step_focus.VERSION}:{node_search.VERSION}:{self._manner}:{self.search}:{self.rerank}"
        graphs = sorted({b.graph for b in of_family("search") if b.graph})
        sources = [dep(f"knowledge/{graph}/{part}") for graph in graphs for part in ("nodes", "edges", "passages")]
        made = [
            table_asset(
                evidence, "evidence", make_evidence, code_version=version, deps=[dep(questions), *sources],
                description=f"Edges and passages behind the best nodes: {about}.", pool=self._pool, group=self.group, tags=self.tags,
                partitions=partitions,
            ),
            table_asset(
                f"predictions/{place}", "predictions", make_predictions, code_version=version,
                deps=[dep(questions), dep(evidence), *sources], description=f"Ranked nodes for each question: {about}.",
                pool=self._pool, group=self.group, tags=self.tags, partitions=partitions,
            ),
            scores_asset(
                "search", self.name, group=self.group, tags=self.tags, about=about, headline="hit@1",
                published=self.published, counterfactual=self.counterfactual,
            ),
        ]  # fmt: skip
        if self.counterfactual:
            made.append(
                counterfactual_asset(
                    "search", self.name, asked_again, deps=[dep(questions), dep(evidence), dep(f"predictions/{place}"), *sources],
                    about=about, group=self.group, tags=self.tags, pool=self._pool,
                )
            )  # fmt: skip
        extra = {1: failed_share}
        return dg.Definitions(assets=made, asset_checks=[sound_check(a, extra.get(i)) for i, a in enumerate(made)])

    @property
    def _settings(self) -> FocusSettings:
        form = four_step_focus.PRINTED if self.triplets == "printed" else FocusSettings(use_edge_types=self.edge_types)
        return replace(form, use_direction=self.direction, fallback=self.fallback)

    @property
    def _manner(self) -> str:
        switches = {"any edge type": not self.edge_types, "any direction": not self.direction, "or all": self.fallback}
        return ", ".join([self.triplets, *(name for name, on in switches.items() if on)])

    @property
    def _pool(self) -> str | None:
        return "llm" if self.triplets or self.rerank else None

    def system(self, step: Step) -> FourStepFocus:
        """The system for the partition's benchmark."""
        declared = declared_base(benchmarks()[step.benchmark].graph)
        graph = open_graph(step.lake, declared.name)
        return FourStepFocus(
            self.name,
            graph,
            NodeSearch(graph, self.search),
            encoder(step.profile.encoder),
            _triplet_reader(step, declared, graph) if self.triplets else None,
            _grader(step) if self.rerank else None,
            self._settings,
            frozenset(declared.symmetric),
            declared.answers,
        )

    def reasoner(self, step: Step) -> tuple[str, str]:
        """What the columns ``reasoner`` and ``model_id`` say: who read the question and who ranked."""
        model = reader_of_profile(step)
        key = model_key(encoder(step.profile.encoder))
        if self.triplets and model is None:
            return "form_parser", f"form_parser+{key}"
        if model is not None and (self.triplets or self.rerank):
            return "prompted", f"{model.model_id}+{key}"
        return "reranker" if self.rerank else self.search, key


def _triplet_reader(step: Step, declared: KnowledgeBase, graph: KnowledgeGraph) -> TripletReader:
    model = reader_of_profile(step)
    if model is not None and len(graph):
        return PromptedTriplets(model, schema_of(graph))
    return FormParser(forms_of(_lexicon()) if declared.forms else (), graph.type_names)


def _lexicon() -> dict[str, Any]:
    """The relations of the sample world with their wordings."""
    file = resources.files("evidence_assets.sample") / "lexicon" / "relations.yaml"
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")))


def _grader(step: Step) -> Grader:
    model = reader_of_profile(step)
    if model is not None:
        return PromptedGrader(model)
    tokens = encoder(step.profile.token_encoder)
    return RerankerGrader(reranker(step.profile.reranker, step.profile.token_encoder), count_tokens=tokens.count_tokens)
