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


def test_harvests_are_counted_as_printed(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    multi, initial, lama = read_recorded_harvests(outputs)
    assert set(multi.pairs) == {"HasSubevent", "UsedFor"} and set(lama.pairs) == {"P37"}, (
        "others are not counted in print"
    )
    assert multi.counts == {"tuples": 3, "fact_count": 6, "diversity": 5}
    printed = [harvest.printed("tuples") for harvest in (multi, initial, lama)]
    assert [f and (f.system, f.variant, f.model, f.benchmark) for f in printed] == [
        ("bertnet", "multi_prompts", "bert-large", "conceptnet"),
        ("bertnet", "initial_prompt", "roberta-large", "conceptnet"),
        ("bertnet", "multi_prompts", "bert-large", "lama"),
    ]
    main(outputs)
    assert "tuples 2, printed 18,566" in capsys.readouterr().out


def test_the_error_names_a_malformed_or_misplaced_file(tmp_path: Path) -> None:
    write_files(tmp_path, {f"lama/{SETTING}/bert/P37_x/ent_tuples.json": '[\n[["a", "b"], -1],\n[["a"], -1]\n]'})
    with pytest.raises(BadInput, match=r"ent_tuples\.json:3: expected \[\[head, tail\], score\]"):
        read_recorded_harvests(tmp_path)
    with pytest.raises(BadInput, match="has no file <set>"):
        read_recorded_harvests(write_files(tmp_path / "more", {"x/y/z/P37/ent_tuples.json": "[]"}))


def test_the_published_folders_are_all_found_with_novelty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders as in the authors' repository; the tuples are constructed."""
    tuples, other = (json.dumps([[pair, -1.0]]) for pair in (["pen", "paper"], ["ink", "paper"]))
    settings = ("initprompts", "top1prompts", "top20prompts")
    models = ("bert-large-cased", "roberta-large", "distilbert-base-cased")
    files = {
        f"results/{folder}/1000tuples_{setting}/{model}/{relation}/ent_tuples.json": tuples
        for folder, relation in (("conceptnet", "UsedFor"), ("lama", "P37_official_language"), ("human", "antonym"))
        for setting in settings
        for model in models
    }
    files["results/lama/1000tuples_top20prompts/roberta-large/P413_position_played_on_team__speciality/x.json"] = "[]"
    files["results/conceptnet/1000tuples_initprompts/bert-large-cased/summary.txt"] = "not a list"
    files["results/conceptnet/1000tuples_top20prompts/bert-large-cased/IsA/ent_tuples.json"] = other
    files["raw/references/conceptnet/train100k.txt"] = "UsedFor\tpen\tpaper\t1\nIsA\tink\tliquid\t0\n"
    write_files(tmp_path, files)
    harvests = read_recorded_harvests(tmp_path / "results")
    in_print = {(h.collection, h.variant, h.model) for h in harvests if h.printed("tuples")}
    variants = ("initial_prompt", "top1_prompt", "multi_prompts")
    assert in_print == {(c, v, m) for c in ("conceptnet", "lama") for v in variants for m in models[:2]}
    main(tmp_path / "results", tmp_path / "raw")
    lines = capsys.readouterr().out.splitlines()
    best = "conceptnet 1000tuples_top20prompts bert-large-cased, 2 relations: "
    assert f"{best}novelty against conceptnet_train100k 33.33, printed 60.83" in lines, "ink is new, and false before"
    assert f"{best}tuples 2, printed 14,052" in lines
    assert lines[-1] == "18 sets, 12 of them in print; novelty against conceptnet_train100k"
