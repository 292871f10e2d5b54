"""Single questions: answered by stages, stored in their own partition, and recomputed when inputs change."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence_assets import systems
from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.benchmarks.declared_benchmarks import FAMILY_OF_TASK, write_declarations
from evidence_assets.benchmarks.records import Table
from evidence_assets.cli import app
from evidence_assets.cli.ask import add_folder, select_clearest, select_variant
from evidence_assets.experiment import ad_hoc_questions
from evidence_assets.experiment.ad_hoc_questions import QuestionSource
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.experiment.stages import build_stages
from evidence_assets.explorer.answer_text import format_answer
from evidence_assets.explorer.answer_view import NO_CELL, AnswerView, view_answer
from evidence_assets.explorer.scratch_lake import OWN_FOLDERS
from evidence_assets.lake import connect
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.lineage import distinct_ids, find_dangling_edges, impact, trace
from evidence_assets.lake.store import Lake, find_orphans
from evidence_assets_tests.models.servers import FaultyServer, running

CITIES = Table("", "c.csv", "", ("City", "People"), (("Paris", "2100"), ("Rome", "2800"), ("Oslo", "700")))


def discard(text: str) -> None:
    """Ignore a log message."""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "cats.txt").write_text("Cats purr when they are content. Cats sleep for sixteen hours a day.")
    (folder / "bees.md").write_text("# Bees\nBees buzz when they fly. A hive holds about forty thousand bees.")
    return folder


@pytest.fixture
def lake(tmp_path: Path, notes: Path) -> Lake:
    lake = Lake.create(tmp_path / "data_lake", question_shards=1, corpus_shards=1)
    build_corpus(lake, "notes", group_files(notes), discard)
    return lake


def ask(lake: Lake, text: str, *options: str, table: Table | None = None, system: str = "") -> dict[str, Any]:
    """Ask a question as the command does."""
    source = ad_hoc_questions.resolve_source(lake, "", "", table.table_id if table else "")
    question = ad_hoc_questions.build_question(text, options, source, table)
    variant = select_variant(FAMILY_OF_TASK[question.task], source, system, "")
    ad_hoc_questions.store_question(lake, question, table)
    stages = build_stages(systems.open_method(variant))
    return ad_hoc_questions.answer_question(lake, question.question_id, question.task, source, stages, discard)


def view_of(lake: Lake, answer: dict[str, Any]) -> AnswerView:
    with connect(lake.root) as connection:
        return view_answer(connection, answer["prediction_id"])


def test_a_question_with_options_has_rows_and_lineage(lake: Lake) -> None:
    answer = ask(lake, "Which animal purrs?", "Bee", "Cat")
    assert (answer["answer"], answer["benchmark"]) == ("B", ad_hoc_questions.ASKED_BENCHMARK)
    with connect(lake.root) as connection:
        text = format_answer(view_answer(connection, answer["prediction_id"]))
        assert "“cats” (cats.txt, characters 0–32)" in text
        assert "cites [1] (verified)" in text, "the evidence behind the answer comes first"
        rows = distinct_ids(trace(connection, answer["prediction_id"]))
        chunk = next(row for row in lake.read("chunks").to_dicts() if row["doc_id"] == "cats.txt")["chunk_id"]
        assert chunk in rows["chunk"] and answer["question_id"] in rows["question"]
        assert answer["prediction_id"] in distinct_ids(impact(connection, chunk))["prediction"]
        for file in lake.files("lineage_edges"):
            assert not find_dangling_edges(connection, file)
    assert "evidence/mcqa/uscrake" in ad_hoc_questions.find_ad_hoc_assets(lake)
    assets = [
        *ad_hoc_questions.find_ad_hoc_assets(lake),
        *(f"corpus/notes/{part}" for part in ("chunks", "embeddings", "index", "token_store")),
    ]
    assert not find_orphans(lake, assets)


def test_a_variant_that_shares_a_pass_over_pools_ranks_them_for_a_single_question(lake: Lake) -> None:
    assert ask(lake, "Which animal purrs?", "Bee", "Cat", system="uscrake_cosine_chunks")["answer"] == "B"
    assert "chunk_rankings/mcqa/uscrake_jsd_chunks" in ad_hoc_questions.find_ad_hoc_assets(lake)
    assert set(ad_hoc_questions.ANSWER_TABLES) <= set(OWN_FOLDERS), "the explorer writes no rows into another lake"


def test_of_a_question_beyond_the_encoders_limit_the_end_is_searched(lake: Lake) -> None:
    text = "The boats lay near the pier before the wind rose. " * 30 + "Which animal sleeps for sixteen hours a day?"
    for system in ("uscrake", "cosine"):
        assert ask(lake, text, "dogs", "cats", system=system)["answer"] == "B"


def test_without_options_the_answer_is_a_span_of_a_sentence_or_none(lake: Lake, notes: Path) -> None:
    (notes / "bakery.txt").write_text("Maria Lopez founded the bakery in 1998. It sells bread.")
    build_corpus(lake, "notes", group_files(notes), discard)
    answer = ask(lake, "Who founded the bakery?")
    assert (answer["answer"], answer["status"]) == ("Maria Lopez", "answered")
    (notes / "menu.txt").write_text("# Menu of the inn\n\nFish cake 9 euros\n\nThe inn is old. Lunch is served daily.")
    build_corpus(lake, "notes", group_files(notes), discard)
    assert ask(lake, "What does the fish cake cost?")["answer"] == "9 euros"
    unanswered = ask(lake, "Who wrote the book of cats?")
    assert (unanswered["answer"], unanswered["status"]) == (None, "insufficient")
    unanswered_text, view = format_answer(view_of(lake, unanswered)), view_of(lake, answer)
    assert "\nNothing in the documents answers this.\n" in unanswered_text, "no statement is near"
    assert "\nevidence\n" not in unanswered_text, "no evidence is behind an answer that was not given"
    text = format_answer(view)
    assert "answer: Maria Lopez (answered, probability 0." in text
    assert text.count("[") == 1 and "“bakery” (bakery.txt, characters 0–39)" in text, "one row is behind the answer"
    assert view.as_dict()["counterfactual"] == (
        "Without its evidence there would be no answer; with only that evidence, “Maria Lopez”."
    )


def test_a_table_answers_with_options_without_them_and_for_a_claim(lake: Lake) -> None:
    table = ad_hoc_questions.with_content_id(CITIES)
    with_options = ask(lake, "What is the number of people of Rome?", "700", "2800", table=table)
    assert with_options["answer"] == "B"
    view = view_of(lake, ask(lake, "What is the number of people of Rome?", table=table))
    assert view.as_dict()["answer_text"] == "2800"
    text = format_answer(view, options=False)
    assert "cell r2c1" in text and "Oslo" not in text and "700" not in text, "only cells behind the answer are shown"
    assert "Oslo" in format_answer(view, everything=True)
    claim = ask(lake, "Rome has 2800 people.", table=table)
    assert claim["answer"] == "SUPPORTS"
    other = ad_hoc_questions.with_content_id(Table("", "c.csv", "", ("City", "People"), (("Rome", "1"), ("Oslo", "2"))))
    assert other.table_id != table.table_id, "another file of the same name is another table"


STAFF_ROWS = (
    ("Ana Lima", "Sales", "2019-03-01", "20"),
    ("Bo Chen", "Sales", "2021-07-15", "30"),
    ("Cleo Marsh", "Support", "2022-01-10", "1000000"),
)
SHED_ROWS = (
    ("Elm", "1893", "85", "312"),
    ("Oak", "1901", "60", "84"),
    ("Ash", "1984", "30", "9"),
    ("Fir", "1990", "25", "16"),
    ("Total", "", "200", "421"),
)
STAFF = Table("", "staff.csv", "", ("Name", "Team", "Started", "Days"), STAFF_ROWS)
SHEDS = Table("", "sheds.csv", "", ("Shed", "Built", "Length (m)", "Loans in 2025"), SHED_ROWS)
KILN_ROWS = (("Ember", "80", "900"), ("Flint", "120", "2500"), ("Smoke", "95", "1400"))
SCALES = Table("", "s.csv", "", ("scale", "weight"), (("a", "58.91"), ("b", "60.2"), ("c", "57.05"), ("d", "59.71")))
KILNS = Table("", "kilns.csv", "", ("kiln", "weight_kg", "price_usd"), KILN_ROWS)

BUS_ROWS = (
    ("12", "Harbour", "17:05", "17:40"),
    ("14", "Market", "17:30", "18:10"),
    ("18", "Station", "08:15", "09:00"),
    ("21", "Park", "17:10", "17:50"),
)
GOODS = Table("", "goods.csv", "", ("item", "price", "price before"), (("tea", "3", "5"), ("rice", "4", "2")))
BUSES = Table("", "buses.csv", "", ("bus", "stop", "departs", "arrives"), BUS_ROWS)


@pytest.mark.parametrize(
    ("table", "question", "expected", "status"),
    [
        (SHEDS, "Which shed has the greatest length?", "Elm", "answered"),
        (SHEDS, "What is the sum of the loans?", "421", "answered"),
        (SHEDS, "What is the length of Elm and Oak together?", "145", "answered"),
        (STAFF, "What is the average of the days in Sales?", "25", "answered"),
        (SCALES, "What is the average weight?", "58.97", "answered"),
        (SHEDS, "How many sheds have a length over 28 m?", "3", "answered"),
        (SHEDS, "How many sheds were not built before 1950?", "2", "answered"),
        (SHEDS, "Which sheds were not built after 1950?", "Several cells match the question: Elm; Oak", "ambiguous"),
        (SHEDS, "Which sheds were built before 1950?", "Elm; Oak", "answered"),
        (SHEDS, "Which sheds have more than 3 windows?", NO_CELL, "insufficient"),
        (SHEDS, "How many sheds are there in Oslo?", NO_CELL, "insufficient"),
        (SHEDS, "How long is Ash?", "30", "answered"),
        (STAFF, "Who is in Support?", "Cleo Marsh", "answered"),
        (STAFF, "Who is the manager of Ana Lima?", NO_CELL, "insufficient"),
        (KILNS, "How many kilns cost over 1000 dollars?", "2", "answered"),
        (KILNS, "How heavy is Flint?", "120", "answered"),
        (STAFF, "Which team is Cleo Marsh in?", "Support", "answered"),
        (STAFF, "Who started first?", "Ana Lima", "answered"),
        (CITIES, "Which city has the most people?", "Rome", "answered"),
        (GOODS, "Which is the cheapest item?", NO_CELL, "insufficient"),
        (BUSES, "Which bus leaves the earliest?", "18", "answered"),
        (BUSES, "Which bus departs after 17:20?", "14", "answered"),
        (BUSES, "Which bus arrives at 9 am?", "18", "answered"),
        (BUSES, "How many buses depart after 17:00?", "3", "answered"),
        (BUSES, "When does bus 14 arrive?", "18:10", "answered"),
        (BUSES, "When does the bus at Park depart?", "17:10", "answered"),
        (BUSES, "Does bus 14 depart after bus 21?", "Yes", "answered"),
        (BUSES, "Does bus 14 depart before bus 21?", "No", "answered"),
        (BUSES, "Does bus 14 stop in Lindau?", NO_CELL, "insufficient"),
        (BUSES, "Where does bus 18 depart?", "Station", "answered"),
        (BUSES, "What is the total of arrives?", NO_CELL, "insufficient"),
        (STAFF, "Who started after 2020?", "Several cells match the question: Bo Chen; Cleo Marsh", "ambiguous"),
    ],
)
def test_a_table_is_looked_up_counted_and_summed(
    table: Table, question: str, expected: str, status: str, lake: Lake
) -> None:
    answer = ask(lake, question, table=ad_hoc_questions.with_content_id(table))
    expected_set = "tabfact_dev" if question.startswith("Does") else "plain_fifth"
    assert expected_set in answer["confidence_basis"], "not calibrated on questions with four options"
    assert (view_of(lake, answer).answer_text, answer["status"]) == (expected, status)


def test_a_table_without_the_answer_says_what_to_do_and_explains_no_cell(lake: Lake) -> None:
    answer = ask(lake, "Which planet is largest?", table=ad_hoc_questions.with_content_id(STAFF))
    text = format_answer(view_of(lake, answer), options=False)
    assert "No answer found with confidence: no column or cell answers it. Use words of the table's header" in " ".join(
        text.split()
    )
    assert "why" not in text and "evidence\n" not in text


def test_asking_again_recomputes_only_what_changed(lake: Lake, notes: Path) -> None:
    first = ask(lake, "Which animal purrs?", "Bee", "Cat")
    second = ask(lake, "Which animal purrs?", "Bee", "Cat")
    assert first == second
    (notes / "cats.txt").write_text("Bees purr when they are content, says the joke.")
    previous = lake.read("chunk_embeddings")
    assert build_corpus(lake, "notes", group_files(notes), discard) == {"chunks": 2, "reused": 1}
    assert len(set(previous["input_hash"]) & set(lake.read("chunk_embeddings")["input_hash"])) == 1
    third = ask(lake, "Which animal purrs?", "Bee", "Cat")
    assert third["question_id"] == first["question_id"]
    assert (first["answer"], third["answer"]) == ("B", "A")


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [(["insufficient", "answered"], 1), (["ambiguous", "insufficient"], 0), (["insufficient", "insufficient"], 1)],
)
def test_without_an_answer_the_variant_that_read_the_texts_is_shown(statuses: list[str], expected: int) -> None:
    answers = [{"status": status} for status in statuses]
    assert select_clearest(answers) is answers[expected]


@pytest.mark.parametrize(
    ("question", "options", "message"),
    [
        ("  ", [], "the question is empty"),
        ("Which?", ["Bee", "Cat", "bee "], "an option is given twice"),
        ("Which?", ["Bee"], "1 options: give 2 to 26"),
    ],
)
def test_invalid_questions_are_reported(question: str, options: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        ad_hoc_questions.build_question(question, options, QuestionSource())


def test_a_plain_question_uses_the_corpus_of_the_project(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("Ada wrote to Charles in May.")
    arguments = ["ask", "How many hours do cats sleep?", "--lake", str(lake.root)]
    assert add_folder(lake, folder) == "letters"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0 and "Cats sleep for sixteen hours a day." in result.output
    assert f"corpus notes of {lake.root}; choose another by --corpus: letters, ./FOLDER\n" in result.output
    folder.rename(tmp_path / "drafts")
    add_folder(lake, tmp_path / "drafts")
    assert ad_hoc_questions.resolve_source(lake, "", "").corpus == "notes"
    write_declarations(lake.root / "declarations" / "notes", ("corpus.Corpus", {"name": "notes", "folder": "notes"}))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "there are several corpora: drafts, letters, notes. Choose one, such as" in result.output


def test_answers_to_questions_from_standard_input_are_apart_or_json_lines(lake: Lake) -> None:
    texts = ["How many hours do cats sleep?", "Cats sleep for ten hours."]
    arguments = ["ask", "--corpus", "notes", "--lake", str(lake.root)]
    as_text, as_json = (CliRunner().invoke(app, [*arguments, *o], input="\n".join(texts)) for o in ((), ("--json",)))
    assert [json.loads(line)["question"] for line in as_json.stdout.splitlines()] == texts
    assert f" s\n\n{texts[1]}\n" in as_text.stdout
    assert as_text.stderr.count("this is answered as a question; --table FILE checks a statement as a claim\n") == 1


def test_missing_sources_are_reported(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no corpus 'nots' in this lake; there are: notes"):
        ad_hoc_questions.resolve_source(lake, "nots", "")
    with pytest.raises(BadInput, match="no graph 'g' in this lake; there are: none"):
        ad_hoc_questions.resolve_source(lake, "", "g")
    ad_hoc_questions.check_corpus(lake, "notes")
    empty = Lake.create(tmp_path / "empty")
    with pytest.raises(BadInput, match="the lake has no corpus"):
        ad_hoc_questions.resolve_source(empty, "", "")
    with pytest.raises(BadInput, match="corpus notes is empty"):
        ad_hoc_questions.check_corpus(empty, "notes")
    with pytest.raises(BadInput, match="did you mean 'uscrake'"):
        select_variant("mcqa", QuestionSource("notes"), "uscrak", "")


TWO_MODELS = """\
extends: embedded
name: two
generators:
  extractive: {{backend: extractive}}
  served: {{backend: openai, name: test-model, base_url: "{url}"}}
