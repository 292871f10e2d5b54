"""Pages of the box to ask: its form, a question while it is answered, and its answer."""

from __future__ import annotations

from typing import Any

from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.ask_box import MAX_OPTION, MAX_QUESTION, AskBox, AskForm, Outcome, SourceChoice
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.origins import edges_of, list_origins, read_edge_seeds
from evidence_assets.explorer.pages import NotFound, Page

MARKER = "\x00"
"""Where a page that is being sent is interrupted; no text of a page has this character."""


def ask_page(box: AskBox, form: AskForm, error: str = "") -> Page:
    """The form, and the questions asked so far."""
    groups: dict[str, list[SourceChoice]] = {}
    for choice in box.list_sources():
        groups.setdefault(choice.group, []).append(choice)
    values = {
        "form": form,
        "error": error,
        "groups": groups,
        "listed": any(choice.value == form.source for choices in groups.values() for choice in choices),
        "token": box.token,
        "questions": [(question_id, typed.text) for question_id, (typed, _) in reversed(box.questions.items())],
        "model": box.model,
        "max_question": MAX_QUESTION,
        "max_option": MAX_OPTION,
    }
    return Page("ask.html", "Ask", values)


def asking_page(form: AskForm) -> Page:
    """A question before its answer, with two markers: for its progress, and for the outcome."""
    text = " ".join(form.text.replace(MARKER, " ").split())
    return Page("asking.html", text, {"text": text, "source": form.source, "marker": MARKER})


def outcome_page(reader: LakeReader, box: AskBox, outcome: Outcome) -> Page:
    """The part of a page that shows an answer, or why there is none."""
    if outcome.error:
        return Page("asked_error.html", "", {"error": outcome.error})
    return Page("asked_answer.html", "", _read_answer(reader, box, outcome.question_id))


def asked_page(reader: LakeReader, box: AskBox, question_id: str) -> Page:
    """The answer to a question of this process."""
    if question_id not in box.questions:
        raise NotFound("This question is not among the last ones asked since the explorer was started: ask it again.")
    form, _ = box.questions[question_id]
    values = {"text": form.text, "source": form.source}
    return Page("asked.html", form.text, values | _read_answer(reader, box, question_id))


def _read_answer(reader: LakeReader, box: AskBox, question_id: str) -> dict[str, Any]:
    """The answer to a question of the scratch lake; seeds of its edges are those of the lake."""
    _, answered = box.questions[question_id]
    with box.reader.opened() as scratch:
        view = view_answer(scratch.connection, answered.prediction_id)
    edges = sorted({edge for item in view.items for edge in edges_of(item)})
    origins = {view.prediction["prediction_id"]: list_origins(view, read_edge_seeds(reader, edges))}
    return {"a": view, "also": answered.also, "origins": origins, "question_id": question_id}
