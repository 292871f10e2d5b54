"""Declared files, and those that a variant needs."""

from pathlib import Path

import pytest

from evidence_assets import profiles
from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
from evidence_assets.reproduction.data_files import RequiredData, find_data
from evidence_assets.systems.kbloom.system import KBloom
from evidence_assets_tests.benchmarks.official.contract import write_files


@pytest.fixture(autouse=True)
def published(other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv(profiles.PROFILE_VARIABLE, "paper")


@pytest.mark.parametrize(
    ("asset", "benchmark", "names"),
    [
        ("scores/mcqa/ugat_published/llama3_3_70b", "medmcqa", {"medmcqa", "medical", "seeds of umls"}),
        ("scores/mcqa/uscrake_jsd_chunks", "obqa", {"obqa", "wikipedia"}),
        ("scores/mcqa/uscrake_published_graph", "obqa", {"obqa", "conceptnet"}),
        ("scores/mcqa/uscrake_k5_s5", "obqa.sample100-seed0", {"obqa", "conceptnet", "wikipedia"}),
        ("scores/mcqa/a2q_full", "obqa", {"obqa", "conceptnet", "csqa, split train", "numberbatch"}),
        ("scores/graph/kg_both/mpnet", "webqsp", {"webqsp", "freebase"}),
        ("scores/mcqa/closed_book", "medqa", {"medqa"}),
        ("scores/table/ucret_published", "scitab", {"scitab"}),
        ("scores/search/fourstepfocus_described", "stark_mag_synth.test-0.1", {"stark_mag_synth", "stark_mag"}),
    ],
)
def test_a_variant_needs_only_what_it_reads(asset: str, benchmark: str, names: set[str]) -> None:
    data = RequiredData().of_scores(asset, all_benchmarks()[benchmark])
    assert {files.name for files in data.values()} == names


def test_a_harvest_needs_the_seeds_of_its_collection_and_its_reference() -> None:
    finder = RequiredData()
    size = finder.of_scores("scores/knowledge/kbloom_printed", None, "conceptnet")
    assert {files.name for files in size.values()} == {"seeds of conceptnet"}
    compared = finder.of_scores("scores/knowledge/kbloom_printed_on_lama_trex", None, "lama")
    assert {files.name for files in compared.values()} == {"seeds of lama", "lama_trex"}


def test_the_medical_graph_needs_no_bertnet() -> None:
    finder = RequiredData()
    finder.find_upstream("scores/mcqa/ugat_published", all_benchmarks()["medqa"])
    finder.find_upstream("scores/knowledge/kbloom_printed", None)
    methods = finder.find_upstream("scores/mcqa/ugat_published", all_benchmarks()["medqa"]).methods
    (harvest,) = [method for method in methods if isinstance(method, KBloom)]
    assert harvest.variant.name == "kbloom_medical" and not harvest.settings.baseline
    assert [stage.key for stage in harvest.build_stages()][:4] == [
        "knowledge/kbloom_printed/prompts",
        "knowledge/kbloom_printed/candidates",
        "knowledge/kbloom_medical/harvest",
        "knowledge/kbloom_medical/umls",
    ]


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("tabmcq", ["tabmcq/MCQs.tsv"]),
        ("wikipedia", ["wikipedia"]),
        ("conceptnet_train600k", ["references/conceptnet/train600k.txt"]),
        ("lama", ["lama"]),
        ("stark_prime", ["stark/prime/processed"]),
        ("freebase", ["graphs/freebase/triples.tsv", "graphs/freebase/names.tsv"]),
        ("word2vec", ["embeddings/GoogleNews-vectors-negative300.bin.gz"]),
    ],
)
def test_declared_files_have_a_target_and_an_origin(name: str, targets: list[str], tmp_path: Path) -> None:
    (files,) = find_data(name)
    assert files.targets(tmp_path) == [tmp_path / target for target in targets]
    assert "http" in files.contents and not files.is_downloadable


def test_a_folder_names_everything_in_it() -> None:
    names = {files.name for files in find_data("stark")}
    assert {"stark_prime", "stark_mag", "stark_amazon", "stark_prime_synth"} <= names
    assert not find_data("no_such_data")


def test_files_are_found_once_all_are_there(tmp_path: Path) -> None:
    (files,) = find_data("freebase")
    write_files(tmp_path, {"graphs/freebase/triples.tsv": "a\tb\tc\n"})
    assert files.find(tmp_path) is None
    write_files(tmp_path, {"graphs/freebase/names.tsv": "m.1\ta\n"})
    assert files.find(tmp_path) == files.targets(tmp_path)
    (folder,) = find_data("wikipedia")
    assert folder.find(tmp_path) is None
    write_files(tmp_path, {"wikipedia/train.parquet": ""})
    assert folder.find(tmp_path) == [tmp_path / "wikipedia" / "train.parquet"]