"""


@pytest.fixture
def server(tmp_path: Path, other_settings: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """The second model of the active profile."""
    server = FaultyServer()
    with running(server.app) as url:
        profile = tmp_path / "two.yaml"
        profile.write_text(TWO_MODELS.format(url=url))
        other_settings.setenv("EVIDENCE_PROFILE", str(profile))
        yield server


@pytest.mark.parametrize(
    "options", [("--model", "served", "--system", "bm25"), ("--model", "test-model", "--system", "bm25@served")]
)
def test_the_named_model_answers(options: tuple[str, ...], lake: Lake, server: FaultyServer) -> None:
    question = ["ask", "How many hours do cats sleep?", "two", "sixteen", "--lake", str(lake.root), *options]
    result = CliRunner().invoke(app, [*question, "--json"])
    assert result.exit_code == 0, result.output
    assert [body["model"] for body in server.bodies] == ["test-model"] * len(server.bodies) and server.bodies
    with connect(lake.root) as connection:
        models = connection.execute("SELECT DISTINCT model_id FROM predictions").fetchall()
    assert models == [("test-model@served",)]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--model", "qwen"),
            "profile two has no language model 'qwen'; it has extractive, served (test-model). EVIDENCE_PROFILE",
        ),
        (("--system", "@qwen"), "no language model 'qwen'"),
        (("--system", "bm25@served", "--model", "extractive"), "--system names the model 'served' and --model names"),
    ],
)
def test_a_model_that_cannot_answer_is_reported(options: tuple[str, ...], message: str, lake: Lake) -> None:
    result = CliRunner().invoke(app, ["ask", "Which?", "bee", "cat", "--lake", str(lake.root), *options])
    assert result.exit_code == 1 and message in result.output


@pytest.fixture
def only_server(other_settings: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A server that no profile names; replies with the letter of "sixteen" or, to explain, with a step."""
    server = FaultyServer()
    step = '{"steps": [{"text": "They sleep long.", "evidence": [1], "quotes": ["sixteen hours"]}]}'

    def reply(user: str) -> str:
        first_is_right = "A. sixteen" in user
        server.log_probs = {"A": -0.1, "B": -2.4} if first_is_right else {"A": -2.4, "B": -0.1}
        return step if "JSON object" in user else "A" if first_is_right else "B"

    server.reply = reply
    with running(server.app) as server.url:
        other_settings.delenv("EVIDENCE_PROFILE", raising=False)
        yield server


