"""One answer as text: a path, its citations, and the counterfactual."""

import json
from pathlib import Path

import pytest

from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.explorer.answer_text import format_answer
from evidence_assets.explorer.answer_view import AnswerView, describe_answer, view_answer, view_answers
from evidence_assets.explorer.evidence_view import EvidenceView
from evidence_assets.lake import connect
from evidence_assets.lake.lineage import USED, WAS_SHOWN, edge
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.paths import path_locator
from evidence_assets_tests.lake_rows import (
    chain,
    chunk,
    citation,
    counterfactual,
    evidence,
    graph_edge,
    node,
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
REASONS = {
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
    """A question answered from one path, with its graph."""
    lake = Lake.create(tmp_path / "data_lake")
    quiz_question = question(1, text="Which sign fits what metformin relieves?", options=["excessive thirst", "fever"])
    lake.write("questions/mcqa", "quiz|0", {"questions": [quiz_question]})
    lake.write("knowledge/g/nodes", "", {"kg_nodes": [node(name) for name in NAMES]})
    licences = [["CC-BY-4.0", "CC0-1.0"], ["CC0-1.0"], ["CC0-1.0"]]
    edges = [
        graph_edge(f"e{i}", head, relation, tail, sources=sources, licences=licences[i])
        for i, (head, relation, tail, sources) in enumerate(EDGES)
    ]
    lake.write("knowledge/g/edges", "", {"kg_edges": edges})
    path_evidence = evidence(
        1, 1, TEXT, kind="path", source_kind="edge", source_id="e0", locator=LOCATOR, why=json.dumps(REASONS)
    )
    chains = [chain(1, "A", f"The evidence states: “{TEXT}”", ["e-s-1-1"]), chain(1, "B", "Nothing links it.", [])]
    checked = [citation("c-s-1-A", "e-s-1-1", "verified", TEXT)]
    write_answers(lake, [path_evidence], chains, [prediction(1, "A")], checked)
    lake.write("counterfactuals/mcqa/s", "quiz|0", {"counterfactuals": [counterfactual("h")]})
    return lake


def view_of(lake: Lake) -> AnswerView:
    with connect(lake.root) as connection:
        return view_answer(connection, "p-s-1")


def test_a_path_is_walked_with_its_directions_words_sources_and_attention(lake: Lake) -> None:
    text = format_answer(view_of(lake), everything=True)
    for part in (
        "A. excessive thirst [the answer, gold]",
        "metformin —may treat→ diabetes ←is associated with— excessive thirst",
        "from metformin to diabetes 0.250, from diabetes to metformin 0.125",
        "excessive thirst: not scored",
        "“metformin” (exact match)",
        "graph.tsv:1, other.tsv:4 (CC-BY-4.0, CC0-1.0)",
        "cites [1] (verified)",
        "Without its evidence there would be no answer; with only that evidence, “excessive thirst”.",
        "B. fever, support 0.50",
    ):
        assert part in " ".join(text.split()) or part in text, part
    assert "Nothing links it." not in text and '{"' not in text
    assert max(map(len, text.splitlines())) <= 80
    negated_question = question(1, text="Which does not fit?", options=["excessive thirst", "fever"], negated=True)
    lake.write("questions/mcqa", "quiz|0", {"questions": [negated_question]})
    text = format_answer(view_of(lake))
    assert "the answer is the option that does not hold" in text and "Nothing links it." in text


def test_the_answer_is_followed_by_the_reasons_their_evidence_the_options_and_the_rest(lake: Lake) -> None:
    rows = [evidence(1, rank, f"Sentence {rank}.") for rank in (1, 2)]
    citations = [citation("c-s-1-A", "e-s-1-1", "verified", "Sentence 1.")]
    write_answers(lake, rows, [chain(1, "A", "As stated.", ["e-s-1-1"])], [prediction(1, "A")], citations)
    view = view_of(lake)
    text = format_answer(view)
    headings = [line for line in text.splitlines() if line in ("why", "evidence", "options", "other evidence")]
    assert headings == ["why", "evidence", "options"] and text.index("answer: A.") < text.index("why")
    assert "[2]" not in text, "unused evidence is left out"
    without_options = format_answer(view, options=False)
    assert "answer: A. excessive thirst" in without_options and "fever" not in without_options
    everything = format_answer(view, everything=True)
    assert everything.index("\noptions\n") < everything.index("\nother evidence\n") < everything.index("[2]")


def test_rows_that_two_variants_store_are_shown_once(lake: Lake) -> None:
    before = view_of(lake)
    for table in ("chains", "citations"):
        rows = lake.read(table, f"{table}/mcqa/s", "quiz|0").to_dicts()
        lake.write(f"{table}/mcqa/s/model", "quiz|0", {table: rows})
    after = view_of(lake)
    assert (format_answer(after), after.as_dict()) == (format_answer(before), before.as_dict())
    assert len(after.chains) == 2 and len(after.citations) == 1


def test_a_step_lists_its_first_citations_and_counts_the_others(lake: Lake) -> None:
    rows = [evidence(1, rank, f"Sentence {rank}.") for rank in range(1, 31)]
    order = [f"e-s-1-{rank}" for rank in range(30, 0, -1)]
    citations = [citation("c-s-1-A", row["evidence_id"], "verified", row["text"]) for row in rows]
    write_answers(lake, rows, [chain(1, "A", "As stated.", order)], [prediction(1, "A")], citations)
    view = view_of(lake)
    text = " ".join(format_answer(view).split())
    assert "cites [30], [29]," in text and "[21] (verified), and 20 more" in text
    assert len(view.key_evidence) == 10 and len(view.other_evidence) == 20 and len(view.as_dict()["citations"]) == 30


def test_statements_are_printed_without_markdown(lake: Lake) -> None:
    statement = "- **Thirst** is [a sign](signs.md)."
    row = prediction(1, statement, status="stated", supported_answers=[statement])
    chains = [chain(1, statement, f"The evidence states: “{statement}”", ["e-s-1-1"])]
    citations = [citation(f"c-s-1-{statement}", "e-s-1-1", "verified", statement)]
    counterfactuals = [counterfactual("h") | {"without_cited": statement, "only_cited": statement}]
    lake.write("counterfactuals/mcqa/s", "quiz|0", {"counterfactuals": counterfactuals})
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(1, text="Thirst?", options=[])]})
    write_answers(lake, [evidence(1, 1, statement)], chains, [row], citations)
    view = view_of(lake)
    text = " ".join(format_answer(view, everything=True).split())
    assert text.count("Thirst is a sign.") == 4 and text.count("Thirst is a sign”") == 1 and "*" not in text
    assert describe_answer(None, statement) == "Thirst is a sign."
    assert view.as_dict()["evidence"][0]["text"] == statement, "JSON has the words of the source"


