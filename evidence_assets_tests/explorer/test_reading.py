"""One answer as text: what a reader sees of a path, its citations, and what became of the answer without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence_assets.explorer.answer_view import AnswerView, view_answer
from evidence_assets.explorer.answers import AnswerRows
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import USED, edge
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import path_locator
from evidence_assets_tests.lake_rows import (
    chain,
    citation,
    counterfactual,
    evidence,
    prediction,
    question,
    write_answers,
)

NAMES = ("metformin", "diabetes", "excessive thirst", "fever")
EDGES = [  # head, relation, tail, sources
    ("metformin", "may_treat", "diabetes", ["graph.tsv:1", "other.tsv:4"]),
    ("excessive thirst", "is_associated_with", "diabetes", ["graph.tsv:2"]),
    ("fever", "may_cause", "excessive thirst", ["kbloom"]),
]
LOCATOR = path_locator([("e0", True), ("e1", False)])
TEXT = "Metformin may treat diabetes. Excessive thirst is associated with diabetes."
WHY = {
    "nodes": [
        {"name": name, "relevance": relevance} for name, relevance in zip(NAMES, (0.61, 0.5, None), strict=False)
    ],
    "links": [{"phrase": "metformin", "rule": "exact"}, {"phrase": "thirst", "rule": "fuzzy"}],
    "attention": {"e0": [0.25, 0.125]},
    "contradictory": False,
    "relevant_by": "threshold",
    "spread": 0.1,
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A question answered from one path, with the graph that it stands in."""
    lake = Lake.create(tmp_path / "data_lake")
    asked = question(1, text="Which sign fits what metformin relieves?", options=["excessive thirst", "fever"])
    lake.write("questions/mcqa", "quiz|0", {"questions": [asked]})
    nodes = [{"node_id": name, "name": name, "aliases": [], "type": None, "document": None} for name in NAMES]
    lake.write("knowledge/g/nodes", "", {"kg_nodes": nodes})
    edges = [
        {
            "edge_id": f"e{i}",
            "head_id": head,
            "relation": relation,
            "tail_id": tail,
            "triple_ids": [f"t{i}"],
            "sources": sources,
            "licences": ["CC0-1.0"] if len(sources) < 2 else ["CC-BY-4.0", "CC0-1.0"],
        }
        for i, (head, relation, tail, sources) in enumerate(EDGES)
    ]
    lake.write("knowledge/g/edges", "", {"kg_edges": edges})
    shown = evidence(1, 1, TEXT, kind="path", source_kind="edge", source_id="e0", locator=LOCATOR, why=json.dumps(WHY))
    chains = [chain(1, "A", f"The evidence states: “{TEXT}”", ["e-s-1-1"]), chain(1, "B", "Nothing links it.", [])]
    checked = [citation("c-s-1-A", "e-s-1-1", "verified", TEXT)]
    write_answers(lake, [shown], chains, [prediction(1, "A")], checked)
    lake.write("counterfactuals/mcqa/s", "quiz|0", {"counterfactuals": [counterfactual("h")]})
    return lake


def test_a_path_is_walked_with_its_directions_words_sources_and_attention(lake: Lake) -> None:
    with connect(lake.root) as connection:
        text = view_answer(connection, "p-s-1").as_text()
    for said in (
        "A. excessive thirst [the answer, gold]",
        "metformin —may treat→ diabetes ←is associated with— excessive thirst",
        "metformin looks at diabetes with 0.250, diabetes at metformin with 0.125",
        "excessive thirst: not scored",
        "“metformin” (exact match)",
        "graph.tsv:1, other.tsv:4 (CC-BY-4.0, CC0-1.0)",
        "cites [1] verified",
        "without the evidence that it rests on: insufficient; with that alone: A (needed, and enough)",
        "support of the others: B 0.500",
    ):
        assert said in " ".join(text.split()) or said in text, said
    assert "Nothing links it." not in text and '{"' not in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_question_for_the_exception_shows_every_chain(lake: Lake) -> None:
    asked = question(1, text="Which does not fit?", options=["excessive thirst", "fever"], negated=True)
    lake.write("questions/mcqa", "quiz|0", {"questions": [asked]})
    with connect(lake.root) as connection:
        text = view_answer(connection, "p-s-1").as_text()
    assert "asks for the option that does not hold" in text and "Nothing links it." in text


def test_an_answer_without_chains_shows_all_that_it_used_and_the_name_of_a_node(lake: Lake) -> None:
    used = [edge("prediction", "p-s-1", USED, "evidence", "e-s-1-1", "h", 1)]
    made = {"predictions": [prediction(1, "n7")], "lineage_edges": used}
    lake.write("predictions/mcqa/s", "quiz|0", made)
    node = {"node_id": "n7", "name": "gout", "aliases": [], "type": None, "document": None}
    lake.write("knowledge/h/nodes", "", {"kg_nodes": [node]})
    with connect(lake.root) as connection:
        text = view_answer(connection, "p-s-1").as_text()
    assert "answer: gout, n7 (answered" in text and "metformin —may treat→ diabetes" in text


@pytest.mark.parametrize(
    ("status", "answer", "others", "said"),
    [
        ("answered", "a", [], "a"),
        ("answered", "a", ["b", "c"], "a (likewise: b, c)"),
        ("ambiguous", "a", ["b"], "the evidence does not decide; nearest is a (likewise: b)"),
        ("insufficient", "a", ["b"], "the evidence does not say"),
    ],
)
def test_an_answer_without_options_names_all_that_its_reading_leads_to(
    status: str, answer: str, others: list[str], said: str
) -> None:
    row = prediction(1, answer=answer, status=status, supported_answers=[answer, *others])
    assert AnswerView(AnswerRows(row, None, [], [], [], None), []).answer_text == said
