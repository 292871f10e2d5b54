"""Recorded outputs of BertNet, as its authors lay them out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evidence_assets.lake.errors import BadInput
from evidence_assets_tests.benchmarks.official.contract import write_files
from tools.bertnet_outputs import main, read_recorded_harvests

SETTING = "1000tuples_20prompts_5seeds_maxsubwords2_maxrepeat5_temp1.0"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    tuples = json.dumps([[["teacher", "student"], -1.4], [["Teacher", "child"], -1.9]], indent=4)
    return write_files(
        tmp_path,
        {
            f"conceptnet/{SETTING}/bert-large-cased/HasSubEvent/ent_tuples.json": tuples,
            f"conceptnet/{SETTING}/bert-large-cased/UsedFor/ent_tuples.json": json.dumps([[["pen", "student"], -1]]),
            f"conceptnet/{SETTING}_initprompts/roberta-large/UsedFor/ent_tuples.json": tuples,
            f"lama/{SETTING}/bert-large-cased/P37_official_language/ent_tuples.json": tuples,
            f"lama/{SETTING}/bert-large-cased/P1303_instrument/ent_tuples.json": tuples,
        },
    )


def test_they_are_counted_as_printed(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    multi, initial, lama = read_recorded_harvests(outputs)
    assert set(multi.pairs) == {"HasSubevent", "UsedFor"} and set(lama.pairs) == {"P37"}, (
        "others are not counted in print"
    )
    assert multi.numbers == {"tuples": 3, "fact_count": 6, "diversity": 5}
    printed = [harvest.printed("tuples") for harvest in (multi, initial, lama)]
    assert [f and (f.system, f.variant, f.model, f.benchmark) for f in printed] == [
        ("bertnet", "multi_prompts", "bert-large", "conceptnet"),
        ("bertnet", "initial_prompt", "roberta-large", "conceptnet"),
        ("bertnet", "multi_prompts", "bert-large", "lama"),
    ]
    main(outputs)
    assert "tuples 2, printed 18,566" in capsys.readouterr().out


def test_a_malformed_one_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, {f"lama/{SETTING}/bert/P37_x/ent_tuples.json": '[\n[["a", "b"], -1],\n[["a"], -1]\n]'})
    with pytest.raises(BadInput, match=r"ent_tuples\.json:3: expected \[\[head, tail\], score\]"):
        read_recorded_harvests(tmp_path)
    with pytest.raises(BadInput, match="is not in a folder"):
        read_recorded_harvests(write_files(tmp_path / "more", {"x/y/z/P37/ent_tuples.json": "[]"}))
