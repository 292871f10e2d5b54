"""Written answers: sentences are checked against the rows that they cite."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from evidence_assets.models.protocols import Completion, Request
from evidence_assets.reasoning.citations import contains_quote
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.short_answers import NO_ANSWER, PromptedShortAnswers, ShortAnswer, ShortFact, ShortTask
from evidence_assets.reasoning.tasks import STATED_STATUS, ChainStep, EvidenceItem, Failure, ReplyCost
from evidence_assets.reasoning.written_answers import (
    MIN_LOG_ODDS,
    UNRATED,
    CheckedRules,
    Decision,
    RowCheck,
    WrittenAnswers,
    answer_signals,
    check_reply,
    check_request,
    find_draft,
    is_answer_to,
    log_odds,
    parse_written,
    settle_answer,
)
from evidence_assets.reasoning.yes_no_answers import OPTIONS, ORDERS
from evidence_assets_tests.reasoning.small_questions import NoAnswers, make_question
from evidence_assets_tests.systems.small_models import ScriptedGenerator

ROWS = (
    EvidenceItem("e1", "sentence", "d", "0:40", "Never put hot ashes in the brown bin."),
    EvidenceItem("e2", "sentence", "d", "50:99", "The kiln was built in 1911 by Ida Holm, because the old one leaked."),
    EvidenceItem("e3", "sentence", "d", "120:160", "Members pay 40 euros; guests pay 55 euros."),
)
OTHER_ROWS = (
    EvidenceItem("f1", "sentence", "d", "0:30", "Parking costs 5 € per night."),
    EvidenceItem("f2", "sentence", "d", "40:99", "We serve the cake with sour cream, never with whipped cream."),
    EvidenceItem("f3", "sentence", "d", "120:180", "For repairs which are not covered we charge EUR 45."),
    EvidenceItem("f4", "sentence", "d", "200:230", "Children are very welcome."),
    EvidenceItem("f6", "sentence", "d", "310:350", "We put forty-two sensors into the ice."),
    EvidenceItem("f7", "sentence", "d", "360:400", "Bus 64 stops here, but it does not run on Sundays."),
    EvidenceItem("f8", "sentence", "d", "410:450", "The shop is closed on Mondays."),
    EvidenceItem("f5", "sentence", "d", "240:300", "First aid is NOT your job, it is that of the ambulance service."),
)
SURE = Decision({"intercept": 5.0}, 0.5)


def answer(
    question: str, reply: str, by_rules: ShortAnswer = NO_ANSWER, rows: tuple[EvidenceItem, ...] = ROWS
) -> ShortAnswer:
    task = ShortTask(make_question(question), (), rows)
    draft = find_draft(parse_written(reply), task)
    return settle_answer(draft, by_rules, 0.0, SURE) if draft else by_rules


@pytest.mark.parametrize(
    ("question", "reply", "text", "cited"),
    [
        ("When was the kiln built?", "1911 [2].", "1911", ("e2",)),
        ("Who built the kiln?", "Ida Holm [2]", "Ida Holm", ("e2",)),
        ("Why was the kiln built?", "Because the old one leaked. [2]", "Because the old one leaked.", ("e2",)),
        ("What do members and guests pay?", "- Members pay 40 euros [3]\n- Guests pay 55 euros [3]", None, ("e3",)),
        ("When was the kiln built?", "The kiln was built in 1911 [1].", "The kiln was built in 1911", ("e2",)),
        ("Which ashes may not go in?", "No hot ashes go in [2].", "No hot ashes go in", ("e1",)),
    ],
)
def test_a_carried_answer_is_cited(question: str, reply: str, text: str | None, cited: tuple[str, ...]) -> None:
    result = answer(question, reply)
    assert result.status == "answered" and result.evidence_ids == cited
    assert text is None or result.answer == text


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("When was the kiln built?", "It was built in 1912 [2]."),
        ("When was the kiln built?", "The kiln was not built in 1911 [2]."),
        ("Who built the kiln?", "Nora Brandt [2]."),
        ("Who built the kiln?", "It leaked [2]."),
        ("Who built the mill for Nora Brandt?", "Ida Holm [2]."),
        ("How often is the kiln used?", "1911 [2]."),
        ("How many kilns are there?", "1 [2]."),
        ("What goes into the bin?", "Hot ashes go into the bin [1]."),
        ("When was the kiln built?", "N/A"),
        ("When was the kiln built?", "Yes."),
    ],
)
def test_what_no_row_carries_is_refused(question: str, reply: str) -> None:
    assert answer(question, reply) == NO_ANSWER


@pytest.mark.parametrize(
    ("question", "reply", "text"),
    [
        ("How much is parking?", "5 euros", "5 euros"),
        ("How much is parking?", "5 pounds", None),
        ("What is the cake served with?", "Sour cream", "Sour cream"),
        ("What is the cake served with?", "Whipped cream", None),
        ("What does a repair cost that isn't covered?", "EUR 45", "EUR 45"),
        ("What does a repair cost that is covered?", "EUR 45", None),
        ("What gives first aid?", "The ambulance service gives first aid.", "The ambulance service gives first aid."),
        ("How many sensors are in the ice?", "Forty-two.", "Forty-two."),
        ("What is it served with?", "Sour cream, not whipped cream.", "Sour cream, not whipped cream."),
        ("What is allowed?", "The lines give the reason that children are welcome.", "Children are welcome."),
        ("Who is welcome?", "The lines say that Children are welcome.", "Children are welcome."),
        (
            "When does bus 64 not run?",
            "No. The lines clearly state that bus 64 does not run on Sundays.",
            "Bus 64 does not run on Sundays.",
        ),
        ("When does bus 64 run?", "Bus 64 runs on Sundays.", None),
        ("What is whipped cream?", "Whipped cream is served with the cake.", "Whipped cream is served with the cake."),
        ("What is clotted cream?", "Clotted cream is served with the cake.", None),
    ],
)
def test_names_of_currencies_are_equal_and_a_denial_counts_for_its_part_of_a_sentence(
    question: str, reply: str, text: str | None
) -> None:
    assert answer(question, reply, rows=OTHER_ROWS).answer == text


@pytest.mark.parametrize(
    ("question", "reply", "is_kept"),
    [
        ("When does the kiln open on Sundays?", "The kiln opens on Sunday afternoons.", False),
        ("What did Ida propose?", "Ida proposed to open the kiln on Sunday afternoons.", True),
        ("When does Ida propose to open the kiln?", "On Sunday afternoons.", False),
        ("By when must potters leave?", "By 9 p. m.", True),
        ("By when must potters leave?", "By 9 pm.", True),
        ("By when must potters leave?", "By 9 a.m.", False),
    ],
)
def test_what_was_only_proposed_is_not_carried_and_spellings_of_a_clock_time_are_equal(
    question: str, reply: str, is_kept: bool
) -> None:
    rows = (
        EvidenceItem("p1", "sentence", "d", "0:60", "Ida proposed to open the kiln on Sunday afternoons."),
        EvidenceItem("p2", "sentence", "d", "70:99", "Potters may stay until 9 p.m.; Ida has the key."),
    )
    assert (answer(question, reply, rows=rows).answer is not None) == is_kept


def test_rows_are_judged_alone_and_with_the_heading_and_the_sentence_before() -> None:
    why = json.dumps({"title": "Rules", "context": "Rules May I bring a dog? Yes, on a lead."})
    row = EvidenceItem("w", "sentence", "d", "", "It waits\n at the gate.", why=why)
    alone, in_context = RowCheck("Where does my dog wait?", (row,)).forms
    assert "\nRules: It waits at the gate.\n" in check_request(alone).user
    assert "\nRules: May I bring a dog? Yes, on a lead. It waits at the gate.\n" in check_request(in_context).user
    plain = RowCheck("Where does my dog wait?", (EvidenceItem("w", "sentence", "d", "", "It waits."),))
    assert plain.forms == (plain,), "a row without a context is read once"


KILN_ROWS = (
    EvidenceItem("g1", "sentence", "d", "0:40", "The Ashdown kiln stood empty until last year."),
    EvidenceItem("g2", "sentence", "d", "50:120", "It was raised by eleven masons, as the old oven leaked badly."),
    EvidenceItem("g3", "sentence", "d", "130:160", "Its first firing took place on 3 May 1911."),
    EvidenceItem("g4", "sentence", "d", "170:200", "Tiles went to Bern, bowls went to Riga."),
    EvidenceItem("g5", "sentence", "e", "0:30", "Holt sells tiles in many towns.", why='{"title": "Holt"}'),
    EvidenceItem("g6", "sentence", "d", "210:240", "Adults never dive."),
)


@pytest.mark.parametrize(
    ("question", "reply", "cited"),
    [
        ("When was the kiln used for the first time?", "The kiln was used for the first time on 3 May 1911.", ("g3",)),
        ("How many people built it?", "11 masons built it.", ("g2",)),
        ("When was the Ashdown kiln used first?", "3 May 1911", ("g3",)),
        ("Why did they build it?", "They built it because the old oven leaked badly.", ("g2",)),
        ("Why was it raised?", "It was raised due to the leaked old oven.", ("g2",)),
        ("What went where?", "Masons raised it and tiles went to Bern.", ("g2", "g4")),
        ("What went where?", "The lines give information that tiles went to Bern.", ("g4",)),
        ("When was the Berg kiln used first?", "3 May 1911", ()),
        ("When was the kiln used in 1920?", "3 May 1911", ()),
        ("How many people fired the kiln?", "11 masons. The lines do not say who fired it.", ()),
        ("When was the kiln used in 1911?", "The kiln was used on 3 May 1912.", ()),
        ("What happened in 1911?", "The Ashdown kiln stood empty in 1911.", ()),
        ("What happened on the 3rd?", "The Ashdown kiln stood empty on the 3rd.", ()),
        ("How many ovens are there?", "1", ()),
        ("Where did tiles go in Holt?", "Tiles went to Bern.", ()),
        ("What may adults do?", "Masons raised it and adults dive.", ()),
    ],
)
def test_an_answer_may_repeat_its_question_in_words_that_no_row_has(
    question: str, reply: str, cited: tuple[str, ...]
) -> None:
    assert answer(question, reply, rows=KILN_ROWS).evidence_ids == cited


def test_two_rows_of_different_documents_carry_no_sentence() -> None:
    assert answer("What went where?", "Masons raised it and Holt sells towns.", rows=KILN_ROWS) == NO_ANSWER


CAMP_ROWS = (
    EvidenceItem("h1", "sentence", "d", "0:60", "Report faults to the office without delay."),
    EvidenceItem(
        "h2", "sentence", "d", "70:140", "The wheel has been licensed since 2020 and is sold without a warranty."
    ),
    EvidenceItem("h3", "sentence", "d", "150:210", "Medical help is in the hands of the ambulance service."),
    EvidenceItem("h5", "sentence", "d", "290:340", "No more than two people may sleep in a tent."),
    EvidenceItem("h6", "sentence", "d", "350:400", "The hall cost 1,200,000 euros and the mast 12,50 francs."),
    EvidenceItem("h4", "sentence", "d", "220:280", "The wheel is 4.8 metres across and painted in harbour colours."),
)


@pytest.mark.parametrize(
    ("question", "reply", "text"),
    [
        ("Where do I report faults?", "To the office.", "To the office."),
        ("How many may sleep there?", "More than two.", None),
        ("When was it licensed?", "2020", "2020"),
        ("Who gives medical help?", "The ambulance service.", "The ambulance service."),
        ("Who gives medical help?", "It is in hands.", None),
        ("What is the width of the wheel?", "4.8 meters", "4.8 meters"),
        ("What do you see when a wheel is painted?", "Harbour colors.", "Harbour colors."),
        ("What did the hall cost?", "1200000 euros", "1200000 euros"),
        ("What did the mast cost?", "1250 francs", None),
    ],
)
def test_set_phrases_kinds_and_spellings_are_read(question: str, reply: str, text: str | None) -> None:
    assert answer(question, reply, rows=CAMP_ROWS).answer == text


def draft_signals(question: str, reply: str, rows: Sequence[EvidenceItem]) -> dict[str, float]:
    draft = find_draft(parse_written(reply), ShortTask(make_question(question), (), tuple(rows)))
    assert draft
    return answer_signals(draft, 0.5)


def test_a_signal_says_whether_one_row_is_cited() -> None:
    replies = ("Tiles went to Bern.", "Masons raised it and tiles went to Bern.")
    assert [draft_signals("What went where?", reply, KILN_ROWS)["one_row"] for reply in replies] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        ("How much is parking?", "Parking costs 5 euros.", {"missing": 0.0, "carried": 1.0}),
        ("How much is car parking?", "Car parking costs 5 euros.", {"missing": 1.0, "carried": 0.0}),
        ("How much is parking at the lake?", "Parking costs 5 euros.", {"missing": 1.0, "carried": 1.0}),
    ],
)
def test_signals_count_words_that_the_rows_lack(question: str, reply: str, expected: dict[str, float]) -> None:
    signals = draft_signals(question, reply, OTHER_ROWS)
    assert {name: signals[name] for name in expected} == expected


def test_a_signal_compares_the_cited_row_with_the_best_other_one() -> None:
    rows = [replace(row, score=score) for row, score in zip(OTHER_ROWS, (0.3, 0.5, *[0.1] * 6), strict=True)]
    cost = ("How much is parking?", "Parking costs 5 euros.")
    served = ("What do we serve?", "Cake with sour cream.")
    assert draft_signals(*cost, rows)["lead"] == pytest.approx(-0.2)
    assert draft_signals(*served, rows)["lead"] == pytest.approx(0.2)
    assert draft_signals(*cost, rows[:1])["lead"] == 0.0  # a row alone leads no other


def test_only_sentences_without_support_are_dropped() -> None:
    checked = check_reply(
        parse_written("Ida Holm built it in 1911 [2]. She came from Norway [2]."), "Who built it?", ROWS
    )
    assert [sentence.text for sentence in checked.sentences] == ["Ida Holm built it in 1911"]
    assert is_answer_to(checked, "Who built it?", ROWS)


def test_each_sentence_cites_its_own_rows_and_their_words() -> None:
    result = answer("Who built the kiln and what do guests pay?", "Ida Holm [2]. Guests have to pay 55 euros [3].")
    assert result.steps == (
        ChainStep("Ida Holm", ("e2",), ("The kiln was built in 1911 by Ida Holm",)),
        ChainStep("Guests have to pay 55 euros", ("e3",), ("guests pay 55 euros.",)),
    )
    assert (result.answer, result.evidence_ids) == ("Ida Holm; Guests have to pay 55 euros", ("e2", "e3"))
    texts = {row.evidence_id: row.text for row in ROWS}
    assert all(contains_quote(step.quoted[0], texts[step.cited[0]]) for step in result.steps)


@pytest.mark.parametrize("text", ["She was born in Varn, and wrote: novels, poems.", "She was born in Varn, there:"])
def test_a_row_whose_title_carries_a_sentence_is_quoted_whole(text: str) -> None:
    row = EvidenceItem("e1", "sentence", "d", "0:50", text, why='{"title": "Ida Holm"}')
    [step] = answer("Who was born in Varn?", "Ida Holm.", rows=(row,)).steps
    assert step.quoted == (text,)


def test_rules_answer_what_the_model_does_not() -> None:
    by_rules = ShortAnswer("1911", "answered", ("1911",), ("e2",), 0.9)
    assert answer("When was the kiln built?", "N/A", by_rules) == by_rules


def write_or_judge(request: Request) -> str:
    """A date with its row, or yes."""
    return "A" if request.choices else "1911 [1]." if "[1] " in request.user else "1912"


def test_a_judgement_without_probabilities_counts_as_fixed_odds() -> None:
    rated = ReplyCost("m", 1, 1, "stop", choice_log_probs=(-0.1, -2.4))
    assert log_odds(True, rated) == pytest.approx(2.3)
    assert (log_odds(True, None), log_odds(False, None)) == (UNRATED, -UNRATED)


def test_an_answer_that_the_model_doubts_is_left_to_the_rules() -> None:
    draft = find_draft(parse_written("1911 [2]"), ShortTask(make_question("When was it built?"), (), ROWS))
    assert draft is not None
    doubting = Decision({"intercept": 0.0, "stated": 1.0}, 0.5)
    assert settle_answer(draft, NO_ANSWER, -1.0, doubting) == NO_ANSWER
    assert settle_answer(draft, NO_ANSWER, 1.0, doubting).confidence == pytest.approx(0.731059)


@dataclass(frozen=True)
class OneAnswer:
    """Rules with one answer, from the row with the kiln."""

    result: ShortAnswer
    name = "rules"
    model_id = "rules"
    version = "1"

    def answer(self, tasks: Sequence[ShortTask]) -> list[ShortAnswer | Failure]:
        return [self.result for _ in tasks]


@pytest.mark.parametrize(("judgement", "is_kept"), [("A", True), ("B", False)])
def test_an_answer_of_the_rules_stays_unless_the_model_doubts_its_row(judgement: str, is_kept: bool) -> None:
    by_rules = ShortAnswer("1911", "answered", ("1911",), ("e2",), 0.9)
    model = LanguageModel(ScriptedGenerator(lambda request: judgement if request.choices else "N/A"))
    tasks = [ShortTask(make_question("When was the kiln sold?"), (), ROWS)]
    assert CheckedRules(model, OneAnswer(by_rules)).answer(tasks) == [by_rules if is_kept else NO_ANSWER]
    assert WrittenAnswers(model, OneAnswer(by_rules)).answer(tasks) == [by_rules if is_kept else NO_ANSWER]
    verdict = ShortAnswer("no", "answered", ("no",), ("e2",), 0.9)
    for answer_without_call in (NO_ANSWER, verdict):
        assert CheckedRules(model, OneAnswer(answer_without_call)).answer(tasks) == [answer_without_call]
    assert model.usage["model_tasks"] == 3


@pytest.mark.parametrize(("in_context", "is_kept"), [("A", True), ("B", False)])
def test_the_judgements_of_rows_alone_and_in_their_context_both_count(in_context: str, is_kept: bool) -> None:
    row = EvidenceItem("w", "sentence", "d", "", "They wait at the gate.", why=json.dumps({"context": "Dogs"}))
    generator = ScriptedGenerator(lambda request: in_context if "Dogs They" in request.user else "A")
    by_rules = ShortAnswer("at the gate", "answered", ("at the gate",), ("w",), 0.9)
    task = ShortTask(make_question("Where do dogs wait?"), (), (row,))
    assert CheckedRules(LanguageModel(generator), OneAnswer(by_rules)).answer([task]) == [
        by_rules if is_kept else NO_ANSWER
    ]
    assert len(generator.requests) == 2


class RatingGenerator(ScriptedGenerator):
    """A generator that says yes, with given log odds."""

    def __init__(self, value: float) -> None:
        super().__init__("A")
        self._value = value

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        return [replace(completion, choice_log_probs=(self._value, 0.0)) for completion in super().generate(requests)]


@pytest.mark.parametrize(("value", "is_kept"), [(MIN_LOG_ODDS - 0.1, False), (MIN_LOG_ODDS + 0.1, True)])
def test_an_answer_of_the_rules_needs_a_minimum_of_log_odds(value: float, is_kept: bool) -> None:
    by_rules = ShortAnswer("1911", "answered", ("1911",), ("e2",), 0.9)
    task = ShortTask(make_question("When was the kiln sold?"), (), ROWS)
    checked = CheckedRules(LanguageModel(RatingGenerator(value)), OneAnswer(by_rules))
    assert checked.answer([task]) == [by_rules if is_kept else NO_ANSWER]


CAN_PUT = ShortTask(make_question("Can I put hot ashes in the bin?"), (), ROWS)
SAYS_NO = ShortAnswer("no", "answered", ("no",), ("e1",))
STATES = ShortAnswer(ROWS[0].text, STATED_STATUS, (ROWS[0].text,), ("e1",))


@pytest.mark.parametrize(
    ("by_rules", "row", "answer"),
    [
        (SAYS_NO, "hot ashes", "no"),
        (
            ShortAnswer("No, they melt it.", "answered", ("No, they melt it.",), ("e1",)),
            "hot ashes",
            "No, they melt it.",
        ),
        (NO_ANSWER, "hot ashes", "no"),
        (STATES, "hot ashes", "no"),
        (STATES, "nothing", ROWS[0].text),
        (NO_ANSWER, "nothing", None),
    ],
)
def test_yes_and_no_are_chosen_where_the_rules_have_none(by_rules: ShortAnswer, row: str, answer: str | None) -> None:
    def reply(request: Request) -> str:
        if "state what this question asks for" in request.user:
            return "A"
        wording = OPTIONS["no" if row in request.user.split("Question:")[0] else "unknown"]
        return next(line[0] for line in request.user.splitlines() if line.endswith(f") {wording}"))

    generator = ScriptedGenerator(reply)
    [result] = WrittenAnswers(LanguageModel(generator), OneAnswer(by_rules)).answer([CAN_PUT])
    assert isinstance(result, ShortAnswer)
    assert (result.answer, result.evidence_ids) == (answer, ("e1",) if answer else ())
    n_letters = sum(len(request.choices) == len(OPTIONS) for request in generator.requests)
    assert n_letters == (0 if by_rules.status == "answered" else len(ROWS) * len(ORDERS))
    assert (result.reply.tokens_out if result.reply else 0) == 3 * len(generator.requests), "of the check, too"


def test_each_task_gets_its_own_answer_and_costs() -> None:
    def reply(request: Request) -> str:
        if len(request.choices) == len(OPTIONS):
            wording = OPTIONS["yes" if "Members" in request.user else "unknown"]
            return next(line[0] for line in request.user.splitlines() if line.endswith(f") {wording}"))
        return write_or_judge(request)

    do_members_pay = ShortTask(make_question("Do members pay?"), (), ROWS[1:])
    without_rows = ShortTask(make_question("Do members pay?"), ())
    when = ShortTask(make_question("When was the kiln built?"), (), ROWS[1:2])
    model = LanguageModel(ScriptedGenerator(reply))
    results = WrittenAnswers(model, NoAnswers()).answer([do_members_pay, without_rows, when, do_members_pay])
    assert [isinstance(each, ShortAnswer) and each.answer for each in results] == ["yes", None, "1911", "yes"]
    assert [each.reply and each.reply.tokens_out for each in results] == [12, None, 6, 12]


def test_a_task_without_evidence_is_not_sent() -> None:
    model = LanguageModel(ScriptedGenerator(write_or_judge))
    tasks = [ShortTask(make_question("When was the kiln built?"), (), rows) for rows in (ROWS, ())]
    results = WrittenAnswers(model, NoAnswers()).answer(tasks)
    assert model.usage["model_tasks"] == 2 and results[1] == NO_ANSWER, "one reply and its judgement"
    assert [result.reply and result.reply.tokens_out for result in results] == [6, None], "of both calls"


def test_texts_alone_get_written_answers_and_facts_short_ones() -> None:
    model = LanguageModel(ScriptedGenerator(write_or_judge))
    solver = PromptedShortAnswers(model, WrittenAnswers(model, NoAnswers()))
    fact = ShortFact("f1", "kiln", "built in", "1912", "kiln built in 1912")
    question = make_question("When was the kiln built?")
    tasks = [ShortTask(question, (fact,)), ShortTask(question, (), ROWS[1:2]), ShortTask(question, (fact,))]
    results = solver.answer(tasks)
    assert [result.answer for result in results if isinstance(result, ShortAnswer)] == ["1912", "1911", "1912"]
