"""Published figures: completeness, errata, and the figure that a score is compared with."""

import csv
import os
from collections import Counter
from pathlib import Path

import pytest

from evidence_assets.reproduction.published_figures import (
    PublishedName,
    add_published_figures,
    figure_for,
    figures,
    figures_by_key,
    published_model,
)

SERVED_MODEL = "Qwen/Qwen2.5-72B-Instruct-AWQ"


def test_the_table_is_whole() -> None:
    assert len(figures()) == 1248
    assert len({figure.document for figure in figures()}) == 4
    assert max(Counter((f.document, f.table, *f.key) for f in figures()).values()) == 1
    assert all(0 <= f.fraction <= 1 for f in figures() if f.metric in ("accuracy", "hit@1", "hit@5"))


def test_errata_keep_their_value_and_come_last() -> None:
    same_key = figures_by_key()["conceptnet", "kbloom", "multi_prompts", "roberta-large", "tuples", ""]
    assert [(figure.value, figure.is_erratum) for figure in same_key] == [(20000, False), (26461, True)]
    assert same_key[1].source == "thesis, text 5.4.3.3"
    (only,) = figures_by_key()["pubhealthtab", "ucret", "full", "llama-3.3-70b", "recall", "supports"]
    assert only.is_erratum and "swapped" in only.note


@pytest.mark.dev_data
def test_values_are_those_of_the_material(dev_data: Path) -> None:
    """Compare with the source material next to the development data."""
    material = Path(os.environ["EVIDENCE_DEV_DATA"]).parent / "figures" / "paper_results.csv"
    if not material.is_file():
        pytest.skip("the figures' material is not next to the development data")
    fields = ("document", "table", "benchmark", "system", "variant", "model", "metric", "label", "value")
    swapped, expected = {"novelty": "diversity", "diversity": "novelty"}, []
    with material.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if "printed under head" in row["note"]:
                row["metric"] = swapped[row["metric"]]
            if (row["document"], row["table"]) == ("a2q", "6") and "dataset not stated" in row["note"]:
                row["benchmark"] = "csqa"  # compared there, because the document names no benchmark
            row["benchmark"] = row["benchmark"].removesuffix("_first150")
            expected.append([row[field] for field in fields[:-1]] + [float(row["value"])])
    assert [[getattr(figure, field) for field in fields] for figure in figures()] == expected


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        (SERVED_MODEL, "qwen2.5-72b"),
        ("gpt-4o-2024-05-13", "gpt-4o"),
        ("gpt-4o+BAAI/bge-m3@abc", "gpt-4o"),
        ("Qwen/Qwen2.5-7B-Instruct", ""),
    ],
)
def test_a_model_id_maps_to_its_published_name_or_none(model_id: str, expected: str) -> None:
    published_names = ["qwen2.5-72b", "qwen2.5-14b", "llama-3.3-70b", "gpt-4", "gpt-4o", ""]
    assert published_model(model_id, published_names) == expected


def test_a_figure_for_the_same_part_is_preferred_and_another_part_is_noted() -> None:
    ucret, kaping = PublishedName("ucret", "full"), PublishedName("kaping")
    matches = [figure_for(f"tabmcq{part}", ucret, SERVED_MODEL, "accuracy") for part in (".first150", ".first9")]
    assert [f and (f.table, f.part) for f in matches] == [("4.2", "first150"), ("4.2", "first150")]
    samples = [figure_for(f"mintaka{part}", kaping, "", "hit@1") for part in ("", ".sample1000-seed3", ".first9")]
    assert [f and f.value for f in samples] == [7.5, 10.5, 7.5]
    rows = [{"scope_id": f"obqa{part}", "model_id": SERVED_MODEL, "metric": "accuracy"} for part in ("", ".first9")]
    names = [PublishedName("uscrake", "R=20000"), PublishedName("uscrake", "full")]
    assert [row["published_source"] for row in add_published_figures(rows, names)] == [
        "thesis, Table 7.3",
        "thesis, Fig 7.4; model not stated; printed for sample100",
    ]


def test_a_figure_of_another_model_is_never_used() -> None:
    name = PublishedName("uscrake", "full")
    figure = figure_for("obqa", name, SERVED_MODEL, "accuracy")
    assert figure is not None and (figure.model, figure.table) == ("qwen2.5-72b", "7.3")
    assert figure_for("obqa", name, "extractive", "accuracy") is None
    assert figure_for("quiz", name, SERVED_MODEL, "accuracy") is None
    assert figure_for("obqa", PublishedName("uscrake", "full", "llama-3.3-70b"), "extractive", "accuracy") is not None


def test_a_percentage_is_compared_on_the_scale_of_scores() -> None:
    row = {"scope_id": "obqa", "model_id": SERVED_MODEL, "metric": "accuracy"}
    (published,) = add_published_figures([row], [PublishedName("uscrake", "full")])
    figure = figure_for("obqa", PublishedName("uscrake", "full"), SERVED_MODEL, "accuracy")
    assert (
        figure is not None and figure.scale == "percent" and published["published"] == pytest.approx(figure.value / 100)
    )


def test_hits_printed_for_attention2query_include_an_answer_and_coverage_has_all_words() -> None:
    full, nearest = PublishedName("a2q", "full"), PublishedName("difar")
    for metric, value in (("hit@1", 0.79), ("hit@10", 0.95)):
        figure = figure_for("csqa", full, "any", f"{metric}_included")
        assert figure is not None and figure.value == value
        assert figure_for("csqa", full, "any", metric) is None
    coverage = figure_for("csqa", full, "any", "coverage_all_words")
    assert coverage is not None and coverage.value == 0.59
    assert figure_for("csqa", full, "any", "coverage") is None
    assert figure_for("mintaka", nearest, "any", "hit@1_included") is not None
    assert figure_for("csqa", full, "any", "bertscore") is not None
    assert figure_for("webqsp", PublishedName("kaping"), "any", "hit@1_included") is None


def test_hits_printed_for_background_knowledge_count_what_a_model_recalled() -> None:
    name = PublishedName("kaping_background", "full", "gemini-1.0-pro")
    assert figure_for("webqsp", name, "any", "hit@1") is None
    hit, f1 = (figure_for("webqsp", name, "any", f"{metric}_with_recalled") for metric in ("hit@1", "answer_f1"))
    assert hit is not None and f1 is not None
    assert (hit.value, f1.value) == (25.2, 17.3)
    assert figure_for("webqsp", PublishedName("kaping"), "any", "answer_f1") is not None
    assert figure_for("webqsp", PublishedName("kaping"), "any", "triple_f1") is None
    assert figure_for("webqsp", PublishedName("kaping"), "any", "hit@1_with_recalled") is None
