"""The one reader of multiple-choice questions passes the contract of readers in every layout that YAML describes."""

# ruff: noqa: RUF012 (the files and rows of a contract are constants)

import json
from typing import Any

from evidence_assets.benchmarks.records import GoldEvidence
from evidence_assets_tests.benchmarks.official.contract import ReaderContract, json_lines, one_question, with_faulty_row


def without(row: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in fields}


class TestMedqa(ReaderContract):
    NAMES = ("medqa",)
    DEV = "phrases_no_exclude_dev.jsonl"
    ROW = {"question": "Which drug?", "answer": "Aspirin", "options": {"A": "Sugar", "B": "Aspirin"}, "answer_idx": "B"}
    VALID_FILES = one_question(
        "test",
        {"questions/US/4_options/phrases_no_exclude_test.jsonl": json_lines(ROW)},
        {"source_id": "test-0000", "options": ("Sugar", "Aspirin"), "gold": ("B",)},
    )
    FAULTY_FILES = (("dev", {DEV: with_faulty_row(ROW, options={"A": "x", "C": "y"})}, ":2: options: expected the"),)
    EMPTY_FILES = (("dev", {DEV: "\n \n"}, DEV),)


class TestMedmcqa(ReaderContract):
    NAMES = ("medmcqa",)
    OPTIONS = {f"op{letter}": letter for letter in "abcd"}
    ROW = {"id": "m1", "question": "Which bone?", **OPTIONS, "cop": 4, "exp": "Since d."}
    VALID_FILES = one_question(
        "dev",
        {"data/dev.json": json_lines(ROW)},
        {"source_id": "m1", "gold": ("D",), "gold_evidence": (GoldEvidence("chunk", "m1", "", "Since d."),)},
    ) + one_question("test", {"test.json": json_lines(without(ROW, "cop", "exp"))}, {"gold": (), "gold_evidence": ()})
    FAULTY_FILES = (("dev", {"dev.json": json.dumps([ROW])}, "is one JSON array; expected JSON lines"),)


class TestMmlu(ReaderContract):
    MEDICAL = ("clinical_knowledge", "college_biology", "college_medicine", "medical_genetics", "professional_medicine")
    NAMES = ("mmlu_anatomy", "mmlu", "mmlu_med", *(f"mmlu_{subject}" for subject in MEDICAL))
    FILE = "anatomy_test.csv"
    ROW = "Which?,a,b,c,d,A\n"
    VALID_FILES = one_question("test", {FILE: ROW.replace("\n", "\r\n")}, {"gold": ("A",)}) + one_question(
        "val",
        {"val/anatomy_val.csv": '"Which, ""x""?",a,b,c,d,C\n'},
        {"source_id": "anatomy-val-000", "text": 'Which, "x"?', "gold": ("C",)},
    )
    FAULTY_FILES = (("test", {FILE: ROW + "Which?,a,b,c,D\n"}, ":2: the row has 5 fields; expected 6"),)


class TestMirage(ReaderContract):
    NAMES = ("mirage",)
    SETS = {
        "mmlu": {"anatomy-000": {"question": "Which?", "options": {"A": "x", "B": "y"}, "answer": "B"}},
        "bioasq": {"b1": {"question": "Is it?", "options": {"A": "yes", "B": "no"}, "answer": "A", "PMID": [1]}},
    }
    VALID_FILES = one_question(
        "mmlu", {"benchmark.json": json.dumps(SETS, indent=2)}, {"source_id": "mmlu/anatomy-000", "gold": ("B",)}
    ) + one_question("bioasq", {"benchmark.json": json.dumps(SETS)}, {"options": ("yes", "no"), "gold": ("A",)})
    FAULTY_FILES = (
        ("mmlu", {"benchmark.json": '{"medqa": {}}'}, "mmlu: this key is missing"),
        ("mmlu", {"benchmark.json": '{"mmlu": {"a": {"question": "?"}}}'}, r"mmlu\.a\.options: missing"),
    )


AI2: dict[str, Any] = {
    "id": "q1",
    "question": {
        "stem": "Which one buzzes?",
        "choices": [{"label": "A", "text": "ant"}, {"label": "B", "text": "bee"}, {"label": "C", "text": "cat"}],
    },
    "answerKey": "B",
}
"""A question in the Allen Institute's layout, which five datasets share."""


def with_question(**changes: Any) -> dict[str, Any]:
    """The changed inner question of that layout."""
    return {"question": AI2["question"] | changes}


class TestCommonsenseQA(ReaderContract):
    NAMES = ("csqa", "riddle", "arc_e")
    DEV = "dev_rand_split.jsonl"
    ROW = AI2 | with_question(question_concept="buzz")
    HIDDEN = {"test_rand_split_no_answers.jsonl": json_lines(without(ROW, "answerKey"))}
    VALID_FILES = one_question(
        "dev", {DEV: json_lines(ROW)}, {"gold": ("B",), "topic_entities": ("buzz",)}
    ) + one_question("test", HIDDEN, {"gold": ()})
    FAULTY_FILES = (("dev", {DEV: with_faulty_row(AI2, answerKey="E")}, ":2: answerKey: 'E' is not one of A, B, C"),)


