"""The heading above a sentence and the sentence before it."""

import pytest

from evidence_assets.text.context import MAX_HEADING, find_context

RULES = """# Rules of the club

Members may row daily. Guests pay 4 euros.

## May I bring a dog?
Yes, on a lead. It waits at the gate.

It is open to all.

3. Sunday opening
Lena proposed to open on Sundays. The proposal was rejected.

- Bring a coat.
- Bring a torch.
"""


@pytest.mark.parametrize(
    ("sentence", "context"),
    [
        ("# Rules", ""),
        ("Members", "Rules of the club"),
        ("Guests", "Rules of the club Members may row daily."),
        ("Yes", "May I bring a dog?"),
        ("It waits", "May I bring a dog? Yes, on a lead."),
        ("It is open", "May I bring a dog?"),
        ("3. Sunday", ""),
        ("The proposal", "3. Sunday opening Lena proposed to open on Sundays."),
        ("- Bring a torch", "3. Sunday opening - Bring a coat."),
    ],
)
def test_a_sentence_has_the_heading_above_it_and_the_sentence_before_it(sentence: str, context: str) -> None:
    assert find_context(RULES, RULES.index(sentence)) == context


def test_a_wrapped_line_is_no_heading() -> None:
    line = "word " * (MAX_HEADING // 5 + 1)
    text = f"{line}\nends here. The next one."
    assert find_context(text, text.index("The next")) == " ".join(f"{line} ends here.".split())
