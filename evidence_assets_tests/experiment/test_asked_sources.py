"""One question over documents, tables and a graph: who is asked, and whose answer is printed."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.benchmarks.declared_benchmarks import write_declarations
from evidence_assets.benchmarks.records import Table
from evidence_assets.cli import app
from evidence_assets.cli.ask import _read_questions, add_folder, add_graph_file
from evidence_assets.experiment import stage
from evidence_assets.experiment.asked_sources import MAX_TABLES, list_everything, rank_answers, select_tables
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake

PRICES = Table("own", "prices.csv@1", "", ("item", "price"), (("oar", "85"), ("boat hook", "19"), ("rope", "12")))
BOATS = Table("own", "club.md, table 2@2", "Boats", ("Boat", "Seats"), (("Pike", "1"), ("Swan", "8")))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the price of an oar?", ["prices.csv"]),
        ("Which boat has the most seats?", ["club.md, table 2"]),
        ("Which boat is the cheapest?", ["club.md, table 2"]),
        ("How many seats does Eagle have?", []),
        ("What was the price of rope in 2019?", []),
        ("Why is rope at that price?", []),
        ("Is an oar more expensive than a rope?", ["prices.csv"]),
        ("Who repaired the jetty that the boat hit?", []),
        ("What is the price of oar3?", []),
    ],
)
def test_a_table_is_asked_if_it_has_the_words_names_and_kind_of_the_question(
    question: str, expected: list[str]
) -> None:
    assert [source.name for source in select_tables([PRICES, BOATS], question, [], print)] == expected


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("How much does an oar cost?", True),
        ("Which items cost more than 15?", True),
        ("How many items cost more than 15?", True),
        ("What's the price of an oar?", True),
        ("What’s the total price?", True),
        ("What's the cheapest item?", True),
        ("How much does a tent cost?", False),
        ("How much does the repair of an oar cost?", False),
        ("What's the colour of an oar?", False),
        ("Who's the keeper of the ropes?", False),
    ],
)
def test_other_words_for_a_column_count_as_words_of_the_table(question: str, is_asked: bool) -> None:
    assert bool(select_tables([PRICES], question, [], print)) == is_asked


LOANS = Table(
    "own", "loans.csv@4", "", ("object", "value"), (("turret clock", "9"), ("water clock", "7"), ("bell", "1"))
)


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("What is the value of the cuckoo clock?", False),
        ("What is the value of the turret clock?", True),
        ("What is the most valuable clock?", True),
        ("What is the value of the bell?", True),
        ("What is the value of the old bell?", False),
        ("How many clocks may I lend?", False),
    ],
)
def test_a_table_of_things_of_a_kind_is_not_asked_about_another(question: str, is_asked: bool) -> None:
    assert bool(select_tables([LOANS], question, [], print)) == is_asked


RATES = Table(
    "own",
    "rates.csv@5",
    "",
    ("vehicle", "yard", "price per hour", "price per day"),
    (("Mule", "Old Mill", "9", "40"), ("Ox", "Kay Lane", "8", "55"), ("Camel", "Old Mill", "12", "50")),
)


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("What is the price per day of the Ox?", True),
        ("What does the Ox cost a day?", True),
        ("What does the Ox cost a week?", False),
        ("What is the average price per month?", False),
        ("Is the Ox dearer per week than the Mule?", False),
        ("How many vehicles are parked at Old Mill?", True),
        ("How many vehicles are repaired at Old Mill?", False),
    ],
)
def test_a_table_needs_the_period_of_a_price_but_no_verb_of_a_place(question: str, is_asked: bool) -> None:
    assert bool(select_tables([RATES], question, [], print)) == is_asked


CONCERTS = Table(
    "own", "concerts.csv@7", "", ("date", "hall"), (("1 May 2021", "Drill Hall"), ("2 June 2022", "Forge"))
)


@pytest.mark.parametrize(
    ("question", "is_asked"),
    [
        ("When was the Drill Hall built?", False),
        ("In which year did the Drill Hall burn down?", False),
        ("When was the concert in the Drill Hall?", True),
    ],
)
def test_the_time_of_an_event_is_in_a_table_that_has_the_event(question: str, is_asked: bool) -> None:
    assert bool(select_tables([CONCERTS], question, [], print)) == is_asked


def test_a_table_is_not_asked_alone_for_a_column_that_a_joinable_one_has() -> None:
    hives = Table(
        "own", "hives.csv@5", "", ("hive", "breed"), (("101", "Elgon"), ("102", "Buckfast"), ("103", "Elgon"))
    )
    visits = Table("own", "visits.csv@6", "", ("hive", "mites"), (("101", "12"), ("102", "7"), ("103", "9")))
    selected = select_tables([hives, visits], "How many mites does the hive of the breed Buckfast have?", [], print)
    assert [source.name for source in selected] == ["hives.csv + visits.csv"], "and no number of hives of this breed"


def test_of_many_tables_those_with_most_words_are_asked() -> None:
    others = [Table("own", f"{i}.csv@{i}", "", ("item", "size"), (("oar", "1"), ("bell", "2"))) for i in range(9)]
    selected = select_tables([*others, PRICES], "What is the price of an oar?", ["19", "85"], print)
    assert len(selected) == MAX_TABLES and selected[0].name == "prices.csv"


RACES = Table("own", "races.csv@3", "", ("boat", "wins"), (("Swan", "3"), ("Pike", "5")))


@pytest.mark.parametrize(
    ("question", "is_joined"),
    [
        ("How many wins does the boat with 8 seats have?", True),
        ("Which boat with more than 2 seats won the most wins?", True),
        ("Which boat has the most wins?", False),
        ("Which boat has the most seats?", False),
        ("How many wins does the boat of Zurich with 8 seats have?", False),
        ("What is the weight of the boat with most seats and wins?", False),
        ("Why does the boat with 8 seats have 3 wins?", False),
        ("Which item has 8 seats and 3 wins?", False),
    ],
)
def test_a_join_is_asked_first_if_it_alone_has_all_words(question: str, is_joined: bool) -> None:
    selected = select_tables([PRICES, BOATS, RACES], question, [], print)
    assert [source.joined for source in selected if source.joined] == is_joined * [(BOATS, RACES)]
    assert not is_joined or selected[0].name == "club.md, table 2 + races.csv"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([("answered", 0.6), ("insufficient", 0.9), ("answered", 0.7)], [2, 0]),
        ([("answered", None), ("answered", 0.6), ("answered", 0.6)], [1, 2, 0]),
        ([("insufficient", 0.9), ("ambiguous", 0.2), ("insufficient", None)], [1]),
        ([("insufficient", 0.9), ("ambiguous", 0.035), ("insufficient", None)], [0]),
        ([("insufficient", 0.9), ("ambiguous", 0.035), ("ambiguous", None)], [0]),
        ([("insufficient", None), ("failed", None)], [0]),
        ([("ambiguous", 0.9), ("stated", 0.4)], [1]),
    ],
)
def test_the_most_probable_answer_is_first_and_a_source_that_refuses_does_not_answer(
    answers: list[tuple[str, float | None]], expected: list[int]
) -> None:
    assert rank_answers(answers) == expected


def test_everything_is_all_documents_graphs_and_the_tables_beside_documents(
    club: Path, other_settings: pytest.MonkeyPatch
) -> None:
    lake = Lake.create(club.parent / "lake", question_shards=1, corpus_shards=1)
    other_settings.setenv("EVIDENCE_LAKE", str(lake.root))
    messages: list[str] = []
    with pytest.raises(BadInput, match="no documents and no graph: add some with `evidence add corpus"):
        list_everything(lake, "Which boat?", [], messages.append)
    (club.parent / "notes").mkdir()
    (club.parent / "notes" / "bees.txt").write_text("Bees buzz.")
    build_corpus(lake, "notes", group_files(club.parent / "notes"), messages.append)
    add_folder(lake, club)
    add_graph_file(lake, club.parent / "family.tsv")
    messages.clear()
    sources = list_everything(lake, "What is the price of an oar?", [], messages.append)
    names = ["the documents of club", "the documents of notes", "the graph family", "prices.csv"]
    assert [source.name for source in sources] == names, "without the table of boats"
    assert len(messages) == 1 and "bad.csv:2: a quote" in messages[0]
    joint = {"name": "quiz", "task": "mcqa", "corpus": "notes", "graph": "family"}
    write_declarations(lake.root / "declarations" / "quiz", ("benchmark.Benchmark", joint))
    sources = list_everything(lake, "Why?", [], messages.append)
    assert [str(s.source) for s in sources] == ["corpus=club", "corpus=notes graph=family"], "no graph is asked twice"
    searches = {"name": "quiz", "task": "skb_search", "graph": "family"}
    write_declarations(lake.root / "declarations" / "quiz", ("benchmark.Benchmark", searches))
    sources = list_everything(lake, "Why?", [], messages.append)
    assert [str(s.source) for s in sources] == ["corpus=club", "corpus=notes"], "the edges of a knowledge base"


@pytest.fixture
def club(tmp_path: Path) -> Path:
    folder = tmp_path / "club"
    folder.mkdir()
    table = "| Boat | Seats |\n|---|---|\n| Pike | 1 |\n| Heron | 4 |\n| Swan | 8 |\n"
    (folder / "rules.md").write_text(f"# Rules\n\nThe club was founded by Clara Huber in 1921.\n\n## Boats\n\n{table}")
    (folder / "prices.csv").write_text("item,price\noar,85\nrope,12\nvarnish,24\n")
    (folder / "bad.csv").write_text('item,price\n"oar,85\n')
    (tmp_path / "family.tsv").write_text("Ida Roth\tborn in\tKonstanz\nIda Roth\tplays\tclarinet\n")
    return folder


def ask(club: Path, *arguments: str, questions: str = "") -> Result:
    lake = ["--lake", str(club.parent / "lake")]
    return CliRunner().invoke(app, ["ask", *arguments, *lake], input=questions)


def test_one_question_is_put_to_documents_tables_and_a_graph(club: Path) -> None:
    questions = {
        "Who founded the club?": "Clara Huber",
        "What is the price of varnish?": "24",
        "How many seats does Swan have?": "8",
        "Where was Ida Roth born?": "Konstanz",
    }
    sources = ["--folder", str(club), "--graph", str(club.parent / "family.tsv")]
    result = ask(club, *sources, "--json", questions="\n".join(questions))
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer["answer_text"] for answer in answers] == list(questions.values())
    assert f"skipped: {club.parent}/lake/raw/corpora/club/bad.csv:2: a quote" in result.stderr
    for answer in answers:
        assert answer["counterfactual"] and any(row["used"] for row in answer["evidence"])
    assert Lake(club.parent / "lake").read("predictions").height > len(questions), "each source's answer is stored"


def test_progress_counts_the_questions_of_a_file(club: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "SECONDS_BETWEEN_REPORTS", 0.0)
    questions = "What is the price of varnish?\n\nWhat is the price of rope?\n"
    result = ask(club, "--table", str(club / "prices.csv"), questions=questions)
    counts = re.findall(r"questions: (\d[^,]*),", result.stderr)
    assert counts == ["1 of 2", "2 of 2"], "and none for the one question of each stage"


class Pipe(io.StringIO):
    """Standard input whose number of lines is not known before it ends."""

    def seekable(self) -> bool:
        return False


def test_questions_of_a_pipe_are_answered_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = Pipe("Why?\nWho?\n")
    monkeypatch.setattr(sys, "stdin", pipe)
    assert next(_read_questions()) == "Why?\n" and pipe.read() == "Who?\n"


def test_what_others_say_is_printed_below_the_answer(club: Path) -> None:
    (club.parent / "prices_lindau.csv").write_text("item,price\noar,79\nbell,33\n")
    tables = [word for name in ("club/prices.csv", "prices_lindau.csv") for word in ("--table", club.parent / name)]
    result = ask(club, "What is the price of an oar?", *map(str, tables))
    lines = result.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("answer: 85 (answered, probability 0."))
    assert lines[start + 1].startswith("also: prices_lindau.csv says 79 (probability 0.")
    unknown = ask(club, "Who conducts the Harbour Band?", *map(str, tables))
    assert unknown.exit_code == 1 and "no table has all names and a word of the question" in unknown.output


def test_a_line_of_standard_input_is_put_to_the_sources_of_the_same_question(club: Path) -> None:
    text = "Since when is the price of varnish absurd?"
    sources = ["--folder", str(club), "--json"]
    ask(club, text, *sources)  # the corpus is made
    results = [ask(club, text, *sources), ask(club, *sources, questions=f"{text}\n")]
    assert not any("not asked" in result.stderr for result in results)
    alone, line = (json.loads(result.stdout) | {"seconds": 0} for result in results)
    assert alone == line


def test_a_question_that_no_table_can_answer_does_not_stop_the_others(club: Path) -> None:
    questions = "When does an oar close?\nWhat is the price of an oar?\n"
    table = ["--table", str(club / "prices.csv")]
    result = ask(club, *table, questions=questions)
    assert result.exit_code == 1 and "answer: 85 (answered" in result.stdout
    assert "When does an oar close?\n\nnot asked: no two cells of the table can answer this" in result.stdout
    assert "questions that could not be asked: 1" in result.stderr
    failed, answered = map(json.loads, ask(club, *table, "--json", questions=questions).stdout.splitlines())
    assert (failed["status"], answered["answer_text"]) == ("failed", "85")
    alone = ask(club, "When does an oar close?", *table)
    assert alone.exit_code == 1 and "no two cells of the table can answer this" in alone.stderr


def test_the_tables_of_a_markdown_file_are_asked_without_its_text(club: Path) -> None:
    result = ask(club, "Which boat has the most seats?", "--table", str(club / "rules.md"))
    assert "answer: Swan (answered, probability" in result.stdout and "table rules.md@" in result.stdout


def test_a_folder_of_tables_alone_needs_no_documents(club: Path) -> None:
    (club / "rules.md").unlink()
    result = ask(club, "What is the price of varnish?", "--folder", str(club))
    assert result.stdout.splitlines()[2].startswith("answer: 24 (answered") and "bad.csv:2: a quote" in result.stderr
