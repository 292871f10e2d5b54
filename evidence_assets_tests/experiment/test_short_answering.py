"""Short answers and retrieval metrics: model knowledge is not a source, and failures become rows."""

import json
from typing import Any

import polars as pl
import pytest

from evidence_assets.experiment.answers.chains import answer_citation_rows
from evidence_assets.experiment.answers.predictions import prediction_rows
from evidence_assets.experiment.answers.short_answers import PreparationProblems, ShortAnswerer
from evidence_assets.experiment.scores.gold_evidence import evidence_recall
from evidence_assets.experiment.scores.retrieval_scores import triple_metrics
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.extractive.short_answers import ExtractiveShortAnswers
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import edge
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import PromptedShortAnswers
from evidence_assets.reasoning.tasks import Omission
from evidence_assets_tests.lake_rows import as_stored, prediction, question
from evidence_assets_tests.lake_rows import evidence as evidence_row
from evidence_assets_tests.reasoning.small_questions import NoAnswers
from evidence_assets_tests.systems.small_models import ScriptedGenerator, WordEncoder

QUESTIONS = [
    Question("q1", "b", "kgqa", "What is a web made by?"),
    Question("q2", "b", "kgqa", "What is milk made by?"),
]


def evidence(*rows: tuple[str, tuple[str, str, str], str]) -> pl.DataFrame:
    """Evidence rows from (question, triple, origin)."""
    items = [
        evidence_row(0, i, " ".join(triple), evidence_id=f"e{i}", question_id=question, option="", kind="triple")
        | {"source_kind": "edge", "source_id": f"edge{i}", "locator": ""}
        | {"content_hash": content_id("evidence", "triple", f"edge{i}", "", " ".join(triple))}
        | {"why": json.dumps({"triple": triple, "origin": origin})}
        for i, (question, triple, origin) in enumerate(rows, 1)
    ]
    return as_stored("evidence", items)


EVIDENCE = evidence(("q1", ("web", "made by", "spider"), "graph"), ("q2", ("milk", "made by", "cow"), "model"))


def predict(
    evidence_rows: pl.DataFrame = EVIDENCE,
    previous: StageOutput | None = None,
    problems: PreparationProblems | None = None,
) -> StageOutput:
    stored_output = None
    if previous is not None and previous.lineage is not None:
        stored_output = PreviousOutput(
            as_stored("predictions", previous.rows), as_stored("lineage_edges", previous.lineage)
        )
    answerer = ShortAnswerer(ExtractiveShortAnswers(WordEncoder()), evidence_rows, problems)
    return prediction_rows(answerer, "s", QUESTIONS, stored_output)


def by_question(output: StageOutput) -> dict[str, dict[str, Any]]:
    return {row["question_id"]: row for row in as_stored("predictions", output.rows).to_dicts()}


def test_answers_have_lineage_to_used_evidence_and_model_knowledge_gives_no_answer() -> None:
    output = predict()
    rows = by_question(output)
    assert (rows["q1"]["answer"], rows["q1"]["status"], rows["q1"]["reasoner"]) == ("spider", "answered", "extractive")
    assert (rows["q2"]["answer"], rows["q2"]["status"]) == (None, "insufficient")
    edges = as_stored("lineage_edges", output.lineage).filter(pl.col("parent_kind") == "evidence")
    first, second = EVIDENCE["content_hash"]
    assert set(edges.select("child_id", "relation", "parent_id", "parent_version").rows()) == {
        (rows["q1"]["prediction_id"], "used", "e1", first),
        (rows["q2"]["prediction_id"], "was_shown", "e2", second),
    }


def relations_for_reply(reply: str, evidence_rows: pl.DataFrame) -> dict[str, set[tuple[str, str]]]:
    """Lineage from each question's prediction to evidence if a language model gives this reply."""
    model = LanguageModel(ScriptedGenerator(reply))
    answerer = ShortAnswerer(PromptedShortAnswers(model, NoAnswers()), evidence_rows)
    output = prediction_rows(answerer, "s", QUESTIONS, None)
    rows, lineage = as_stored("predictions", output.rows), as_stored("lineage_edges", output.lineage)
    cited = answer_citation_rows(rows, lineage, evidence_rows, {}).lineage
    question_of = {row["prediction_id"]: row["question_id"] for row in rows.to_dicts()}
    related: dict[str, set[tuple[str, str]]] = {question: set() for question in question_of.values()}
    for row in pl.concat([lineage, as_stored("lineage_edges", cited)]).to_dicts():
        if row["child_kind"] == "prediction" and row["parent_kind"] == "evidence":
            related[question_of[row["child_id"]]].add((row["relation"], row["parent_id"]))
    return related


