"""The readers of questions without options pass the contract of readers; the facts of LAMA are read."""

# ruff: noqa: RUF012 (the files and rows of a contract are constants)

import json
from pathlib import Path
from typing import Any

import pytest

from evidence_assets.benchmarks.official.graph_questions import read_lama_facts
from evidence_assets.benchmarks.official.passages import read_hotpotqa_documents, read_musique_documents
from evidence_assets.benchmarks.readers import read_questions
from evidence_assets.benchmarks.records import GoldEvidence
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.official.contract import (
    ReaderContract,
    json_lines,
    one_question,
    with_faulty_row,
    write_files,
)


class TestSimpleQuestions(ReaderContract):
    NAMES = ("simplequestions",)
    ROW = 'www.freebase.com/m/01x\twww.freebase.com/book/author/works\twww.freebase.com/m/02y\twhat did "x" write?\n'
    VALID_FILES = one_question(
        "test",
        {"annotated_fb_data_test.txt": ROW},
        {
            "source_id": "test-1",
            "gold": ("m.02y",),
            "topic_entities": ("m.01x",),
            "text": 'what did "x" write?',
            "gold_evidence": (GoldEvidence("triple", "freebase", "", "m.01x book.author.works m.02y"),),
        },
    )
    FAULTY_FILES = (
        ("test", {"annotated_fb_data_test.txt": "m.01\tr\tQ2\twhat?\n"}, ":1: object: 'Q2' is not a Freebase"),
    )


class TestSimpleQuestionsWikidata(ReaderContract):
    NAMES = ("simplequestions_wd",)
    FILE = "annotated_wd_data_valid.txt"
    VALID_FILES = one_question(
        "valid",
        {FILE: "Q1\tR19\tQ2\twho was born in q1\n"},
        {"gold": ("Q2",), "gold_evidence": (GoldEvidence("triple", "wikidata", "", "Q2 P19 Q1"),)},
    )
    FAULTY_FILES = (("valid", {FILE: "Q1\tX1\tQ2\twhat?\n"}, ":1: relation: 'X1' is not a Wikidata"),)


class TestMintaka(ReaderContract):
    NAMES = ("mintaka",)
    DEV = "mintaka_dev.json"
    ROW = {
        "id": "x1",
        "question": "Who wrote both?",
        "translations": {},
        "questionEntity": [
            {"name": "Q1", "entityType": "entity", "label": "Both", "mention": "both", "span": [10, 14]},
            {"name": 2, "entityType": "ordinal", "mention": "second", "span": [0, 3]},
            {"name": None, "entityType": "entity", "label": None, "mention": "wrote", "span": [4, 9]},
        ],
        "answer": {"answerType": "entity", "answer": [{"name": "Q7", "label": "Ann"}], "mention": "Ann B."},
        "category": "books",
        "complexityType": "generic",
    }
    VALID_FILES = one_question(
        "train",
        {"data/mintaka_train.json": json.dumps([ROW], indent=2)},
        {"gold": ("Ann",), "aliases": (("Q7", "Ann B."),), "topic_entities": ("Q1", "Both")},
    )
    FAULTY_FILES = (
        ("dev", {DEV: json.dumps([ROW, ROW], indent=1)}, "source_id: 'x1' occurs twice"),
        ("dev", {DEV: json.dumps([ROW | {"answer": {"answer": [[]]}}])}, r"answer\.answer\[0\]: \[\] is not"),
    )

    @pytest.mark.parametrize(
        ("answer", "gold", "aliases"),
        [
            ({"answer": [True], "mention": "Yes"}, ("yes",), (("true", "Yes"),)),
            ({"answer": [3.0], "mention": "3"}, ("3",), ((),)),
            ({"answer": None, "mention": "the last one"}, ("the last one",), ((),)),
            ({"answer": [{"name": "Q1", "label": None}, {"name": "Q2", "label": "b"}]}, ("Q1", "b"), ((), ("Q2",))),
        ],
    )
    def test_answers_of_other_kinds(self, tmp_path: Path, answer: Any, gold: Any, aliases: Any) -> None:
        write_files(tmp_path, {self.DEV: json.dumps([self.ROW | {"answer": answer}])})
        question = next(read_questions("mintaka", tmp_path, "dev"))
        assert (question.gold, question.aliases) == (gold, aliases)

    def test_the_number_of_counted_answers_is_accepted(self, tmp_path: Path) -> None:
        answer = {"answer": [{"name": "Q1", "label": "a"}, {"name": "Q2", "label": "b"}]}
        write_files(tmp_path, {self.DEV: json.dumps([self.ROW | {"answer": answer, "complexityType": "count"}])})
        question = next(read_questions("mintaka", tmp_path, "dev"))
        assert (question.gold, question.aliases) == (("a", "b"), (("Q1", "2"), ("Q2",)))


