"""A lake, a profile and declarations of release 0.1 (revision 5e97dff2) are read by this release."""

import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from evidence_assets.assets.benchmark import Benchmark
from evidence_assets.assets.corpus import Corpus
from evidence_assets.cli import app
from evidence_assets.lake import connect
from evidence_assets.profiles import load

EARLIER = Path(__file__).parent / "release_0_1"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A copy of a lake that release 0.1 wrote: one variant on the sample's graph questions."""
    shutil.copytree(EARLIER / "lake", tmp_path / "lake")
    return tmp_path / "lake"


def test_all_tables_of_the_lake_are_queried(lake: Path) -> None:
    with connect(lake) as connection:
        sizes = {
            table: connection.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]
            for table in ("questions", "evidence", "predictions", "citations", "scores", "lineage_edges")
        }
    assert sizes["questions"] == sizes["predictions"] == 30
    assert min(sizes.values()) > 0


def test_an_answer_is_shown_and_traced_to_its_question(lake: Path) -> None:
    with connect(lake) as connection:
        prediction = connection.sql("SELECT prediction_id FROM predictions WHERE status = 'answered'").fetchall()[0][0]
    card = CliRunner().invoke(app, ["card", prediction, "--lake", str(lake)])
    trace = CliRunner().invoke(app, ["trace", prediction, "--lake", str(lake)])
    assert card.exit_code == trace.exit_code == 0, card.output + trace.output
    assert "question" in trace.output and "evidence" in trace.output


def test_a_profile_is_read() -> None:
    profile = load(str(EARLIER / "profile.yaml"))
    settings = (profile.retrieval.R, profile.ugat.D, profile.automation, profile.generator.name)
    assert settings == (200, 2, True, "qwen2.5")


@pytest.mark.parametrize(("kind", "component"), [("corpus", Corpus), ("benchmarks", Benchmark)])
def test_declarations_are_read(kind: str, component: type[Corpus | Benchmark]) -> None:
    fields = yaml.safe_load((EARLIER / "declarations" / kind / "mine" / "defs.yaml").read_text())
    assert fields["type"] == f"{component.__module__}.{component.__name__}"
    assert component.model_validate(fields["attributes"]).name == "mine"
