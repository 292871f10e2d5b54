"""Rules and a small language model on tables: who is asked, and how both count."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from scipy.special import log_softmax

from evidence_assets.benchmarks.records import ASKED_BENCHMARK
from evidence_assets.experiment.answering import Answering
from evidence_assets.experiment.methods import SelectionMethod
from evidence_assets.experiment.rules_first import MODEL_WEIGHT, RulesFirst
from evidence_assets.experiment.variants import variants
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.models.protocols import Completion, Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver, PromptStyle
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_choices import EXPLAINED_SHORT_STYLE, SHORT_STYLE
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer, EvidenceItem, Failure, Solver
from evidence_assets.systems import open_method
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.reasoning.test_solvers import CELLS, SolverContract
from evidence_assets_tests.systems.small_models import ScriptedGenerator

SETTLED = make_question("Which river is the longest?", "Elbe", "Rhine", task="table_qa")
OPEN = make_question("Which river inspired the poet?", "Elbe", "Rhine", task="table_qa")
CLAIM = Question("q", "b", "verification", "The Elbe is the best river for anglers.", ("SUPPORTS", "REFUTES"))


class Partisan(ScriptedGenerator):
    """A language model that prefers one option, whatever its letter; ``odds`` 0 rates no letters."""

    def __init__(self, option: str, odds: float = 4.0) -> None:
        super().__init__("")
        self.option = option
        self.odds = odds

    def generate(self, requests: list[Request]) -> list[Completion]:  # type: ignore[override]
        self.requests += requests
        return [self._complete(request) for request in requests]

    def _complete(self, request: Request) -> Completion:
        options = [line[3:] for line in request.user.splitlines() if line[1:3] == ". "]
        log_probs = tuple(0.0 if option == self.option else -self.odds for option in options)
        letter = "ABC"[options.index(self.option)] if self.option in options else "none"
        return Completion(letter, 7, 1, 0.0, "stop", log_probs if self.odds else ())


def choose(question: Question, model: Partisan, evidence: tuple[EvidenceItem, ...] = CELLS) -> Choice | Failure:
    task = ChooseAnswer(question, (), dict.fromkeys(question.labels, evidence))
    (choice,) = RulesFirst(TableSolver(), PromptedSolver(LanguageModel(model), SHORT_STYLE)).choose([task])
    return choice


def by_rules(question: Question) -> Choice:
    (choice,) = TableSolver().choose([ChooseAnswer(question, (), dict.fromkeys(question.labels, CELLS))])
    assert isinstance(choice, Choice)
    return choice


def test_the_model_is_not_asked_for_what_the_rules_settle() -> None:
    model = Partisan("Elbe")
    assert choose(SETTLED, model) == by_rules(SETTLED) and by_rules(SETTLED).status == "answered"
    assert not model.requests


@pytest.mark.parametrize(
    ("question", "preferred", "label"), [(OPEN, "Elbe", "A"), (OPEN, "Rhine", "B"), (CLAIM, "REFUTES", "REFUTES")]
)
def test_both_count_where_the_rules_settle_nothing(question: Question, preferred: str, label: str) -> None:
    model = Partisan(preferred)
    rules = by_rules(question)
    assert rules.status != "answered"
    choice = choose(question, model)
    assert isinstance(choice, Choice) and (choice.answer, choice.status) == (label, "answered")
    of_model = log_softmax([0.0 if option == preferred else -4.0 for option in question.options])
    of_rules = log_softmax([rules.weights[each] for each in question.labels])
    expected = (1 - MODEL_WEIGHT) * of_rules + MODEL_WEIGHT * of_model
    assert list(choice.weights.values()) == pytest.approx(expected)
    assert choice.reply is not None and choice.reply.tokens_in == 14, "the tokens of both calls"


@pytest.mark.parametrize(("odds", "status"), [(0.7, "insufficient"), (0.9, "answered")])
def test_an_answer_that_neither_has_a_reason_for_is_a_guess(odds: float, status: str) -> None:
    """Half of the odds count, and 0.6 is a share of odds of about 0.4."""
    rules = by_rules(CLAIM)
    assert rules.status == "insufficient"
    choice = choose(CLAIM, Partisan(rules.answer or "", odds))
    assert isinstance(choice, Choice) and (choice.answer, choice.status) == (rules.answer, status)


class Undecided(TableSolver):
    """Rules that hold two options for equal."""

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        return [Choice("A", ("A", "B"), "ambiguous", weights={"A": 0.0, "B": 0.0}) for _ in tasks]


def test_a_model_decides_between_what_the_rules_hold_for_equal() -> None:
    model = PromptedSolver(LanguageModel(Partisan("Rhine", 0.2)), SHORT_STYLE)
    (choice,) = RulesFirst(Undecided(), model).choose([ChooseAnswer(OPEN, ())])
    assert isinstance(choice, Choice) and (choice.answer, choice.status) == ("B", "answered")


def test_an_unsure_model_does_not_overrule_the_rules() -> None:
    rules = by_rules(CLAIM)
    other = next(label for label in CLAIM.labels if label != rules.answer)
    odds = rules.weights[rules.answer or ""] - rules.weights[other]
    share = (1 - MODEL_WEIGHT) / MODEL_WEIGHT
    for factor, expected in ((0.9, rules.answer), (1.1, other)):
        choice = choose(CLAIM, Partisan(other, factor * share * odds))
        assert isinstance(choice, Choice) and choice.answer == expected


def test_a_question_without_options_is_answered_by_the_rules_alone() -> None:
    """Its options are cells, of which a model takes one even if none answers."""
    model = Partisan("Elbe")
    question = replace(OPEN, benchmark=ASKED_BENCHMARK)
    assert choose(question, model) == by_rules(question) and not model.requests
    assert choose(replace(CLAIM, benchmark=ASKED_BENCHMARK), model) is not None and model.requests


def test_a_model_that_rates_no_letters_decides_and_an_unusable_reply_fails() -> None:
    choice = choose(OPEN, Partisan("Elbe", 0.0))
    assert isinstance(choice, Choice) and (choice.answer, dict(choice.weights)) == ("A", {})
    assert isinstance(choose(OPEN, Partisan("Danube", 0.0)), Failure)


def test_the_version_names_rules_and_model() -> None:
    rules, model = TableSolver(), PromptedSolver(LanguageModel(Partisan("Elbe")), SHORT_STYLE)
    other_rules, other_model = TableSolver(), PromptedSolver(LanguageModel(Partisan("Elbe")))
    other_rules.version = "other"
    solvers = [RulesFirst(rules, model), RulesFirst(other_rules, model), RulesFirst(rules, other_model)]
    assert len({solver.version for solver in solvers}) == 3
    assert solvers[0].model_id == model.model_id


@pytest.mark.parametrize(("key", "style"), [("table/ucret", SHORT_STYLE), ("mcqa/uscrake", EXPLAINED_SHORT_STYLE)])
def test_rules_explain_answers_about_tables_also_on_request(
    key: str, style: PromptStyle, other_settings: pytest.MonkeyPatch
) -> None:
    other_settings.setenv("EVIDENCE_PROFILE", "local")
    (variant,) = (each for each in variants() if each.key == key)
    method = open_method(variant.model_copy(update={"asks_why": True}))
    assert isinstance(method, SelectionMethod)
    answering = Answering(method)
    assert answering.style is style and answering.is_rules_first == (style is SHORT_STYLE)


class TestRulesFirst(SolverContract):
    question, options, right = "Which river inspired the poet?", ("Elbe", "Rhine"), "Rhine"
    evidence, task = CELLS, "table_qa"

    def solver(self) -> Solver:
        return RulesFirst(TableSolver(), PromptedSolver(LanguageModel(Partisan("Rhine")), SHORT_STYLE))
