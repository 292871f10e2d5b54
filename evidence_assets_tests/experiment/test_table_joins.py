"""Tables joined by a common key: which are, what the join has, where its cells come from, and what it answers."""

import json
from collections.abc import Sequence
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from evidence_assets.benchmarks.records import Table
from evidence_assets.benchmarks.table_files import read_tables_of
from evidence_assets.cli import app
from evidence_assets.cli.ask import SystemChoice, answer_sources
from evidence_assets.experiment import table_joins
from evidence_assets.experiment.ad_hoc_questions import parse_table, with_content_id
from evidence_assets.experiment.asked_sources import AskedSource, select_tables
from evidence_assets.experiment.solvers import TABLE_SOLVER
from evidence_assets.experiment.table_joins import (
    JoinCandidate,
    can_look_up,
    counts_once,
    join_tables,
    select_join,
    share_key,
)
from evidence_assets.explorer.site import application
from evidence_assets.lake.catalogue import connect
from evidence_assets.lake.lineage import distinct_ids, find_dangling_edges, impact, trace
from evidence_assets.lake.store import Lake

QUESTIONS = yaml.safe_load(Path(__file__).with_name("joined_tables.yaml").read_text(encoding="utf-8"))
CHOICE = SystemChoice("", "", asks_why=False)


def build_table(name: str, header: Sequence[str], *rows: Sequence[str]) -> Table:
    return with_content_id(Table("own", name, "", tuple(header), tuple(map(tuple, rows))))


def build_candidate(table: Table, *words: str) -> JoinCandidate:
    return JoinCandidate(table, frozenset(words))


def read_group(name: str, folder: Path) -> list[Table]:
    """The tables of a group of questions, in files."""
    tables = []
    for file, text in QUESTIONS[name]["tables"].items():
        (folder / file).write_text(text, encoding="utf-8")
        tables += [with_content_id(table) for table in read_tables_of(folder / file)]
    return tables


# Which tables are joined

SALES = [("Bolt", "120"), ("Nut", "310"), ("Hinge", "75"), ("Latch", "40")]


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("product", [("Nut", "a"), ("Bolt", "b"), ("Screw", "c")], True),
        (" Product_ ", [("NUT ", "a"), ("b.o.l.t", "b"), ("bolt.", "c")], True),
        ("article", [("Nut", "a"), ("Bolt", "b")], False),
        ("product", [("Nut", "a"), ("Bolt", "b"), ("Screw", "c"), ("Plate", "d"), ("Bell", "e")], True),
        ("product", [(name, "a") for name in ("Nut", "Screw", "Plate", "Bell")], False),
        ("product", [("Nut", "a"), ("Screw", "b")], False),
        ("product", [("Nut", "a"), ("Bolt", "b"), ("nut", "c")], False),
        ("product", [("Nut", "a"), ("Bolt", "b"), ("", "c")], False),
        ("product", [("Nut", "a"), ("Bolt", "b"), ("n/a", "c")], False),
    ],
    ids=["two of three", "spelling", "header", "half", "a quarter", "one", "duplicate", "empty", "unknown"],
)
def test_a_common_key_has_equal_headers_distinct_values_and_half_of_them_in_common(
    header: str, rows: list[tuple[str, str]], expected: bool
) -> None:
    first = build_candidate(build_table("sales.csv", ["product", "sales"], *SALES))
    second = build_candidate(build_table("stock.csv", [header, "shelf"], *rows))
    assert share_key(first, second, "product") == expected
    assert share_key(second, first, "product") == expected


def test_numbers_and_repeated_headers_are_no_keys() -> None:
    years = [build_candidate(build_table(f"{n}.csv", ["year", n], ("2022", "1"), ("2023", "2"))) for n in ("a", "b")]
    assert not share_key(years[0], years[1], "year")
    doubled = build_candidate(build_table("c.csv", ["product", "product"], ("Bolt", "x"), ("Nut", "y")))
    assert not share_key(doubled, build_candidate(build_table("sales.csv", ["product", "sales"], *SALES)), "product")


HIVES = build_table("hives.csv", ["hive", "site"], ("101", "Mill"), ("102", "Mill"), ("103", "Hill"))
HARVESTS = build_table(
    "harvests.csv", ["hive", "month", "kg"], ("101", "June", "12"), ("101", "July", "8"), ("103", "June", "9")
)


