"""The variants of tables 3.3 to 3.5, 4.1, 6.4 and 6.5 and figures 3.4, 3.5 and 6.3 differ in what is printed alone."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evidence_assets import profiles, systems
from evidence_assets.experiment.scores.published_figures import PublishedName
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.system import NoSettings
from evidence_assets.experiment.variants import Variant, variants_of
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.models.local_generators import QLORA
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.reasoning import published_prompts
from evidence_assets.reasoning.tasks import ChooseAnswer, EvidenceItem
from evidence_assets.systems.baselines.recorded_answers import recorded_stages
from evidence_assets.systems.ucret.columns import Lines, select_lines
from evidence_assets_tests.benchmarks.official.contract import json_lines, write_files
from evidence_assets_tests.lake_rows import question

UCRET, UCRET_JS, UGAT = "table/ucret_published", "table/ucret_js_published", "mcqa/ugat_published"
THETAS = {f"ucret_theta{t}_tau{u}": {"theta", "tau"} for t in (55, 65) for u in (20, 30)}
THETAS |= {f"ucret_theta60_tau{u}": {"tau"} for u in (20, 30)} | {f"ucret_theta{t}_tau25": {"theta"} for t in (55, 65)}
ABLATIONS: list[tuple[str, str, set[str]]] = [
    ("table/keep_all", UCRET, {"measure"}),
    ("table/keep_all", UCRET_JS, {"measure", "tau"}),  # τ has no effect if all columns are kept; see below
    ("table/without_explanations", UCRET, {"explain"}),
    ("table/ucret_js_without_explanations", UCRET_JS, {"explain"}),
    ("table/ucret_k3", UCRET, {"clusters"}),
    ("table/ucret_k4", UCRET, {"clusters"}),
    *((f"table/{name}", UCRET, parameters) for name, parameters in THETAS.items()),
    ("mcqa/ugat_gcn", UGAT, {"scorer"}),
    ("mcqa/ugat_unfiltered", UGAT, {"scorer"}),
    *((f"mcqa/ugat_published_{hops}", UGAT, {"D"}) for hops in ("1_hop", "2_hops", "4_hops")),
    ("mcqa/ugat_published_whole_graph", UGAT, {"paths_within"}),
    ("table/ucret_js_raw", UCRET_JS, {"normalize"}),
    ("table/ucret_js_distance", UCRET_JS, {"eta_bounds"}),
    ("table/ucret_js_several", UCRET_JS, {"style"}),
    ("table/bidirectional_claims", "table/bidirectional", {"whole_claims"}),
]
"""A variant, its base, and the only parameters in which they differ."""
DEFAULTS = {
    "clusters": 2,
    "theta": 0.60,
    "eta": 0.30,
    "eta_bounds": "divergence",
    "temperature": 1.0,
    "normalize": True,
}
"""What UCRET's parameters are if a variant does not name them."""
VARIANTS = {variant.key: variant for name in ("ucret", "ugat") for variant in variants_of(name)}


def effective_settings(variant: Variant) -> dict[str, Any]:
    """Everything that determines the evidence and the answers of a variant."""
    method: Any = systems.load(variant.system).method_of(variant)
    style = method.published_style if variant.uses_published_prompts else ""
    fields = variant.model_dump(include={"evidence", "explain", "prompts", "temperature", "models"})
    fields["sampling"] = fields.pop("temperature")
    parameters = {
        name: DEFAULTS.get(name) if value is None else value
        for name, value in asdict(method.settings_of(variant)).items()
    }
    return {**parameters, **fields, "style": style, "selector": method.open_selector}


