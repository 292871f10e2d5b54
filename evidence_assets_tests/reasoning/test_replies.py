"""Every parser on replies in the manner of real models: read as a careful person reads them."""

import re

import pytest

from evidence_assets.reasoning.model_calls import PROMPTED_TASKS
from evidence_assets_tests.reasoning.reply_corpus import (
    FOLDER,
    LABELS,
    Reply,
    load_real_replies,
    load_replies,
    misread,
    read,
)

REPLIES = tuple(load_replies())
MIN_SHARE = 0.95
ROWS = "\n".join(f"| row {n} | {n} |" for n in range(1, 46))


def test_each_family_has_replies_to_each_prompted_task() -> None:
    folders = sorted(path for path in FOLDER.iterdir() if path.is_dir())
    assert len(folders) == 6
    for folder in folders:
        assert {file.stem for file in folder.iterdir()} == PROMPTED_TASKS.keys(), folder.name
    headers = sum(file.read_text(encoding="utf-8").count("\n@@ ") + 1 for file in FOLDER.glob("*/*.txt"))
    assert len(REPLIES) == headers >= 330
    assert sum(reply.held_out for reply in REPLIES) >= 40


@pytest.mark.parametrize("held_out", [False, True])
def test_nearly_all_replies_are_read_as_a_careful_person_reads_them(held_out: bool) -> None:
    replies = [reply for reply in REPLIES if reply.held_out == held_out]
    share = sum(reply.is_read_correctly for reply in replies) / len(replies)
    assert share >= MIN_SHARE, "\n".join(misread(replies))


def test_no_label_contradicts_an_explicit_answer_line() -> None:
    assert not [reply for reply in REPLIES if contradicts_its_answer_line(reply)]


def contradicts_its_answer_line(reply: Reply) -> bool:
    """Whether a reply is misread as a label that none of its lines ``Answer: …`` names."""
    answers = re.findall(r"^\W*(?:final )?answer\W*:(.*)", reply.text, re.IGNORECASE | re.MULTILINE)
    label = reply.parsed_reading.partition(" cites ")[0]
    is_misread = label in {*"ABCD", *LABELS} and label != reply.reading.partition(" cites ")[0]
    return is_misread and bool(answers) and not any(re.search(rf"\b{label}\b", answer) for answer in answers)


def test_real_replies_are_read_as_a_person_reads_them() -> None:
    replies = list(load_real_replies())
    assert len(replies) >= 400
    wrong = [r for r in replies if r.parsed_reading != r.reading]
    lines = [f"{r.task} {r.number}: {r.parsed_reading!r} instead of {r.reading!r}" for r in wrong]
    assert len(wrong) <= (1 - MIN_SHARE) * len(replies), "\n".join(lines)


PRINTED = [
    # An explicit answer line overrides the prose after it.
    ("published_choice", "vitamins", "Answer: B\n\nExplanation: While option A is correct that plants…", "B"),
    ("published_choice", "vitamins", "Answer: B … Therefore, vitamin C, D and K are out.", "B"),
    ("published_question", "vitamins", "Answer: B\n\nExplanation: While option A is correct that plants…", "B"),
    # Headings, one line, and two ways to say that the evidence is insufficient.
    ("published_answer", "gout", "### Answer: C\n### Explanation: x", "C"),
    ("published_answer", "gout", "Answer: C. Explanation: It inhibits the enzyme [Passage 1].", "C cites 1"),
    ("published_answer", "gout", "Answer: Insufficient evidence", "insufficient"),
    ("published_answer", "gout", "Answer: None of the passages support an answer", "insufficient"),
    # All citations are parsed.
    ("published_chain", "chain", "Meat has vitamin B12 and plants have none [E1, E2].", "cites 1 2"),
    ("published_answer", "gout", "Answer: C\nExplanation: So it is [Passages 1 and 2].", "C cites 1 2"),
    ("published_answer", "gout", "Answer: C\nExplanation: So it is (Passage 1).", "C cites 1"),
    ("published_answer", "gout", "Answer: C\nExplanation: So it is [1].", "C cites 1"),
    ("published_chain", "chain", "1. **E1**: Meat has it.\n- E2: Plants have none, but vitamin E3 …", "cites 1 2"),
    # Prose has no limit of steps.
    ("published_case", "table claim", f"The table reads:\n{ROWS}\nSo it holds.", "kept"),
    ("published_answer", "gout", f"Answer: C\nExplanation: [Passage 1] says:\n{ROWS}", "C cites 1"),
]
"""Replies that were once misread, with their readings."""


@pytest.mark.parametrize(("task", "question", "text", "reading"), PRINTED)
def test_replies_that_were_once_misread(task: str, question: str, text: str, reading: str) -> None:
    assert read(task, question, text, reading) == reading
