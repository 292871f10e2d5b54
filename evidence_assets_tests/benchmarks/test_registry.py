"""The one door to the datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_assets.benchmarks.info import dataset, datasets
from evidence_assets.benchmarks.readers import READERS, read_questions
from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.official import test_choice_readers, test_open_readers, test_table_readers


def test_every_registered_dataset_passes_the_contract() -> None:
    assert {
        name
        for module in (test_choice_readers, test_open_readers, test_table_readers)
        for each in vars(module).values()
        if hasattr(each, "NAMES") and hasattr(each, "WHOLE")
        for name in each.NAMES
    } == set(READERS) | {name for name, info in datasets().items() if info.fields}


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
    assert dataset("csqa").count_note("dev", 1221) == ""
    assert dataset("csqa").count_note("dev", 100) == (
        "CommonsenseQA 1.11, split dev: 100 questions, officially 1,221; this is a subset."
    )
    assert "more than the official file holds" in dataset("csqa").count_note("dev", 1222)
    assert dataset("beir").count_note("test", 5) == ""
