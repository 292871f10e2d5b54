"""The declared official benchmarks: read under their declared names, tables and all."""

import json
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets.benchmark import Benchmark, build_tables
from evidence_assets.benchmarks import dataset_info
from evidence_assets.benchmarks.dataset_info import find_dataset, load_datasets
from evidence_assets.benchmarks.declared_benchmarks import BenchmarkSubset, all_benchmarks, declarations
from evidence_assets.benchmarks.readers import (
    PAIRS,
    READERS,
    read_benchmark_questions,
    read_benchmark_tables,
    read_questions,
)
from evidence_assets.experiment import stage
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.benchmarks.official import test_choice_readers, test_open_readers, test_table_readers
from evidence_assets_tests.benchmarks.official.contract import write_files


def lake_with(root: Path, files: dict[str, str]) -> Lake:
    lake = Lake.create(root / "data_lake")
    write_files(lake.root / "raw", files)
    return lake


OTHERWISE_ASKED = {"retrieval": ("kgqa", "skb_search")}
"""Of a collection that only evidence is scored on, the questions have a task of their own."""


def test_every_official_benchmark_names_a_reader_and_a_split_that_exist() -> None:
    for name, benchmark in all_benchmarks().items():
        if benchmark.reader == "own":
            continue
        assert benchmark.profiles == ("paper",), name
        assert (benchmark.reader in PAIRS) == (benchmark.family == "table"), name
        info = find_dataset(benchmark.reader)
        assert info.task in OTHERWISE_ASKED.get(benchmark.task, (benchmark.task,)), name
        assert benchmark.split in info.files and benchmark.split not in info.hidden, name
        assert info.licence and info.source.startswith("https://"), name
        if benchmark.reader != "beir":  # a layout of many collections, each of its own size
            count = info.counts["test" if benchmark.split == "test-0.1" else benchmark.split]
            is_subset = isinstance(benchmark, BenchmarkSubset)
            assert benchmark.official_size and (benchmark.official_size < count) == is_subset, name


def test_a_second_table_of_one_id_and_a_table_without_rows_are_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = ([["A", "1"]], [["A", "9"]], [["A", "1"]], [])
    row = test_table_readers.TestScitab.ROW
    claims = [row | {"id": f"c{i}", "table_content_values": cells} for i, cells in enumerate(contents)]
    lake = lake_with(tmp_path, {"s/sci_tab.json": json.dumps(claims)})
    benchmark = Benchmark(name="mine", task="verification", reader="scitab", path="s")
    tables = list(read_benchmark_tables(lake, benchmark))
    assert [(t.table_id, t.published_id, len(t.rows)) for t in tables] == [
        ("t1", "", 1),
        ("t1#2", "t1", 1),
        ("t1#3", "t1", 0),
    ]
    assert [q.table_id for q in read_benchmark_questions(lake, benchmark)] == ["t1", "t1#2", "t1", "t1#3"]
    monkeypatch.setattr(stage, "benchmarks", lambda: {"mine": benchmark})
    warnings: list[str] = []
    output = build_tables(stage.StageContext(lake, "tables", "tables", "mine", warn=warnings.append))
    assert output.metadata == {"without cells": 1, "renamed": ["t1 → t1#2", "t1 → t1#3"]}
    assert warnings == ["2 tables have the id of another table and were renamed: t1 → t1#2, t1 → t1#3."]


def test_the_error_for_a_folder_without_official_files_lists_them(tmp_path: Path) -> None:
    lake = lake_with(tmp_path, {"scitab/other.json": "[]", "tabfact/test_examples.json": "{}"})
    with pytest.raises(
        BadInput, match=r"dataset/sci_tab\.json: this file is missing; .*github\.com/XinyuanLu00/SciTab"
    ):
        list(read_benchmark_questions(lake, all_benchmarks()["scitab"]))
    with pytest.raises(BadInput, match="contains no tables; add data/all_csv"):
        list(read_benchmark_questions(lake, all_benchmarks()["tabfact"]))


def test_answers_that_are_ids_are_right_by_their_names_too(tmp_path: Path) -> None:
    request = all_benchmarks()["simplequestions"]
    line = "www.freebase.com/m/01\twww.freebase.com/a/b\twww.freebase.com/m/02\tWhere was Ada born?\n"
    files = {
        "simplequestions/annotated_fb_data_test.txt": line,
        request.names: "m.01\tAda\nm.02\tLondon\nm.04\tLondon\n",
    }
    lake = lake_with(tmp_path, files)
    (question,) = read_benchmark_questions(lake, request)
    assert (question.gold, question.aliases, question.topic_entities) == (("m.02",), (("London",),), ("m.01",))
    assert question.gold_evidence[0].text == "Ada a.b London"


