"""The stages of a variant: from questions to evidence, chains, predictions, citations and scores, by task family.

Multiple choice and tables are explained option by option and then chosen; questions on a graph are answered in a few
words; of a knowledge base nodes are ranked; of a retrieval collection the evidence alone is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, cast

import polars as pl

from evidence_assets.benchmarks.declared import FAMILIES, Family, of_family
from evidence_assets.experiment.answers import (
    Answerer,
    WeighsOptions,
    counterfactual_rows,
    prediction_rows,
)
from evidence_assets.experiment.chains import answer_citation_rows, chain_rows, citation_rows
from evidence_assets.experiment.inputs import encoded_by
from evidence_assets.experiment.one_call import AnswersOnce
from evidence_assets.experiment.path_check import paths_wrong
from evidence_assets.experiment.scores import graph_stages, retrieval_scores, scoring
from evidence_assets.experiment.scores.metrics import Estimate
from evidence_assets.experiment.scores.retrieval_scores import retrieval_metrics
from evidence_assets.experiment.selection import Asked, NoEvidence, asked, evidence_rows
from evidence_assets.experiment.short_answering import AnswersShortly
from evidence_assets.experiment.solvers import (
    asking_version,
    chooser,
    has_model,
    language_model,
    pool_of,
    reasoning_version,
    short_answers,
    solver_named,
)
from evidence_assets.experiment.stage import Read, Stage
from evidence_assets.experiment.step import Made, Step
from evidence_assets.experiment.system import (
    Method,
    OwnStages,
    System,
    answers_by_model,
    crossings,
    lacking,
    source_reads,
)
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.ids import with_model
from evidence_assets.models.in_use import encoder
from evidence_assets.profiles import Kind
from evidence_assets.reasoning.published import STYLES

VERSION = "3"
"""Changes when the rows of chains, predictions, citations or scores would be others from the same evidence."""
FAILED_SHARE_LIMIT = 0.05


def failed_share(rows: pl.DataFrame) -> list[str]:
    """What is wrong where more questions failed than may."""
    failed = rows.filter(pl.col("status") == "failed")
    if rows.height and failed.height / rows.height > FAILED_SHARE_LIMIT:
        reasons = failed["error"].value_counts(sort=True).head(3).to_dicts()
        return [f"{failed.height} of {rows.height} rows failed: {reasons}"]
    return []


def all_stages(system: System, variant: Variant) -> list[Stage]:
    """The stages of a variant with all models that it is crossed with, in order; what several share is there once."""
    found: dict[str, Stage] = {}
    for crossed in crossings(system, variant):
        for stage in stages(system, crossed):
            found.setdefault(stage.key, stage)
    return list(found.values())


def stages(system: System, variant: Variant) -> list[Stage]:
    def told(make: Callable[[Step], Made], models: Mapping[Kind, str]) -> Callable[[Step], Made]:
        return lambda step: make(replace(step, models=models, words=variant.words))

    return [replace(stage, make=told(stage.make, stage.models)) for stage in _stages(system, variant)]


def _stages(system: System, variant: Variant) -> list[Stage]:
    method = system.method_of(variant)
    if isinstance(method, OwnStages):
        return [replace(s, models=variant.using) for s in method.stages(variant, method.settings_of(variant))]
    if variant.counterfactual and not variant.explain:
        raise BadInput(
            f"variant {variant.place} explains nothing and so cites nothing: take out `counterfactual` or `explain`"
        )
    return _Standard(system, variant, method).stages()


class _Standard:
    """The stages of a method that picks evidence."""

    def __init__(self, system: System, variant: Variant, method: Method[Any]) -> None:
        self._system, self._variant, self._method = system, variant, method
        self._settings = method.settings_of(variant)
        words = variant.words
        asked = asking_version(variant.profile.generator, *method.asks, words=words) if method.asks else ""
        self._style = STYLES[method.published if variant.as_published else ""]
        self._version = ":".join(filter(None, (system.version_with(self._settings), asked)))
        self._reasoned = (
            f"{VERSION}:{self._version}:{variant.solver}:{variant.explain}:"
            f"{reasoning_version(variant.solver, variant.family, variant.profile, self._style, words)}"
        )
        place, family, picking = variant.place, variant.family, method.models(self._settings)
        self._picking = {kind: name for kind, name in variant.using.items() if kind in picking}
        self._vectors = "" if method.own_encoder else self._picking.get("encoder", "")
        """The encoder of the stored vectors that it reads; empty for the profile's first."""
        self._selector = variant.at(variant.selector, picking, "@")
        """Name under which rows say who picked their evidence: models that pick belong to it, others do not."""
        self._questions = f"questions/{family}"
        self._evidence = variant.at(f"evidence/{family}/{variant.selector}", picking)
        self._chains, self._predictions = f"chains/{place}", f"predictions/{place}"
        self._citations, self._counterfactuals = f"citations/{place}", f"counterfactuals/{place}"
        self._explained = family in ("mcqa", "table")

    def stages(self) -> list[Stage]:
        variant = self._variant
        made = [] if variant.evidence else [self._evidence_stage()]
        if variant.family == "retrieval":
            return [*made, self._passage_scores()]
        if self._explained:
            made.append(
                self._stage(
                    self._chains,
                    "chains",
                    self._make_chains,
                    "One reasoning chain per option",
                    [self._questions, self._evidence],
                    pool=self._pool,
                    version=self._reasoned,
                )
            )
        made.append(self._prediction_stage())
        ranked = {b.graph for b in of_family("search") if b.graph} if variant.family == "search" else set[str]()
        names = [Read(f"knowledge/{graph}/nodes") for graph in sorted(ranked)]
        cites: list[str | Read] = (
            [self._chains, self._evidence] if self._explained else [self._predictions, self._evidence, *names]
        )
        made.append(self._stage(self._citations, "citations", self._make_citations, "Citations, each checked", cites))
        made.append(self._score_stage())
        if variant.counterfactual:
            made.append(
                self._stage(
                    self._counterfactuals,
                    "counterfactuals",
                    self._make_counterfactuals,
                    "Answers without the evidence they cite",
                    [*self._answered_from, self._predictions],
                    pool=self._pool,
                    version=self._reasoned,
                )
            )
        return made

    def _stage(
        self,
        key: str,
        table: str,
        make: Callable[[Step], Made],
        what: str,
        reads: Sequence[str | Read],
        *,
        pool: str | None = None,
        version: str = "",
        models: Mapping[Kind, str] | None = None,
        **more: Any,
    ) -> Stage:
        variant = self._variant
        return Stage(
            key,
            table,
            make,
            f"{what}: {FAMILIES[cast(Family, variant.family)]}, evidence picked by {self._selector}.",
            [Read(read) if isinstance(read, str) else read for read in reads],
            version or f"{VERSION}:{self._version}:{variant.solver}:{variant.explain}",
            family=variant.family,
            pool=pool,
            models=variant.using if models is None else models,
            **more,
        )

    # What is read -----------------------------------------------------------------------------------------------

    def _pool_of(self, kinds: Sequence[Kind]) -> str | None:
        """The concurrency pool of a step that works with models of these kinds."""
        return pool_of(self._variant.profile.generator, kinds)

    @property
    def _pool(self) -> str | None:
        """The pool of a step that answers: of who answers, and of what picks where the answer is found by that."""
        if answers_by_model(self._variant):
            return self._pool_of(("generator",) if self._variant.family == "table" else ("generator", "encoder"))
        return self._pool_of(self._method.models(self._settings) if self._method.answerer else ("encoder",))

    @property
    def _more_reads(self) -> Sequence[Read]:
        return self._method.more_reads(self._variant, self._settings) if self._method.more_reads else ()

    @property
    def _selected_from(self) -> list[str | Read]:
        return [
            self._questions,
            *source_reads(self._variant.family, self._method.reads, self._vectors),
            *self._more_reads,
        ]

    @property
    def _answered_from(self) -> list[str | Read]:
        if self._explained:
            return [self._questions, self._evidence, self._chains]
        if self._method.answerer:
            return [*self._selected_from, self._evidence]
        return [self._questions, self._evidence, *(self._more_reads if self._method.failed else ())]

    @property
    def _temperature(self) -> float:
        """What probabilities of options are calibrated by."""
        calibration = self._variant.profile.calibration
        return calibration.table if self._variant.family == "table" else calibration.mcqa

    def _prompted(self, step: Step) -> bool:
        """Whether a language model answers questions with options."""
        return answers_by_model(self._variant) and has_model(step)

    def _asks_once(self, step: Step, chains: pl.DataFrame) -> AnswersOnce | None:
        """Who answers and explains in one call, where the paper asks so and a language model is asked."""
        if self._style.once is None or not self._prompted(step):
            return None
        evidence = step.read_here("evidence", self._evidence)
        model = language_model(step, step.profile.generator)
        return AnswersOnce(model, self._style.once, self._asked(step), evidence, chains)

    def _asked(self, step: Step) -> list[Asked]:
        return asked(step.read_here("questions", self._questions))

    def _answerer(self, step: Step) -> Answerer:
        """Who answers this partition's questions, and answers them again from a part of their evidence."""
        variant, questions = self._variant, self._asked(step)
        evidence = step.read_here("evidence", self._evidence)
        if self._explained:
            chains = step.read_here("chains", self._chains)
            if once := self._asks_once(step, chains):
                return once
            # Only who explains can be asked for explanations again; without any, whoever can do without chooses.
            solver = chooser(variant.solver, variant.family, step, self._style, explained=variant.explain)
            return WeighsOptions(solver, questions, evidence, chains, self._temperature)
        if self._method.answerer:
            return self._method.answerer(self._selector, step, self._settings, evidence)
        failed: Mapping[str, str] = self._method.failed(step, self._settings) if self._method.failed else {}
        used = step.read_here("lineage_edges", self._predictions)
        return AnswersShortly(short_answers(step), questions, evidence, failed=failed, used=used)

    # What is made -----------------------------------------------------------------------------------------------

    def _evidence_stage(self) -> Stage:
        def make(step: Step) -> Made:
            lack = lacking(self._method.reads, step.benchmark)
            name = self._selector
            selector = NoEvidence(name, lack) if lack else self._method.open(name, step, self._settings)
            progress = step.progress("questions")
            return evidence_rows(selector, self._asked(step), step.before, progress, encoded_by(step))

        return self._stage(
            self._evidence,
            "evidence",
            make,
            "Evidence",
            self._selected_from,
            pool=self._pool_of(self._method.models(self._settings)),
            models=self._picking,
            version=self._version,
            against=paths_wrong,
        )

    def _make_chains(self, step: Step) -> Made:
        if once := self._asks_once(step, step.previous().clear()):
            return once.chains(self._selector, step.before)
        if not self._variant.explain or (self._prompted(step) and self._style.explain is None):
            return Made([])
        return chain_rows(
            solver_named(self._variant.solver, self._variant.family, step, self._style),
            self._selector,
            self._asked(step),
            step.read_here("evidence", self._evidence),
            step.before,
        )

    def _prediction_stage(self) -> Stage:
        def make(step: Step) -> Made:
            return prediction_rows(self._answerer(step), self._selector, self._asked(step), step.before)

        return self._stage(
            self._predictions,
            "predictions",
            make,
            "One prediction per question",
            self._answered_from,
            pool=self._pool,
            check=failed_share,
            version=f"{self._reasoned}:{self._temperature}" if self._explained else self._reasoned,
        )

    def _make_citations(self, step: Step) -> Made:
        evidence = step.read_here("evidence", self._evidence)
        if not self._explained:
            predictions, used = (step.read_here(t, self._predictions) for t in ("predictions", "lineage_edges"))
            names: dict[str, str] = {}
            if self._variant.family == "search":
                nodes = step.lake.read(
                    "kg_nodes", f"knowledge/{step.benchmark.graph}/nodes", columns=["node_id", "name"]
                )
                names = dict(nodes.join(predictions.select(node_id="answer"), "node_id", "semi").iter_rows())
            return answer_citation_rows(predictions, used, evidence, names)
        chains = step.read_here("chains", self._chains)
        return citation_rows(chains, evidence, whole=self._prompted(step) and self._style.once is not None)

    def _make_counterfactuals(self, step: Step) -> Made:
        predictions = step.read_here("predictions", self._predictions)
        return counterfactual_rows(self._answerer(step), predictions, step.before)

    # Scores -----------------------------------------------------------------------------------------------------

    def _score_stage(self) -> Stage:
        variant = self._variant
        inputs = {"questions": self._questions, "evidence": self._evidence, "predictions": self._predictions}
        inputs["citations"] = self._citations
        if variant.counterfactual:
            inputs["counterfactuals"] = self._counterfactuals
        if on_graph := variant.family == "mcqa" and "graph" in self._method.reads:
            inputs["subgraphs"] = with_model("subgraphs/mcqa", self._vectors)
        paced = [self._evidence, *([self._chains] if self._explained else []), self._predictions]

        def make(step: Step) -> Made:
            tables = {table: step.read_benchmark(table, asset) for table, asset in inputs.items()}
            predictions, questions = tables["predictions"], tables["questions"]
            if questions.height and not predictions.height:
                raise StaleInput(f"{self._predictions} has no rows for {step.benchmark_name}: materialize it first")
            more = dict(self._triple_metrics(step, questions, tables["evidence"]) or {})
            if on_graph:
                more |= graph_stages.graph_stages(questions.to_dicts(), tables["subgraphs"], tables["evidence"])
            rows = scoring.score_rows(
                step.benchmark_name,
                self._selector,
                predictions["reasoner"][0] if predictions.height else variant.solver,
                predictions["model_id"][0] if predictions.height else "",
                questions,
                predictions,
                tables["evidence"],
                tables["citations"],
                variant.published,
                tables.get("counterfactuals"),
                more,
                encoder(step.profile.token_encoder) if variant.bertscore else None,
            )
            shown = shown_scores(rows, "hit@1" if variant.family == "search" else "accuracy")
            if signal := more.get(graph_stages.SIGNAL):
                shown["graph"] = graph_stages.says(step.benchmark.graph, step.benchmark_name, *astuple(signal))
            return Made(rows, metadata=shown)

        return self._stage(
            f"scores/{variant.place}",
            "scores",
            make,
            "Scores with their intervals",
            [Read(key, "benchmark") for key in inputs.values()],
            partitions="benchmarks",
            paced=paced,
            pool="gpu" if variant.bertscore or variant.family == "graph" else None,
            version=f"{VERSION}:{variant.retrieval}:{variant.bertscore}:{variant.published or ''}"
            + (f":{graph_stages.VERSION}" if on_graph else ""),
        )

    def _triple_metrics(
        self, step: Step, questions: pl.DataFrame, evidence: pl.DataFrame
    ) -> dict[str, Estimate] | None:
        """Scores of the triples themselves, for questions on a graph and where the variant asks for them."""
        on_graph = self._variant.family == "graph"
        if not on_graph and not self._variant.retrieval:
            return None
        tokens = encoder(step.profile.token_encoder) if on_graph else None
        recalled = bool(self._more_reads) and on_graph
        return retrieval_metrics(questions.sort("question_id").to_dicts(), evidence, tokens, recalled=recalled)

    def _passage_scores(self) -> Stage:
        variant = self._variant
        corpora = sorted({b.corpus for b in of_family("retrieval") if b.corpus})

        def make(step: Step) -> Made:
            questions = step.read_benchmark("questions", self._questions)
            evidence = step.read_benchmark("evidence", self._evidence)
            # Filtered while it is read: of a large corpus the evidence names few chunks.
            chunks = pl.scan_parquet(step.lake.files("chunks", f"corpus/{step.benchmark.corpus}/chunks"))
            named = chunks.filter(pl.col("chunk_id").is_in(evidence["source_id"].unique().to_list()))
            documents = dict(named.select("chunk_id", "doc_id").collect(engine="streaming").iter_rows())
            metrics = retrieval_scores.passage_metrics(questions.sort("question_id").to_dicts(), evidence, documents)
            rows = scoring.metric_rows(step.benchmark_name, self._selector, "", "", metrics)
            return Made(rows, metadata={row["metric"]: row["value"] for row in rows if row["value"] is not None})

        return self._stage(
            f"scores/{variant.place}",
            "scores",
            make,
            "Gold documents found",
            [
                Read(self._questions, "benchmark"),
                Read(self._evidence, "benchmark"),
                *(Read(f"corpus/{name}/chunks", "every") for name in corpora),
            ],
            partitions="benchmarks",
            version=VERSION,
        )


def shown_scores(rows: Sequence[Mapping[str, Any]], headline: str) -> dict[str, Any]:
    """Metadata of scores: every value, those printed for it, and the headline with its interval."""
    values = {row["metric"]: row["value"] for row in rows if row["value"] is not None}
    printed = {f"published_{row['metric']}": row["published"] for row in rows if row["published"] is not None}
    best = next(row for row in rows if row["metric"] == headline)
    interval = f"{best['value'] or 0:.1%} [{best['low'] or 0:.1%}, {best['high'] or 0:.1%}], n = {best['n']}"
    return {**values, **printed, f"{headline}_95": interval}
