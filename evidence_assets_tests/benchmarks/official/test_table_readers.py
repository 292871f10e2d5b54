"""The readers of claims and questions about tables pass the contract of readers."""

# ruff: noqa: RUF012 (the files and rows of a contract are constants)

import json
from pathlib import Path

import pytest

from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.benchmarks.records import GoldEvidence
from evidence_assets_tests.benchmarks.official.contract import (
    ReaderContract,
    json_lines,
    one_question,
    with_faulty_row,
    write_files,
)


class TestScitab(ReaderContract):
    NAMES = ("scitab",)
    FILE = "sci_tab.json"
    ROW = {
        "id": "s1",
        "claim": "A is 1.",
        "label": "not enough info",
        "table_id": "t1",
        "table_caption": "Numbers",
        "table_column_names": ["name", "[BOLD] value"],
        "table_content_values": [["A", 1], ["B"]],
    }
    VALID_FILES = one_question(
        "test",
        {f"dataset/{FILE}": json.dumps([ROW | {"label": "supports"}])},
        {"source_id": "s1", "gold": ("SUPPORTS",), "table_id": "t1"},
    )
    FAULTY_FILES = (
        ("test", {FILE: f"[\n{json.dumps(ROW)},\n{json.dumps(ROW | {'label': 'maybe'})}]"}, ":3: label: unknown label"),
        ("test", {FILE: json.dumps([ROW | {"table_content_values": "x"}])}, ":1: table_content_values: "),
    )
    EMPTY_FILES = (("test", {FILE: "[]"}, FILE),)

    def test_the_table_is_read_unchanged(self, tmp_path: Path) -> None:
        write_files(tmp_path, {self.FILE: json.dumps([self.ROW])})
        ((claim, table),) = read_pairs("scitab", tmp_path, "test")
        assert claim.gold == ("NOT ENOUGH INFORMATION",)
        assert (table.header, table.rows) == (("name", "[BOLD] value"), (("A", "1"), ("B",)))


class TestPubhealthtab(ReaderContract):
    NAMES = ("pubhealthtab",)
    FILE = "test.jsonl"
    TABLE = {"caption": "k", "header_horizontal": ["a", "b"], "header_vertical": [], "rows": [["1", "2"]]}
    ROW = {"_id": "p1", "claim": "A is 1.", "label": "NOT ENOUGH INFO", "table": TABLE}
    VALID_FILES = one_question(
        "test",
        {"data/pubhealthtab_testset.jsonl": json_lines(ROW)},
        {"source_id": "p1", "gold": ("NOT ENOUGH INFORMATION",), "table_id": "table-p1"},
    )
    FAULTY_FILES = (("test", {FILE: with_faulty_row(ROW, table={"rows": [1]}, _id="p2")}, r":2: table\.rows"),)

    def test_headers_across_and_down(self, tmp_path: Path) -> None:
        down = {"claim": "d", "label": "NEI", "table": {"header_vertical": ["x", "y"], "rows": [["1"], ["2"]]}}
        none = {"claim": "e", "label": "refutes", "table": {"rows": []}}
        write_files(tmp_path, {self.FILE: json_lines(self.ROW, down, none)})
        (_, first), (_, second), (_, third) = read_pairs("pubhealthtab", tmp_path, "test")
        assert (first.header, first.rows, first.caption) == (("a", "b"), (("1", "2"),), "k")
        assert second.rows == (("x", "1"), ("y", "2"))
        assert (third.header, third.rows) == ((), ())