def ask_about_cats(lake: Lake, *options: str, text: str = "How many hours do cats sleep?") -> dict[str, Any]:
    """The answer as JSON, with BM25 as it needs no vectors."""
    question = ["ask", text, "two", "sixteen", "--system", "bm25"]
    result = CliRunner().invoke(app, [*question, "--lake", str(lake.root), "--json", *options])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_a_server_answers_by_its_address_with_a_short_call_for_each_order_with_a_fact_and_without(
    lake: Lake, only_server: FaultyServer
) -> None:
    answer = ask_about_cats(lake, "--model", only_server.url)
    assert answer["answer"] == "B" and 0.89 < answer["confidence"] < 0.92, "exp(-0.1) / (exp(-0.1) + exp(-2.4))"
    assert all(body["model"] == "test-model" and body["max_tokens"] == 8 for body in only_server.bodies)
    users = [body["messages"][-1]["content"] for body in only_server.bodies]
    assert ["A. sixteen" in user for user in users] == [False, True, False, True], "both orders"
    assert ["Fact: " in user for user in users] == [True, True, False, False]


def test_answers_with_a_model_and_without_it_are_both_kept(
    lake: Lake, only_server: FaultyServer, other_settings: pytest.MonkeyPatch
) -> None:
    answers = []
    for options in ((), ("--model", only_server.url), ()):
        other_settings.delenv("EVIDENCE_MODEL", raising=False)
        answers.append(ask_about_cats(lake, *options))
    assert [answer["reasoner"] for answer in answers] == ["extractive", "prompted", "extractive"]
    with connect(lake.root) as connection:
        for answer in answers:
            assert distinct_ids(trace(connection, answer["prediction_id"]))["evidence"]


