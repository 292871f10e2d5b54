"""Tokens of variants in ``bench.answers.measure_variants``."""

from bench.answers.measure_variants import count_tokens, read_recalls
from evidence_assets.experiment.variants import variants
from evidence_assets.lake.store import Lake
from evidence_assets_tests.lake_rows import as_stored, chain


def test_the_tokens_of_recalled_evidence_are_counted(lake: Lake) -> None:
    tokens = {"tokens_in": 50, "tokens_out": 7}
    for benchmark, number in (("quiz", 1), ("another_quiz", 2)):
        rows = as_stored("chains", [chain(number, "", "gout", [], benchmark=benchmark, **tokens)])
        lake.write("chains/graph/background", f"{benchmark}|0", {"chains": rows})
    compared = [variant for variant in variants() if variant.key in ("graph/kg_background", "graph/kg_none")]
    recalls = read_recalls(lake, "quiz", compared)
    assert {name: count_tokens(rows) for name, rows in recalls.items()} == {"kg_background": "50, 7", "kg_none": "0, 0"}
    answers = as_stored("chains", [chain(1, "A", "gout", [], tokens_in=100, tokens_out=1)])
    assert count_tokens(answers, recalls["kg_background"]) == "150, 8"
