"""Malformed files: each is named with file, line and field."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from evidence_assets.benchmarks.registry import info, read_questions
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.formats import (
    AI2,
    HEADQA,
    HOTPOT,
    MEDMCQA,
    MEDQA,
    MINTAKA,
    MUSIQUE,
    PUBMEDQA,
    lay,
    lines,
)


def bad(record: dict[str, Any], **changes: Any) -> str:
    """A good row, then a faulty one on line 2."""
    faulty = {key: value for key, value in (record | changes).items() if value is not ...}
    good = record | ({"id": "good"} if "id" in record else {})
    return lines(good, faulty)


def choice(**changes: Any) -> dict[str, Any]:
    return AI2["question"] | changes  # type: ignore[operator,no-any-return]


MALFORMED: list[tuple[str, str, dict[str, str], str]] = [
    (
        "medqa",
        "dev",
        {"phrases_no_exclude_dev.jsonl": bad(MEDQA, answer_idx="C")},
        ":2: answer_idx: 'C' is not one of A, B",
    ),
    (
        "medqa",
        "dev",
        {"phrases_no_exclude_dev.jsonl": bad(MEDQA, answer="Sugar")},
        ":2: answer: 'Sugar' is not the text of",
    ),
    ("medqa", "dev", {"phrases_no_exclude_dev.jsonl": bad(MEDQA, options=...)}, ":2: options: missing"),
    (
        "medqa",
        "dev",
        {"phrases_no_exclude_dev.jsonl": bad(MEDQA, options={"A": "x", "C": "y"})},
        ":2: options: expected the",
    ),
    (
        "medqa",
        "dev",
        {"phrases_no_exclude_dev.jsonl": bad(MEDQA, options={"A": "x", "B": ""})},
        r":2: options\.B: is empty",
    ),
    ("medmcqa", "dev", {"dev.json": bad(MEDMCQA, cop=0)}, ":2: cop: 0 is no option: they are numbered from 1 to 4"),
    ("medmcqa", "dev", {"dev.json": bad(MEDMCQA, cop=...)}, ":2: cop: missing"),
    ("medmcqa", "dev", {"dev.json": bad(MEDMCQA, opc=...)}, ":2: opc: missing"),
    ("medmcqa", "dev", {"dev.json": bad(MEDMCQA, id="good")}, r"dev\.json:2: source_id: 'good' occurs twice"),
    ("medmcqa", "dev", {"dev.json": json.dumps([MEDMCQA])}, "is one JSON array, expected JSON lines"),
    (
        "mmlu_anatomy",
        "test",
        {"anatomy_test.csv": "Which?,a,b,c,d,A\nWhich?,a,b,c,d,E\n"},
        ":2: answer: 'E' is not one of",
    ),
    ("mmlu_anatomy", "test", {"anatomy_test.csv": "Which?,a,b,c,d,A\nWhich?,a,b,c,D\n"}, ":2: 5 fields, expected 6"),
    (
        "mmlu_anatomy",
        "test",
        {"anatomy_test.csv": 'Which?,a,b,c,d,A\n"Which?,a,b,c,d,A\n'},
        ":2: a quote opened in this row",
    ),
    ("mirage", "mmlu", {"benchmark.json": json.dumps({"medqa": {}})}, "mmlu: the file lacks this test set"),
    ("mirage", "mmlu", {"benchmark.json": json.dumps({"mmlu": {"a": {"question": "?"}}})}, r"a\.options: missing"),
    ("csqa", "dev", {"dev_rand_split.jsonl": bad(AI2, answerKey="E")}, ":2: answerKey: 'E' is not one of A, B, C"),
    ("csqa", "dev", {"dev_rand_split.jsonl": bad(AI2, answerKey=...)}, ":2: answerKey: missing"),
    ("csqa", "dev", {"dev_rand_split.jsonl": bad(AI2, question=choice(choices=[]))}, ":2: (answerKey|options)"),
    ("riddle", "dev", {"rs_dev.jsonl": bad(AI2, question=choice(stem=" "))}, r":2: question\.stem: is empty"),
    (
        "arc_c",
        "dev",
        {"ARC-Challenge-Dev.jsonl": bad(AI2, question=choice(choices=[{"label": "A", "text": "x"}] * 2))},
        r":2: question\.choices: two choices have the same label",
    ),
    ("obqa", "dev", {"dev.jsonl": bad(AI2, id="good")}, ":2: source_id: 'good' occurs twice"),
    (
        "piqa",
        "dev",
        {"valid.jsonl": lines({"goal": "g", "sol1": "a", "sol2": "b"}), "valid-labels.lst": "2\n"},
        r"valid-labels\.lst:1: label: 2 is no option",
    ),
    (
        "piqa",
        "dev",
        {"valid.jsonl": lines({"goal": "g", "sol1": "a", "sol2": "b"}), "valid-labels.lst": "0\n1\n"},
        r"valid\.jsonl: has fewer rows than valid-labels\.lst",
    ),
    (
        "pubmedqa",
        "labelled",
        {"ori_pqal.json": json.dumps({"1": PUBMEDQA | {"final_decision": "perhaps"}})},
        r":1: 1\.final_decision: 'perhaps' is not one of yes, no, maybe",
    ),
    (
        "pubmedqa",
        "labelled",
        {"ori_pqal.json": '{"1": %s,\n"1": %s}' % ((json.dumps(PUBMEDQA),) * 2)},
        ":2: 1: this key comes twice",
    ),
    (
        "headqa",
        "test",
        {"test_HEAD_EN.json": json.dumps(HEADQA).replace('"ra": "2"', '"ra": "3"')},
        r"exams\.Exam_2013_B\.data\[0\]\.ra: 3 is not one of the answers 1, 2",
    ),
    (
        "simplequestions",
        "test",
        {"annotated_fb_data_test.txt": "m.01\tr\tQ2\twhat?\n"},
        ":1: object: 'Q2' is not a Freebase",
    ),
    (
        "simplequestions_wd",
        "test",
        {"annotated_wd_data_test.txt": "Q1\tP1\tQ2\twhat?\nQ1\tP1\tQ2\n"},
        ":2: 3 fields, expected 4",
    ),
    (
        "simplequestions_wd",
        "test",
        {"annotated_wd_data_test.txt": "Q1\tX1\tQ2\twhat?\n"},
        ":1: relation: 'X1' is not a Wikidata",
    ),
    ("mintaka", "dev", {"mintaka_dev.json": json.dumps([MINTAKA, MINTAKA], indent=1)}, "source_id: 'x1' occurs twice"),
    (
        "mintaka",
        "dev",
        {"mintaka_dev.json": json.dumps([MINTAKA | {"answer": {"answer": [[]]}}])},
        r"answer\.answer\[0\]: \[\] is not",
    ),
    ("mintaka", "dev", {"mintaka_dev.json": json.dumps([MINTAKA])[:-5]}, "not valid JSON"),
    ("webqsp", "test", {"WebQSP.test.json": '{"Version": "1.0"}'}, "Questions: the file lacks this list"),
    (
        "webqsp",
        "test",
        {"WebQSP.test.json": json.dumps({"Questions": [{"QuestionId": "q", "Parses": []}]})},
        r"Questions\[0\]\.RawQuestion: missing",
    ),
    (
        "stark_prime_synth",
        "all",
        {"stark_qa.csv": 'id,query,answer_ids\n7,Which?,"[1, x]"\n'},
        ":2: answer_ids: expected a list",
    ),
    (
        "stark_prime_synth",
        "all",
        {"stark_qa.csv": "id,query,answer_ids\n7,Which?,[1.5]\n"},
        ":2: answer_ids: expected a list of whole",
    ),
    (
        "stark_prime_synth",
        "all",
        {"stark_qa.csv": "id,query\n7,Which?\n"},
        ":1: answer_ids: the header lacks this column",
    ),
    (
        "stark_prime_synth",
        "all",
        {"stark_qa.csv": 'id,query,answer_ids\n7,"Which?,[1]\n8,What?,[2]\n'},
        ":2: a quote opened",
    ),
    (
        "stark_prime_synth",
        "val",
        {"stark_qa.csv": "id,query,answer_ids\n7,Which?,[1]\n", "val.index": "7\n9\n"},
        r"val\.index:2: question 9 is not in stark_qa\.csv",
    ),
    (
        "hotpotqa",
        "train",
        {"hotpotqa_train.json": json.dumps([HOTPOT | {"supporting_facts": [["Firm"]]}])},
        r"supporting_facts\[0\]: expected a title and the number",
    ),
    *(
        ("hotpotqa", "train", {"hotpotqa_train.json": json.dumps([HOTPOT | {"supporting_facts": [fact]}])}, said)
        for fact, said in (
            ([["x"], 1], r":1: supporting_facts\[0\]\.title: \['x'\] is not a text"),
            ([{"x": 1}, 1], r":1: supporting_facts\[0\]\.title: \{'x': 1\} is not a text"),
            (["Firm", True], r":1: supporting_facts\[0\]\.sentence: True is not a whole number"),
        )
    ),
    (
        "hotpotqa",
        "train",
        {"hotpotqa_train.json": json.dumps([HOTPOT | {"context": [["Firm", "text"]]}])},
        r"context\[0\]\.sentences: 'text' is not a list",
    ),
    (
        "musique",
        "dev",
        {"musique_ans_v1.0_dev.jsonl": lines({k: v for k, v in MUSIQUE.items() if k != "paragraphs"})},
        ":1: paragraphs: missing",
    ),
    (
        "beir",
        "test",
        {
            "corpus.jsonl": lines({"_id": "d1", "text": "one"}),
            "queries.jsonl": lines({"_id": "q1", "text": "?"}),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td9\t1\n",
        },
        "document 'd9' is judged relevant but not in",
    ),
    (
        "beir",
        "test",
        {
            "corpus.jsonl": lines({"_id": "d1", "text": "one"}),
            "queries.jsonl": lines({"_id": "q1", "text": "?"}),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq2\td1\t1\n",
        },
        "query 'q2' is judged but not in",
    ),
    (
        "beir",
        "test",
        {
            "corpus.jsonl": lines({"_id": "d1", "text": "one"}),
            "queries.jsonl": lines({"_id": "q1", "text": "?"}),
            "qrels/test.tsv": "q1\td1\t1\n",
        },
        ":1: query-id: the header lacks this column",
    ),
    *(
        (
            "beir",
            "test",
            {
                "corpus.jsonl": lines({"_id": "d1", "text": "one"}, *documents),
                "queries.jsonl": lines({"_id": "q1", "text": "?"}, *queries),
                "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
            },
            said,
        )
        for documents, queries, said in (
            ([{"_id": "d1", "text": "two"}], [], r"corpus\.jsonl:2: _id: 'd1' occurs twice"),
            ([], [{"_id": "q1", "text": "!"}], r"queries\.jsonl:2: _id: 'q1' occurs twice"),
        )
    ),
]


@pytest.mark.parametrize(
    ("name", "split", "files", "said"), MALFORMED, ids=[f"{i}-{case[0]}" for i, case in enumerate(MALFORMED)]
)
def test_malformed_files_name_file_line_and_field(
    tmp_path: Path, name: str, split: str, files: dict[str, str], said: str
) -> None:
    lay(tmp_path, files)
    with pytest.raises(BadInput, match=said):
        list(read_questions(name, tmp_path, split))


NO_QUESTION: list[tuple[str, str, dict[str, str], str]] = [
    ("medqa", "test", {"phrases_no_exclude_test.jsonl": ""}, r"phrases_no_exclude_test\.jsonl: holds"),
    ("medqa", "test", {"phrases_no_exclude_test.jsonl": "\n \n"}, r"phrases_no_exclude_test\.jsonl: holds"),
    ("mmlu_anatomy", "test", {"anatomy_test.csv": ""}, r"anatomy_test\.csv: holds"),
    ("mmlu", "test", {"anatomy_test.csv": "", "virology_test.csv": ""}, r"DIR: holds"),
    ("mirage", "medqa", {"benchmark.json": '{"medqa": {}}'}, r"benchmark\.json: holds"),
    ("headqa", "test", {"test_HEAD_EN.json": '{"version": 1}'}, r"test_HEAD_EN\.json: holds"),
    ("hotpotqa", "train", {"hotpotqa_train.json": "[]"}, r"hotpotqa_train\.json: holds"),
    ("webqsp", "test", {"WebQSP.test.json": '{"Questions": []}'}, r"WebQSP\.test\.json: holds"),
    ("stark_prime_synth", "val", {"stark_qa.csv": "id,query,answer_ids\n7,?,[1]\n", "val.index": ""}, r"DIR: holds"),
    ("tabmcq", "all", {"MCQs.tsv": ""}, r"MCQs\.tsv: holds"),
    ("scitab", "test", {"sci_tab.json": "[]"}, r"sci_tab\.json: holds"),
    ("pubhealthtab", "test", {"test.jsonl": ""}, r"test\.jsonl: holds"),
    (
        "tabfact",
        "test",
        {"test_examples.json": '{"1.csv": [[], [], ""]}', "all_csv/1.csv": "a#b\n"},
        "examples.json: hol",
    ),
]


@pytest.mark.parametrize(
    ("name", "split", "files", "said"), NO_QUESTION, ids=[f"{i}-{case[0]}" for i, case in enumerate(NO_QUESTION)]
)
def test_a_split_without_a_question_says_what_is_wanted(
    tmp_path: Path, name: str, split: str, files: dict[str, str], said: str
) -> None:
    lay(tmp_path, files)
    with pytest.raises(BadInput, match=said.replace("DIR", re.escape(str(tmp_path)))) as caught:
        list(read_questions(name, tmp_path, split))
    assert caught.value.message == f"holds no question; wanted is {info(name).wanted(split)}"
    assert f"split {split}: " in caught.value.message


def test_one_of_several_files_may_hold_no_question(tmp_path: Path) -> None:
    lay(tmp_path, {"anatomy_test.csv": "", "virology_test.csv": "Which?,a,b,c,d,A\n"})
    assert [made.source_id for made in read_questions("mmlu", tmp_path, "test")] == ["virology-test-000"]


def test_packed_files_are_read_and_truncated_ones_named(tmp_path: Path) -> None:
    rows = [MEDMCQA | {"id": f"m{place}", "exp": f"Since {place * 7919}."} for place in range(5000)]
    packed = gzip.compress(lines(*rows).encode())
    (tmp_path / "dev.json.gz").write_bytes(packed)
    assert sum(1 for _ in read_questions("medmcqa", tmp_path, "dev")) == 5000
    (tmp_path / "dev.json.gz").write_bytes(packed[:-2000])
    with pytest.raises(BadInput, match=r"dev\.json\.gz:\d+: the gzip data are cut short"):
        list(read_questions("medmcqa", tmp_path, "dev"))
