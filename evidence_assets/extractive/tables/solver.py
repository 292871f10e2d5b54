"""The extractive table solver: typed tasks with cells as evidence, answered with cited chains and without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from math import log

from evidence_assets.extractive.tables import claims, open_questions, questions
from evidence_assets.lake.ids import content_id
from evidence_assets.reasoning.tables.lexicon import load_lexicon
from evidence_assets.reasoning.tables.table import CellLocation, TableChain, TableView
from evidence_assets.reasoning.tables.views import build_view
from evidence_assets.reasoning.tasks import (
    NOT_ENOUGH_INFORMATION,
    Chain,
    ChainStep,
    Choice,
    ChooseAnswer,
    ExplainOption,
    Failure,
)

_MIN_PROBABILITY = 1e-6  # of a label, so that its logarithm is finite


class TableSolver:
    """Answers tasks whose evidence is cells of one table; deterministic, without a model."""

    name = "extractive"
    model_id = "extractive"
    version = f"38-{content_id(load_lexicon(), asdict(claims.load_claim_weights()))[:8]}"

    def is_statement(self, text: str) -> bool:
        """Whether a text is a claim to verify instead of a question."""
        return open_questions.is_statement(text)

    def list_options(self, view: TableView, question: str) -> list[str]:
        """Options for a question without any, the best first."""
        return open_questions.list_options(view, question)

    def find_operation(self, view: TableView, question: str) -> tuple[str, tuple[CellLocation, ...]]:
        """The operation that a question calls for and the cells that it uses; empty if it looks up a cell."""
        outcome = questions.compute_outcome(view, question)
        return ("", ()) if outcome is None else (outcome.operation, outcome.cells)

    def excludes_rows(self, view: TableView, question: str) -> bool:
        """Whether a negation in the question excludes rows, such as "not in Spain"."""
        return questions.excludes_rows(view, question)

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        return [self._explain(task) for task in tasks]

    def _explain(self, task: ExplainOption) -> Chain:
        view, ids = build_view(task.evidence)
        if not task.question.is_claim:
            chain = questions.explain_option(view, task.question.text, task.hypothesis, task.option)
            return _cite_evidence(chain, view, ids)
        chains = {chain.hypothesis: chain for chain in claims.explain_claim(view, task.question.text)}
        return _cite_evidence(chains[task.hypothesis], view, ids)

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """The label whose chain has the most support; tasks without chains are explained first."""
        return [self._choose(task if task.chains else self._add_chains(task)) for task in tasks]

    def _add_chains(self, task: ChooseAnswer) -> ChooseAnswer:
        question = task.question
        options = (ExplainOption(question, label, task.evidence.get(label, ())) for label in question.labels)
        return replace(task, chains=tuple(map(self._explain, options)))

    def _choose(self, task: ChooseAnswer) -> Choice | Failure:
        support = {chain.hypothesis: chain.support or 0.0 for chain in task.chains}
        question = task.question
        missing_labels = [label for label in question.labels if label not in support]
        if missing_labels:
            return Failure(f"there is no chain for {', '.join(missing_labels)}")
        support = {label: support[label] for label in question.labels}
        if question.is_claim:
            return _choose_label(support)
        evidence = next(iter(task.evidence.values()), ())
        view = build_view(evidence)[0]
        excludes_rows = bool(evidence) and questions.excludes_rows(view, question.text)
        choice = _choose_option(question.labels, support, is_negated=question.negated and not excludes_rows)
        best = dict(question.hypotheses)[choice.answer] if choice.answer else ""
        is_tied = choice.status == "ambiguous"
        if evidence and questions.is_beyond_cells(view, question.text, question.options, best, is_tied=is_tied):
            return replace(choice, supported=(), status="insufficient")
        is_list = bool(evidence) and open_questions.asks_for_list(view, question.text)
        return _answer_with_list(choice) if is_list else choice


def _choose_label(support: dict[str, float]) -> Choice:
    """The most probable of the offered labels; answered if an operation settled the claim."""
    best = max(support, key=lambda label: support[label])
    is_settled = claims.is_settled(support)
    supported = (best,) if is_settled or best == NOT_ENOUGH_INFORMATION else ()
    weights = {label: log(max(share, _MIN_PROBABILITY)) for label, share in support.items()}
    return Choice(best, supported, "answered" if is_settled else "insufficient", weights=weights)


def _choose_option(labels: Sequence[str], support: dict[str, float], *, is_negated: bool) -> Choice:
    """The option with the most support, or with the least if the question is negated; near-equal options tie."""
    sign = -1 if is_negated else 1
    highest = max(support.values())
    target = min(support.values()) if is_negated else highest
    ties = tuple(label for label in labels if abs(support[label] - target) < questions.TIE_MARGIN)
    first = max(ties, key=lambda label: (sign * round(support[label], 9), -labels.index(label)))
    weights = {label: sign * questions.LOG_ODDS_PER_SUPPORT * share for label, share in support.items()}
    if highest <= questions.MAX_UNRELATED_SUPPORT:
        return Choice(first, (), "insufficient", weights=weights)
    status = "ambiguous" if len(ties) > 1 else "answered"
    return Choice(first, ties, status, weights=weights)


def _answer_with_list(choice: Choice) -> Choice:
    """A choice whose tied options are one answer together; the first has the probability of all."""
    if choice.status != "ambiguous" or choice.answer is None:
        return choice
    weights = {**choice.weights, **dict.fromkeys(choice.supported, min(choice.weights.values()))}
    weights[choice.answer] = choice.weights[choice.answer] + log(len(choice.supported))
    supported = dict.fromkeys((choice.answer, *choice.supported))
    return replace(choice, supported=tuple(supported), status="answered", weights=weights)


def _cite_evidence(chain: TableChain, view: TableView, ids: dict[CellLocation, str]) -> Chain:
    """The chain with evidence ids and quotes instead of cell locations; cells without evidence are left out."""
    steps = []
    for step in chain.steps:
        cells = [cell for cell in step.cells if cell in ids]
        steps.append(ChainStep(step.text, tuple(ids[cell] for cell in cells), tuple(map(view.text_at, cells))))
    return Chain(chain.hypothesis, tuple(steps), chain.support)
