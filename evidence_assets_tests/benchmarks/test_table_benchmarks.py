"""Readers of table benchmarks: what they yield, and that whatever is wrong is named with file, line and field."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evidence_assets.benchmarks import own, pubhealthtab, scitab, tabfact, tabmcq
from evidence_assets.lake.errors import BadInput

MCQ_HEADER = (
    "QUESTION\tQUESTION-ALIGNMENT\tCHOICE 1\tCHOICE 2\tCHOICE 3\tCHOICE 4\tCORRECT CHOICE\tRELEVANT TABLE\t"
    "RELEVANT ROW\tRELEVANT COL\n"
)


def _tabmcq(folder: Path, *lines: str, header: str = MCQ_HEADER) -> Path:
    (folder / "Tables" / "m").mkdir(parents=True)
    (folder / "Tables" / "m" / "1&2.tsv").write_text(
        "Animal\t\tDiet\nBuffalo\tis a\therbivore \nFox\tis a\tcarnivore\n"
    )
    (folder / "MCQs.tsv").write_text(header + "".join(line + "\n" for line in lines))
    return folder


def test_tabmcq_question_with_its_gold_cell(tmp_path: Path) -> None:
    folder = _tabmcq(tmp_path, 'What does a fox eat?\t"0,1"\tcarnivore\tb\tc\td\t1\tm-1&2\t2\t2')
    question = next(tabmcq.read_questions(folder))
    assert (question.task, question.gold, question.table_id, question.options[0]) == (
        "table_qa",
        ("A",),
        "m-1&2",
        "carnivore",
    )
    cell = question.gold_evidence[0]
    assert (cell.kind, cell.locator, cell.text) == ("cell", "r2c2", "carnivore")
    assert [e.locator for e in question.gold_evidence if e.kind == "column"] == ["c0", "c1"]
    table = next(tabmcq.read_tables(folder))
    assert table.header == ("Animal", "", "Diet")
    assert table.rows[0] == ("Buffalo", "is a", "herbivore")


def test_tabmcq_tab_inside_quotes(tmp_path: Path) -> None:
    folder = _tabmcq(tmp_path, '"A ____ eats,\tless"\t0\ta\tb\tc\td\t1\tm-1&2\t1\t0')
    assert next(tabmcq.read_questions(folder)).text == "A ____ eats,\tless"


def test_tabmcq_annotation_outside_the_table_keeps_its_place(tmp_path: Path) -> None:
    folder = _tabmcq(tmp_path, "Q?\t0\ta\tb\tc\td\t1\tm-1&2\t99\t7")
    cell = next(tabmcq.read_questions(folder)).gold_evidence[0]
    assert (cell.locator, cell.text) == ("r99c7", "")


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("Q?\t0\ta\tb\tc\td\t5\tm-1&2\t1\t0", "CORRECT CHOICE"),
        ("Q?\t0\ta\tb\tc\td\tx\tm-1&2\t1\t0", "CORRECT CHOICE"),
        ("Q?\t0\ta\tb\tc\td\t1\tm-3\t1\t0", "RELEVANT TABLE"),
        ("Q?\t0\ta\tb\tc\td\t1\tm\t1\t0", "RELEVANT TABLE"),
        ("Q?\tx\ta\tb\tc\td\t1\tm-1&2\t1\t0", "QUESTION-ALIGNMENT"),
        ("Q?\t0\ta\tb\tc\td\t1\tm-1&2\tx\t0", "RELEVANT ROW"),
        ("\t0\ta\tb\tc\td\t1\tm-1&2\t1\t0", "QUESTION"),
        ("Q?\t0\ta\tb", None),
    ],
)
def test_tabmcq_faults_are_named(tmp_path: Path, line: str, field: str | None) -> None:
    folder = _tabmcq(tmp_path, "Q?\t0\ta\tb\tc\td\t1\tm-1&2\t1\t0", line)
    with pytest.raises(BadInput) as caught:
        list(tabmcq.read_questions(folder))
    assert caught.value.line == 3
    assert caught.value.field == field
    assert str(caught.value).startswith(str(folder / "MCQs.tsv"))


def test_tabmcq_missing_column_or_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="QUESTION-ALIGNMENT"):
        list(tabmcq.read_questions(_tabmcq(tmp_path / "a", header="QUESTION\tX\n")))
    with pytest.raises(BadInput, match="there is no such file"):
        list(tabmcq.read_questions(tmp_path / "none"))
    with pytest.raises(BadInput, match="holds no table"):
        list(tabmcq.read_tables(tmp_path / "none"))


def _scitab_record(**changes: object) -> dict[str, object]:
    record: dict[str, object] = {
        "id": "1", "claim": "A is 2.", "label": "not enough info", "table_id": "t", "table_caption": "C",
        "table_column_names": ["x", "[BOLD] y"], "table_content_values": [["A", 2], ["B"]],
    }  # fmt: skip
    return {**record, **changes}


def test_scitab(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps([_scitab_record(), _scitab_record(id="2", label="refutes")], indent=1))
    (first, table), (second, _) = scitab.read(path)
    assert first.gold == ("NOT ENOUGH INFORMATION",)
    assert second.gold == ("REFUTES",)
    assert table.rows == (("A", "2"), ("B",))
    assert table.header[1] == "[BOLD] y"


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ("[\n1]", 2, None),
        ('[\n{"claim": "x"}]', 2, "table_id"),
        ("[\n" + json.dumps(_scitab_record()) + ",\n" + json.dumps(_scitab_record(label="maybe")) + "]", 3, "label"),
        ("[" + json.dumps(_scitab_record(table_content_values="x")) + "]", 1, "table_content_values"),
        ("[" + json.dumps(_scitab_record(claim=" ")) + "]", 1, "claim"),
        ("[\n" + json.dumps(_scitab_record()) + "\n", 2, None),
        ('[\n{"claim": ', 2, None),
    ],
)
def test_scitab_faults_are_named(tmp_path: Path, text: str, line: int, field: str | None) -> None:
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        list(scitab.read(path))
    assert (caught.value.line, caught.value.field) == (line, field)


def test_pubhealthtab(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [
        {"_id": 7, "claim": "c", "label": "SUPPORTS",
         "table": {"caption": "k", "header_horizontal": ["a", "b"], "rows": [["1", "2"]]}},
        {"claim": "d", "label": "NEI", "table": {"header_vertical": ["x", "y"], "rows": [["1"], ["2"]]}},
        {"claim": "e", "label": "refutes", "table": {"rows": []}},
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    (one, first), (two, second), (_, third) = pubhealthtab.read(path)
    assert (one.source_id, first.header, first.rows, first.caption) == ("7", ("a", "b"), (("1", "2"),), "k")
    assert two.gold == ("NOT ENOUGH INFORMATION",)
    assert second.rows == (("x", "1"), ("y", "2"))
    assert (third.header, third.rows) == ((), ())
    path.write_text('{"claim": "c", "label": "SUPPORTS"}\n')
    with pytest.raises(BadInput, match=r"p\.jsonl:1: table"):
        list(pubhealthtab.read(path))
    path.write_text('{"claim": "c", "label": "SUPPORTS", "table": {"rows": [1]}}\n')
    with pytest.raises(BadInput, match=r"table\.rows"):
        list(pubhealthtab.read(path))


def test_tabfact(tmp_path: Path) -> None:
    tables = tmp_path / "all_csv"
    tables.mkdir()
    (tables / "1.csv").write_text("player#goals\nMessi#10\nKane#8\n")
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"1.csv": [["Messi has 10.", "Kane has 9."], [1, 0], "goals"]}))
    (first, table), (second, _) = tabfact.read(path, tables)
    assert (first.gold, second.gold) == (("SUPPORTS",), ("REFUTES",))
    assert (table.header, table.rows[1], table.caption) == (("player", "goals"), ("Kane", "8"), "goals")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([["a"]], "JSON object"),
        ({"1.csv": [["a"], [1, 0], "c"]}, "one label a statement"),
        ({"2.csv": [["a"], [1], "c"]}, "is not there"),
        ({"1.csv": [["a"], [2], "c"]}, "not 0 or 1"),
    ],
)
def test_tabfact_faults(tmp_path: Path, content: object, message: str) -> None:
    (tmp_path / "1.csv").write_text("a#b\n1#2\n")
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=message):
        list(tabfact.read(tmp_path / "t.json", tmp_path))


def test_own_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffname;price\nTea;3,50\nCoffee;4\n\n", encoding="utf-8")
    pq.write_table(pa.table({"name": ["x", None], "n": [1, 2]}), tmp_path / "b.parquet")
    lines = [
        {"table": "a.csv", "claim": "Tea costs 3,50.", "label": "supports"},
        {"table": "b.parquet", "question": "Which?", "options": ["x", "y"], "answer": "B", "id": "q7"},
        {"table": "a.csv", "claim": "Unlabelled."},
    ]
    (tmp_path / "claims.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (one, first), (two, second), (three, again) = own.read_about_files(tmp_path / "claims.jsonl")
    assert (one.task, one.gold) == ("verification", ("SUPPORTS",))
    assert (first.header, first.rows) == (("name", "price"), (("Tea", "3,50"), ("Coffee", "4")))
    assert (two.source_id, two.gold, two.options) == ("q7", ("B",), ("x", "y"))
    assert second.rows == (("x", "1"), ("", "2"))
    assert three.gold == ()
    assert again is first


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"claim": "x"}', "table"),
        ('{"table": "none.csv", "claim": "x"}', "table"),
        ('{"table": "a.csv"}', "question"),
        ('{"table": "a.csv", "question": "x", "options": ["a"]}', "options"),
        ('{"table": "a.csv", "question": "x", "options": ["a", "b"], "answer": "C"}', "answer"),
        ('{"table": "a.csv", "claim": "x", "label": "perhaps"}', "label"),
        ("[1]", None),
        ("{", None),
    ],
)
def test_own_tables_faults_are_named(tmp_path: Path, line: str, field: str | None) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "claims.jsonl").write_text('{"table": "a.csv", "claim": "fine"}\n' + line + "\n")
    with pytest.raises(BadInput) as caught:
        list(own.read_about_files(tmp_path / "claims.jsonl"))
    assert (caught.value.line, caught.value.field) == (2, field)


def test_odd_files(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text("")
    assert own.read_table_file(tmp_path / "empty.csv").header == ()
    (tmp_path / "one.csv").write_text("only\nx\n")
    assert own.read_table_file(tmp_path / "one.csv").rows == (("x",),)
    (tmp_path / "big.csv").write_text("a,b\n" + "x" * 200_000 + ",1\n")
    assert len(own.read_table_file(tmp_path / "big.csv").rows[0][0]) == 200_000
    (tmp_path / "latin.csv").write_bytes("a\nM\xfcller\n".encode("latin-1"))
    with pytest.raises(BadInput, match="UTF-8"):
        own.read_table_file(tmp_path / "latin.csv")
    (tmp_path / "no.parquet").write_text("not parquet")
    with pytest.raises(BadInput, match="Parquet"):
        own.read_table_file(tmp_path / "no.parquet")
    pq.write_table(pa.table({}), tmp_path / "none.parquet")
    assert own.read_table_file(tmp_path / "none.parquet").header == ()


@pytest.mark.dev_data
def test_the_real_files(dev_data: Path) -> None:
    tables = {table.table_id: table for table in tabmcq.read_tables(dev_data / "tabmcq")}
    questions = list(tabmcq.read_questions(dev_data / "tabmcq"))
    assert (len(tables), len(questions)) == (62, 300)
    assert all(question.gold_evidence[0].text for question in questions)
    assert all(question.table_id in tables for question in questions)
    claims = list(scitab.read(dev_data / "scitab" / "sci_tab.json"))
    assert len(claims) == 120
    assert len({table.table_id for _, table in claims}) == 83
