"""The bench of a harvest by a large masked model: run with a small one, its counts are those of the model's inputs."""

from collections.abc import Sequence

import pytest

from bench.harvest import large_model
from bench.harvest.large_model import Task, harvest
from evidence_assets.models.masked import HFMaskedLM

SMALL = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 128}


def test_each_stage_of_a_relation_has_its_passes(other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setattr(
        large_model, "DEVIATION", 0.8
    )  # the logits of a narrow model are as wide as those of a large
    inputs: list[int] = []
    build_inputs = HFMaskedLM._inputs

    def count_inputs(self: HFMaskedLM, rows: Sequence[Sequence[int]]) -> object:
        result = build_inputs(self, rows)
        inputs.append(len(result["input_ids"]))
        return result

    other_settings.setattr(HFMaskedLM, "_inputs", count_inputs)
    rows = harvest(Task(n=2), SMALL, "cpu")
    prefix = "knowledge/kbloom_initial/"
    stages = ("prompts", "candidates", "prompts_bertnet", "candidates_bertnet", "harvest")
    assert [row[1] for row in rows] == [*(prefix + name for name in stages), "all"]
    assert [row[2] for row in rows] == ["1", "8", "1", "2", "4", ""], "four heaps of K-Bloom, one of BertNet"
    passes, texts = ([int(row[column]) for row in rows] for column in (3, 4))
    assert passes[-1] == sum(passes[:-1]) == len(inputs)
    assert texts[-1] == sum(texts[:-1]) == sum(inputs)
    assert all(int(row[6].replace(",", "")) > 100 for row in rows), "megabytes of the process"
