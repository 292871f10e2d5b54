"""Hand-made rows of the lake that several tests write and read."""

from __future__ import annotations

from typing import Any


def question(number: int, benchmark: str = "quiz", gold: str = "A", **more: Any) -> dict[str, Any]:
    """A multiple-choice question with two options."""
    return {
        "question_id": f"q{number}", "benchmark": benchmark, "source_id": str(number), "split": "test", "task": "mcqa",
        "text": f"Question {number}?", "options": ["yes", "no"], "gold": [gold], "gold_aliases": [],
        "gold_evidence": [], "table_id": None, "topic_entities": [], "negated": False,
    } | more  # fmt: skip


def prediction(
    number: int, answer: str | None, benchmark: str = "quiz", selector: str = "s", **more: Any
) -> dict[str, Any]:
    """The prediction of question ``number``."""
    return {
        "prediction_id": f"p-{selector}-{number}", "question_id": f"q{number}", "benchmark": benchmark,
        "selector": selector, "reasoner": "r", "model_id": "m", "answer": answer, "ranked_answers": [],
        "supported_answers": [answer] if answer else [], "status": "answered" if answer else "insufficient",
        "confidence": 0.5, "error": None, "content_hash": f"h{answer}", "input_hash": "i",
    } | more  # fmt: skip
