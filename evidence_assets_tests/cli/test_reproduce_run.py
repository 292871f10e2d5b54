"""``evidence reproduce TABLE --run`` in a small world with the printed models' names."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evidence_assets import profiles
from evidence_assets.cli import app
from evidence_assets.experiment import solvers
from evidence_assets.lake.catalogue import connect, find_lake
from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.lake.store import Lake
from evidence_assets.models import registry
from evidence_assets.models.protocols import Completion, Request
from evidence_assets.reproduction.presets import PRESETS_VARIABLE
from evidence_assets.systems.kbloom import harvest_stages, sample_model
from evidence_assets.systems.kbloom.seeds import collection_folder, list_seed_files
from evidence_assets_tests.assets.small_worlds import clear_profile_caches
from evidence_assets_tests.assets.test_every_table import published_harvesting
from evidence_assets_tests.assets.tiny_lake import masked, official_files, reply_by_rule, seed_files
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.models.test_span_reader import make_reader
from evidence_assets_tests.systems.small_models import ScriptedGenerator

UMLS_RELATIONS = sorted(path.stem for path in list_seed_files(collection_folder("umls")))
"""The 15 relations that the thesis prints."""


class OneByOne(ScriptedGenerator):
    """Replies arrive one by one, as from a server."""

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        for number, request in enumerate(requests):
            yield number, self.generate([request])[0]


class SmallServer:
    """A mock language model; it fails after ``limit`` requests."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.limit = 10**9

    def reply(self, request: Request) -> str:
        if len(self.requests) >= self.limit:
            raise ModelUnavailable("the server is away")
        self.requests.append(request)
        return reply_by_rule(request)


@pytest.fixture
def server(tmp_path: Path, other_settings: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[SmallServer]:
    """A lake with small official files, a profile named paper, and a mock server in place of its models.

    The parameter is the packaged profile with these models, paper by default.
    """
    published = getattr(request, "param", "paper")
    mock = SmallServer()
    root = tmp_path / "world"
    root.mkdir()
    generators = profiles.load(published).generators.items()
    models = ", ".join(f"{name}: {{backend: openai, name: '{each.name}'}}" for name, each in generators)
    lines = ["extends: embedded", "name: paper", "sample: small", f"generators: {{{models}}}"]
    lines += [f"reader: {{name: '{make_reader(root / 'reader', positions=514)}'}}"]
    lines += published_harvesting(published, root / "models", n=4, prompts=1)
    (root / "profile.yaml").write_text("\n".join(lines) + "\n")
    paths = {"EVIDENCE_LAKE": "data_lake", "DAGSTER_HOME": "home", profiles.PROFILE_VARIABLE: "profile.yaml"}
    for name, path in paths.items():
        other_settings.setenv(name, str(root / path))
    other_settings.setenv(PRESETS_VARIABLE, "")
    other_settings.setattr(
        solvers, "load_cached_generator", lambda settings: OneByOne(mock.reply, model_id=settings.name)
    )
    for module in (harvest_stages, registry, sample_model):
        other_settings.setattr(module, "get_masked_lm", lambda lake, settings: masked(settings.name))
    clear_profile_caches()
    raw = Lake.create(root / "data_lake", question_shards=1, corpus_shards=1).root / "raw"
    official_files(raw)
    write_files(raw, seed_files(dict.fromkeys(UMLS_RELATIONS, "umls")))
    yield mock
    clear_profile_caches()


def run(table: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", table, "--run"])


@pytest.mark.slow
def test_a_table_is_filled_with_one_command_and_continues_after_a_failure(server: SmallServer) -> None:
    server.limit = 6
    failed = run("thesis-fig-3.4")
    assert failed.exit_code == 1 and "the server is away" in failed.output
    assert "evidence reproduce thesis-fig-3.4 --run` again; finished work is reused" in failed.output
    server.limit = 10**9
    filled = run("thesis-fig-3.4")
    assert filled.exit_code == 0, filled.output
    assert "3 printed, 3 can be filled, 3 are filled" in filled.output
    prompts = [(request.system, request.user) for request in server.requests]
    assert len(prompts) == len(set(prompts)), "no finished reply is requested again"


def check_filled(result: Result) -> None:
    """Check that a table has a score, and that cells without one need recorded answers."""
    assert result.exit_code == 0, result.output
    counts = re.search(r"(\d+) printed, (\d+) can be filled, (\d+) are filled", result.output)
    records = result.output.count("needs recorded answers")
    assert counts and int(counts[3]) > 0 and int(counts[2]) - int(counts[3]) <= records, result.output


@pytest.mark.long
@pytest.mark.parametrize("server", ["companions"], indirect=True)
def test_a_table_of_searches_is_filled_by_served_triplets_and_grades(server: SmallServer) -> None:
    check_filled(run("4stepfocus-1"))
    asks_triplets = ['"triplets"' in (request.json_schema or "") for request in server.requests]
    assert any(asks_triplets) and not all(asks_triplets)
    with connect() as connection:
        rows = connection.execute("SELECT status, count(*) FROM predictions GROUP BY status").fetchall()
    assert rows and "failed" not in dict(rows), rows


@pytest.mark.long
@pytest.mark.parametrize(
    "table", ["thesis-3.5", "thesis-4.1", "thesis-5.7", "thesis-6.4", "thesis-7.7", "a2q-6", "kaping-background-5.5"]
)
def test_a_table_is_filled(table: str, server: SmallServer) -> None:
    result = run(table)
    check_filled(result)
    if table == "a2q-6":
        assert not server.requests, "its figures are of evidence"
    if table == "thesis-3.5":
        assert "[1] erratum: SUPPORTS and NEI rows swapped" in result.output
    if table == "thesis-6.4":
        lake = Lake(find_lake())
        harvested_files = lake.files("triples", "knowledge/kbloom_medical/harvest")
        assert sorted(path.stem for path in harvested_files) == UMLS_RELATIONS
        assert not lake.files("chunks", "corpus/wikipedia/chunks"), "the table needs no text"