def test_an_answer_cites_its_triple_and_n_a_uses_nothing() -> None:
    two = evidence(
        ("q1", ("web", "made by", "spider"), "graph"),
        ("q1", ("web", "found at", "attic"), "graph"),
        ("q2", ("milk", "made by", "spider"), "model"),
    )
    relations = relations_for_reply("A spider.", two)
    assert relations["q1"] == {("used", "e1"), ("used", "e2"), ("cited", "e1")}
    assert relations["q2"] == {("used", "e3")}, "what a model recalled is no source to cite"
    only_shown = {"q1": {("was_shown", "e1"), ("was_shown", "e2")}, "q2": {("was_shown", "e3")}}
    assert relations_for_reply("N/A", two) == only_shown
    texts = two.with_columns(pl.lit("chunk").alias("kind"), pl.lit(None, dtype=pl.String).alias("why"))
    assert relations_for_reply("n/a", texts) == only_shown
    assert relations_for_reply("cow", texts)["q1"] == only_shown["q1"], "no text contains it"


def test_a_node_is_cited_by_its_name_and_misquoted_if_no_row_contains_it() -> None:
    evidence_rows = evidence(("q1", ("web", "made by", "spider"), "graph"))
    rows = as_stored("predictions", [prediction(1, "base:7"), prediction(2, "base:9")])
    lineage = as_stored(
        "lineage_edges", [edge("prediction", f"p-s-{n}", "used", "evidence", "e1", "h1", 1) for n in (1, 2)]
    )
    output = answer_citation_rows(rows, lineage, evidence_rows, {"base:7": "Spider", "base:9": "wasp"})
    assert [(r["chain_id"], r["quoted"], r["verdict"]) for r in as_stored("citations", output.rows).to_dicts()] == [
        ("p-s-1", "Spider", "verified"),
        ("p-s-2", "wasp", "misquoted"),
    ]
    cited = [e for e in as_stored("lineage_edges", output.lineage).to_dicts() if e["relation"] == "cited"]
    assert [(e["child_id"], e["parent_id"]) for e in cited] == [("p-s-1", "e1")]


DOCUMENT = """# Visits

May I bring a dog?

Small ones, yes.

Big ones wait outside.

# Rules

Guests may swim.

The pier is 90 m long.

The dam is 40 m long.

Visitors must bring:

- boots

- a coat"""


@pytest.mark.parametrize(
    ("text", "answer", "quoted"),
    [
        ("May guests swim?", "yes", {"Guests may swim."}),
        (
            "May I bring a dog?",
            "Small ones, yes. Big ones wait outside.",
            {"Small ones, yes.", "Big ones wait outside."},
        ),
        ("Which is longer, the pier or the dam?", "the pier", {"The pier is 90 m long.", "The dam is 40 m long."}),
        ("Is the pier longer than the dam?", "yes", {"The pier is 90 m long.", "The dam is 40 m long."}),
        ("What must visitors bring?", "boots; a coat", {"boots", "a coat"}),
    ],
)
def test_an_answer_in_other_words_than_its_rows_cites_what_they_say(text: str, answer: str, quoted: set[str]) -> None:
    paragraphs = [(DOCUMENT.index(each), each) for each in DOCUMENT.split("\n\n")]
    rows = [
        evidence_row(1, n, each, option="", kind="sentence", source_id="d", locator=f"{start}:{start + len(each)}")
        for n, (start, each) in enumerate(paragraphs, 1)
    ]
    evidence_rows = as_stored("evidence", rows)
    answerer = ShortAnswerer(ExtractiveShortAnswers(WordEncoder()), evidence_rows)
    output = prediction_rows(answerer, "s", [Question("q1", "b", "kgqa", text)], None)
    [row] = as_stored("predictions", output.rows).to_dicts()
    assert row["answer"] == answer
    lineage = as_stored("lineage_edges", output.lineage)
    cited = answer_citation_rows(as_stored("predictions", output.rows), lineage, evidence_rows, {}).rows
    assert {(each["quoted"], each["verdict"]) for each in cited} == {(quote, "verified") for quote in quoted}


def test_a_question_with_a_preparation_error_fails_alone_and_is_answered_again() -> None:
    omission = Omission("rejected", "triples", "line 2")
    problems = PreparationProblems({"q1": "no background knowledge: prose"}, {"q2": (omission,)})
    output = predict(problems=problems)
    rows = by_question(output)
    assert (rows["q1"]["status"], rows["q1"]["error"]) == ("failed", "no background knowledge: prose")
    assert (rows["q2"]["status"], rows["q1"]["omissions"]) == ("insufficient", None)
    assert rows["q2"]["omissions"] == [{"kind": "rejected", "part": "triples", "reason": "line 2"}]
    second = predict(previous=output, problems=PreparationProblems({}, problems.omissions))
    assert second.reused == 1
    assert by_question(second)["q1"]["status"] == "answered"
    assert predict(previous=output).reused == 0, "another omission is another row"


