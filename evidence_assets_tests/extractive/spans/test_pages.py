"""Pages of sentences, as retrieval selects them: pronouns, counted nouns, and answers that are not cut."""

import json
from collections import Counter
from pathlib import Path

import pytest

from bench.answers.measure_pages import FALSE, RIGHT, STATEMENT, WRONG, grade_questions, read_set
from evidence_assets import profiles
from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.extractive.spans.candidates import find_candidates
from evidence_assets.extractive.spans.passages import split_passages
from evidence_assets.extractive.spans.questions import analyze_question, can_be_answer, is_whole_answer
from evidence_assets.models.registry import get_encoder
from evidence_assets.reasoning.short_answers import ShortAnswer, ShortTask
from evidence_assets.reasoning.tasks import EvidenceItem
from evidence_assets.text.referents import find_referent
from evidence_assets.text.sentences import sentence_spans, starts_with_pronoun
from evidence_assets.text.tokens import split_tokens
from evidence_assets_tests.reasoning.small_questions import make_question

NOTES = {
    "bread.md": "# Rye bread\n\nMix 500 grams of rye flour with 400 millilitres of water. Leave the dough in a warm"
    " place for 12 hours. Bake the loaf at 220 degrees for 55 minutes. The loaf stays fresh for six "
    "days. The recipe comes from our neighbour Greta Lind.",
    "rowing_club.txt": "Annual meeting of the Ostrava Rowing Club, 3 May 2022\n\nThe meeting began at 18:15 in the "
    "boathouse. Present were Karel Novak (chair), Jana Vesela (treasurer) and 23 members. Jana Vesela"
    " reported a balance of 2,300 euros. The fee for juniors was lowered to 20 euros. Petr Malik was "
    "elected as coach. The club owns four boats. The regatta will take place in Opava on 12 June. The"
    " meeting ended at 20:40.",
    "alps.txt": "We hiked from Chamonix to Zermatt in August 2021. The trail is 180 kilometres long. Our guide, "
    "Luc Perrin, carried the tent. Ida broke her compass on the glacier. A bed in the hut costs 35 "
    "euros. The hut was built by the carpenter Hans Meier in 1954. We turned back because the bridge "
    "was closed. The keys are kept behind the stove.",
}
NOTE_QUESTIONS = {
    "How long does the loaf stay fresh?": "six days",
    "At what temperature is the loaf baked?": "220 degrees",
    "How long does the loaf bake?": "55 minutes",
    "How many grams of rye flour do I need?": "500",
    "Who does the recipe come from?": "Greta Lind",
    "When did the meeting begin?": "18:15",
    "When did the meeting end?": "20:40",
    "Who is the treasurer?": "Jana Vesela",
    "Who was elected as coach?": "Petr Malik",
    "How many boats does the club own?": "four",
    "Where will the regatta take place?": "Opava",
    "When will the regatta take place?": "12 June",
    "How long is the trail?": "180 kilometres",
    "How much does a bed in the hut cost?": "35 euros",
    "Who built the hut?": "Hans Meier",
    "When was the hut built?": "1954",
    "What did Ida break?": "compass",
    "Why did we turn back?": "the bridge was closed",
    "Where are the keys kept?": "stove",
    "Who was the guide?": "Luc Perrin",
}
NOTE_UNANSWERABLE = (
    "Who is the secretary?",
    "How many trophies does the club own?",
    "How long is the glacier?",
    "How much does the tent cost?",
    "When did Ida leave?",
    "Who built the bridge?",
    "Where is the swimming pool?",
    "What did Greta Lind break?",
    "Are the keys kept behind the stove or in the tent?",
)
MIN_RIGHT = 20
CLUB = (
    "# Harbour Rowing Club\n\nThe annual fee is 260 euros for adults and 95 euros for juniors. The club was founded in "
    "1978 by Lars Ek. Lars Ek was born in 1941 in Malmo. He joined the board in 2016. The boathouse opens at 7:30 on "
    "weekdays and at 9:00 on Sundays. Marta Lind is the head coach and Ole Dahl is the treasurer."
)
REASONS = {
    "Freezer": "The freezer failed on 2 August because the compressor was clogged with dust; we lost 38 soil cores. It "
    "does not ring because the bell is broken.",
    "Bog": "The bog was drained for peat. It dried out due to the ditches. The path is closed.",
}