def test_aliases_of_the_graph_are_right_answers_if_its_names_are_there(tmp_path: Path) -> None:
    request = all_benchmarks()["mintaka"]
    row = test_open_readers.TestMintaka.ROW
    answer = {"answerType": "entity", "answer": [{"name": "Q30", "label": "United States"}], "mention": "US"}
    lake = lake_with(tmp_path, {"mintaka/data/mintaka_test.json": json.dumps([row | {"answer": answer}])})
    (question,) = read_benchmark_questions(lake, request)
    assert (question.gold, question.aliases) == (("United States",), (("Q30", "US"),)), "as the dataset says"
    write_files(lake.root / "raw", {request.aliases: "Q30\tUnited States (Q30)\nQ30\tUSA\nQ30\tUS\nQ39\tSwitzerland\n"})
    (question,) = read_benchmark_questions(lake, request)
    assert question.aliases == (("Q30", "US", "USA"),)
    assert request.files == ["mintaka"]
    assert request.optional_files == [request.aliases, "recorded/mintaka/sample1000.txt"]


def test_an_undeclared_graph_or_corpus_is_an_error() -> None:
    for declared_fields, message in (
        (
            {"graph": "nowhere"},
            "graph: .*'nowhere', which is not declared. There are: sample, sample_skb. Declare a Graph or",
        ),
        ({"corpus": "wikipedia"}, "corpus: .*'wikipedia', which is declared for other profiles only. Declare a Corpus"),
    ):
        with pytest.raises(BadInput, match=message):
            declared = Benchmark.model_validate({"name": "mine", "task": "mcqa", **declared_fields})
            declared.build_defs(dg.ComponentTree.for_test().load_context)


def test_every_registered_dataset_passes_the_contract() -> None:
    assert {
        name
        for module in (test_choice_readers, test_open_readers, test_table_readers)
        for each in vars(module).values()
        if hasattr(each, "NAMES") and hasattr(each, "VALID_FILES")
        for name in each.NAMES
    } == {*READERS, *PAIRS} | {name for name, info in load_datasets().items() if info.fields}


DECLARED = "type: evidence_assets.assets.benchmark.Benchmark\nattributes:\n  name: mine\n  task: mcqa\n  reader: obqa\n"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("  reader: obqb\n", r"defs\.yaml:5: reader: there is no dataset 'obqb'; did you mean 'obqa'"),
        ("  reader: obqa\n  split: tset\n", r"defs\.yaml:6: split: OpenBookQA has no split 'tset'; it has train, dev"),
        ("  reader: mintaka\n", r"defs\.yaml:4: task: the questions of Mintaka .* are kgqa: write kgqa or retrieval"),
        ("  reader: obqa\n  subsets:\n    - split: tset\n", r"defs\.yaml:6: subsets: OpenBookQA has no split 'tset'"),
    ],
)
def test_a_declaration_that_does_not_fit_its_dataset_is_an_error_with_its_line(
    wrong: str, message: str, tmp_path: Path
) -> None:
    write_files(tmp_path, {"defs.yaml": DECLARED})
    assert list(all_benchmarks(tmp_path)) == ["mine"]
    declarations.cache_clear()
    write_files(tmp_path, {"defs.yaml": DECLARED.replace("  reader: obqa\n", wrong)})
    with pytest.raises(BadInput, match=message):
        all_benchmarks(tmp_path)


QUIZ = (
    "quiz:\n  title: Quiz\n  task: mcqa\n  files: {dev: dev.txt}\n  licence: CC0-1.0\n  source: https://example.org\n"
)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (QUIZ.replace("licence", "license"), "quiz.license: unknown key; did you mean 'licence'"),
        (QUIZ.replace("mcqa", "mcq"), r"quiz\.task: Input should be 'mcqa', 'verification'"),
        (QUIZ + "  counts: {test: 3}\n", "quiz: counts: 'test' is not a split; files has dev"),
        (QUIZ + "  hidden: [test]\n", "quiz: hidden: 'test' is not a split; files has dev"),
        (QUIZ + QUIZ.replace("quiz:", "other: 3\nquiz2:"), "other: is not a mapping"),
        (QUIZ.replace("quiz:", "obqa:"), "obqa: another dataset has this name"),
    ],
)
def test_a_wrong_description_of_a_dataset_is_an_error_with_file_and_key(
    description: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"a.yaml": QUIZ.replace("quiz:", "obqa:"), "b.yaml": description})
    monkeypatch.setattr(dataset_info, "OFFICIAL_FOLDER", tmp_path)
    with pytest.raises(BadInput, match=rf"b\.yaml: {message}"):
        load_datasets.__wrapped__()


def test_a_dataset_without_a_reader_says_where_to_add_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(READERS, "mintaka")
    with pytest.raises(BadInput, match=r"mintaka: no function reads Mintaka .*: add it to READERS of a module in"):
        read_questions("mintaka", tmp_path, "test")


def test_unknown_names_and_splits(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no dataset 'medqaa'; did you mean 'medqa'"):
        read_questions("medqaa", tmp_path, "test")
    with pytest.raises(BadInput, match=r"has no split 'validation'; it has train, dev, test"):
        read_questions("medqa", tmp_path, "validation")
    with pytest.raises(BadInput, match="has no questions"):
        read_questions("lama", tmp_path, "all")
