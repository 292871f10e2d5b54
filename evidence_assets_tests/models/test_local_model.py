"""A real model on this computer, if EVIDENCE_LOCAL_MODEL names one as `evidence ask --model` does."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence_assets.cli import app
from evidence_assets.lake import connect
from evidence_assets.profiles.model_source import MODEL_VARIABLE

VARIABLE = "EVIDENCE_LOCAL_MODEL"
QUESTION = "How many hours a day do cats sleep?"


@pytest.fixture
def model(other_settings: pytest.MonkeyPatch) -> str:
    """The model, or a skip with its reason."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        pytest.skip(f"{VARIABLE} names no model")
    other_settings.setenv(MODEL_VARIABLE, name)
    return name


def ask(folder: Path, *options: str) -> dict[str, Any]:
    notes = folder / "notes"
    notes.mkdir(exist_ok=True)
    (notes / "cats.txt").write_text("Cats purr when they are content. Cats sleep for sixteen hours a day.\n")
    command = ["ask", QUESTION, "two", "sixteen", "--folder", str(notes), "--lake", str(folder / "lake"), "--json"]
    result = CliRunner().invoke(app, [*command, *options])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.usefixtures("model")
def test_four_short_calls_choose_and_rate_the_options(tmp_path: Path) -> None:
    answer = ask(tmp_path)
    assert answer["answer"] in ("A", "B") and 0.5 <= answer["confidence"] <= 1
    with connect(tmp_path / "lake") as connection:
        [(shares, tokens_out)] = connection.execute("SELECT probabilities, tokens_out FROM predictions").fetchall()
    assert sum(shares) == pytest.approx(1, abs=1e-5)
    assert tokens_out <= 8, "a letter and its end in each call: with and without the fact, in two orders"


@pytest.mark.usefixtures("model")
def test_explanations_cite_what_the_documents_say(tmp_path: Path) -> None:
    answer = ask(tmp_path, "--why")
    assert {chain["hypothesis"] for chain in answer["chains"]} == {"A", "B"}
    assert any(citation["verdict"] == "verified" for citation in answer["citations"])
