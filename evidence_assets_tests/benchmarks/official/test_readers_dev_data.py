"""The readers on small real files: everything is read, gold evidence is found where it says."""

from pathlib import Path

import pytest

from evidence_assets.benchmarks.dataset_info import find_dataset
from evidence_assets.benchmarks.readers import read_questions

pytestmark = pytest.mark.dev_data

FILES = [
    ("medqa", "medqa", "test", 100),
    ("medmcqa", "medmcqa", "dev", 100),
    ("mmlu_medical_genetics", "mmlu", "test", 100),
    ("csqa", "csqa", "train", 100),
    ("obqa", "obqa", "dev", 500),
    ("arc_c", "arc", "dev", 100),
    ("pubmedqa", "pubmedqa", "labelled", 100),
    ("mintaka", "mintaka", "dev", 100),
    ("hotpotqa", "hotpotqa-100", "train", 100),
    ("stark_prime_synth", "stark/primekg", "all", 50),
    ("stark_mag_synth", "stark/mag", "all", 50),
    ("stark_amazon_synth", "stark/amazon", "all", 50),
]


@pytest.mark.parametrize(("name", "folder", "split", "count"), FILES, ids=[case[0] for case in FILES])
def test_every_row_is_read(dev_data: Path, name: str, folder: str, split: str, count: int) -> None:
    results = list(read_questions(name, dev_data / folder, split))
    assert len(results) == count and len({question.question_id for question in results}) == count
    assert all(question.gold for question in results)
    full = find_dataset(name).counts[split] == count
    assert (find_dataset(name).count_note(split, count) == "") == full