@pytest.mark.parametrize(
    ("header", "values", "expected"),
    [
        ("hive", ("101", "103", "104"), True),
        ("hive", ("101.5", "102", "103"), False),
        ("hive", ("101", "101", "103"), False),
        ("hive", ("101", "x", "y"), False),
        ("rank", ("1", "2", "3"), False),
        ("year", ("2022", "2023", "2024"), False),
    ],
)
def test_whole_numbers_in_the_first_column_are_keys_if_they_are_no_years_and_no_ranks(
    header: str, values: tuple[str, ...], expected: bool
) -> None:
    first = build_candidate(build_table("a.csv", [header, "mites"], *((value, "1") for value in values)))
    names = [row[0] for row in HIVES.rows] if header == "hive" else values
    second = build_candidate(build_table("b.csv", [header, "site"], *((name, "Mill") for name in names)))
    assert share_key(first, second, header) == expected
    behind = build_candidate(build_table("c.csv", ["mites", header], *(("1", value) for value in values)))
    assert not share_key(behind, second, header)


def test_rows_with_the_same_key_get_the_columns_of_the_table_that_has_it_once() -> None:
    many, one = build_candidate(HARVESTS), build_candidate(HIVES)
    assert can_look_up(many, one, "hive") and not can_look_up(one, many, "hive")
    table, sources, repeated = join_tables([many, one], "hive")
    assert table.header == ("hive", "month", "kg", "site") and sources == (HARVESTS, HIVES)
    assert table.rows == (("101", "June", "12", "Mill"), ("101", "July", "8", "Mill"), ("103", "June", "9", "Hill"))
    assert repeated == (0, 3)
    origins = {(o.locator, o.table_id, o.source_locator) for o in table.origins}
    assert {("r1c3", HIVES.table_id, "r1c1"), ("r2c3", HIVES.table_id, "r1c1")} <= origins
    assert ("r3c2", HARVESTS.table_id, "r3c2") in origins
    unknown = build_table("harvests.csv", ["hive", "kg"], ("101", "1"), ("101", "2"), ("107", "3"), ("108", "4"))
    assert not can_look_up(build_candidate(unknown), one, "hive"), "one of three values"


@pytest.mark.parametrize(
    ("question", "operation", "cells", "expected"),
    [
        ("What is the total kg of the hives at Mill?", "total", [(1, 2), (2, 2)], True),
        ("What is the total size of the hives at Mill?", "total", [(1, 3), (2, 3)], False),
        ("Which hive has the most kg in June?", "superlative", [(1, 2), (3, 2)], True),
        ("Which hive has the most kg?", "superlative", [(1, 2), (2, 2), (3, 2)], False),
        ("What is the site of the harvest with the most kg?", "superlative", [(1, 2), (2, 2), (3, 2)], True),
        ("How many harvests are from Mill?", "count", [(1, 3), (2, 3)], True),
        ("How many hives are at Mill?", "count", [(1, 3), (2, 3)], False),
        ("How many hives at Mill had a harvest?", "count", [(1, 3), (2, 3)], False),
        ("Which harvests are from Mill?", "count", [(1, 3), (2, 3)], True),
        ("By how much do they differ?", "difference", [(1, 2), (2, 2)], False),
    ],
)
def test_no_operation_counts_a_repeated_cell(
    question: str, operation: str, cells: list[tuple[int, int]], expected: bool
) -> None:
    join = join_tables([build_candidate(HARVESTS), build_candidate(HIVES)], "hive")
    assert counts_once(join, operation, cells, question) == expected
    once = join_tables([build_candidate(HIVES), build_candidate(HIVES)], "hive")
    assert counts_once(once, operation, cells, question), "each cell of a join by a key is there once"


def test_a_comparison_of_another_measure_has_no_operation_on_joined_columns() -> None:
    rows = (("Milk", "2"), ("Bread", "5"), ("Eggs", "3"))
    tables = [build_table(f"prices_{town}.csv", ["item", "price"], *rows) for town in ("Lindau", "Bregenz")]
    view = parse_table(join_tables([build_candidate(table) for table in tables], "item").table)
    assert TABLE_SOLVER.find_operation(view, "Which items are cheaper in Lindau than in Bregenz?")[0] == "count"
    assert TABLE_SOLVER.find_operation(view, "Which items are heavier in Lindau than in Bregenz?") == ("", ())