class TestTabfact(ReaderContract):
    NAMES = ("tabfact",)
    FILE, TABLE = "test_examples.json", {"data/all_csv/1.csv": "player#goals\nMessi#10\nKane#8\n"}
    VALID_FILES = one_question(
        "test",
        TABLE | {f"tokenized_data/{FILE}": json.dumps({"1.csv": [["Kane has 9."], [0], "goals"]})},
        {"source_id": "1.csv#0", "gold": ("REFUTES",), "table_id": "1.csv"},
    )
    FAULTY_FILES = tuple(
        ("test", {"data/all_csv/1.csv": "a#b\n", "test_examples.json": json.dumps(content)}, message)
        for content, message in (
            ({"1.csv": [["a"], [1, 0], "c"]}, "one label per statement"),
            ({"2.csv": [["a"], [1], "c"]}, "is missing"),
            ({"1.csv": [["a"], [2], "c"]}, "not 0 or 1"),
        )
    )
    EMPTY_FILES = (("test", TABLE | {FILE: '{"1.csv": [[], [], ""]}'}, FILE),)

    def test_statements_share_their_table(self, tmp_path: Path) -> None:
        reports = {"1.csv": [["Messi has 10.", "Kane has 9."], [1, 0], "goals"]}
        write_files(tmp_path, self.TABLE | {self.FILE: json.dumps(reports)})
        (first, table), (second, _) = read_pairs("tabfact", tmp_path, "test")
        assert (first.gold, second.gold) == (("SUPPORTS",), ("REFUTES",))
        assert (table.header, table.rows[1], table.caption) == (("player", "goals"), ("Kane", "8"), "goals")


TABMCQ_HEAD = (
    "QUESTION\tQUESTION-ALIGNMENT\tCHOICE 1\tCHOICE 2\tCORRECT CHOICE\tRELEVANT TABLE\tRELEVANT ROW\tRELEVANT COL\n"
)
TABMCQ_ROW = '"What does a\tfox eat?"\t"0,1"\tcarrots\tmice\t2\tm-1&2\t1\t1\n'


class TestTabmcq(ReaderContract):
    NAMES = ("tabmcq",)
    TABLE = {"Tables/m/1&2.tsv": "Animal\tFood \nFox\tmice\n"}
    VALID_FILES = one_question(
        "all",
        TABLE | {"MCQs.tsv": TABMCQ_HEAD + TABMCQ_ROW},
        {
            "text": "What does a\tfox eat?",
            "gold": ("B",),
            "table_id": "m-1&2",
            "gold_evidence": (
                GoldEvidence("cell", "m-1&2", "r1c1", "mice"),
                GoldEvidence("row", "m-1&2", "r1", ""),
                GoldEvidence("column", "m-1&2", "c0", "Animal"),
                GoldEvidence("column", "m-1&2", "c1", "Food"),
            ),
        },
    )
    FAULTY_FILES = (
        *(
            ("all", {"Tables/m/1&2.tsv": "Animal\n", "MCQs.tsv": text}, message)
            for text, message in (
                (TABMCQ_HEAD + TABMCQ_ROW + line + "\n", f":3: {field}")
                for line, field in (
                    ("Q?\t0\ta\tb\t5\tm-1&2\t1\t0", "CORRECT CHOICE"),
                    ("Q?\tx\ta\tb\t1\tm-1&2\t1\t0", "QUESTION-ALIGNMENT"),
                )
            )
        ),
    )
    EMPTY_FILES = (("all", {"MCQs.tsv": TABMCQ_HEAD}, "MCQs.tsv"),)

    def test_annotation_outside_the_table_keeps_its_place(self, tmp_path: Path) -> None:
        write_files(tmp_path, self.TABLE | {"MCQs.tsv": TABMCQ_HEAD + "Q?\t0\ta\tb\t1\tm-1&2\t99\t7\n"})
        ((question, table),) = read_pairs("tabmcq", tmp_path, "all")
        assert (question.gold_evidence[0].locator, question.gold_evidence[0].text) == ("r99c7", "")
        assert table.header == ("Animal", "Food")


@pytest.mark.dev_data
def test_the_real_files(dev_data: Path) -> None:
    questions = list(read_pairs("tabmcq", dev_data / "tabmcq", "all"))
    assert len(questions) == 300 and all(question.gold_evidence[0].text for question, _ in questions)
    claims = list(read_pairs("scitab", dev_data / "scitab", "test"))
    assert len(claims) == 120
    assert len({table.table_id for _, table in claims}) == 83