class TestWebqsp(ReaderContract):
    NAMES = ("webqsp",)
    FILE = "WebQSP.test.json"
    PARSES = [
        {"TopicEntityMid": "m.01", "Answers": [{"AnswerType": kind, "AnswerArgument": argument, "EntityName": name}]}
        for kind, argument, name in (("Entity", "m.02", "Welsh"), ("Value", "1999", None))
    ]
    ROW = {"QuestionId": "WebQTest-0", "RawQuestion": "what does ann speak?", "Parses": PARSES}
    VALID_FILES = one_question(
        "test",
        {f"data/{FILE}": json.dumps({"Version": "1.0", "Questions": [ROW]})},
        {"source_id": "WebQTest-0", "gold": ("Welsh", "1999"), "aliases": (("m.02",), ()), "topic_entities": ("m.01",)},
    )
    FAULTY_FILES = (("test", {FILE: '{"Version": "1.0"}'}, "Questions: this key is missing"),)


class TestStark(ReaderContract):
    NAMES = tuple(f"stark_{base}_{kind}" for base in ("prime", "mag", "amazon") for kind in ("synth", "human"))
    HEAD = "id,query,answer_ids\n"
    VALID_FILES = one_question(
        "all",
        {"stark_qa/stark_qa.csv": HEAD + '7,"Which, then?","[12, 5]"\n'},
        {"source_id": "7", "text": "Which, then?", "gold": ("12", "5")},
    ) + one_question(
        "val", {"stark_qa.csv": HEAD + "7,Which?,[1]\n8,What?,[2]\n", "split/val.index": "8\n"}, {"source_id": "8"}
    )
    FAULTY_FILES = (
        ("all", {"stark_qa.csv": HEAD + '7,Which?,"[1, x]"\n'}, ":2: answer_ids: expected a list"),
        (
            "val",
            {"stark_qa.csv": HEAD + "7,Which?,[1]\n", "val.index": "7\n9\n"},
            r"val\.index:2: question 9 is not in stark_qa\.csv",
        ),
    )
    EMPTY_FILES = (("val", {"stark_qa.csv": HEAD + "7,?,[1]\n", "val.index": ""}, "DIR"),)


HOTPOT: dict[str, Any] = {
    "_id": "h1",
    "question": "Who founded the firm that made it?",
    "answer": "Ann",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Firm", 1], ["Thing", 0]],
    "context": [["Firm", ["The firm is old.", " Ann founded it."]], ["Thing", ["The firm made it."]]],
}


class TestHotpotqa(ReaderContract):
    NAMES = ("hotpotqa",)
    TRAIN = "hotpotqa_train.json"
    VALID_FILES = one_question(
        "dev_distractor",
        {"hotpot_dev_distractor_v1.json": json.dumps([HOTPOT])},
        {
            "source_id": "h1",
            "gold": ("Ann",),
            "gold_evidence": (
                GoldEvidence("sentence", "Firm", "17:32", "Ann founded it."),
                GoldEvidence("sentence", "Thing", "0:17", "The firm made it."),
            ),
        },
    )
    FAULTY_FILES = tuple(
        ("train", {"hotpotqa_train.json": json.dumps([HOTPOT | {field: [wrong]}])}, message)
        for field, wrong, message in (
            ("supporting_facts", ["Firm"], r"supporting_facts\[0\]: expected a title and the number"),
            ("context", ["Firm", "text"], r"context\[0\]\.sentences: 'text' is not a list"),
        )
    )

    def test_documents_and_a_pointer_beyond_its_paragraph(self, tmp_path: Path) -> None:
        beyond = HOTPOT | {"_id": "h2", "supporting_facts": [["Firm", 7]]}
        write_files(tmp_path, {self.TRAIN: json.dumps([HOTPOT, beyond])})
        documents = {each.doc_id: each.text for each in read_hotpotqa_documents(tmp_path, "train")}
        assert documents["Firm"] == "The firm is old. Ann founded it."
        first, second = read_questions("hotpotqa", tmp_path, "train")
        for evidence in first.gold_evidence:
            start, end = map(int, evidence.locator.split(":"))
            assert documents[evidence.source][start:end] == evidence.text
        assert second.gold_evidence == (GoldEvidence("sentence", "Firm", "sentence 7", ""),)

    def test_two_paragraphs_of_one_name(self, tmp_path: Path) -> None:
        changed = HOTPOT | {"_id": "h3", "context": [["Firm", ["Not the same."]]], "supporting_facts": []}
        write_files(tmp_path, {"hotpot_train_v1.1.json": json.dumps([HOTPOT, changed])})
        with pytest.raises(BadInput, match="two different paragraphs have the title 'Firm'"):
            list(read_hotpotqa_documents(tmp_path, "train"))


