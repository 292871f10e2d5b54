"""Marks of Markdown are left out, and what only looks like them stays."""

import pytest

from evidence_assets.text.markdown import plain_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Opening hours\n\n- **Tomasz Lis** joined\n  us.", "Opening hours\n\nTomasz Lis joined\n  us."),
        ("It says: “* **Fusee**: a cone.”", "It says: “Fusee: a cone.”"),
        ("**Note: the hall is closed.", "Note: the hall is closed."),
        ('See [the *rules*](rules.md "Rules") and ![a map](map.png).', "See the rules and a map."),
        ("> - Run `make test`.", "Run make test."),
        ("1. Open the valve.", "1. Open the valve."),
        ("2 * 3 * 4 = 24, x**2 in `a**b`", "2 * 3 * 4 = 24, x**2 in a**b"),
        ("Call __init__ in my_file_name.py #3, [1] (p. 2), -5 °C.", None),
        ("A * marks a footnote, ** another.", None),
    ],
)
def test_a_text_is_printed_without_marks(text: str, expected: str | None) -> None:
    assert plain_text(text) == (text if expected is None else expected)