def test_names_that_differ_in_a_sign_are_not_equal() -> None:
    first = build_candidate(
        build_table("a.csv", ["language", "year"], ("C++", "1985"), ("Lisp", "1960"), ("Ada", "1980"))
    )
    second = build_candidate(build_table("b.csv", ["language", "users"], ("C#", "7"), ("Perl", "1"), ("Ada", "2")))
    assert not share_key(first, second, "language")


# What a joined table has

KEYS = st.lists(st.sampled_from(["Rome", "Oslo", "Bern", "Nice", "Graz", "Pisa"]), min_size=1, unique=True)
CELLS = st.sampled_from(["", "1", "2,5", "yes", "Rome"])


@st.composite
def keyed_tables(draw: st.DrawFn) -> list[Table]:
    """Two to four tables with a key at any place and unique values."""
    tables = []
    for number in range(draw(st.integers(2, 4))):
        width = draw(st.integers(0, 3))
        position = draw(st.integers(0, width))
        header = [f"h{draw(st.integers(0, 3))}-{j}" for j in range(width)]
        header.insert(position, draw(st.sampled_from(["city", "City "])))
        rows = []
        for key in draw(KEYS):
            row = draw(st.lists(CELLS, min_size=width, max_size=width))
            row.insert(position, key)
            rows.append(row[: draw(st.integers(position + 1, width + 1))])  # rows may be ragged
        tables.append(build_table(f"t{number}.csv", header, *rows))
    return tables


def find_key_column(table: Table) -> int:
    return [name.strip().lower() for name in table.header].index("city")


def join_by_loops(tables: Sequence[Table]) -> list[dict[tuple[int, int], str]]:
    """The rows of a full outer join: texts by table and column, the key with table -1."""
    values: list[str] = []
    for table in tables:
        for row in table.rows:
            if row[find_key_column(table)] not in values:
                values.append(row[find_key_column(table)])
    joined = []
    for value in values:
        cells = {(-1, -1): value}
        for number, table in enumerate(tables):
            for row in table.rows:
                for j, text in enumerate(row):
                    if row[find_key_column(table)] == value and j != find_key_column(table):
                        cells[number, j] = text
        joined.append(cells)
    return joined


@given(keyed_tables())
def test_a_join_equals_nested_loops_and_each_cell_leads_to_its_source(tables: list[Table]) -> None:
    table, sources, repeated = join_tables([build_candidate(table) for table in tables], "city")
    assert sources == tuple(tables) and not repeated
    columns = [(-1, -1) if j == find_key_column(tables[0]) else (0, j) for j in range(len(tables[0].header))]
    columns += [
        (number, j)
        for number, other in enumerate(tables[1:], 1)
        for j in range(len(other.header))
        if j != find_key_column(other)
    ]
    expected = [tuple(cells.get(column, "") for column in columns) for cells in join_by_loops(tables)]
    assert list(table.rows) == expected
    by_id = {source.table_id: source for source in tables}
    origins = [o for o in table.origins if o.locator.startswith("r") and not o.locator.startswith("r0")]
    for origin in origins:
        row, column = map(int, origin.locator[1:].split("c"))
        source_row, source_column = map(int, origin.source_locator[1:].split("c"))
        source = by_id[origin.table_id]
        assert source.rows[source_row - 1][source_column] == table.rows[row - 1][column]
    n_texts = sum(bool(text) for source in tables for row in source.rows for text in row)
    assert len(set(origins)) == n_texts, "each text of each table is in the join once"
    columns_with_origin = {(o.table_id, o.source_locator) for o in table.origins if o.locator.startswith("c")}
    assert columns_with_origin == {(t.table_id, f"c{j}") for t in tables for j in range(len(t.header))}


