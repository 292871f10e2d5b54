"""Every reader on a tiny file in its official format, whole and malformed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evidence_assets.benchmarks import beir, hotpotqa, lama, obqa
from evidence_assets.benchmarks.records import GoldEvidence, Question
from evidence_assets.benchmarks.registry import DATASETS, READERS, info, read_questions
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.formats import (
    AI2,
    CONCEPT,
    DIGITS,
    HEADQA,
    HOTPOT,
    MEDMCQA,
    MEDQA,
    MINTAKA,
    MIRAGE,
    MUSIQUE,
    PUBHEALTHTAB,
    PUBMEDQA,
    SCITAB,
    TABMCQ,
    WEBQSP,
    lay,
    lines,
)

Case = tuple[str, str, dict[str, str], dict[str, Any]]
CASES: list[Case] = [
    (
        "medqa",
        "test",
        {"questions/US/4_options/phrases_no_exclude_test.jsonl": lines(MEDQA)},
        {"source_id": "test-0000", "options": ("Sugar", "Aspirin"), "gold": ("B",)},
    ),
    (
        "medmcqa",
        "dev",
        {"data/dev.json": lines(MEDMCQA)},
        {"source_id": "m1", "gold": ("D",), "gold_evidence": (GoldEvidence("chunk", "m1", "", "Since d."),)},
    ),
    (
        "medmcqa",
        "test",
        {"test.json": lines({k: v for k, v in MEDMCQA.items() if k not in ("cop", "exp")})},
        {"gold": (), "gold_evidence": ()},
    ),
    (
        "mmlu",
        "val",
        {"val/anatomy_val.csv": '"Which, ""x""?",a,b,c,d,C\n'},
        {"source_id": "anatomy-val-000", "text": 'Which, "x"?', "gold": ("C",)},
    ),
    ("mmlu_anatomy", "test", {"anatomy_test.csv": "Which?,a,b,c,d,A\r\n"}, {"benchmark": "mmlu_anatomy"}),
    (
        "mirage",
        "mmlu",
        {"benchmark.json": json.dumps(MIRAGE, indent=2)},
        {"source_id": "mmlu/anatomy-000", "gold": ("B",)},
    ),
    ("mirage", "bioasq", {"benchmark.json": json.dumps(MIRAGE)}, {"options": ("yes", "no"), "gold": ("A",)}),
    ("csqa", "dev", {"dev_rand_split.jsonl": lines(CONCEPT)}, {"gold": ("B",), "topic_entities": ("buzz",)}),
    (
        "csqa",
        "test",
        {"test_rand_split_no_answers.jsonl": lines({k: v for k, v in CONCEPT.items() if k != "answerKey"})},
        {"gold": ()},
    ),
    ("riddle", "dev", {"rs_dev.jsonl": lines(AI2)}, {"benchmark": "riddle", "gold": ("B",), "topic_entities": ()}),
    (
        "obqa",
        "dev",
        {
            "Data/Additional/dev_complete.jsonl": lines(AI2 | {"fact1": "a bee buzzes"}),
            "Data/Main/openbook.txt": '"An ant crawls"\n\n"A bee buzzes."\n',
        },
        {"gold": ("B",), "gold_evidence": (GoldEvidence("sentence", "openbook:3", "", "A bee buzzes."),)},
    ),
    ("obqa", "test", {"Data/Main/test.jsonl": lines(AI2)}, {"gold_evidence": ()}),
    (
        "arc_c",
        "test",
        {"ARC-Challenge/ARC-Challenge-Test.jsonl": lines(DIGITS)},
        {"gold": ("B",), "options": ("ant", "bee")},
    ),
    ("arc_e", "dev", {"ARC-Easy-Dev.jsonl": lines(AI2)}, {"benchmark": "arc_e"}),
    (
        "piqa",
        "dev",
        {"valid.jsonl": lines({"goal": "Cut it", "sol1": "saw", "sol2": "look"}), "valid-labels.lst": "1\n"},
        {"source_id": "dev-1", "options": ("saw", "look"), "gold": ("B",)},
    ),
    (
        "piqa",
        "test",
        {"tests.jsonl": lines({"id": "t", "goal": "Cut it", "sol1": "saw", "sol2": "look"})},
        {"source_id": "t", "gold": ()},
    ),
    (
        "pubmedqa",
        "labelled",
        {"data/ori_pqal.json": json.dumps({"123": PUBMEDQA}, indent=4)},
        {
            "source_id": "123",
            "options": ("yes", "no", "maybe"),
            "gold": ("C",),
            "gold_evidence": (GoldEvidence("chunk", "123", "", "It did.\nSo it does."),),
        },
    ),
    (
        "headqa",
        "test",
        {"HEAD_EN/test_HEAD_EN.json": json.dumps(HEADQA)},
        {"source_id": "Exam_2013_B/1", "gold": ("B",), "options": ("red", "white")},
    ),
    (
        "simplequestions",
        "test",
        {
            "annotated_fb_data_test.txt": "www.freebase.com/m/01x\twww.freebase.com/book/author/works\t"
            'www.freebase.com/m/02y\twhat did "x" write?\n'
        },
        {
            "source_id": "test-1",
            "task": "kgqa",
            "gold": ("m.02y",),
            "topic_entities": ("m.01x",),
            "text": 'what did "x" write?',
            "gold_evidence": (GoldEvidence("triple", "freebase", "", "m.01x book.author.works m.02y"),),
        },
    ),
    (
        "simplequestions_wd",
        "valid",
        {"annotated_wd_data_valid.txt": "Q1\tR19\tQ2\twho was born in q1\n"},
        {"gold": ("Q2",), "gold_evidence": (GoldEvidence("triple", "wikidata", "", "Q2 P19 Q1"),)},
    ),
    (
        "mintaka",
        "train",
        {"data/mintaka_train.json": json.dumps([MINTAKA], indent=2)},
        {"gold": ("Ann",), "aliases": (("Q7", "Ann B."),), "topic_entities": ("Q1",)},
    ),
    (
        "webqsp",
        "test",
        {"data/WebQSP.test.json": json.dumps(WEBQSP)},
        {"source_id": "WebQTest-0", "gold": ("Welsh", "1999"), "aliases": (("m.02",), ()), "topic_entities": ("m.01",)},
    ),
    (
        "stark_prime_synth",
        "all",
        {"stark_qa/stark_qa.csv": 'id,query,answer_ids\n7,"Which, then?","[12, 5]"\n'},
        {"source_id": "7", "task": "skb_search", "text": "Which, then?", "gold": ("12", "5")},
    ),
    (
        "stark_mag_synth",
        "val",
        {"stark_qa.csv": "id,query,answer_ids\n7,Which?,[1]\n8,What?,[2]\n", "split/val.index": "8\n"},
        {"source_id": "8", "split": "val"},
    ),
    (
        "stark_amazon_human",
        "all",
        {"stark_qa/stark_qa_human_generated_eval.csv": "id,query,answer_ids\n7,Which?,[1]\n"},
        {"gold": ("1",)},
    ),
    (
        "hotpotqa",
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
    ),
    (
        "musique",
        "dev",
        {"data/musique_ans_v1.0_dev.jsonl": lines(MUSIQUE)},
        {"gold": ("Ann",), "aliases": (("Ann B.",),)},
    ),
    (
        "musique",
        "train",
        {"musique_train.json": json.dumps([MUSIQUE | {"answerable": False}])},
        {"gold": (), "aliases": (), "gold_evidence": ()},
    ),
    (
        "beir",
        "test",
        {
            "corpus.jsonl": lines(
                {"_id": "d1", "title": "T", "text": "one"}, {"_id": "d2", "title": "", "text": "two"}
            ),
            "queries.jsonl": lines({"_id": "q1", "text": "which?"}, {"_id": "q2", "text": "not judged"}),
            "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td1\t2\n",
        },
        {
            "source_id": "q1",
            "gold": ("d1", "d2"),
            "gold_evidence": (GoldEvidence("chunk", "d1", "", "one"), GoldEvidence("chunk", "d2", "", "two")),
        },
    ),
    (
        "scitab",
        "test",
        {"dataset/sci_tab.json": json.dumps([SCITAB])},
        {"source_id": "s1", "gold": ("SUPPORTS",), "table_id": "t1"},
    ),
    (
        "pubhealthtab",
        "test",
        {"data/pubhealthtab_testset.jsonl": lines(PUBHEALTHTAB)},
        {"source_id": "p1", "gold": ("NOT ENOUGH INFORMATION",), "table_id": "table-p1"},
    ),
    (
        "tabfact",
        "test",
        {
            "tokenized_data/test_examples.json": json.dumps({"1.csv": [["Kane has 9."], [0], "goals"]}),
            "data/all_csv/1.csv": "player#goals\nKane#8\n",
        },
        {"source_id": "1.csv#0", "gold": ("REFUTES",), "table_id": "1.csv"},
    ),
    (
        "tabmcq",
        "all",
        {"MCQs.tsv": TABMCQ, "Tables/m/1.tsv": "Animal\tFood\nFox\tmice\n"},
        {
            "gold": ("B",),
            "table_id": "m-1",
            "gold_evidence": (
                GoldEvidence("cell", "m-1", "r1c1", "mice"),
                GoldEvidence("row", "m-1", "r1", ""),
                GoldEvidence("column", "m-1", "c0", "Animal"),
                GoldEvidence("column", "m-1", "c1", "Food"),
            ),
        },
    ),
]


@pytest.mark.parametrize(("name", "split", "files", "expected"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_official_format(
    tmp_path: Path, name: str, split: str, files: dict[str, str], expected: dict[str, Any]
) -> None:
    found = list(read_questions(name, lay(tmp_path, files), split))
    assert len(found) == 1
    assert found[0].benchmark == name and found[0].split == split and found[0].task == info(name).task
    assert {field: getattr(found[0], field) for field in expected} == expected


@pytest.mark.parametrize(("name", "split", "files", "expected"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_byte_order_mark_and_windows_line_ends_change_nothing(
    tmp_path: Path, name: str, split: str, files: dict[str, str], expected: dict[str, Any]
) -> None:
    plain = list(read_questions(name, lay(tmp_path / "a", files), split))
    windows = {path: "\ufeff" + text.replace("\r\n", "\n").replace("\n", "\r\n") for path, text in files.items()}
    assert list(read_questions(name, lay(tmp_path / "b", windows), split)) == plain


def test_every_dataset_has_a_case_and_declares_itself() -> None:
    covered = (
        {case[0] for case in CASES} | {name for name in READERS if name.startswith(("mmlu_", "stark_"))} | {"headqa_es"}
    )
    assert covered == set(READERS)
    for declared in DATASETS.values():
        assert declared.title and declared.licence and declared.source.startswith("http") and declared.files
        assert set(declared.counts) <= set(declared.splits)


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_missing_file_is_named_with_where_to_put_it(tmp_path: Path, name: str) -> None:
    declared = info(name)
    for split in declared.splits:
        with pytest.raises(BadInput) as caught:
            read_questions(name, tmp_path, split)
        first = declared.files[split][0].split("|")[0]
        said = str(caught.value)
        assert first in said and str(tmp_path) in said and declared.source in said and declared.licence in said


def test_an_id_may_not_come_twice_across_files(tmp_path: Path) -> None:
    files = {"train_rand_split.jsonl": lines(AI2), "dev_rand_split.jsonl": lines(AI2 | {"id": "q0"}, AI2)}
    assert len(list(read_questions("csqa", lay(tmp_path, files), "dev"))) == 2
    with pytest.raises(BadInput, match=r"dev_rand_split\.jsonl:2: source_id: 'q1' occurs twice"):
        list(read_questions("csqa", tmp_path, "train", "dev"))


def test_unknown_names_and_splits(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no dataset 'medqaa'; did you mean 'medqa'"):
        read_questions("medqaa", tmp_path, "test")
    with pytest.raises(BadInput, match=r"has no split 'validation'; it has train, dev, test"):
        read_questions("medqa", tmp_path, "validation")
    with pytest.raises(BadInput, match="name a split of"):
        read_questions("medqa", tmp_path)
    with pytest.raises(BadInput, match="holds no questions"):
        read_questions("lama", tmp_path, "all")


def test_a_count_that_differs_is_said() -> None:
    assert info("csqa").count_note("dev", 1221) == ""
    assert info("csqa").count_note("dev", 100) == (
        "CommonsenseQA 1.11, split dev: 100 questions, officially 1,221; this is a subset."
    )
    assert "more than the official file holds" in info("csqa").count_note("dev", 1222)
    assert info("beir").count_note("test", 5) == ""


def test_the_open_book_is_read_line_by_line(tmp_path: Path) -> None:
    lay(tmp_path, {"openbook.txt": '"A bee buzzes"\n'})
    assert [fact.doc_id for fact in obqa.read_facts(tmp_path)] == ["openbook:1"]


def test_mintaka_answers_of_other_kinds(tmp_path: Path) -> None:
    def gold(answer: dict[str, Any]) -> Question:
        lay(tmp_path, {"mintaka_dev.json": json.dumps([MINTAKA | {"answer": answer}])})
        return next(read_questions("mintaka", tmp_path, "dev"))

    assert gold({"answer": [True], "mention": "Yes"}).aliases == (("true", "Yes"),)
    assert gold({"answer": [False], "mention": "no"}).gold == ("no",)
    assert gold({"answer": [3.0], "mention": "3"}).gold == ("3",)
    assert gold({"answer": None, "mention": "the last one"}).gold == ("the last one",)
    assert gold({"answer": [{"name": None, "label": None}], "mention": "it"}).gold == ("it",)
    assert gold({"answer": [{"name": "Q1", "label": None}, {"name": "Q2", "label": "b"}]}).gold == ("Q1", "b")


def test_hotpotqa_documents_and_a_pointer_beyond_its_paragraph(tmp_path: Path) -> None:
    beyond = HOTPOT | {"_id": "h2", "supporting_facts": [["Firm", 7]]}
    lay(tmp_path, {"hotpotqa_train.json": json.dumps([HOTPOT, beyond])})
    documents = {found.doc_id: found for found in hotpotqa.read_hotpotqa_documents(tmp_path, "train")}
    assert documents["Firm"].text == "The firm is old. Ann founded it."
    first, second = read_questions("hotpotqa", tmp_path, "train")
    for evidence in first.gold_evidence:
        start, end = map(int, evidence.locator.split(":"))
        assert documents[evidence.source].text[start:end] == evidence.text
    assert second.gold_evidence == (GoldEvidence("sentence", "Firm", "sentence 7", ""),)
    lay(tmp_path, {"hotpotqa_train_corpus.json": json.dumps({"Firm": ["Other."], "More": ["a.", " b."]})})
    assert [found.text for found in hotpotqa.read_hotpotqa_documents(tmp_path, "train")] == ["Other.", "a. b."]
    changed = HOTPOT | {"_id": "h3", "context": [["Firm", ["Not the same."]]], "supporting_facts": []}
    lay(tmp_path, {"hotpot_train_v1.1.json": json.dumps([HOTPOT, changed])})
    with pytest.raises(BadInput, match="two different paragraphs are called 'Firm'"):
        list(hotpotqa.read_hotpotqa_documents(tmp_path, "train"))


def test_musique_paragraphs_with_one_title_are_different_documents(tmp_path: Path) -> None:
    lay(tmp_path, {"musique_ans_v1.0_dev.jsonl": lines(MUSIQUE, MUSIQUE | {"id": "2hop__3_4"})})
    documents = list(hotpotqa.read_musique_documents(tmp_path, "dev"))
    assert [found.text for found in documents] == ["Ann founded it.", "It is old."]
    evidence = next(read_questions("musique", tmp_path, "dev")).gold_evidence
    assert evidence == (GoldEvidence("chunk", documents[0].doc_id, "", "Ann founded it."),)


def test_beir_documents_and_judgements(tmp_path: Path) -> None:
    corpus = lines({"_id": "d1", "title": "T", "text": ""}, {"_id": "d2", "text": "two"})
    qrels = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n"
    lay(tmp_path, {"corpus.jsonl": corpus, "queries.jsonl": "", "qrels/test.tsv": qrels})
    assert [(found.doc_id, found.title, found.text) for found in beir.read_documents(tmp_path)] == [
        ("d1", "T", ""),
        ("d2", "", "two"),
    ]
    lay(tmp_path, {"corpus.jsonl": corpus + corpus, "qrels/test.tsv": qrels + "q1\td1\t1\n"})
    with pytest.raises(BadInput, match=":3: _id: 'd1' occurs twice"):
        list(beir.read_documents(tmp_path))
    with pytest.raises(BadInput, match=":4: score: the same pair is judged twice"):
        list(read_questions("beir", tmp_path, "test"))


def test_lama_facts_and_relation_labels(tmp_path: Path) -> None:
    fact = {"sub_uri": "Q1", "obj_uri": "Q2", "sub_label": "Ann", "obj_label": "Bern", "predicate_id": "P19"}
    lay(
        tmp_path,
        {
            "TREx/P19.jsonl": lines(fact),
            "relations.jsonl": lines({"relation": "P19", "template": "-", "label": "birth"}),
        },
    )
    assert list(lama.read_facts(tmp_path)) == [lama.Fact("Q1", "Ann", "P19", "Q2", "Bern", 1)]
    assert lama.read_relations(tmp_path) == {"P19": "birth"}
    lay(tmp_path, {"TREx/P20.jsonl": lines(fact)})
    with pytest.raises(BadInput, match=r"P20\.jsonl:1: predicate_id: 'P19' in the file of P20"):
        list(lama.read_facts(tmp_path))
