"""Recorded answers of other models, scored from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_assets_tests.systems.test_replay import lay
from tools.replay import app


def test_recorded_answers_are_scored_by_model_and_mode(tmp_path: Path) -> None:
    folder = lay(tmp_path, ['{"answer_choice": "B"}', '{"answer_choice": "A"}', "no idea"], ids=["1", "2", "3"])
    done = CliRunner().invoke(app, [str(folder), "--json"])
    assert done.exit_code == 0, done.output
    own, everything = json.loads(done.output)
    assert (own["accuracy"], own["n"], own["unusable"]) == (pytest.approx(1 / 3), 3, 1)
    assert everything == own | {"benchmark": "all"}
    shown = CliRunner().invoke(app, [str(folder)])
    assert "1 unusable: the reply names no option" in shown.output


def test_a_folder_without_a_recording_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, [str(tmp_path)])
    assert done.exit_code == 1 and "index.tsv:thereisnosuchfile" in "".join(done.output.split())
