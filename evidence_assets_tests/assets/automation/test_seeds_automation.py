"""Seed files and their downstream assets, tested with sensor ticks over real runs.

The requested runs are queued and executed. Nothing is stubbed: the sample's model is trained for a few hundred steps.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets import command_plans, seeds
from evidence_assets.assets.command_plans import announce_plan
from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.reextraction import SCHEDULE
from evidence_assets.assets.resources import LakeResource
from evidence_assets_tests.assets.automation.automation_world import (
    COLLECTION,
    RELATIONS,
    Asset,
    SensorWorld,
    add_backfill,
    end_backfill,
    write_seed,
)
from evidence_assets_tests.conftest import DAGSTER_SETTINGS, SMALL_PROFILE
from evidence_assets_tests.processes import REPOSITORY, START_TIMEOUT_S, child_processes, query_dagster, serve_dagster

pytestmark = pytest.mark.long
PROFILE = SMALL_PROFILE.replace("n: 20,", "n: 12, sample_relations: [],")
SEEDS, HARVEST = "knowledge/seeds", "knowledge/kbloom/harvest"
PROMPTS, CANDIDATES = "knowledge/kbloom/prompts", "knowledge/kbloom/candidates"
STAGES = [[PROMPTS], [CANDIDATES, f"{PROMPTS}_bertnet"], [f"{CANDIDATES}_bertnet"], [HARVEST]]
"""The stages of a harvest, those in one list at a time."""
MERGED: list[Asset] = [(COLLECTION, None), ("knowledge/kbloom/commonsense", None), ("scores/knowledge/kbloom", None)]


def stages(*relations: str) -> list[list[Asset]]:
    """What the sensor requests to harvest relations, tick by tick."""
    return [[(name, relation) for name in names for relation in sorted(relations)] for names in STAGES]


def environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(root / "data_lake"))
    monkeypatch.setenv("DAGSTER_HOME", str(root / "dagster_home"))
    monkeypatch.setenv("EVIDENCE_PROFILE", str(root / "small.yaml"))


@pytest.fixture(scope="module")
def built_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with three harvested relations."""
    root = tmp_path_factory.mktemp("house")
    (root / "dagster_home").mkdir()
    (root / "dagster_home" / "dagster.yaml").write_bytes(DAGSTER_SETTINGS.read_bytes())
    (root / "small.yaml").write_text(PROFILE)
    with pytest.MonkeyPatch.context() as patch:
        environment(root, patch)
        for name, (prompt, pairs) in RELATIONS.items():
            write_seed(root / "data_lake", name, prompt, pairs)
        sensor_world = SensorWorld.open(root)
        sensor_world.make("raw/sample")
        sensor_world.make("corpus/sample/chunks", "corpus/sample/embeddings", partition="0")
        sensor_world.make("corpus/sample/index", "models/masked_lm", "raw/seeds", "knowledge/sample/triples")
        requested = sensor_world.settle()
        assert requested == [[(SEEDS, name) for name in sorted(RELATIONS)], *stages(*RELATIONS)]
        sensor_world.make(*(name for name, _ in MERGED))
        assert sensor_world.settle() == []
        sensor_world.instance.dispose()
    return root