class TestOpenBookQA(ReaderContract):
    NAMES = ("obqa",)
    VALID_FILES = one_question(
        "dev",
        {
            "Data/Additional/dev_complete.jsonl": json_lines(AI2 | {"fact1": "a bee buzzes"}),
            "Data/Main/openbook.txt": '"An ant crawls"\n\n"A bee buzzes."\n',
        },
        {"gold": ("B",), "gold_evidence": (GoldEvidence("sentence", "openbook:3", "", "A bee buzzes."),)},
    ) + one_question("test", {"Data/Main/test.jsonl": json_lines(AI2)}, {"gold_evidence": ()})
    FAULTY_FILES = (("dev", {"dev.jsonl": with_faulty_row(AI2, id="good")}, ":2: source_id: 'good' occurs twice"),)


class TestArcChallenge(ReaderContract):
    NAMES = ("arc_c",)
    DIGITS = (
        AI2 | with_question(choices=[{"label": "1", "text": "ant"}, {"label": "2", "text": "bee"}]) | {"answerKey": "2"}
    )
    VALID_FILES = one_question(
        "test",
        {"ARC-Challenge/ARC-Challenge-Test.jsonl": json_lines(DIGITS)},
        {"gold": ("B",), "options": ("ant", "bee")},
    )
    TWICE = with_question(choices=[{"label": "A", "text": "x"}] * 2)
    FAULTY_FILES = (
        (
            "dev",
            {"ARC-Challenge-Dev.jsonl": with_faulty_row(AI2, **TWICE)},
            r":2: question\.choices: two options have the same",
        ),
    )


class TestPiqa(ReaderContract):
    NAMES = ("piqa",)
    ROW = {"goal": "Cut it", "sol1": "saw", "sol2": "look"}
    DEV, LABELS = "valid.jsonl", "valid-labels.lst"
    VALID_FILES = one_question(
        "dev", {DEV: json_lines(ROW), LABELS: "1\n"}, {"source_id": "dev-1", "options": ("saw", "look"), "gold": ("B",)}
    ) + one_question("test", {"tests.jsonl": json_lines(ROW | {"id": "t"})}, {"source_id": "t", "gold": ()})
    FAULTY_FILES = (
        ("dev", {DEV: json_lines(ROW), LABELS: "2\n"}, r"labels\.lst:1: label: '2' is not one of 0, 1"),
        ("dev", {DEV: json_lines(ROW), LABELS: "0\n1\n"}, r"valid-labels\.lst: has 2 labels for 1 questions"),
    )


class TestPubmedqa(ReaderContract):
    NAMES = ("pubmedqa",)
    ROW = {"QUESTION": "Does it help?", "CONTEXTS": ["It did.", "So it does."], "final_decision": "maybe"}
    FILE = "ori_pqal.json"
    VALID_FILES = one_question(
        "labelled",
        {f"data/{FILE}": json.dumps({"123": ROW}, indent=4)},
        {
            "source_id": "123",
            "options": ("yes", "no", "maybe"),
            "gold": ("C",),
            "gold_evidence": (GoldEvidence("chunk", "123", "", "It did.\nSo it does."),),
        },
    )
    UNSURE = json.dumps({"1": ROW | {"final_decision": "perhaps"}})
    FAULTY_FILES = (
        ("labelled", {FILE: UNSURE}, r":1: 1\.final_decision: 'perhaps' is not one of yes, no, maybe"),
        ("labelled", {FILE: '{"1": %s,\n"1": %s}' % ((json.dumps(ROW),) * 2)}, ":2: 1: this key occurs twice"),
    )


class TestHeadqa(ReaderContract):
    NAMES = ("headqa", "headqa_es")
    FILE = "test_HEAD_EN.json"
    ANSWERS = [{"aid": 1, "atext": "red"}, {"aid": 2, "atext": "white"}]
    ROW = {"qid": "1", "qtext": "Which cell?", "ra": "2", "image": "", "answers": ANSWERS}
    TEXT = json.dumps({"version": "1.0", "exams": {"Exam_2013_B": {"name": "Exam_2013_B", "data": [ROW]}}})
    VALID_FILES = one_question(
        "test", {f"HEAD_EN/{FILE}": TEXT}, {"source_id": "Exam_2013_B/1", "gold": ("B",), "options": ("red", "white")}
    )
    FAULTY_FILES = (
        (
            "test",
            {FILE: TEXT.replace('"ra": "2"', '"ra": "3"')},
            r"exams\.Exam_2013_B\.data\[0\]\.ra: '3' is not one of 1, 2",
        ),
    )