def gold(name: str, text: str, answers: list[str], path: str) -> dict[str, Any]:
    evidence_ = [{"kind": "path", "source": "graph", "locator": "[]", "text": path, "group": ""}] if path else []
    fields = {"question_id": name, "text": text, "gold": answers, "gold_evidence": evidence_}
    return question(0, task="kgqa", options=[]) | fields


def test_triple_metrics_count_only_sourced_evidence() -> None:
    questions = [
        gold("q1", "What is a web made by?", ["spider"], "web made by spider"),
        gold("q2", "What is milk made by?", ["cow"], "milk made by cow"),
        gold("q3", "Unanswerable?", [], ""),
    ]
    metrics = triple_metrics(questions, EVIDENCE)
    assert {name: (e.value, e.n) for name, e in metrics.items() if not name.startswith("coverage")} == {
        "hit@1": (0.5, 2),
        "hit@10": (0.5, 2),
        "hit@1_included": (0.5, 2),
        "hit@10_included": (0.5, 2),
        "answer_f1": (0.5, 2),
        "answer_f1_included": (pytest.approx(1 / 3), 2),
        "triple_f1": (0.5, 2),
    }
    assert metrics["coverage"].n == metrics["coverage_all_words"].n == 3
    assert evidence_recall(questions, EVIDENCE) == [1.0, 0.0]


def test_answer_f1_combines_triples_with_an_answer_and_answers_in_a_triple() -> None:
    facts = [("web", "made by", "spider"), ("web", "found at", "attic"), ("ant", "mends", "web"), ("dew", "on", "web")]
    questions = [gold("q1", "Who makes webs?", ["spider", "ant", "bee"], "")]
    answer_f1 = triple_metrics(questions, evidence(*(("q1", fact, "graph") for fact in facts)))["answer_f1"].value
    precision, recall = 2 / 4, 2 / 3
    assert answer_f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_f1_by_inclusion_counts_distinct_ends_that_include_an_answer_or_are_included() -> None:
    """Of york, it, yorkshire and old, york alone matches: whole words count. One of two answers is matched."""
    facts = [("York", "in", "it"), ("York", "near", "Yorkshire"), ("York", "is", "old")]
    questions = [gold("q1", "Where?", ["New York City", "Leeds"], "")]
    metrics = triple_metrics(questions, evidence(*(("q1", fact, "graph") for fact in facts)))
    assert metrics["answer_f1_included"].value == pytest.approx(2 * 1 / (2 * 1 + 3 + 1))
    assert metrics["answer_f1"].value == 0


def test_a_question_with_options_hits_by_the_text_of_the_right_one() -> None:
    questions = [{**gold("q1", "What is a web made by?", ["B"], ""), "task": "mcqa", "options": ["cow", "spider"]}]
    assert triple_metrics(questions, EVIDENCE)["hit@1"].value == 1.0
    assert triple_metrics([{**questions[0], "gold": ["A"]}], EVIDENCE)["hit@10"].value == 0.0


def test_a_triple_hits_by_an_end_that_is_the_answer_or_includes_it() -> None:
    facts = [("web", "spider", "attic"), ("the garden spiders", "make", "web"), ("web", "of", "a garden spider")]
    question = gold("q1", "Who makes the web?", ["spider"], "")
    metrics = triple_metrics([question], evidence(*(("q1", fact, "graph") for fact in facts)))
    hits = {name: estimate.value for name, estimate in metrics.items() if name.startswith("hit@")}
    assert hits == {"hit@1": 0.0, "hit@10": 0.0, "hit@1_included": 0.0, "hit@10_included": 1.0}


def test_an_elaborate_reply_that_is_cut_is_an_answer() -> None:
    model = LanguageModel(ScriptedGenerator("A web is made by a spider, which spins it from", "length"))
    output = prediction_rows(
        ShortAnswerer(PromptedShortAnswers(model, NoAnswers()), EVIDENCE), "s", QUESTIONS[:1], None
    )
    (row,) = as_stored("predictions", output.rows).to_dicts()
    assert (row["status"], row["answer"]) == ("answered", "A web is made by a spider, which spins it from")
    assert [(each["kind"], each["part"]) for each in row["omissions"]] == [("cut", "end of the reply")]


def test_coverage_is_over_content_words_or_all_words() -> None:
    metrics = triple_metrics([gold("q1", "Where is the web of a spider?", [], "")], EVIDENCE)
    assert metrics["coverage"].value == 1.0, "of web and spider"
    assert metrics["coverage_all_words"].value == pytest.approx(2 / 7)