def test_each_of_several_sentences_of_a_short_answer_has_its_citations(lake: Lake) -> None:
    lake.write("questions/mcqa", "quiz|0", {"questions": [question(1, text="Who pays what?", options=[])]})
    steps = [{"text": f"Guest {n} pays.", "cited": [f"e-s-1-{n}"], "quoted": [f"pays {n}"]} for n in (1, 2)]
    row = prediction(1, "Guest 1 pays. Guest 2 pays.", steps=steps)
    rows = [evidence(1, n, f"Guest {n} pays {n}.", option="") for n in (1, 2)]
    citations = [citation("p-s-1", f"e-s-1-{n}", "verified", f"pays {n}") | {"step": n - 1} for n in (1, 2)]
    write_answers(lake, rows, [], [row], citations)
    edges = [edge("prediction", "p-s-1", USED, "evidence", f"e-s-1-{n}", "h", n) for n in (1, 2)]
    lake.write("predictions/mcqa/s", "quiz|0", {"predictions": [row], "lineage_edges": edges})
    text = " ".join(format_answer(view_of(lake)).split())
    assert "why 1. Guest 1 pays. cites [1] (verified) 2. Guest 2 pays. cites [2] (verified)" in text
    lake.write("predictions/mcqa/s", "quiz|0", {"predictions": [row | {"steps": steps[:1]}], "lineage_edges": edges})
    assert "Guest 2 pays. cites" not in " ".join(format_answer(view_of(lake)).split()), (
        "one sentence is the answer itself"
    )


def test_evidence_is_used_only_by_a_verified_citation(lake: Lake) -> None:
    citations = [citation("c-s-1-A", "e-s-1-1", "absent", "no such words")]
    write_answers(lake, [evidence(1, 1, TEXT)], [chain(1, "A", TEXT, ["e-s-1-1"])], [prediction(1, "A")], citations)
    assert [item.is_used for item in view_of(lake).items] == [False]


