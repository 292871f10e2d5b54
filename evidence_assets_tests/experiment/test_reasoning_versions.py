"""Rows from model replies are recomputed only when the model, its revision or a prompt changes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from evidence_assets.experiment.answers.chains import chain_rows
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import variants_of
from evidence_assets.lake.rows import prepare_rows
from evidence_assets.profiles import PROFILE_VARIABLE
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.systems import load
from evidence_assets_tests.lake_rows import as_stored
from evidence_assets_tests.systems.small_models import ScriptedGenerator

QUESTION = Question("q1", "own", "mcqa", "What treats pain?", ("aspirin", "gold"))


def other_version(task: PromptedTask[object, object], prompts: object = None) -> str:
    return f"other version of {task.name}"


def chains(rows: list[dict[str, object]], revision: str = "1", **parameters: object) -> StageOutput:
    model = ScriptedGenerator('{"steps": []}')
    model.revision, model.parameters = revision, parameters
    solver = PromptedSolver(LanguageModel(model))
    previous = PreviousOutput(as_stored("chains", rows), as_stored("lineage_edges", []))
    return chain_rows(solver, "s", [QUESTION], as_stored("evidence", []), previous)


def test_chains_are_recomputed_for_another_revision_setting_or_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    first = chains([])
    rows = prepare_rows("chains", first.rows).to_pylist()
    assert len(rows) == 2 and chains(rows).reused == 2
    assert chains(rows, "2").reused == 0
    assert chains(rows, constrain="none").reused == 0
    monkeypatch.setattr(PromptedTask, "version_with", other_version)
    assert chains(rows).reused == 0


MODEL = {"backend": "openai", "name": "llama", "revision": "1", "constrain": "json_schema"}
CASES = {"mcqa": "uscrake", "table": "ucret", "search": "four_step_focus"}


def versions(family: str, folder: Path, patch: pytest.MonkeyPatch, **changes: object) -> dict[str, str]:
    """Code versions of a variant's stages, by table, with a profile that has a language model."""
    profile = {"extends": "embedded", "name": "own", "generator": {**MODEL, **changes}}
    path = folder / f"{abs(hash(str(profile)))}.yaml"
    path.write_text(yaml.safe_dump(profile))
    patch.setenv(PROFILE_VARIABLE, str(path))
    variant = next(v for v in variants_of(CASES[family]) if v.family == family and not v.evidence and v.explain)
    return {stage.table: stage.version for stage in build_stages(load(CASES[family]), variant)}


@pytest.mark.parametrize("family", CASES)
def test_code_versions_contain_model_and_prompts(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = versions(family, tmp_path, monkeypatch)
    prompted_tables = {"evidence", "predictions"} if family == "search" else {"chains", "predictions"}
    for change in ({"name": "qwen"}, {"revision": "2"}, {"constrain": "none"}):
        other = versions(family, tmp_path, monkeypatch, **change)
        assert {table for table in first if other[table] != first[table]} & {
            "evidence",
            *prompted_tables,
        } == prompted_tables, change
    for same in ({"concurrency": 4}, {"base_url": "http://elsewhere/v1"}, {"timeout_seconds": 9}):
        assert versions(family, tmp_path, monkeypatch, **same) == first, same
    monkeypatch.setattr(PromptedTask, "version_with", other_version)
    other = versions(family, tmp_path, monkeypatch)
    assert all(other[table] != first[table] for table in prompted_tables)