def test_a_small_model_reads_the_best_of_several_facts(lake: Lake, only_server: FaultyServer) -> None:
    ask_about_cats(lake, "--model", only_server.url, text="How many hours do cats sleep when bees fly?")
    users = [body["messages"][-1]["content"] for body in only_server.bodies]
    assert [[line[:10] for line in user.splitlines() if line.startswith("Fact: ")] for user in users[:4]] == [
        ["Fact: Cats"],
        ["Fact: Cats"],
        [],
        [],
    ]
    with connect(lake.root) as connection:
        selected = connection.execute("SELECT DISTINCT text[:4] FROM evidence ORDER BY 1").fetchall()
        used = connection.execute(
            "SELECT DISTINCT e.text[:4] FROM lineage_edges l JOIN evidence e ON e.evidence_id = l.parent_id "
            "WHERE l.child_kind = 'prediction' AND l.relation = 'used'"
        ).fetchall()
    assert (selected, used) == ([("# Be",), ("Cats",)], [("Cats",)]), "lineage says what the model has read"


def test_a_name_is_a_model_at_the_server_of_the_environment(
    lake: Lake, only_server: FaultyServer, other_settings: pytest.MonkeyPatch
) -> None:
    other_settings.setenv("OPENAI_BASE_URL", only_server.url)
    assert ask_about_cats(lake, "--model", "test-model")["answer"] == "B"
    result = CliRunner().invoke(app, ["ask", "Which?", "a", "b", "--model", "other", "--lake", str(lake.root)])
    assert result.exit_code == 1 and "does not serve 'other'. It serves test-model" in result.output


