"""A reasoner variant: chains, predictions, citations and scores from one selector's evidence."""

from __future__ import annotations

import dagster as dg
import polars as pl

from evidence_assets.benchmarks.declared import Family, of_family
from evidence_assets.assets.counterfactuals import counterfactual_asset, key_of
from evidence_assets.assets.partitions import BY_BENCHMARK, benchmark_partitions, question_partitions
from evidence_assets.assets.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.benchmarks.declarations import selector_left_out
from evidence_assets.experiment import answering, retrieval_scores, scoring
from evidence_assets.experiment.asked_again import ChainsAgain
from evidence_assets.experiment.metrics import Estimate
from evidence_assets.experiment.published_figures import PrintedAs
from evidence_assets.experiment.selection import asked
from evidence_assets.experiment.solvers import chooser, solver_named
from evidence_assets.lake.errors import StaleInput
from evidence_assets.models.in_use import encoder

FAILED_SHARE_LIMIT = 0.05


def failed_share(rows: pl.DataFrame) -> list[str]:
    """What is wrong where more questions failed than may."""
    failed = rows.filter(pl.col("status") == "failed")
    if rows.height and failed.height / rows.height > FAILED_SHARE_LIMIT:
        reasons = failed["error"].value_counts(sort=True).head(3).to_dicts()
        return [f"{failed.height} of {rows.height} rows failed: {reasons}"]
    return []


class Published(dg.Model, dg.Resolvable):
    """Under which name the figures that a variant is compared with are printed; see ``experiment.published``."""

    system: str
    variant: str = ""
    language_model: str = ""
    """The printed model; by default the one that the model in use is a form of."""


