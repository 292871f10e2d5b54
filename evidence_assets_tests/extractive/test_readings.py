"""Readings of questions over facts: what answers, what only looks like it, and their probabilities."""

import pytest

from evidence_assets import profiles
from evidence_assets.extractive.readings import FactPath, Reading, ReadingWeights, find_paths, find_readings
from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.short_answers import ShortAnswer, ShortFact, ShortTask
from evidence_assets_tests.reasoning.small_questions import make_question

TRIPLES = (
    ("Marta Weiss", "born in", "Lindau"),
    ("Marta Weiss", "child of", "Josef Weiss"),
    ("Josef Weiss", "year of birth", "1931"),
    ("Josef Weiss", "plays", "trumpet"),
    ("Bodan Shipyard", "located in", "Kressbronn"),
    ("Ada Kern", "conducts", "Harbour Band"),
    ("Ada Kern", "born in", "Sipplingen"),
    ("Harbour Band", "opensAt", "19:30"),
    ("Harbour Band", "president", "Ruth Amsel"),
    ("Josef Weiss", "date of death", "2001-03-04"),
    ("Harbour Band", "rehearses in", "Room 14"),
    ("Seeadler", "built by", "Bruns Shipyard"),
    ("Ida Solheim", "born in", "Bergen"),
    ("Bergen", "located in", "Norway"),
    ("Ida Solheim", "works at", "Old Tannery"),
    ("Ida Solheim", "sister of", "Lena Solheim"),
    ("Velten Frameworks", "supplies", "frames"),
    ("Velten Frameworks", "located in", "Goerlitz"),
    ("Clara Nemeth", "teaches", "Mila Horak"),
    ("Old Tannery", "located in", "Sulzbach"),
    ("Petra Lang", "coaches", "Lena Roth"),
    ("Petra Lang", "runs", "Reed Café"),
)
FACTS = tuple(
    ShortFact(f"e{number}", head, relation, tail, f"{head} {relation} {tail}")
    for number, (head, relation, tail) in enumerate(TRIPLES)
)


def solve(question: str) -> ShortAnswer:
    solver = ExtractiveShortAnswers(get_encoder(profiles.load().encoder))
    (answer,) = solver.answer([ShortTask(make_question(question), FACTS)])
    assert isinstance(answer, ShortAnswer)
    return answer


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where was Marta Weiss born?", "Lindau"),
        ("When was Josef Weiss born?", "1931"),
        ("Where is Bodan Shipyard?", "Kressbronn"),
        ("Who conducts the Harbour Band?", "Ada Kern"),
        ("Which instrument does Josef Weiss play?", "trumpet"),
        ("Where was the conductor of the Harbour Band born?", "Sipplingen"),
        ("Who presides over the Harbour Band?", "Ruth Amsel"),
        ("Where does the Harbour Band rehearse?", "Room 14"),
        ("Can you tell me where Marta Weiss was born?", "Lindau"),
        ("Where does Ida Solheim work?", "Old Tannery"),
        ("In which country was Ida Solheim born?", "Norway"),
        ("Where was Ida Solheim born?", "Bergen"),
        ("Where is the company that supplies frames?", "Goerlitz"),
        ("Who delivers the frames?", "Velten Frameworks"),
        ("Who gives lessons to Mila Horak?", "Clara Nemeth"),
        ("In which town does Ida Solheim work?", "Sulzbach"),
        ("In which city was Ida Solheim born?", "Bergen"),
        ("Who trains Lena Roth?", "Petra Lang"),
        ("Who manages the Reed Café?", "Petra Lang"),
    ],
)
def test_a_question_on_the_relation_of_a_path_is_answered(question: str, expected: str) -> None:
    answer = solve(question)
    assert (answer.answer, answer.status) == (expected, "answered")
    assert answer.confidence is not None and 0.6 <= answer.confidence <= 1