@pytest.mark.parametrize(
    ("ablation", "base", "parameters"),
    ABLATIONS,
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_an_ablation_differs_from_its_base_in_the_named_parameters_alone(
    ablation: str, base: str, parameters: set[str]
) -> None:
    ours, theirs = effective_settings(VARIANTS[ablation]), effective_settings(VARIANTS[base])
    assert ours.keys() == theirs.keys()
    assert {name for name in ours if ours[name] != theirs[name]} == parameters


def test_every_compared_variant_of_these_tables_is_listed() -> None:
    compared = {key for key, variant in VARIANTS.items() if variant.published}
    assert compared == {key for key, *_ in ABLATIONS if VARIANTS[key].published} | {UCRET, UCRET_JS, UGAT, CLOSED}
    full = {"ucret": UCRET, "ucret_js": UCRET_JS, "ugat_medqa": UGAT}
    for system, key in full.items():
        assert PublishedName(system=system, variant="full") in VARIANTS[key].published or key == UCRET


CLOSED = "mcqa/closed_book"


def test_the_threshold_has_no_effect_if_all_columns_are_kept() -> None:
    settings = systems.load_settings("table/keep_all").for_columns
    lines = Lines((frozenset("a"), frozenset("b")), np.zeros((2, 1)))
    selections = {
        select_lines([frozenset("a")], np.zeros((1, 1)), [0], [lines], replace(settings, jaccard=tau))[0].indices
        for tau in (0.0, 0.2, 0.25, 1.0)
    }
    assert selections == {(0, 1)}


def test_the_closed_book_reads_question_and_options_alone() -> None:
    evidence = (EvidenceItem("e1", "path", "g", "+1", "Aspirin may treat pain."),)
    task = ChooseAnswer("What treats pain?", ("A", "B"), ("aspirin", "gold"), (), {"A": evidence, "B": ()})
    style = published_prompts.STYLES[effective_settings(VARIANTS[CLOSED])["style"]]
    assert style.choose is not None and style.explain is None and style.answer is None
    request = style.choose.build_request(task, published_prompts.PACKAGED)
    assert "may treat" not in request.user and "What treats pain?" in request.user and "A) aspirin" in request.user
    with_passages = published_prompts.STYLES[effective_settings(VARIANTS[UGAT])["style"]].answer
    assert with_passages is not None
    assert "may treat" in with_passages.build_request(task, published_prompts.PACKAGED).user


def test_the_models_of_the_tables_are_those_of_table_3_1_in_four_bits() -> None:
    generators = profiles.load("paper").generators
    printed = ("qwen2.5-72b-instruct", "llama-3.3-70b-instruct", "qwen2.5-14b-instruct")
    names = [settings.name.casefold().partition("/")[2] for settings in generators.values()]
    assert names == [f"{name}-awq" for name in printed], "AWQ has four bits"
    assert {settings.backend for settings in generators.values()} == {"openai"}
    assert GeneratorSettings(backend="transformers", name="x", four_bit=True).four_bit
    printed_quantization = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
    assert printed_quantization == QLORA
    encoder = next(iter(profiles.load("paper").encoders.values()))
    assert encoder.name == "BAAI/bge-m3"


# Scores of recorded answers, compared with manual counts, and errors in such files


BENCHMARK = "sample_mcqa"
HIT, MISS = ["bee", "is a", "insect"], ["cat", "is a", "pet"]


def score_files(root: Path, files: dict[str, list[object]]) -> dict[tuple[str, str, str], tuple[float, int]]:
    """Value and n by system, model and metric, for four questions whose correct option is A (insect)."""
    lake = Lake.create(root / "lake", question_shards=1)
    questions = [question(i, BENCHMARK, options=["insect", "fish"], source_id=f"q{i}") for i in range(4)]
    lake.write("questions/mcqa", f"{BENCHMARK}|0", {"questions": questions})
    write_files(
        lake.raw / f"recorded/{BENCHMARK}", {f"{name}.jsonl": json_lines(*rows) for name, rows in files.items()}
    )
    (stage,) = recorded_stages(Variant(system="baselines", family="mcqa", name="recorded"), NoSettings())
    score_rows = stage.run(StageContext(lake, "scores", stage.key, BENCHMARK)).rows
    assert isinstance(score_rows, list) and {row["reasoner"] for row in score_rows} <= {"recorded"}
    return {(row["selector"], row["model_id"], row["metric"]): (row["value"], row["n"]) for row in score_rows}


def test_a_missing_question_counts_as_wrong(tmp_path: Path) -> None:
    answers: list[object] = [{"id": "q0", "answer": "A"}, {"id": "q1", "answer": "B"}, {"id": "q2", "answer": "A"}]
    scores = score_files(tmp_path, {"clever@gpt-4": answers, "clever+small@gpt-4": answers[:1]})
    assert scores["clever", "gpt-4", "accuracy"] == (0.5, 4)
    assert scores["clever+small", "gpt-4", "accuracy"] == (0.25, 4)
    assert scores["clever", "gpt-4", "failed_share"] == (0.25, 4)


def test_triples_without_answers_get_retrieval_scores_only(tmp_path: Path) -> None:
    rows: list[object] = [
        {"id": "q0", "triples": [HIT]},
        {"id": "q1", "triples": [MISS, HIT]},
        {"id": "q2", "triples": [MISS]},
    ]
    scores = score_files(tmp_path, {"finder": rows})
    assert scores["finder", "", "hit@1"] == (0.25, 4) and scores["finder", "", "hit@10"] == (0.5, 4)
    assert 0 < scores["finder", "", "bertscore"][0] < 1 and ("finder", "", "accuracy") not in scores


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "q9", "answer": "A"}], "q9 is not a question of the benchmark"),
        ([{"id": "q1", "answer": "A"}, {"id": "q1", "answer": "B"}], "2: id: q1 appears twice"),
        ([{"id": "q1", "anwser": "A"}], "did you mean 'answer'"),
        ([{"id": "q1", "triples": [["bee"]]}], r"expected a list of \[head, relation, tail\]"),
    ],
)
def test_invalid_files_are_rejected(rows: list[object], message: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=message):
        score_files(tmp_path, {"clever": rows})
