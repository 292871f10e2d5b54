"""Replies of models, and the answers that the parser reads from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.reasoning.reply_parsing import parse_answer

OPTIONS = ("Renal failure", "Cholesterol embolization", "Vitamin C", "Sickle cell disease")
CLAIM = ("SUPPORTS", "REFUTES", "NOT ENOUGH INFORMATION")

SAYS_B = [
    "B",
    "Answer: **B. Cholesterol embolization**",
    "Final answer:\n\n**B**",
    "The answer is B because of the skin.",
    "The patient most likely has cholesterol embolization after the catheter.",
    "First the answer is A, it seems. But the skin differs: the final answer is B.",
    "Vitamin C is one option and renal failure another, yet the catheter decides. The answer is B.",
    "So we get \\boxed{\\text{B}}.",
    '{"step_by_step_thinking": "A or C? The answer is A at first.", "answer_choice": "B"}',
    '```json\n{"answer": "B", "confidence": 0.8}\n```',
    'Here it is:\n```\n{"Final Answer": "(B)"}\n```\nI hope that helps.',
    '{"answer": ["B"]}',
    '{"answer": {"label": "B", "text": "Cholesterol embolization"}}',
    '{"step_by_step_thinking": "a "quoted" word breaks this" "answer_choice": "B"}',
    '{"reason": "cut off later", "answer": "B", "more": "and then the',
    "{'answer': 'B'}",
    "<think>A? The answer is A.</think>The answer is B.",
    "Ответ: B",
    "答案：B。",
    "Ｂ",
    "Answer: A? No, the skin differs.\n\nFinal answer: B",
    "The correct answer is option B.\n\nOption A is correct only without the catheter. Option D is incorrect.",
    "**A)** weak\n**B)** strong\n**C)** weak\n\n**B) Cholesterol embolization**",
]


@pytest.mark.parametrize("reply", SAYS_B)
def test_replies_that_say_b(reply: str) -> None:
    assert parse_answer(reply, "ABCD", OPTIONS) == "B"


SAYS_NOTHING_USABLE = [
    ("", "is empty"),
    ("<think>The answer is B", "is empty"),
    ("I cannot answer this question.", "names no option"),
    ("A patient with hepatitis B has a rash.", "names no option"),
    ("The answer is C-reactive protein.", "names no option"),
    ("The answer is not B.", "names no option"),
    ("Therefore, vitamin C, D and K are out.", "names no option"),
    (f"{'The catheter loosened plaques. ' * 12}Therefore, vitamin C, D and K are out.", "names no option"),
    (f"{'The catheter loosened plaques. ' * 12}Cholesterol embolization follows.", "names no option"),
    ("**A) Renal failure**\nweak\n**B) Cholesterol embolization**\nstrong", "names no option"),
    ("The answer is either A or B.", "several options: A, B"),
    ("A: too slow\nB: fits\nC: no\nD: no", "names no option"),
    ('{"answer_choice": "A/B/C/D"}', "several options: A, B, C, D"),
    ("B. Renal failure", "several options: B, A"),
    ("E", "names 'E', which is not one of A, B, C, D"),
    ('{"answer": null}', "answer field names no option"),
    ('{"answer": "Unable to answer based on the documents"}', "answer field names no option"),
    ("[" * 5000, "names no option"),
]


@pytest.mark.parametrize(("reply", "reason"), SAYS_NOTHING_USABLE)
def test_unusable_replies_have_a_reason(reply: str, reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason):
        parse_answer(reply, "ABCD", OPTIONS)


@pytest.mark.parametrize(
    ("reply", "options", "label"),
    [
        ("None of the above", ["x", "None of the above"], "B"),
        ("E. coli", ["S. aureus", "E. coli"], "B"),
        ("The answer is E. coli because it is common.", ["S. aureus", "E. coli"], "B"),
        ("B. pertussis", ["B. pertussis", "E. coli"], "A"),
        ("Vitamin C is the best answer.", ["Vitamin A", "Vitamin C", "Iron"], "B"),
        ("vitamin C", ["Vitamin A", "Vitamin B", "Vitamin C", "Vitamin D"], "C"),
        ("It needs vitamin B12.", ["Vitamin B", "Vitamin B12"], "B"),
        ('{"answer": 2}', ["1", "2", "3"], "B"),
        ("Yes, because it helps.", ["yes", "no", "maybe"], "A"),
        ("C", ["same", "same", "other"], "C"),
        ("B. same", ["same", "same", "other"], "B"),
    ],
)
def test_texts_of_options(reply: str, options: list[str], label: str) -> None:
    assert parse_answer(reply, "ABCDEFGH"[: len(options)], options) == label


@pytest.mark.parametrize(
    ("reply", "options", "reason"),
    [
        ("A", ["B", "A"], "several options: B, A"),
        ("same", ["same", "same", "other"], "no option"),
        ("No option is right.", ["yes", "no", "maybe"], "no option"),
        ("Both renal failure and cholesterol embolization are possible.", OPTIONS[:2], "no option"),
    ],
)
def test_texts_that_do_not_decide(reply: str, options: list[str], reason: str) -> None:
    with pytest.raises(UnusableReply, match=reason):
        parse_answer(reply, "ABC"[: len(options)], options)


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("SUPPORTS", "SUPPORTS"),
        ("Supported", "SUPPORTS"),
        ("The claim is refuted by the table, so the answer is REFUTES.", "REFUTES"),
        ('{"label": "NOT ENOUGH INFO"}', "NOT ENOUGH INFORMATION"),
        ("Verdict: **NEI**", "NOT ENOUGH INFORMATION"),
        ("The table supports the claim.", "SUPPORTS"),
    ],
)
def test_the_label_of_a_claim_is_read_from_any_wording(reply: str, label: str) -> None:
    assert parse_answer(reply, CLAIM, CLAIM) == label


@pytest.mark.parametrize(
    "reply", ["The table does not support the claim.", "B", "not supported", "SUPPORTS or REFUTES"]
)
def test_claims_that_are_not_decided(reply: str) -> None:
    with pytest.raises(UnusableReply):
        parse_answer(reply, CLAIM, CLAIM)


@given(reply=st.text(max_size=400))
def test_any_reply_has_a_label_or_a_reason(reply: str) -> None:
    try:
        assert parse_answer(reply, "ABCD", OPTIONS) in "ABCD"
    except UnusableReply as unusable:
        assert str(unusable)


@pytest.mark.timeout(20)
def test_long_replies_take_linear_time() -> None:
    for piece in ("answer is ", "{", '"answer": "', "\\boxed{", "** (", "<think>", "A, B, ", "the the ", '{"a": '):
        with pytest.raises(UnusableReply):
            parse_answer(piece * 20_000 + "?", "ABCD", OPTIONS)