def test_without_support_the_best_option_is_a_guess(lake: Lake) -> None:
    guess = prediction(1, "A", status="insufficient", reasoner="extractive")
    write_answers(lake, [], [chain(1, label, "None.", [], support=0.2) for label in "AB"], [guess])
    text = format_answer(view_of(lake))
    assert "\nNo option has enough support. Guess: A. excessive thirst (share 0.50)\n" in text
    assert "answer:" not in text
    with connect(lake.root) as connection:
        assert not view_answers(connection, [])


def test_an_answer_whose_source_is_gone_is_out_of_date(lake: Lake) -> None:
    write_answers(lake, [evidence(1, 1, TEXT)], [chain(1, "A", TEXT, ["e-s-1-1"])], [prediction(1, "A")], [])
    text = format_answer(view_of(lake))
    assert text.startswith("Out of date: 1 of 1 rows of its evidence are no longer in the lake.\n")
    lake.write("corpus/c/chunks", "0", {"chunks": [chunk(1, TEXT)]})
    assert "Out of date" not in format_answer(view_of(lake))


def test_the_evidence_behind_the_answer_comes_first_and_a_shared_text_once(lake: Lake) -> None:
    texts = {1: "Cats purr.", 2: "Bees buzz.", 3: TEXT}
    rows = [evidence(1, n, text, locator=text) for n, text in texts.items()]
    rows += [row | {"evidence_id": f"b-{row['rank']}", "option": "B"} for row in rows]
    citations = [citation("c-s-1-A", "e-s-1-3", "verified", TEXT)]
    write_answers(lake, rows, [chain(1, "A", TEXT, ["e-s-1-3"])], [prediction(1, "A")], citations)
    view = view_of(lake)
    assert "cites [1]" in format_answer(view) and [item.text for item in view.other_evidence] == [
        "Cats purr.",
        "Bees buzz.",
    ]
    text = format_answer(view, everything=True)
    assert max(map(len, text.splitlines())) <= 80 and text.count("     a chunk, no longer in the lake") == 3
    assert text.count("Cats purr.") == 1 and text.count("lake, for A, B") == 2 and text.count(f"[1] {TEXT[:40]}") == 1


def test_only_the_evidence_behind_an_answer_without_chains_is_listed(lake: Lake) -> None:
    write_answers(lake, [evidence(1, rank, TEXT) for rank in range(1, 7)], [], [])
    edges = [edge("prediction", "p-s-1", WAS_SHOWN, "evidence", f"e-s-1-{rank}", "h", rank) for rank in range(1, 7)]
    views = []
    for used_edges in ([], [edge("prediction", "p-s-1", USED, "evidence", "e-s-1-3", "h", 1)]):
        rows = {"predictions": [prediction(1, "A")], "lineage_edges": [*edges, *used_edges]}
        lake.write("predictions/mcqa/s", "quiz|0", rows)
        views.append(view_of(lake))
    unused, used = views
    assert len(used.items) == 6 and [item.row["rank"] for item in used.key_evidence] == [3]
    assert not unused.key_evidence


def test_an_answer_without_chains_shows_all_that_it_used_and_the_name_of_a_node(lake: Lake) -> None:
    edges = [edge("prediction", "p-s-1", USED, "evidence", "e-s-1-1", "h", 1)]
    rows = {"predictions": [prediction(1, "n7")], "lineage_edges": edges}
    lake.write("predictions/mcqa/s", "quiz|0", rows)
    lake.write("knowledge/h/nodes", "", {"kg_nodes": [node("n7", "gout")]})
    text = format_answer(view_of(lake))
    assert "answer: gout, n7 (answered" in text and "metformin —may treat→ diabetes" in text


