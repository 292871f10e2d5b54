"""A question is detected as another language only with enough evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence_assets.text.sentences import detect_language


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Wie lange schlafen Katzen?", "German"),
        ("Combien de temps dorment les chats?", "French"),
        ("¿Cuánto duermen los gatos?", "Spanish"),
        ("Jak długo śpią koty?", "Polish"),
        ("Сколько спят кошки?", "Cyrillic script"),
        ("Which drug may treat gout?", "English"),
        ("world war", ""),  # one German function word
        ("1234", ""),
    ],
)
def test_short_questions(question: str, language: str) -> None:
    assert detect_language(question) == language


def test_no_real_english_question_is_detected_as_another_language(dev_data: Path) -> None:
    stems = [
        json.loads(line)["question"]["stem"]
        for line in (dev_data / "obqa/Data/Main/dev.jsonl").read_text().splitlines()
    ]
    assert len(stems) > 100 and {detect_language(stem) for stem in stems} <= {"English", ""}