@pytest.mark.parametrize(
    ("names", "headers", "expected"),
    [
        (("sales_2023.csv", "sales_2024.csv"), ("Sales", "sales"), ("2023: Sales", "2024: sales")),
        (("villages_1990.csv", "villages_2020.csv"), ("population",) * 2, ("1990: population", "2020: population")),
        (
            ("villages_1990.csv", "villages_2020.csv"),
            ("population", "inhabitants"),
            ("1990: population", "2020: inhabitants"),
        ),
        (("villages_1990.csv", "villages_2020.csv"), ("population", "school"), ("population", "school")),
        (("2023/sales.csv", "2024/sales.csv"), ("sales", "sales"), ("2023: sales", "2024: sales")),
        (("prices.csv", "prices_Lindau.csv"), ("price (EUR)",) * 2, ("prices: price (EUR)", "Lindau: price (EUR)")),
        (("sales_2023.csv", "stock.csv"), ("sales", "shelf"), ("sales", "shelf")),
        (("club.md, table 1", "club.md, table 2"), ("fee", "fee"), ("1: fee", "2: fee")),
    ],
)
def test_a_header_of_several_tables_is_preceded_by_what_distinguishes_their_files(
    names: tuple[str, str], headers: tuple[str, str], expected: tuple[str, str]
) -> None:
    tables = [build_table(name, ["product", header], *SALES) for name, header in zip(names, headers, strict=True)]
    assert join_tables([build_candidate(table) for table in tables], "product").table.header == ("product", *expected)


# Which joins are tried


def list_candidates(n: int, n_rows: int = 3) -> list[JoinCandidate]:
    """Tables with a common key, each with a word of its own; later ones have more words."""
    rows = [(f"name {i}x", str(i)) for i in range(n_rows)]
    tables = [build_table(f"t{number}.csv", ["name", f"h{number}"], *rows) for number in range(n)]
    return [build_candidate(table, *(f"w{n}-{i}" for i in range(n + 1))) for n, table in enumerate(tables)]


def test_each_joined_table_has_a_word_that_the_others_lack() -> None:
    tables = [build_table(f"t{n}.csv", ["product", f"h{n}"], *SALES) for n in range(3)]
    words = [("bolt", "sale"), ("bolt",), ("bolt", "price")]
    candidates = [build_candidate(table, *each) for table, each in zip(tables, words, strict=True)]
    join = select_join(candidates, print)
    assert join is not None and join.sources == (tables[0], tables[2])
    assert select_join(candidates[:2], print) is None


def test_of_many_tables_those_with_most_words_are_tried_and_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    messages: list[str] = []
    compared = []

    def share_no_key(*pair: object) -> bool:
        compared.append(pair)
        return False

    monkeypatch.setattr(table_joins, "share_key", share_no_key)
    assert select_join(list_candidates(40), messages.append) is None
    assert len(compared) == table_joins.MAX_TRIED * (table_joins.MAX_TRIED - 1)
    assert messages == ["40 tables have a column in common: only the 8 with most words of the question are joined"]
    monkeypatch.undo()
    join = select_join(list_candidates(40), messages.append)
    assert join is not None and [source.table_id[:3] for source in join.sources] == ["t36", "t37", "t38", "t39"]


def test_a_join_of_too_many_cells_is_reported_and_not_made() -> None:
    messages: list[str] = []
    assert select_join(list_candidates(2, n_rows=7000), messages.append) is None
    assert messages == ["t1.csv and t0.csv are not joined: 56,008 cells, more than 50,000"]
    assert select_join(list_candidates(2, n_rows=6000), messages.append) is not None and len(messages) == 1


def test_a_table_of_too_many_rows_to_look_up_others_is_reported_once() -> None:
    orders = build_table("orders.csv", ["order", "product"], *((f"{n}", f"p{n % 5}") for n in range(10_000)))
    kinds = ((f"p{n}", f"{n} kg", "blue", "tin") for n in range(5))
    products = build_table("products.csv", ["product", "weight", "colour", "metal"], *kinds)
    messages: list[str] = []
    candidates = [build_candidate(orders, "order"), build_candidate(products, "weight")]
    assert can_look_up(candidates[0], candidates[1], "product")
    assert select_join(candidates, messages.append) is None
    assert messages == ["orders.csv and products.csv are not joined: 60,042 cells, more than 50,000"]


# What the command prints, and where its cells lead


