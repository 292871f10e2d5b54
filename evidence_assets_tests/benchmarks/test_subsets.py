"""Parts of benchmarks: named by what they are, the same questions at every reading, never taken for the whole."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence_assets.benchmarks.declared_benchmarks import Benchmark, Sample, Subset, all_benchmarks, draw_sample
from evidence_assets.benchmarks.readers import read_benchmark_questions, read_benchmark_tables
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.lake.store import Lake
from evidence_assets.reproduction.published_figures import figures, part_of
from evidence_assets_tests.benchmarks.official.contract import json_lines, write_files

TABLES = [{"table_id": f"t{i}", "caption": "", "header": ["a"], "rows": [[i]]} for i in range(3)]


def build_records(ids: list[str]) -> list[QuestionRecord]:
    return [QuestionRecord("b", i, "test", "kgqa", f"what is {i}?") for i in ids]


@given(st.lists(st.text(min_size=1), unique=True, max_size=30), st.integers(1, 12), st.integers(0, 3), st.randoms())
def test_a_sample_has_its_size_and_does_not_depend_on_the_order(
    ids: list[str], n: int, seed: int, random: Random
) -> None:
    sample = Sample(n=n, seed=seed)
    results = [q.source_id for q in draw_sample(build_records(ids), sample)]
    assert len(results) == min(n, len(ids)) and results == [i for i in ids if i in results]
    shuffled = random.sample(ids, len(ids))
    assert {q.source_id for q in draw_sample(build_records(shuffled), sample)} == set(results)


@pytest.fixture
def files(lake: Lake) -> tuple[Lake, Benchmark]:
    """Six claims of two splits about three tables."""
    claim = {"task": "verification", "text": "claim", "gold": "SUPPORTS"}
    claims = [
        claim | {"source_id": f"c{i}", "table_id": f"t{i // 2}", "split": "dev" if i == 0 else "test"} for i in range(6)
    ]
    user_files = {
        "benchmarks/mine/questions.jsonl": json_lines(*claims),
        "benchmarks/mine/tables.jsonl": json_lines(*TABLES),
    }
    write_files(lake.root / "raw", user_files)
    return lake, Benchmark(name="mine", task="verification")


@pytest.mark.parametrize(
    ("subset", "name", "ids"),
    [
        ({"limit": 2}, "mine.first2", ["c1", "c2"]),
        ({"split": "dev"}, "mine.dev", ["c0"]),
        ({"limit": 4, "sample": {"n": 9, "seed": 7}}, "mine.first4+sample9-seed7", ["c1", "c2", "c3", "c4"]),
    ],
)
def test_a_part_has_its_name_its_questions_and_their_tables(
    files: tuple[Lake, Benchmark], subset: dict[str, object], name: str, ids: list[str]
) -> None:
    lake, full = files
    (part,) = full.model_copy(update={"subsets": [Subset.model_validate(subset)]}).subset_benchmarks
    assert (part.name, part.base_name, part.raw_asset, part.files) == (name, "mine", full.raw_asset, full.files)
    questions = list(read_benchmark_questions(lake, part))
    assert [q.source_id for q in questions] == ids and {q.benchmark for q in questions} == {name}
    assert {t.table_id for t in read_benchmark_tables(lake, part)} == {q.table_id for q in questions}


def test_every_printed_part_of_a_declared_benchmark_is_declared() -> None:
    known_names = {(b.base_name, part_of(name)) for name, b in all_benchmarks().items()}
    assert {(f.benchmark, f.part) for f in figures() if f.part} <= known_names


def test_the_head_of_a_split_is_that_of_its_index_file(lake: Lake) -> None:
    """The authors of 4StepFocus take the first tenth of STaRK's `test`, whose numbers are in random order."""
    rows = "".join(f"{number},Which is {number}?,[{number}]\n" for number in range(400))
    index = "".join(f"{number}\n" for number in range(399, 99, -1))
    files = {"stark_qa.csv": f"id,query,answer_ids\n{rows}", "split/test.index": index}
    write_files(lake.root / "raw" / "stark" / "prime", files)
    head = all_benchmarks()["stark_prime_synth.first280"]
    numbers = [question.source_id for question in read_benchmark_questions(lake, head)]
    assert numbers == [str(number) for number in range(399, 119, -1)]


def test_the_official_size_of_a_part_is_known() -> None:
    sizes = {name: benchmark.official_size for name, benchmark in all_benchmarks().items()}
    assert (sizes["tabmcq"], sizes["tabmcq.first150"], sizes["stark_prime_synth.test-0.1"]) == (9092, 150, 280)
    heads = [sizes[f"stark_{name}"] for name in ("prime_synth.first280", "mag_synth.first266", "amazon_synth.first163")]
    assert heads == [int(count / 10) for count in (2801, 2665, 1638)] and sizes["stark_prime_human"] == 109
    assert sizes["sample_mcqa"] is None


def test_a_declaration_with_former_names_of_fields_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "defs.yaml").write_text(
        "type: evidence_assets.assets.benchmark.Benchmark\n"
        "attributes: {name: quiz, task: mcqa, holds: our quiz, differs: other questions}\n"
    )
    benchmark = all_benchmarks(tmp_path)["quiz"]
    assert (benchmark.contents, benchmark.difference_note) == ("our quiz", "other questions")