@pytest.fixture
def copy(built_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the lake and its instance that a test may change."""
    shutil.copytree(built_root, tmp_path / "house")
    environment(tmp_path / "house", monkeypatch)
    return tmp_path / "house"


@pytest.fixture
def sensor_world(copy: Path) -> SensorWorld:
    return SensorWorld.open(copy)


def test_an_edit_requests_its_relation_and_then_all_downstream_assets_once(sensor_world: SensorWorld) -> None:
    sensor_world.seed("leads_to", [["epilepsy", "tuberculosis"]], prompt="<HEAD> can respond well to <TAIL>")
    assert sensor_world.tick() == [(SEEDS, "leads_to")]
    assert sensor_world.stale() == set()
    sensor_world.work()
    own_stages = {asset for assets in stages("leads_to") for asset in assets}
    assert sensor_world.stale() == {*own_stages, *MERGED}, "of the relations, only the edited one is stale"
    assert sensor_world.settle() == [*stages("leads_to"), MERGED]
    assert sensor_world.stale() == set()


def scheduled(sensor_world: SensorWorld) -> list[Asset]:
    """What the schedule requests, in order; the runs are executed."""
    repository = load_definitions().get_repository_def()
    with dg.build_schedule_context(
        instance=sensor_world.instance,
        repository_def=repository,
        resources={"lake": LakeResource()},
        scheduled_execution_time=datetime(2026, 11, 30, 3, tzinfo=UTC),
    ) as context:
        evaluation = repository.get_schedule_def(SCHEDULE).evaluate_tick(context)
    requests = list(evaluation.run_requests or ())
    for request in requests:
        names = [key.to_user_string() for key in request.asset_selection or ()]
        sensor_world.make(*names, partition=request.partition_key)
    return [(key.to_user_string(), r.partition_key) for r in requests for key in r.asset_selection or ()]


def test_the_schedule_harvests_relations_with_changed_seeds_prompts_or_model(
    sensor_world: SensorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert scheduled(sensor_world) == [], "nothing has changed"
    sensor_world.seed("leads_to", prompt="<HEAD> can respond well to <TAIL>")
    sensor_world.seed("brings", [["febuxostat", "gout"]])
    names = {name for names in ([SEEDS], *STAGES) for name in names}
    requested = scheduled(sensor_world)
    assert sorted(requested) == sorted((name, relation) for relation in ("brings", "leads_to") for name in names)
    assert [relation for _, relation in requested] == ["brings"] * len(names) + ["leads_to"] * len(names)
    assert scheduled(sensor_world) == []
    followed = {name for name, _ in sensor_world.tick()}
    assert followed == {"raw/seeds", *(name for name, _ in MERGED)}, "no relation is left to the sensors"
    sensor_world.work()
    sensor_world.seed("leads_to", [["epilepsy", "tuberculosis"]])
    sensor_world.settle()
    assert scheduled(sensor_world) == [], "with the sensors on, nothing is left to do"
    other = sensor_world.root / "other.yaml"
    other.write_text(PROFILE.replace("n: 12,", "n: 11,"))
    monkeypatch.setenv("EVIDENCE_PROFILE", str(other))
    relations = ("brings", "leads_to", "listed_with", "may_treat")
    requested = scheduled(SensorWorld.open(sensor_world.root))
    names = {CANDIDATES, f"{CANDIDATES}_bertnet", HARVEST}
    assert sorted(requested) == sorted((name, relation) for relation in relations for name in names), (
        "n is of the search"
    )


@pytest.fixture
def dagster_server(copy: Path, sensor_world: SensorWorld) -> Iterator[str]:
    """The address of ``dagster dev`` with its daemon; the sensors are off, the schedule, once on, is due each minute.

    The sensors are turned off before the daemon starts. Its first tick stores their states as it read them a moment
    before, so a sensor that is stopped meanwhile may be on again, and would take the edit from the schedule.
    """
    (copy / "small.yaml").write_text(PROFILE + "reextraction: '* * * * *'\n")
    names = ("EVIDENCE_LAKE", "DAGSTER_HOME", "EVIDENCE_PROFILE")
    settings = {name: os.environ[name] for name in names}
    with child_processes(copy) as start:
        for sensor in sensor_world.repository.sensor_defs:
            options = f"-m dagster sensor stop {sensor.name} -w {REPOSITORY / 'workspace.yaml'}"
            assert start(sensor.name, [sys.executable, *options.split()], settings).wait(START_TIMEOUT_S) == 0
        yield serve_dagster(start, copy, settings)


def turn_on_the_schedule(address: str) -> dict[str, str]:
    """Turn the schedule on, as its button in the UI does; returns what selects it."""
    repositories = query_dagster(
        address,
        "{ repositoriesOrError { ... on RepositoryConnection { nodes { "
        "name location { name } sensors { sensorState { status } } } } } }",
    )
    (repository,) = repositories["repositoriesOrError"]["nodes"]
    assert {sensor["sensorState"]["status"] for sensor in repository["sensors"]} == {"STOPPED"}
    selector = {
        "repositoryLocationName": repository["location"]["name"],
        "repositoryName": repository["name"],
        "scheduleName": SCHEDULE,
    }
    started = query_dagster(
        address, "mutation ($s: ScheduleSelector!) { startSchedule(scheduleSelector: $s) { __typename } }", s=selector
    )
    assert started["startSchedule"]["__typename"] == "ScheduleStateResult"
    return selector


def wait_for_ticks(address: str, selector: dict[str, str], last: str) -> list[str]:
    """Statuses of the schedule's ticks, oldest first, as soon as the newest has the status ``last``."""
    query = (
        "query ($s: ScheduleSelector!) { scheduleOrError(scheduleSelector: $s) "
        "{ ... on Schedule { scheduleState { ticks { status } } } } }"
    )
    deadline = time.monotonic() + 300
    while True:
        ticks = query_dagster(address, query, s=selector)["scheduleOrError"]["scheduleState"]["ticks"]
        statuses = [tick["status"] for tick in reversed(ticks)]
        if statuses and statuses[-1] == last:
            return statuses
        assert time.monotonic() < deadline, statuses
        time.sleep(1)


def scheduled_runs(address: str) -> list[tuple[str, str, list[str]]]:
    """Status, relation and assets of the runs that the schedule has requested."""
    query = (
        "query ($tags: [ExecutionTag!]) { runsOrError(filter: {tags: $tags}) "
        "{ ... on Runs { results { status tags { key value } assetSelection { path } } } } }"
    )
    tags = [{"key": "dagster/schedule_name", "value": SCHEDULE}]
    runs = query_dagster(address, query, tags=tags)["runsOrError"]["results"]
    partitions = [tag["value"] for run in runs for tag in run["tags"] if tag["key"] == "dagster/partition"]
    names = [sorted("/".join(key["path"]) for key in run["assetSelection"]) for run in runs]
    return [(run["status"], partition, n) for run, partition, n in zip(runs, partitions, names, strict=True)]


def test_dagsters_scheduler_harvests_the_edited_relation_and_nothing_else(
    copy: Path, sensor_world: SensorWorld, dagster_server: str
) -> None:
    selector = turn_on_the_schedule(dagster_server)
    wait_for_ticks(dagster_server, selector, "SKIPPED")
    assert scheduled_runs(dagster_server) == [], "nothing has changed"
    harvested = {path: path.read_bytes() for path in (copy / "data_lake/triples").rglob("*.parquet")}
    sensor_world.seed("leads_to", prompt="<HEAD> can respond well to <TAIL>")
    wait_for_ticks(dagster_server, selector, "SUCCESS")
    deadline = time.monotonic() + 300
    names = sorted(name for names in ([SEEDS], *STAGES) for name in names)
    while (runs := scheduled_runs(dagster_server)) != [("SUCCESS", "leads_to", names)]:
        assert [run[1:] for run in runs] == [("leads_to", names)] and runs[0][0] != "FAILURE", runs
        assert time.monotonic() < deadline, runs
        time.sleep(1)
    statuses = wait_for_ticks(dagster_server, selector, "SKIPPED")
    assert statuses.count("SUCCESS") == 1 and "FAILURE" not in statuses
    assert len(scheduled_runs(dagster_server)) == 1, "a second tick finds nothing to do"
    changed = [path for path, content in harvested.items() if path.read_bytes() != content]
    assert {path.stem for path in changed} == {"leads_to"}, "of the others no byte has changed"


def test_a_relation_of_an_unfinished_backfill_is_left_to_it(sensor_world: SensorWorld) -> None:
    backfill = add_backfill(sensor_world.instance, sensor_world.repository, SEEDS, "leads_to")
    for name in ("leads_to", "listed_with"):
        sensor_world.seed(name, [["epilepsy", "tuberculosis"]])
    assert sensor_world.tick() == [(SEEDS, "listed_with")]
    end_backfill(sensor_world.instance, backfill, "COMPLETED_FAILED")
    assert (SEEDS, "leads_to") in sensor_world.tick()


def test_what_a_command_materializes_is_left_to_it_while_it_lives(
    sensor_world: SensorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = [dg.AssetKey(name.split("/")) for name in (SEEDS, PROMPTS, "raw/seeds")]
    sensor_world.seed("brings", [["febuxostat", "gout"]])
    with announce_plan(sensor_world.instance, planned):
        assert sensor_world.tick() == []
        sensor_world.make("raw/seeds")
        sensor_world.make(SEEDS, partition="brings")
        assert sensor_world.tick() == [], "the command harvests it later"
    assert sensor_world.tick() == [(PROMPTS, "brings")]
    sensor_world.seed("leads_to", [["epilepsy", "tuberculosis"]])
    with monkeypatch.context() as patch:
        patch.setattr(command_plans, "SECONDS_VALID", 0.0)
        with announce_plan(sensor_world.instance, planned):
            assert (SEEDS, "leads_to") in sensor_world.tick(), "a killed command does not renew its plan"


def test_a_new_timestamp_or_layout_requests_nothing(sensor_world: SensorWorld) -> None:
    path = sensor_world.seed("leads_to")
    os.utime(path, (1, 1))
    assert sensor_world.tick() == []
    path.write_text("# a remark\n" + path.read_text().replace("collection: biomedical", "collection:   biomedical"))
    assert sensor_world.tick() == []


def test_a_new_file_becomes_a_partition_and_is_merged_once(sensor_world: SensorWorld) -> None:
    sensor_world.seed("brings", [["febuxostat", "gout"]])
    requested = sensor_world.settle(MERGED)
    assert requested[0] == [(SEEDS, "brings"), ("raw/seeds", None)]
    assert requested[1:] == [*stages("brings"), MERGED]
    assert sensor_world.partitions() == {*RELATIONS, "brings"}
    assert sensor_world.triples(COLLECTION, "brings") == sensor_world.triples(HARVEST, "brings") != []


def test_deleting_a_file_deletes_its_partition_and_triples_until_it_is_restored(sensor_world: SensorWorld) -> None:
    triples_before = sensor_world.triples(HARVEST, "leads_to")
    assert triples_before
    path = sensor_world.seed("leads_to")
    path.unlink()
    assert sensor_world.settle(MERGED) == [[("raw/seeds", None)], MERGED]
    assert sensor_world.partitions() == set(RELATIONS) - {"leads_to"}
    assert not [key for key in sensor_world.stale() if "leads_to" in key], "nothing is left that could be stale"
    sensor_world.make("knowledge/sample/edges")
    assert "leads_to" not in set(sensor_world.lake.read("kg_edges", "knowledge/sample/edges")["relation"])
    for table in ("relation_seeds", "prompts", "candidate_tuples", "triples"):
        assert "leads_to" not in set(
            sensor_world.lake.read(table).get_column("relation" if table == "triples" else "relation_id")
        )
    sensor_world.seed("leads_to")
    requested = sensor_world.settle(MERGED)
    assert requested == [[(SEEDS, "leads_to"), ("raw/seeds", None)], *stages("leads_to"), MERGED]
    assert sensor_world.triples(COLLECTION, "leads_to") == triples_before


def test_a_bad_seed_file_fails_the_check_and_the_others_are_harvested(sensor_world: SensorWorld) -> None:
    triples_before = sensor_world.triples(HARVEST, "leads_to")
    sensor_world.seed("leads_to", prompt="<HEAD> can lead to nothing")
    sensor_world.seed("may_treat", [["colchicine", "gout"]])
    (sensor_world.root / "data_lake/raw/seeds/broken.yaml").write_text("id: broken\npairs: [[a, '']]\n")
    requested = sensor_world.settle(MERGED)
    assert requested[0] == [(SEEDS, "may_treat"), ("raw/seeds", None)]
    assert requested[1][0] == (PROMPTS, "may_treat")
    passed, wrong = sensor_world.check("seed_files", "raw/seeds")
    assert not passed
    assert "leads_to.yaml:3: prompt: the prompt has no <TAIL>" in wrong
    assert "broken.yaml:1: collection: is missing" in wrong
    assert "broken" not in sensor_world.partitions(), "a file that was never good is no partition"
    assert sensor_world.triples(HARVEST, "leads_to") == triples_before, "one that was keeps what it had"
    sensor_world.seed("leads_to")
    (sensor_world.root / "data_lake/raw/seeds/broken.yaml").unlink()
    assert ("raw/seeds", None) in sensor_world.tick()
    sensor_world.work()
    assert sensor_world.check("seed_files", "raw/seeds") == (True, "none")


def test_contradictory_seeds_only_warn(tmp_path: Path) -> None:
    path = write_seed(
        tmp_path, "may_treat", "<HEAD> may treat <TAIL>", [["colchicine", "gout"], ["Gout", "colchicine"]]
    )
    result = seeds.seed_pairs_check(lake=LakeResource(root=str(tmp_path)))
    assert isinstance(result, dg.AssetCheckResult)
    assert not result.passed and result.severity == dg.AssetCheckSeverity.WARN
    assert f"{path.name}:" in str(result.metadata["problems"].value)
    path.unlink()
    assert seeds.seed_pairs_check(lake=LakeResource(root=str(tmp_path))).passed  # type: ignore[union-attr]


def test_nan_weights_fail_the_relation(sensor_world: SensorWorld) -> None:
    from safetensors.torch import load_file, save_file

    weights = sensor_world.lake.index_folder("models/masked_lm") / "model.safetensors"
    tensors = load_file(weights)
    save_file({name: tensor * float("nan") for name, tensor in tensors.items()}, weights, metadata={"format": "pt"})
    triples_before = sensor_world.triples(HARVEST, "leads_to")
    events = sensor_world.make(PROMPTS, partition="leads_to", succeeds=False)
    [failure] = [event for event in events if event.is_step_failure]
    assert "sample-masked-lm yields values that are not numbers" in failure.step_failure_data.error_display_string
    assert sensor_world.triples(HARVEST, "leads_to") == triples_before


def test_the_sample_is_installed_once_and_the_number_of_relations_is_limited(
    sensor_world: SensorWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = sensor_world.root / "with_sample.yaml"
    profile.write_text(SMALL_PROFILE.replace("n: 20,", "n: 20, sample_relations: [may_treat, may_cause],"))
    monkeypatch.setenv("EVIDENCE_PROFILE", str(profile))
    raw = sensor_world.lake.root / "raw"
    (raw / "sample/seeds/may_cause.yaml").write_text(sensor_world.seed("may_cause", [["hiv", "aids"]]).read_text())
    (raw / "seeds/may_cause.yaml").unlink()
    text_before = (raw / "seeds/may_treat.yaml").read_text()
    assert set(seeds.read_seeds(sensor_world.lake).relations) == {*RELATIONS, "may_cause"}
    assert (raw / "seeds/may_treat.yaml").read_text() == text_before, "a file of the user's is never replaced"
    (raw / "seeds/may_cause.yaml").unlink()
    assert set(seeds.read_seeds(sensor_world.lake).relations) == set(RELATIONS), "what was deleted stays deleted"
    monkeypatch.setattr(seeds, "MAX_RELATIONS", 2)
    seed_files = seeds.read_seeds(sensor_world.lake)
    assert len(seed_files.relations) == 2 and "at most 2 relations" in str(seed_files.errors[0])