class Reasoner(dg.Component, Variant):
    """Makes ``chains``, ``predictions``, ``citations`` and ``scores`` of ``<family>/<name>``.

    ``solver`` names who reasons: ``generator``, the language model of the profile (the extractive reasoner where it has
    none), or ``extractive`` whatever the profile says.
    """

    name: str
    family: Family
    selector: str
    solver: str = "generator"
    group: str = "baselines"
    bertscore: bool = False
    """Also match the tokens of each question with those of its evidence; all of it is encoded for that."""
    explain: bool = True
    """Whether a chain is written for every option before one is chosen; without, the evidence alone is weighed."""
    counterfactual: bool = False
    """Also ask whether each answer stands without the evidence it cites, and with that alone; costs some answers more
    a question."""
    retrieval: bool = False
    """Also score the triples themselves: hits and F1. For selectors that rank triples of a graph."""
    published: Published | None = None

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.loaded:
            return dg.Definitions()
        if selector_left_out(self.family, self.selector):
            raise ValueError(
                f"reasoner {self.name} is loaded, its selector {self.selector} is not: give the selector the same "
                f"presets, {', '.join(self.presets)}"
            )
        if self.counterfactual and not self.explain:
            raise ValueError(
                f"reasoner {self.name} explains nothing and so cites nothing: take out `counterfactual` or `explain`"
            )
        place = f"{self.family}/{self.name}"
        questions, evidence = f"questions/{self.family}", f"evidence/{self.family}/{self.selector}"
        chains, predictions, citations = f"chains/{place}", f"predictions/{place}", f"citations/{place}"
        counterfactuals = key_of(self.family, self.name)
        partitions = question_partitions(self.family)
        # The extractive reasoner weighs words by how rare they are in the corpus; the one on tables does not.
        named = {b.corpus for b in of_family(self.family) if b.corpus} if self.family != "table" else set()
        corpora = [dep(f"corpus/{name}/index") for name in sorted(named)]

        def make_chains(step: Step) -> Made:
            if not self.explain:
                return Made([])
            return Made.of(
                answering.chain_rows(
                    solver_named(self.solver, self.family, step),
                    self.selector,
                    asked(step.read("questions", questions, step.partition)),
                    step.read("evidence", evidence, step.partition),
                    step.previous(),
                    step.previous_lineage(),
                )
            )

        def make_predictions(step: Step) -> Made:
            return Made.of(
                answering.prediction_rows(
                    chooser(self.solver, self.family, step, explained=self.explain),
                    self.selector,
                    asked(step.read("questions", questions, step.partition)),
                    step.read("evidence", evidence, step.partition),
                    step.read("chains", chains, step.partition),
                    step.previous(),
                    step.previous_lineage(),
                )
            )

        def make_citations(step: Step) -> Made:
            return Made.of(
                answering.citation_rows(
                    step.read("chains", chains, step.partition), step.read("evidence", evidence, step.partition)
                )
            )

        def asked_again(step: Step) -> ChainsAgain:
            return ChainsAgain(
                solver_named(self.solver, self.family, step),
                asked(step.read("questions", questions, step.partition)),
                step.read("evidence", evidence, step.partition),
                step.read("chains", chains, step.partition),
            )

        def make_scores(step: Step) -> Made:
            def all_shards(table: str, asset: str) -> pl.DataFrame:
                return step.read_benchmark(table, asset)

            predicted = all_shards("predictions", predictions)
            if all_shards("questions", questions).height and not predicted.height:
                raise StaleInput(f"{predictions} has no rows for {step.benchmark}: materialize it first")
            rows = scoring.score_rows(
                step.benchmark,
                self.selector,
                predicted["reasoner"][0] if predicted.height else self.solver,
                predicted["model_id"][0] if predicted.height else "",
                all_shards("questions", questions),
                predicted,
                all_shards("evidence", evidence),
                all_shards("citations", citations),
                self._printed_as,
                all_shards("counterfactuals", counterfactuals) if self.counterfactual else None,
                self._retrieval_metrics(all_shards("questions", questions), all_shards("evidence", evidence)),
                encoder=encoder(step.profile.token_encoder) if self.bertscore else None,
            )
            shown = {row["metric"]: row["value"] for row in rows if row["value"] is not None}
            accuracy = next(row for row in rows if row["metric"] == "accuracy")
            interval = (
                f"{accuracy['value'] or 0:.1%} [{accuracy['low']:.1%}, {accuracy['high']:.1%}], n = {accuracy['n']}"
            )
            compared = {f"published_{r['metric']}": r["published"] for r in rows if r["published"] is not None}
            return Made(
                rows,
                metadata={**shown, **compared, "accuracy_95": interval, **step.pace(evidence, chains, predictions)},
            )

        about = f"{self.family} questions, evidence by {self.selector}, reasoned by {self.solver}"
        again = [counterfactuals] if self.counterfactual else []
        made = [
            table_asset(
                chains, "chains", make_chains, description=f"One reasoning chain an option: {about}.",
                code_version="1", deps=[questions, evidence, *corpora], kinds=("parquet",), pool=self._pool, group=self.group, tags=self.tags, partitions=partitions,
            ),
            table_asset(
                predictions, "predictions", make_predictions, description=f"One answer a question: {about}.",
                code_version="1", deps=[questions, evidence, chains], pool=self._pool, group=self.group, tags=self.tags, partitions=partitions,
            ),
            table_asset(
                citations, "citations", make_citations, description=f"Every citation, checked: {about}.",
                code_version="1", deps=[chains, evidence], group=self.group, tags=self.tags, partitions=partitions,
            ),
            table_asset(
                f"scores/{place}", "scores", make_scores, description=f"What the variant reaches: {about}.",
                code_version=self._scores_version,
                deps=[dep(k, BY_BENCHMARK) for k in (questions, evidence, predictions, citations, *again)],
                group=self.group, tags=self.tags, partitions=benchmark_partitions(self.family),
            ),
        ]  # fmt: skip
        if self.counterfactual:
            made.append(
                counterfactual_asset(
                    self.family, self.name, asked_again, deps=[questions, evidence, chains, predictions, *corpora],
                    about=about, group=self.group, tags=self.tags, pool=self._pool,
                )
            )  # fmt: skip
        extra = {1: failed_share}
        return dg.Definitions(assets=made, asset_checks=[sound_check(a, extra.get(i)) for i, a in enumerate(made)])

    def _retrieval_metrics(self, questions: pl.DataFrame, evidence: pl.DataFrame) -> dict[str, Estimate] | None:
        if not self.retrieval:
            return None
        return retrieval_scores.retrieval_metrics(questions.sort("question_id").to_dicts(), evidence)

    @property
    def _pool(self) -> str | None:
        return None if self.solver == "extractive" else "llm"

    @property
    def _scores_version(self) -> str:
        printed = self._printed_as
        named = (printed.system, printed.variant, printed.model) if printed else ()
        more = [f"retrieval{retrieval_scores.VERSION}"] if self.retrieval else []
        more += ["bertscore"] if self.bertscore else []
        return ":".join([scoring.VERSION, *more, *(part for part in named if part)])

    @property
    def _printed_as(self) -> PrintedAs | None:
        printed = self.published
        return None if printed is None else PrintedAs(printed.system, printed.variant, printed.language_model)
