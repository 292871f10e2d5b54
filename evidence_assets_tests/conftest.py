"""Fixtures that several test modules share."""

import contextvars
import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import hypothesis
import pytest
import sqlalchemy
from click.testing import Result
from typer.testing import CliRunner

from evidence_assets.lake.store import Lake

SMALL_PROFILE = """\
extends: embedded
name: small
sample: small
harvesting: {training_steps: 300, n: 20, prompts: 2}
"""
REPOSITORY = Path(__file__).resolve().parent.parent
DAGSTER_SETTINGS = REPOSITORY / "dagster.yaml"
SMALL_SAMPLE = REPOSITORY / "evidence_assets" / "sample" / "small"
# A developer's own lake may declare assets; tests see a folder that does not exist.
os.environ["EVIDENCE_LAKE"] = str(REPOSITORY.parent / "no_lake")

# The duration of an example depends on the machine's load.
hypothesis.settings.register_profile("patient", hypothesis.settings(deadline=None))
hypothesis.settings.load_profile("patient")


@sqlalchemy.event.listens_for(sqlalchemy.Engine, "connect")
def _spare_the_disk(connection: object, _record: object) -> None:
    """Do not sync Dagster's databases to disk in tests."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous=OFF")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that need a materialized demo, so that ``-m "not demo"`` leaves them out."""
    if "made_world" in getattr(item, "fixturenames", ()):
        item.add_marker("demo")


@pytest.hookimpl(trylast=True)  # after ``-m`` has deselected tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, which balances parallel workers.

    One file starts `made_world`; the others that use it come last, so that no worker waits for it.
    """
    slow = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("long")}
    waiting = {item.path for item in items if "made_world" in getattr(item, "fixturenames", ())}
    first = next((item.path for item in items if item.path in waiting & slow), None)
    items.sort(key=lambda item: (item.path != first, item.path in waiting - {first}, item.path not in slow))


_running = set[pytest.Item]()
"""The test that runs in a context of its own."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run each test, with its fixtures, in a copy of the context variables.

    Dagster keeps the instance that was entered last in such a variable. A test that leaves one there would make all
    later tests of the process fail with "undefined DagsterInstance weakref".
    """
    if item in _running:
        return None
    _running.add(item)
    try:
        contextvars.copy_context().run(item.ihook.pytest_runtest_protocol, item=item, nextitem=nextitem)
    finally:
        _running.remove(item)
    return True


def _settings() -> dict[str, str]:
    """The environment variables that settings are read from."""
    return {name: value for name, value in os.environ.items() if name.startswith("EVIDENCE_")}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Forget what was loaded with the settings of a test, so that later tests do not see its profile or presets."""
    while_running = _settings()
    yield
    if while_running != _settings() and "evidence_assets.benchmarks.declared_benchmarks" in sys.modules:
        from evidence_assets_tests.assets.small_worlds import (
            clear_profile_caches,
        )  # here, as most tests need no Dagster

        clear_profile_caches()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Do not sync lakes to disk; another test counts the syncs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True)
def _same_environment_afterwards() -> Iterator[None]:
    """Restore the environment, because commands set variables (`--lake`)."""
    before = dict(os.environ)
    yield
    if os.environ != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def other_settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A monkeypatch for profiles, presets and declarations; clears their caches before and after."""
    from evidence_assets_tests.assets.small_worlds import clear_profile_caches  # here, as most tests need no Dagster

    clear_profile_caches()
    yield monkeypatch
    monkeypatch.undo()
    clear_profile_caches()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake with one shard of everything."""
    return Lake.create(tmp_path / "data_lake", question_shards=1, corpus_shards=1)


@pytest.fixture(scope="session")
def dev_data() -> Path:
    """Folder of real development datasets, or a skip with its reason."""
    name = os.environ.get("EVIDENCE_DEV_DATA", "")
    if not name or not Path(name).is_dir():
        pytest.skip("EVIDENCE_DEV_DATA names no folder: the real development datasets are absent")
    return Path(name)


def run_python(
    *arguments: str, env: Mapping[str, str] = MappingProxyType({}), timeout: float = 480, cwd: Path | None = None
) -> str:
    """Run a Python process with more environment variables; returns its output, or fails with its errors."""
    process = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        check=False,
    )
    assert process.returncode == 0, (process.stdout + process.stderr)[-3000:]
    return process.stdout


@dataclass(frozen=True)
class World:
    """A lake, a Dagster home and the small profile of one test."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "EVIDENCE_LAKE": str(self.root / "data_lake"),
            "DAGSTER_HOME": str(self.root / "dagster_home"),
            "EVIDENCE_PROFILE": str(self.root / "small.yaml"),
        }

    def run(self, *command: str) -> str:
        """Run the command line in a child process; returns its output."""
        return run_python("-m", "evidence_assets.cli", *command, env=self.environment, timeout=600)

    def invoke(self, *command: str) -> Result:
        """Run the command line in this process."""
        from evidence_assets.cli import app
        from evidence_assets_tests.assets.small_worlds import clear_profile_caches  # most tests need no Dagster

        clear_profile_caches()
        try:
            return CliRunner().invoke(app, list(command), env=dict(self.environment))
        finally:
            clear_profile_caches()

    def data(self) -> dict[str, str]:
        """Content hash of every data file; history is excluded, because it differs between runs."""
        lake = self.root / "data_lake"
        return {
            str(path.relative_to(lake)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(lake.rglob("*"))
            if path.is_file() and path.relative_to(lake).parts[0] not in ("history", ".locks", "cache")
        }


def new_world(root: Path) -> World:
    """An empty world below ``root``, with the repository's own Dagster settings."""
    (root / "dagster_home").mkdir(parents=True)
    (root / "dagster_home" / "dagster.yaml").write_bytes(DAGSTER_SETTINGS.read_bytes())
    (root / "small.yaml").write_text(SMALL_PROFILE)
    return World(root)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """An empty world."""
    return new_world(tmp_path / "world")


@pytest.fixture(scope="session")
def made_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A read-only world with the whole graph materialized.

    Parallel test processes share it: the first one materializes it, the others wait.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    root = shared / "made" / "world"
    with (shared / "made.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "first_run.txt").exists():
            shutil.rmtree(root, ignore_errors=True)
            output = new_world(root).run("demo")
            (root / "first_run.txt").write_text(output)
    return World(root)


@pytest.fixture
def changed_world(made_world: World, tmp_path: Path) -> World:
    """A copy of the materialized world that a test may change."""
    shutil.copytree(made_world.root, tmp_path / "world")
    return World(tmp_path / "world")