def test_explanations_are_written_on_request_and_change_no_answer(lake: Lake, only_server: FaultyServer) -> None:
    unexplained = ask_about_cats(lake, "--model", only_server.url)
    answer = ask_about_cats(lake, "--model", only_server.url, "--why")
    requests = [body["messages"][-1]["content"] for body in only_server.bodies]
    assert sum("JSON object" in request for request in requests) == 2, "one explanation for each option"
    assert not any("They sleep long." in request for request in requests), "the choice reads no explanation"
    assert (answer["answer"], answer["confidence"]) == (unexplained["answer"], unexplained["confidence"])
    with connect(lake.root) as connection:
        hypotheses = connection.execute("SELECT hypothesis FROM chains ORDER BY hypothesis").fetchall()
        of_prediction = "child_kind = 'prediction' AND relation = 'used'"
        used = connection.execute(f"SELECT DISTINCT parent_kind FROM lineage_edges WHERE {of_prediction}").fetchall()
    assert hypotheses == [("A",), ("B",)]
    assert sorted(used) == [("chain",), ("evidence",), ("question",)]


def test_a_table_file_needs_no_lake_before_the_question(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("City,People\nParis,2100\nRome,2800\n", encoding="utf-8")
    options = ["--table", str(tmp_path / "cities.csv"), "--lake", str(tmp_path / "lake")]
    result = CliRunner().invoke(app, ["ask", "Which city has the most people?", *options])
    assert "answer: Rome (answered" in result.stdout, result.stderr


def test_columns_with_the_same_header_are_named(tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("City,People,People,,\nParis,2100,1,x,y\n", encoding="utf-8")
    options = ["--table", str(tmp_path / "cities.csv"), "--lake", str(tmp_path / "lake")]
    result = CliRunner().invoke(app, ["ask", "How many people are in Paris?", *options])
    assert "2 columns are called 'People'" in result.stderr
    assert result.stderr.count("columns are called") == 1, "empty headers are no name"


@pytest.mark.parametrize(
    ("text", "is_asked", "answer", "status"),
    [
        ("Rome has more people than Paris.", False, "SUPPORTS", "answered"),
        ("Paris is a lovely place for painters.", True, "REFUTES", "answered"),
        ("Which city has the most people?", False, "A", "answered"),
        ("Who is the mayor of Paris?", False, "A", "insufficient"),
    ],
)
def test_a_model_is_asked_about_a_table_only_for_claims_that_the_rules_do_not_settle(
    text: str, is_asked: bool, answer: str, status: str, tmp_path: Path, only_server: FaultyServer
) -> None:
    only_server.reply = lambda user: "B" if user.index("SUPPORTS") < user.index("REFUTES") else "A"
    (tmp_path / "cities.csv").write_text("City,People\nParis,2100\nRome,2800\n", encoding="utf-8")
    lake = str(tmp_path / "lake")
    options = ["--table", str(tmp_path / "cities.csv"), "--lake", lake, "--model", only_server.url, "--json"]
    result = CliRunner().invoke(app, ["ask", text, *options])
    assert result.exit_code == 0, result.output
    # Without the cited cells, which the counterfactual leaves out, the rules settle no claim.
    prompts = [body["messages"][-1]["content"] for body in only_server.bodies]
    assert any("2100" in prompt and "2800" in prompt for prompt in prompts) == is_asked
    prediction = json.loads(result.stdout)
    assert (prediction["answer"], prediction["status"]) == (answer, status)
    with connect(lake) as connection:
        reasoners = connection.execute(
            "SELECT DISTINCT c.reasoner, c.model_id, p.reasoner FROM chains c JOIN predictions p USING (question_id)"
        ).fetchall()
    assert reasoners == [("extractive", "extractive", "rules_first")], "the rules explain"
    is_question = text.endswith("?")
    assert prediction["confidence_basis"].startswith("calibrated on 352 answers" if is_question else "raw share")
