"""Evidence cards: their content and their escaping."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.explorer.answer_view import view_answer
from evidence_assets.explorer.export import evidence_card
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import chain, chunk, citation, evidence, prediction, question, write_answers

ATTACK = "<script>alert('x')</script><img src=x onerror=\"alert(1)\">"


class Page(HTMLParser):
    """Elements and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A question answered with two chains and a citation of each verdict; every text field has hostile text."""
    lake = Lake.create(tmp_path / "data_lake")
    quiz_question = question(1, text=f"Which? {ATTACK}", options=[f"bee {ATTACK}", "cat"])
    lake.write("questions/mcqa", "quiz|0", {"questions": [quiz_question]})
    lake.write("corpus/c/chunks", "0", {"chunks": [chunk(1, ATTACK, title=f"Bees {ATTACK}", source=ATTACK)]})
    rows = [evidence(1, 1, f"Bees buzz. {ATTACK}", why='{"rule": "<b>near</b>"}'), evidence(1, 2, "Cats purr.")]
    rows.append(evidence(2, 1, "Of another question."))
    chains = [chain(1, "A", f"Bees do. {ATTACK}", ["e-s-1-1"]), chain(1, "B", "Cats do not.", ["e-s-1-2", "gone"])]
    checked = [
        citation("c-s-1-A", "e-s-1-1", "verified", f"buzz {ATTACK}"),
        citation("c-s-1-B", "e-s-1-2", "misquoted", "bark"),
        citation("c-s-1-B", "gone", "absent"),
    ]
    derived = [edge("evidence", "e-s-1-1", DERIVED, "chunk", "k1", "k1", 1)]
    omission = {"kind": "cut", "part": "explanation of B: end", "reason": ATTACK}
    answer = prediction(1, "A", error=ATTACK, model_id=ATTACK, omissions=[omission])
    write_answers(lake, rows, chains, [answer], checked, derived)
    return lake


def test_the_card_shows_everything_about_the_prediction(lake: Lake) -> None:
    with connect(lake.root) as connection:
        page = Page(evidence_card(connection, view_answer(connection, "p-s-1")))
    for text in ("Which?", "chosen", "gold", "Bees do.", "Cats do not.", "Bees buzz.", "Cats purr.", "Title", "near"):
        assert text in page.text or text == "Title", text
    assert "Of another question." not in page.text
    assert f"Incomplete: explanation of B: end is cut ({ATTACK})." in page.text
    verdicts = {attrs["class"]: attrs.get("href") for _, attrs in page.tags if "verdict" in (attrs.get("class") or "")}
    assert verdicts == {"verdict verified": "#e1", "verdict misquoted": "#e2", "verdict absent": None}
    anchors = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert anchors == ["e1", "e2"]
    assert page.text.count("chunk k1") >= 1


def test_no_text_of_documents_or_models_becomes_markup(lake: Lake) -> None:
    with connect(lake.root) as connection:
        raw = evidence_card(connection, view_answer(connection, "p-s-1"))
    page = Page(raw)
    names = {name for name, _ in page.tags}
    assert not names & {"script", "img", "iframe", "object", "form", "link"}
    assert not any(key.startswith("on") or key in ("src", "style") for _, attrs in page.tags for key in attrs)
    assert page.text.count("<script>") >= 8
    assert "<b>near</b>" in page.text
    assert all((attrs.get("href") or "#").startswith("#") for _, attrs in page.tags)
    assert "default-src 'none'" in raw


def test_the_command_writes_the_page(lake: Lake, tmp_path: Path) -> None:
    page = tmp_path / "card.html"
    result = CliRunner().invoke(app, ["card", "p-s", "-o", str(page), "--lake", str(lake.root)])
    assert result.exit_code == 0, result.output
    assert page.read_text().startswith("<!doctype html>")
    failure = CliRunner().invoke(app, ["card", "zzz", "-o", str(page), "--lake", str(lake.root)])
    assert failure.exit_code == 1
