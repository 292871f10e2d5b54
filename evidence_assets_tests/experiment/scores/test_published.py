"""The reference table of printed numbers: whole, cited, and with its errata said."""

from __future__ import annotations

import csv
import math
import os
from collections import Counter
from pathlib import Path

import pytest

from evidence_assets.experiment.scores.published import SOURCES, by_key, figures, published

IN_MATERIAL = {"tabmcq.first150": "tabmcq_first150"}
"""Parts of benchmarks that the material has as benchmarks."""


def test_the_table_is_whole() -> None:
    found = figures()
    assert len(found) == 1248
    assert {figure.document for figure in found} == set(SOURCES)
    keys = Counter((f.document, f.table, f.scope, f.system, f.variant, f.model, f.metric, f.label) for f in found)
    assert max(keys.values()) == 1
    assert all(math.isfinite(figure.value) and float(figure.printed) == figure.value for figure in found)
    assert all(
        0 <= f.value <= 100 for f in found if f.scale == "percent" and f.metric in ("accuracy", "hit@1", "hit@5")
    )


def test_a_number_is_found_with_its_source() -> None:
    found = published("medqa", "ugat_medqa", "full", "qwen2.5-72b")
    assert found is not None
    assert (found.value, found.scale, found.source) == (86.71, "percent", "thesis, Table 6.2")
    assert found.fraction == pytest.approx(0.8671)
    assert published("medqa", "ugat_medqa", "full", "no-such-model") is None
    by_class = published("pubhealthtab", "ucret", "full", "llama-3.3-70b", "recall", "refutes")
    assert by_class is not None and not by_class.erratum


def test_errata_keep_their_value_and_come_last() -> None:
    both = by_key()["conceptnet", "kbloom", "multi_prompts", "roberta-large", "tuples", ""]
    assert [(figure.value, figure.erratum) for figure in both] == [(20000, False), (26461, True)]
    assert both[1].source == "thesis, text 5.4.3.3"
    only = published("pubhealthtab", "ucret", "full", "llama-3.3-70b", "recall", "supports")
    assert only is not None and only.erratum and "swapped" in only.note
    webqsp = published("webqsp.sample1215", "kaping_background", "full", "gemini-1.0-pro", "hit@1")
    assert webqsp is not None and webqsp.value == 25.2


def test_two_numbers_for_one_thing_are_both_kept_and_each_says_so() -> None:
    both = by_key()["medmcqa", "meditron_70b", "", "", "accuracy", ""]
    assert [figure.value for figure in both] == [53.30, 66.00]
    assert all("alt:" in figure.note for figure in both)
    assert published("mintaka", "kaping", metric="hit@1").value == 7.5  # type: ignore[union-attr]


@pytest.mark.dev_data
def test_values_are_those_of_the_material(dev_data: Path) -> None:
    """Compared with the material it was made of, where that lies beside the development data."""
    material = Path(os.environ["EVIDENCE_DEV_DATA"]).parent / "figures" / "paper_results.csv"
    if not material.is_file():
        pytest.skip("the figures' material is not beside the development data")
    with material.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    ours = [
        (
            f.document,
            f.table,
            IN_MATERIAL.get(f.scope, f.benchmark),
            f.system,
            f.variant,
            f.model,
            f.metric,
            f.label,
            f.printed,
        )
        for f in figures()
    ]
    swapped = {"novelty": "diversity", "diversity": "novelty"}
    for row in rows:
        if "printed under head" in row["note"]:
            row["metric"] = swapped[row["metric"]]
        if (row["document"], row["table"]) == ("a2q", "6") and "dataset not stated" in row["note"]:
            row["benchmark"] = "csqa"  # compared there, as nothing is printed
    fields = ("document", "table", "benchmark", "system", "variant", "model", "metric", "label", "value")
    assert ours == [tuple(row[field] for field in fields) for row in rows]