def test_the_command_names_the_joined_tables_and_lineage_leads_to_the_cells_of_their_files(tmp_path: Path) -> None:
    first, second, _ = read_group("shop", tmp_path)
    files = [word for name in ("sales_2023.csv", "sales_2024.csv") for word in ("--table", str(tmp_path / name))]
    question = "What is the difference of sales of Nut between 2023 and 2024?"
    lake = tmp_path / "lake"
    result = CliRunner().invoke(app, ["ask", question, *files, "--lake", str(lake)])
    lines = result.stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("answer: 20 (answered, probability 0."))
    assert lines[start + 1] == "from: sales_2023.csv and sales_2024.csv, by product"
    text = " ".join(result.stdout.split())
    assert f"(table {first.table_id}, cell r2c1)" in text and f"(table {second.table_id}, cell r2c1)" in text
    result = CliRunner().invoke(app, ["ask", question, *files, "--lake", str(lake), "--json"])
    answer = json.loads(result.stdout)
    assert answer["joined_tables"] == "sales_2023.csv and sales_2024.csv, by product"
    with connect(lake) as connection:
        root = trace(connection, answer["prediction_id"])
        cells = set(distinct_ids(root)["cell"])
        assert {f"{table.table_id}:{cell}" for table in (first, second) for cell in ("r2c0", "r2c1")} <= cells
        assert {first.table_id, second.table_id} <= set(distinct_ids(root)["table"])
        reached = distinct_ids(impact(connection, f"{second.table_id}:r2c1"))
        assert answer["prediction_id"] in reached["prediction"]
        assert answer["prediction_id"] in distinct_ids(impact(connection, first.table_id))["prediction"]
        for file in Lake(lake).files("lineage_edges"):
            assert not find_dangling_edges(connection, file)
    client = TestClient(application(lake), base_url="http://127.0.0.1")
    page = unescape(client.get(f"/question/{answer['question_id']}").text)
    origins = page[page.index("Where it comes from") :]
    assert f"{first.table_id}, r2c1" in origins and f"{second.table_id}, r2c1" in origins
    cell = unescape(client.get(f"/source/cell/{quote(f'{second.table_id}:r2c1', safe='')}").text)
    assert question in cell, "the page of the file's cell lists the answer that it reached"
    [joined] = {row["source_id"] for row in answer["evidence"]}
    joined_cell = unescape(client.get(f"/source/cell/{quote(f'{joined}:r2c2', safe='')}").text)
    assert f"{second.table_id}, r2c1" in joined_cell, "the page of a joined cell links to that of the file"


# What is answered, before and after the join


class Outcome(NamedTuple):
    """What a question needs, whether its answer is right, false or refused, without and with the join."""

    question: str
    needs: str
    before: str
    after: str


def grade(lake: Lake, question: str, sources: Sequence[AskedSource], gold: str | None) -> str:
    """Whether the best answer of the sources is right, false or refused."""
    if not sources:
        return "refused"
    best = answer_sources(lake, question, [], sources, CHOICE, print)[0]
    if best.status != "answered":
        return "refused"
    return "right" if gold is not None and best.view.answer_text.lower() == gold.lower() else "false"


def measure_group(name: str, folder: Path) -> list[Outcome]:
    """Ask each question of a group of all its tables."""
    lake = Lake.create(folder / "lake", question_shards=1, corpus_shards=1)
    tables = read_group(name, folder)
    outcomes = []
    for needs, question, gold in QUESTIONS[name]["questions"]:
        sources = select_tables(tables, question, [], print)
        single = [source for source in sources if not source.joined]
        before = grade(lake, question, single, gold)
        outcomes.append(Outcome(question, needs, before, grade(lake, question, sources, gold)))
    return outcomes


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_join_adds_right_answers_and_no_false_ones(name: str, tmp_path: Path) -> None:
    outcomes = measure_group(name, tmp_path)
    print(*outcomes, sep="\n")
    assert len(outcomes) == 10
    for outcome in outcomes:
        assert outcome.before != "right" or outcome.after == "right", outcome
        assert outcome.after != "false" or outcome.before == "false", outcome
        if outcome.needs == "single":
            assert outcome.after == "right", outcome
    n_right = sum(outcome.after == "right" for outcome in outcomes if outcome.needs == "join")
    assert n_right >= sum(outcome.needs == "join" for outcome in outcomes) - 1