def read_pages(pages: dict[str, str]) -> list[EvidenceItem]:
    """Each sentence as a row of evidence, with its title and the referent of its pronoun."""
    items = []
    for title, text in pages.items():
        for start, end in sentence_spans(text):
            referent = find_referent(text, start) if starts_with_pronoun(text, start) else ""
            locator, sentence = f"{start}:{end}", text[start:end]
            why = json.dumps({"title": title, "referent": referent})
            items.append(EvidenceItem(f"{title}:{start}", "sentence", title, locator, sentence, why=why))
    return items


def ask(question: str, texts: list[EvidenceItem]) -> ShortAnswer:
    encoder = get_encoder(profiles.load().encoder)
    cosines = encoder.encode_sentences([item.text for item in texts]) @ encoder.encode_sentences([question])[0]
    ranked = [texts[n] for n in sorted(range(len(texts)), key=lambda n: -float(cosines[n]))]
    [answer] = ExtractiveShortAnswers(encoder).answer([ShortTask(make_question(question), (), tuple(ranked))])
    assert isinstance(answer, ShortAnswer)
    return answer


def test_means_are_no_person() -> None:
    texts = read_pages(
        {"stay.txt": "We stayed at the mill for two nights. The bill was paid by card. We left at noon."}
    )
    assert ask("Who paid the bill?", texts).answer in (None, "The bill was paid by card.")


def test_simple_questions_on_notes_are_mostly_answered_and_never_wrong() -> None:
    texts = read_pages(NOTES)
    answers = {question: ask(question, texts) for question in (*NOTE_QUESTIONS, *NOTE_UNANSWERABLE)}
    answered = {question: answer for question, answer in answers.items() if answer.answer is not None}
    wrong = {q: a for q, a in answered.items() if NOTE_QUESTIONS.get(q, "?") not in (a.answer or "")}
    assert not wrong and len(answered) >= MIN_RIGHT, answers
    for question, answer in answered.items():
        alone = ask(question, [item for item in texts if item.evidence_id in answer.evidence_ids])
        assert alone.answer == answer.answer, "the cited evidence alone gives the same answer"


@pytest.mark.slow
def test_questions_on_pages_of_people_are_answered_and_rarely_wrong(tmp_path: Path) -> None:
    verdicts = Counter(verdict for _, verdict, _ in grade_questions("sixth", read_set("sixth")[::3], tmp_path))
    assert verdicts[RIGHT] + verdicts[STATEMENT] >= 30 and verdicts[WRONG] + verdicts[FALSE] <= 5, verdicts


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("How much is the annual fee for juniors?", "95 euros"),
        ("How much is the annual fee for adults?", "260 euros"),
        ("When does the boathouse open on Sundays?", "9:00"),
    ],
)
def test_of_two_numbers_the_one_of_the_requested_clause_answers(question: str, expected: str) -> None:
    assert ask(question, read_pages({"club.md": CLUB})).answer == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Why did the freezer fail?", "the compressor was clogged with dust"),
        ("Why did the bog dry out?", "the ditches"),
        ("Why was the path closed?", None),
        ("Why was the compressor clogged?", None),
        ("Why does the freezer ring?", None),
    ],
)
def test_why_is_answered_by_the_stated_reason_only(question: str, expected: str | None) -> None:
    answer = ask(question, read_pages(REASONS))
    assert (answer.answer, answer.status) == (expected, "answered" if expected else "insufficient")


def test_a_pronoun_stands_for_the_subject_before_it_and_the_title() -> None:
    text = "Maria Lopez founded a bakery. She was born in Lyon. Her oven is old. The flour is local."
    assert [find_referent(text, text.index(word)) for word in ("Maria", "She", "Her")] == ["", *["Maria Lopez"] * 2]
    passages = split_passages([EvidenceItem("e", "chunk", "d", "", text, why='{"title": "Bakeries"}')])
    assert [passage.referent for passage in passages] == ["", *["Bakeries – Maria Lopez"] * 2, ""]