@pytest.mark.parametrize(
    ("status", "answer", "others", "expected"),
    [
        ("answered", "No Country for Old Men", [], "No Country for Old Men"),
        ("answered", "a", ["b", "c"], "a (also supported: b, c)"),
        ("answered", "Gout", ["gout", "GOUT", "b", "B"], "Gout (also supported: b)"),
        ("ambiguous", "a", ["b"], "The evidence does not decide. Closest answer: a (also supported: b)"),
        ("insufficient", "a", ["b"], "Nothing in the documents answers this."),
        ("stated", "Bees hum.", [], "The text says: “Bees hum.”"),
    ],
)
def test_an_answer_without_options_names_all_that_its_reading_leads_to(
    status: str, answer: str, others: list[str], expected: str
) -> None:
    row = prediction(1, answer=answer, status=status, supported_answers=[answer, *others])
    view = AnswerView(row, None, [], [], [], None)
    assert view.answer_text == expected and view.headline.startswith("answer: ") == (status == "answered")


def test_the_place_and_the_probability_of_a_statement_share_a_bracket() -> None:
    row = prediction(1, answer="Bees hum.", status="stated", confidence=0.75)
    source = {"title": "Bees", "place": "bees.md"}
    sentence = EvidenceView(evidence(1, 1, "Bees hum."), 1, True, source, [])
    placed = AnswerView(row, None, [], [], [], None, items=[sentence])
    assert placed.headline == f"The text says: “Bees hum.” ({sentence.location}; share 0.75)"
    assert AnswerView(row, None, [], [], [], None).headline == "The text says: “Bees hum.” (share 0.75)"


def test_an_answer_of_a_model_that_no_facts_lead_to_is_not_shown() -> None:
    row = prediction(1, answer="a", status="ambiguous", confidence=None)
    triple = EvidenceView(evidence(1, 1, "x knows y", kind="triple"), 1, False, None, [])
    view = AnswerView(row, None, [], [], [], None, items=[triple])
    assert (view.answer_text, view.headline) == ("No answer found with confidence.",) * 2
    assert not view.has_answer


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Is there Wi-Fi in the hall?", "The Wi-Fi is free."], "The Wi-Fi is free."),
        (["“Where is the Wi-Fi?”", "Wi-Fi costs 9 euros"], "Wi-Fi costs 9 euros"),
        (["## Is there Wi-Fi?", "Wi-Fi and telephone", "It is called Wi-Fi."], "It is called Wi-Fi."),
        (["Is there Wi-Fi?", "Dogs are welcome."], "Is there Wi-Fi?"),
        (["Wi-Fi", "The Wi-Fi is free."], "The Wi-Fi is free."),
        (["Wi-Fi", "Dogs are welcome."], None),
    ],
)
def test_the_closest_statement_is_a_question_or_heading_only_if_there_is_no_other(
    texts: list[str], expected: str | None
) -> None:
    items = [EvidenceView(evidence(1, rank, text), rank, False, None, []) for rank, text in enumerate(texts, 1)]
    view = AnswerView(prediction(1, None), question(1, text="Wi-Fi?", options=[]), [], [], [], None, items=items)
    closest = view.closest_statement
    assert (closest and closest.text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Who are the children of Marta?", "a; b"),
        ("Which instruments does Marta play?", "a; b"),
        ("List the children of Marta.", "a; b"),
        ("What does Marta play?", "a; b"),
        ("Whom does Marta teach?", "a; b"),
        ("Where does Marta play?", "a (also supported: b)"),
        ("Which bus goes to Lindau?", "a (also supported: b)"),
    ],
)
def test_a_question_for_several_is_answered_with_a_list(text: str, expected: str) -> None:
    row = prediction(1, answer="a", status="answered", supported_answers=["a", "b"])
    assert AnswerView(row, question(1, text=text, options=[]), [], [], [], None).answer_text == expected


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("Is Rome larger than Oslo?", "SUPPORTS", "Yes"),
        ("Is Rome larger than Oslo", "REFUTES", "No"),
        ("Rome is larger than Oslo.", "SUPPORTS", "SUPPORTS"),
    ],
)
def test_a_question_about_a_table_is_answered_with_yes_or_no_and_a_claim_with_a_verdict(
    text: str, answer: str, expected: str
) -> None:
    asked_claim = question(1, task="verification", text=text, options=list(CLAIM_LABELS), source_id="table=t")
    row = prediction(1, answer=answer, status="answered")
    without_evidence = {"without_cited": "insufficient", "only_cited": answer, "necessary": True}
    view = AnswerView(row, asked_claim, [], [], [], without_evidence)
    assert view.answer_text == expected and f"with only that evidence, “{expected}”." in view.counterfactual_text
