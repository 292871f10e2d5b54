"""Yes or no, chosen by a model from one row at a time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.models.protocols import Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.short_answers import NO_ANSWER, ShortAnswer, ShortTask
from evidence_assets.reasoning.tasks import EvidenceItem, Failure, ReplyCost
from evidence_assets.reasoning.yes_no_answers import (
    OPTIONS,
    ORDERS,
    ROWS,
    UNRATED_PROBABILITY,
    LogProbs,
    RowQuestion,
    Verdict,
    YesNoAnswers,
    ask_rows,
    load_yes_no_decision,
    parse_verdict,
    verdict_log_probs,
    verdict_signals,
    yes_no_request,
)
from evidence_assets_tests.reasoning.small_questions import make_question
from evidence_assets_tests.systems.small_models import ScriptedGenerator

TEXTS = ("The shop is closed on Mondays.", "Bus 64 stops at the shop.", "The shop sells  bread\nand milk.")
SHOP = tuple(EvidenceItem(f"e{n}", "sentence", "d", f"{n}", text) for n, text in enumerate(TEXTS))
IS_OPEN = ShortTask(make_question("Is the shop open on Mondays?"), (), SHOP)
log_probs = st.fixed_dictionaries(dict.fromkeys(OPTIONS, st.floats(-20, 0)))


def letter_of(request: Request, verdict: Verdict) -> str:
    """The letter that a request gives a verdict."""
    option = f") {OPTIONS[verdict]}"
    [letter] = [line[0] for line in request.user.splitlines() if line[1:] == option]
    return letter


def reply_by_row(verdicts: dict[str, Verdict]) -> LanguageModel:
    """A model that rates no letters and reads these verdicts in rows with these words."""

    def reply(request: Request) -> str:
        verdict = next((each for words, each in verdicts.items() if words in request.user), "unknown")
        return letter_of(request, verdict)

    return LanguageModel(ScriptedGenerator(reply))


def test_each_option_has_another_letter_in_each_order() -> None:
    calls = [RowQuestion("Is it open?", SHOP[0], order) for order in ORDERS]
    requests = [yes_no_request(call) for call in calls]
    letters = [[letter_of(request, verdict) for request in requests] for verdict in OPTIONS]
    assert letters == [["A", "B"], ["B", "C"], ["C", "A"]]
    assert all(request.rates_choices for request in requests)
    assert {parse_verdict("A", call) for call in calls} == {"yes", "unknown"}


@pytest.mark.parametrize(
    ("verdicts", "answer", "cited"),
    [({"closed": "no"}, "no", ("e0",)), ({"bread": "yes"}, "yes", ("e2",)), ({}, None, ())],
)
def test_one_row_that_says_it_suffices(
    verdicts: dict[str, Verdict], answer: str | None, cited: tuple[str, ...]
) -> None:
    model = reply_by_row(verdicts)
    [result] = YesNoAnswers(model).answer([IS_OPEN])
    assert isinstance(result, ShortAnswer)
    assert (result.answer, result.evidence_ids) == (answer, cited)
    assert model.usage["model_tasks"] == len(SHOP) * len(ORDERS)
    assert (result.confidence is None) == (answer is None)


@pytest.mark.parametrize("letter", ["A", "B", "C"])
def test_a_model_with_one_letter_for_everything_decides_nothing(letter: str) -> None:
    [result] = YesNoAnswers(LanguageModel(ScriptedGenerator(letter))).answer([IS_OPEN])
    assert result == NO_ANSWER


def test_costs_of_all_calls_are_added_and_tasks_without_rows_are_not_sent() -> None:
    model = reply_by_row({"closed": "no"})
    without_rows = ShortTask(make_question("Is it open?"), ())
    first, second = YesNoAnswers(model).answer([without_rows, IS_OPEN])
    assert first == NO_ANSWER and first.reply is None
    assert second.reply is not None
    assert second.reply.tokens_out == 3 * len(SHOP) * len(ORDERS)


def test_a_question_fails_with_one_of_its_calls() -> None:
    def reply(request: Request) -> str:
        return "Perhaps." if "Bus 64" in request.user else letter_of(request, "yes")

    without_bus = ShortTask(IS_OPEN.question, (), SHOP[:1])
    failed, answered = YesNoAnswers(LanguageModel(ScriptedGenerator(reply))).answer([IS_OPEN, without_bus])
    assert isinstance(failed, Failure) and "Perhaps" in failed.reason
    assert isinstance(answered, ShortAnswer) and answered.answer == "yes"


def test_each_of_the_best_rows_is_read_in_both_orders() -> None:
    rows = tuple(EvidenceItem(f"e{n}", "sentence", "d", f"{n}", f"Sentence {n}.") for n in range(ROWS + 2))
    requests = list[str]()

    def reply(request: Request) -> str:
        requests.append(request.user)
        return "A"

    [outcomes] = ask_rows(LanguageModel(ScriptedGenerator(reply)), [ShortTask(make_question("Is it so?"), (), rows)])
    texts = sorted(text for request in requests for text in request.splitlines() if text.startswith("Sentence"))
    assert texts == sorted([f"Sentence {n}." for n in range(ROWS)] * len(ORDERS))
    mean = math.log(UNRATED_PROBABILITY) / 2 + math.log(0.2) / 2
    assert outcomes[0][0] == pytest.approx({"yes": mean, "no": math.log(0.2), "unknown": mean})


def test_rated_letters_weigh_and_the_others_count_by_their_reply() -> None:
    call = RowQuestion("Is it so?", SHOP[0], ("unknown", "yes", "no"))
    rated = verdict_log_probs(call, "no", ReplyCost("m", 1, 1, "stop", choice_log_probs=(-1.0, -1.0, -1.0)))
    assert rated == pytest.approx(dict.fromkeys(OPTIONS, -math.log(3)))
    unrated = verdict_log_probs(call, "no", None)
    assert math.fsum(map(math.exp, unrated.values())) == pytest.approx(1)
    assert max(unrated, key=lambda verdict: unrated[verdict]) == "no"


@given(st.lists(log_probs, min_size=1, max_size=6))
def test_signals_are_extremes_of_the_rows(rows: list[LogProbs]) -> None:
    signals = verdict_signals(rows)
    assert signals["yes"] == pytest.approx(max(row["yes"] for row in rows), abs=1e-6)
    assert signals["no"] == pytest.approx(max(row["no"] for row in rows), abs=1e-6)
    assert signals["unknown"] == pytest.approx(min(row["unknown"] for row in rows), abs=1e-6)
    assert verdict_signals(rows[::-1]) == signals


@pytest.mark.parametrize(
    ("by_verdict", "answer"), [((-0.1, -4.0, -3.0), "yes"), ((-4.0, -0.1, -3.0), "no"), ((-4.0, -4.0, -0.04), None)]
)
def test_the_packaged_weights_agree_with_the_letters(by_verdict: tuple[float, ...], answer: str | None) -> None:
    row: LogProbs = dict(zip(OPTIONS, by_verdict, strict=True))
    assert load_yes_no_decision().decide(SHOP[:1], [row]).answer == answer


@given(log_probs, st.floats(0.1, 5))
def test_a_verdict_is_the_more_probable_the_more_a_row_says_it(row: LogProbs, more: float) -> None:
    decision = load_yes_no_decision()
    for verdict in ("yes", "no"):
        signals = verdict_signals([row])
        raised = {**signals, verdict: signals[verdict] + more}
        assert decision.probabilities(raised)[verdict] >= decision.probabilities(signals)[verdict]