@pytest.mark.parametrize(
    "question",
    [
        "Was Marta Weiss born in Lindau?",  # the ends of paths are names, no yes
        "When was Marta Weiss born?",  # only her birthplace, and her father's year of birth
        "Who founded Bodan Shipyard?",  # only its place
        "What does Marta Weiss play?",  # only her father plays
        "Where was Paul Weiss born?",  # not in the graph
        "What time does the Harbour Band close?",  # only when it opens
        "Who is the captain of the Harbour Band?",  # only its president
        "When was the conductor of the Harbour Band born?",  # only where
        "When did Marta Weiss's father marry?",  # only his birth and death
        "In which year was Ada Kern born?",  # only where
        "In which city is the shipyard that built the Seeadler?",  # only which shipyard
    ],
)
def test_another_relation_or_kind_is_no_answer(question: str) -> None:
    assert solve(question).status != "answered"


def confirm(question: str, answer: str) -> ShortAnswer:
    solver = ExtractiveShortAnswers(get_encoder(profiles.load().encoder))
    model_answer = ShortAnswer(answer, "answered", (answer,), tuple(fact.evidence_id for fact in FACTS))
    return solver.confirm(ShortTask(make_question(question), FACTS), model_answer)


def test_an_answer_of_a_model_gets_the_probability_of_its_reading() -> None:
    confirmed = confirm("Where was Marta Weiss born?", "Lindau")
    assert (confirmed.answer, confirmed.status, confirmed.evidence_ids) == ("Lindau", "answered", ("e0",))
    assert confirmed.confidence == solve("Where was Marta Weiss born?").confidence


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where was Marta Weiss born?", "Sipplingen"),  # where another was born
        ("When was Marta Weiss born?", "1931"),  # her father's year
        ("Who founded Bodan Shipyard?", "Kressbronn"),
        ("Where was Marta Weiss not born?", "Lindau"),
    ],
)
def test_an_answer_of_a_model_without_a_reading_is_ambiguous(question: str, answer: str) -> None:
    confirmed = confirm(question, answer)
    assert (confirmed.answer, confirmed.status, confirmed.confidence) == (answer, "ambiguous", None)


def test_an_answer_of_a_model_that_no_fact_has_is_none() -> None:
    solver = ExtractiveShortAnswers(get_encoder(profiles.load().encoder))
    answer = ShortAnswer("Bern", "answered", (), ("e0",))
    assert solver.confirm(ShortTask(make_question("Where was Marta Weiss born?"), FACTS), answer).answer is None


def test_yes_and_no_of_a_model_stay() -> None:
    answer = confirm("Was Marta Weiss born in Lindau?", "Yes")
    assert (answer.answer, answer.confidence) == ("Yes", None)


def test_two_facts_are_joined_and_both_are_evidence() -> None:
    assert set(solve("Where was the conductor of the Harbour Band born?").evidence_ids) == {"e5", "e6"}


def test_paths_start_in_the_question_and_end_outside_it() -> None:
    paths = find_paths("Is Marta Weiss from Lindau?", FACTS)
    assert {path.end for path in paths} == {"Josef Weiss", "1931", "trumpet", "2001-03-04"}
    assert {path.start for path in paths} == {"Marta Weiss"}
    assert max(len(path.facts) for path in paths) == 2


def test_unsourced_facts_are_no_path() -> None:
    unsourced = [ShortFact("e1", "Marta Weiss", "born in", "Lindau", "Marta Weiss born in Lindau", sourced=False)]
    assert find_readings("Where was Marta Weiss born?", unsourced, get_encoder(profiles.load().encoder)) == []


def test_readings_of_one_end_add_up_and_the_rest_is_no_answer() -> None:
    def reading(end: str, value: float) -> Reading:
        return Reading((FactPath("start", end),), {"text_cosine": value})

    weights = ReadingWeights(0.0, {"text_cosine": 1.0}, 0.6, 0.4, 0.2, 0.1)
    ranked = weights.rank([reading("a", 0.0), reading("b", 0.5), reading("a", 0.0)])
    total = 1 + 2 * 1.0 + 2.718281828**0.5
    assert [(r.ends, p) for p, r in ranked] == [
        (("a",), pytest.approx(2 / total, abs=1e-6)),
        (("a",), pytest.approx(2 / total, abs=1e-6)),
        (("b",), pytest.approx(2.718281828**0.5 / total, abs=1e-6)),
    ]