@pytest.mark.parametrize(
    ("question", "span", "sentence", "is_whole"),
    [
        ("How many pear trees are there?", "17", "It has 17 apple trees and three pear trees.", False),
        ("How many pear trees are there?", "three", "It has 17 apple trees and three pear trees.", True),
        ("How many seats are there?", "120 passengers", "It carries 120 passengers.", False),
        ("How many seats are there?", "120", "The number of seats is 120.", True),
        ("How much does it cost?", "12", "It costs 12 euros.", False),
        ("What does it cost?", "12", "It costs $12.", False),
        ("What share is it?", "12", "It is 12% of all.", False),
        ("How long is the power cord?", "320 W", "Power: 320 W.", False),
        ("How old is Biscuit?", "second cat", "She lives with a second cat, Biscuit.", False),
        ("At what time does the bar close?", "Sunday 9", "It is open until Sunday 9 May.", False),
    ],
)
def test_a_number_is_whole_with_its_unit_and_noun(question: str, span: str, sentence: str, is_whole: bool) -> None:
    words, part = split_tokens(sentence), [word.text for word in split_tokens(span)]
    first = next(n for n in range(len(words)) if [word.text for word in words[n : n + len(part)]] == part)
    assert is_whole_answer(words, first, first + len(part), analyze_question(question)) is is_whole


@pytest.mark.parametrize(
    ("question", "sentence", "span", "expected"),
    [
        ("When did the museum move?", "The museum is in the mill, ten minutes on foot from Ulm.", "ten minutes", False),
        ("When are stitches taken out?", "Stitches are taken out after ten days.", "ten days", True),
        ("When may they meet?", "They may meet at least two weeks after the injection.", "two weeks", True),
        ("When is it due?", "It is due within about ten days.", "ten days", True),
        ("When does it end?", "It lasts ten days.", "ten days", False),
        ("How long does it last?", "It lasts ten days.", "ten days", True),
        ("Where does the walk start?", "The walk starts at the mill and leads around Tarn Water.", "Tarn Water", False),
        ("Where does the walk start?", "The walk starts at the mill and leads around Tarn Water.", "mill", True),
        ("Where did she teach?", "She lived and taught in Leeds.", "Leeds", True),
        ("When is the fair?", "The fair is on 8 May.", "8 May", True),
    ],
)
def test_a_span_can_be_a_time_or_place_only_in_its_context(
    question: str, sentence: str, span: str, expected: bool
) -> None:
    words = split_tokens(sentence)
    start = sentence.index(span)
    inside = [n for n, word in enumerate(words) if start <= word.start < start + len(span)]
    ends = (inside[0], inside[-1] + 1)
    is_candidate = ends in find_candidates(words) and can_be_answer(words, *ends, analyze_question(question))
    assert is_candidate == expected


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        ("How fast may Heron run?", "Heron may run at 25 km/h. Steam engines burn coal.", "25 km/h"),
        ("Who is the contractor?", "The contractor is Kettlewell & Sons.", "Kettlewell & Sons"),
        ("What is the roof of the hall made of?", "The roof of the hall is made of slate.", "slate"),
        ("How loud is it at night?", "Mains: 230 V\nNoise: 46 dB\nNight: 38 dB\nWeight: 9 kg", "38 dB"),
        ("At what time does the train leave?", "The inn was built in 1920. It opens at 7:30.", None),
        ("price of a print", "Copies cost 10p. A print costs 35p.", "35p"),
        ("What does the bread contain?", "The bread contains treacle, oats and ginger.", "treacle, oats and ginger"),
        ("How old must firemen be?", "Volunteers must be at least 16 years old; firemen must be at least 18.", "18"),
    ],
)
def test_units_firms_lists_and_clauses_are_not_cut_or_mixed(question: str, text: str, answer: str | None) -> None:
    task = ShortTask(make_question(question), (), (EvidenceItem("e", "chunk", "d", "0:1", text),))
    [result] = ExtractiveShortAnswers(get_encoder(profiles.load().encoder)).answer([task])
    assert isinstance(result, ShortAnswer) and result.answer == answer