class TestMusique(ReaderContract):
    NAMES = ("musique",)
    DEV = "musique_ans_v1.0_dev.jsonl"
    ROW = {
        "id": "2hop__1_2",
        "question": "Who founded it?",
        "answer": "Ann",
        "answer_aliases": ["Ann B."],
        "answerable": True,
        "paragraphs": [
            {"idx": 0, "title": "Firm", "paragraph_text": "Ann founded it.", "is_supporting": True},
            {"idx": 1, "title": "Firm", "paragraph_text": "It is old.", "is_supporting": False},
        ],
    }
    VALID_FILES = one_question(
        "dev", {f"data/{DEV}": json_lines(ROW)}, {"gold": ("Ann",), "aliases": (("Ann B.",),)}
    ) + one_question(
        "train",
        {"musique_train.json": json.dumps([ROW | {"answerable": False}])},
        {"gold": (), "aliases": (), "gold_evidence": ()},
    )
    FAULTY_FILES = (("dev", {DEV: with_faulty_row(ROW, id="good")}, r":2: source_id: 'good' occurs twice"),)

    def test_paragraphs_with_one_title_are_different_documents(self, tmp_path: Path) -> None:
        write_files(tmp_path, {self.DEV: json_lines(self.ROW, self.ROW | {"id": "2hop__3_4"})})
        documents = list(read_musique_documents(tmp_path, "dev"))
        assert [each.text for each in documents] == ["Ann founded it.", "It is old."]
        evidence = next(read_questions("musique", tmp_path, "dev")).gold_evidence
        assert evidence == (GoldEvidence("chunk", documents[0].doc_id, "", "Ann founded it."),)


class TestBeir(ReaderContract):
    NAMES = ("beir",)
    QRELS, QUERIES, CORPUS = "qrels/test.tsv", "queries.jsonl", "corpus.jsonl"
    HEAD = "query-id\tcorpus-id\tscore\n"
    ONE = {"_id": "d1", "title": "T", "text": "one"}
    QUERY = {"_id": "q1", "text": "which?"}
    FILES = {CORPUS: json_lines(ONE), QUERIES: json_lines(QUERY), QRELS: HEAD + "q1\td1\t1\n"}
    VALID_FILES = one_question(
        "test",
        {
            CORPUS: json_lines(ONE, {"_id": "d2", "title": "", "text": "two"}),
            QUERIES: json_lines(QUERY, {"_id": "q2", "text": "not judged"}),
            QRELS: HEAD + "q1\td2\t1\nq1\td1\t2\n",
        },
        {
            "source_id": "q1",
            "gold": ("d1", "d2"),
            "gold_evidence": (GoldEvidence("chunk", "d1", "", "one"), GoldEvidence("chunk", "d2", "", "two")),
        },
    )
    FAULTY_FILES = (
        ("test", FILES | {QRELS: HEAD + "q1\td9\t1\n"}, "document 'd9' is judged relevant but missing in"),
        ("test", FILES | {QRELS: HEAD + "q2\td1\t1\n"}, "query 'q2' is judged but missing in"),
    )


def test_lama_facts(tmp_path: Path) -> None:
    fact = {"sub_uri": "Q1", "obj_uri": "Q2", "sub_label": "Ann", "obj_label": "Bern", "predicate_id": "P19"}
    write_files(tmp_path, {"TREx/P19.jsonl": json_lines(fact)})
    assert list(read_lama_facts(tmp_path)) == [("Ann", "P19", "Bern")]
