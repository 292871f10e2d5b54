"""Drawings of answers and relations as SVG: their boxes, links, escaping and positions."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from evidence_assets.explorer.layers import MAX_EVIDENCE, MAX_LINES, WIDTH, Box, Curve, draw_layers
from evidence_assets.explorer.pages.relation import MAX_PER_COLUMN
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import (
    chain,
    chunk,
    citation,
    evidence,
    prediction,
    question,
    write_answers,
    write_harvest,
)

ATTACK = "</title></svg><script>alert('x')</script>\"><img src=x onerror=alert(1)>{{ 1234567 * 2 }}"
SVG = "{http://www.w3.org/2000/svg}"


def drawing_of(page: str) -> ElementTree.Element:
    """The drawing of a page, which is well-formed XML."""
    [svg] = re.findall(r'<svg class="layers" .*?</(?:a|g)></svg>', page, re.DOTALL)
    return ElementTree.fromstring(svg.replace("<svg", f'<svg xmlns="{SVG[1:-1]}"', 1))


def titles(element: ElementTree.Element, style: str) -> list[str]:
    """Full texts of the boxes with a style."""
    boxes = [box for box in element if box.get("class", "").split() == ["box", *filter(None, [style])]]
    return ["".join(box.find(f"{SVG}title").itertext()) for box in boxes]  # type: ignore[union-attr]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A question answered from one of ten rows of evidence, from two chunks, with hostile texts."""
    lake = Lake.create(tmp_path / "data_lake")
    questions = [question(1, text=f"Which? {ATTACK}", options=[f"bee {ATTACK}", "cat"]), question(2)]
    lake.write("questions/mcqa", "quiz|0", {"questions": questions})
    chunks = [chunk(n, f"Bees buzz. {ATTACK}", title=f"Bees {n} {ATTACK}", source=ATTACK) for n in (1, 2)]
    lake.write("corpus/c/chunks", "0", {"chunks": chunks})
    rows = [evidence(1, n, f"Row {n}. {ATTACK}", source_id="k2" if n > 8 else "k1") for n in range(1, 11)]
    cited = [citation("c-s-1-A", "e-s-1-9", "verified", f"Row 9. {ATTACK}")]
    answers = [prediction(1, "A"), prediction(2, "A")]
    write_answers(lake, rows, [chain(1, "A", "They do.", ["e-s-1-9"])], answers, cited)
    return lake


def test_an_answer_is_drawn_from_its_question_to_its_sources(client: TestClient) -> None:
    page = client.get("/question/q1").text
    drawing = drawing_of(page)
    used = titles(drawing, "used")
    assert [text[:9] for text in used] == ["Answer: A", "[1] Row 9", "Bees 2 </"]
    assert len(titles(drawing, "shown")) == (MAX_EVIDENCE - 1) + 1, "other evidence and its source"
    assert titles(drawing, "") == [" ".join(f"Which? {ATTACK}".split())]
    styles = [path.get("class") for path in drawing.iter(f"{SVG}path")]
    assert styles.count("used") == 2 and len(styles) == 2 * MAX_EVIDENCE
    links = [str(a.get("href")) for a in drawing.iter(f"{SVG}a")]
    assert links[0] == "#a1-e1" and links[-2:] == ["/source/chunk/k2", "/source/chunk/k1"]
    assert all(f'id="{anchor[1:]}"' in page for anchor in links if anchor.startswith("#"))
    assert drawing.findtext(f"{SVG}title") == "Question, evidence and sources of the answer"
    assert "Used evidence: 1 of 10 rows; 8 are drawn" in str(drawing.findtext(f"{SVG}desc"))
    assert "<img" not in page and "2469134" not in page and page.count("<script") == 1
    assert not re.search(r'<svg[^>]*style=|<[^>]* on\w+="', page)
    assert "<svg" not in client.get("/question/q2").text, "an answer without evidence has no drawing"


def test_a_relation_is_drawn_from_its_seeds_to_its_triples(lake: Lake, client: TestClient) -> None:
    write_harvest(lake, 12, suffix=f" {ATTACK}")
    page = client.get("/relation/may_treat").text
    assert "<img" not in page and page.count("<script") == 1
    drawing = drawing_of(page)
    boxes = titles(drawing, "")
    assert [text.split(" <")[0] for text in boxes[:2]] == ["head 0", "head 1"]
    assert sum(text.startswith("<HEAD> heals") for text in boxes) == 2, "the third prompt found no tuple"
    assert [text[:7] for text in boxes[4:]] == [f"drug {n} " for n in range(MAX_PER_COLUMN)]
    assert [text[:7] for text in titles(drawing, "used")] == [f"drug {n} " for n in range(MAX_PER_COLUMN)]
    assert len(list(drawing.iter(f"{SVG}path"))) == 2 * 2 + 2 * MAX_PER_COLUMN + MAX_PER_COLUMN
    links = [a.get("href") for a in drawing.iter(f"{SVG}a")]
    assert links[:3] == ["/source/seed/s0", "/source/seed/s1", "/source/triple/t0"]
    assert drawing.findtext(f"{SVG}title") == "Seeds, prompts, tuples and triples of may_treat"
    lake.delete("triples", "knowledge/kbloom/harvest")
    without = client.get("/relation/may_treat")
    assert without.status_code == 200 and "<svg" not in without.text


texts = st.text(st.characters(codec="utf-8"), max_size=400)


@given(st.lists(st.tuples(st.integers(0, 2), texts), min_size=1, max_size=20))
def test_boxes_stay_in_the_drawing_and_never_overlap(items: list[tuple[int, str]]) -> None:
    boxes = [Box(str(number), column, text) for number, (column, text) in enumerate(items)]
    curves = [Curve(a.key, b.key) for a in boxes for b in boxes if b.column == a.column + 1]
    drawing = draw_layers("t", "d", ("a", "b", "c"), boxes, [*curves, Curve("0", "missing")])
    assert len(drawing.paths) == len(curves)
    columns: dict[float, list[Any]] = {}
    for box in drawing.boxes:
        assert box.x >= 0 and box.x + drawing.width <= WIDTH + 0.01
        assert box.y > 0 and box.y + box.height <= drawing.height
        assert 1 <= len(box.lines) <= MAX_LINES
        columns.setdefault(box.x, []).append(box)
    for column in columns.values():
        for above, below in pairwise(column):
            assert above.y + above.height < below.y
