"""The images and compose files: their commands start a server in a bare folder; linters check the rest."""

import io
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dockerfile_parse import DockerfileParser

from evidence_assets_tests.conftest import REPOSITORY, SMALL_PROFILE
from evidence_assets_tests.processes import START_TIMEOUT_S, Start, child_processes, wait_for_reply
from tools.ports import free_port

DEPLOY = REPOSITORY / "deploy"
SERVICES = {
    (path.name, name): service
    for path in sorted(DEPLOY.rglob("*compose*.yaml"))
    for name, service in yaml.safe_load(path.read_text())["services"].items()
}


def instructions(path: Path) -> list[tuple[str, str]]:
    """Instructions of an image file with their values."""
    rows = DockerfileParser(fileobj=io.BytesIO(path.read_bytes())).structure
    return [(row["instruction"], row["value"]) for row in rows if row["instruction"] != "COMMENT"]


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*Dockerfile*")), ids=lambda path: path.name)
def test_copied_files_exist_and_private_folders_are_not_copied(path: Path) -> None:
    for instruction, value in instructions(path):
        if instruction == "COPY":
            *sources, _ = (word for word in value.split() if not word.startswith("--"))
            for source in sources:
                assert (REPOSITORY / source).exists(), f"COPY {source}"
    ignored = set((REPOSITORY / ".dockerignore").read_text().splitlines())
    assert {".git", ".venv", ".dagster", "data_lake", "build"} <= ignored


@pytest.mark.parametrize("key", sorted(SERVICES), ids=lambda key: key[1])
def test_services_have_ports_of_this_machine_only(key: tuple[str, str]) -> None:
    service = SERVICES[key]
    assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), service["ports"]
    assert not service.get("privileged") and "network_mode" not in service


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with child_processes(tmp_path) as start_process:
        yield start_process


@pytest.mark.long
def test_the_image_of_the_demo_shows_its_answers(start: Start, tmp_path: Path) -> None:
    image = instructions(DEPLOY / "Dockerfile")
    rows = dict(image[image.index(("FROM", "source AS demo")) : image.index(("FROM", "source AS cluster"))])
    command = json.loads(rows["CMD"])
    exposed, port = rows["EXPOSE"], str(free_port())
    assert f"--port {exposed}" in command[-1] and "--host 0.0.0.0" in command[-1]
    command[-1] = command[-1].replace("0.0.0.0", "127.0.0.1").replace(exposed, port)
    environment = dict(pair.split("=") for pair in rows["ENV"].split())
    environment = {name: value.replace(rows["WORKDIR"], str(tmp_path)) for name, value in environment.items()}
    (tmp_path / "small.yaml").write_text(SMALL_PROFILE)
    process = start("demo", command, environment | {"EVIDENCE_PROFILE": str(tmp_path / "small.yaml")})
    page = wait_for_reply(f"http://127.0.0.1:{port}/", process, tmp_path / "demo.log")
    assert "What this lake knows" in page and "sample_mcqa" in page
    assert (tmp_path / "data_lake" / "predictions").is_dir()


STATUS = """{
    workspaceOrError { ... on Workspace { locationEntries { name locationOrLoadError { __typename } } } }
    instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } } }"""


@pytest.mark.long
def test_the_services_of_dagster_load_the_code_location(start: Start, tmp_path: Path) -> None:
    services = {name: service for (_, name), service in SERVICES.items()}
    home = tmp_path / "home"
    home.mkdir()
    settings = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
    del settings["storage"]  # SQLite in place of Postgres
    (home / "dagster.yaml").write_text(yaml.safe_dump(settings))
    # Create the tables first: unlike with Postgres, two processes that create them at the same moment fail.
    dg.DagsterInstance.from_config(str(home)).dispose()
    shutil.copy(DEPLOY / "workspace.yaml", tmp_path)
    code_port, ui_port = str(free_port()), str(free_port())
    environment = {
        "DAGSTER_HOME": str(home),
        "EVIDENCE_CODE_HOST": "127.0.0.1",
        "EVIDENCE_CODE_PORT": code_port,
        "EVIDENCE_LAKE": str(tmp_path / "data_lake"),
    }
    ports = {"0.0.0.0": "127.0.0.1", str(services["code"]["environment"]["EVIDENCE_CODE_PORT"]): code_port}
    ports[services["webserver"]["ports"][0].split(":")[-1]] = ui_port
    processes = {}
    for name in ("code", "webserver", "daemon"):
        command = [ports.get(word, word) for word in services[name]["command"]]
        processes[name] = start(name, command, environment)
    address, query = f"http://127.0.0.1:{ui_port}/graphql", json.dumps({"query": STATUS}).encode()
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        reply: Any = json.loads(wait_for_reply(address, processes["webserver"], tmp_path / "webserver.log", query))
        [location] = reply["data"]["workspaceOrError"]["locationEntries"]
        daemons = reply["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
        is_loaded = (location["locationOrLoadError"] or {}).get("__typename") == "RepositoryLocation"
        if is_loaded and all(daemon["healthy"] for daemon in daemons if daemon["required"]):
            break
        logs = "".join(f"\n{path.name}:\n{path.read_text()[-2000:]}" for path in sorted(tmp_path.glob("*.log")))
        assert time.monotonic() < deadline, f"{reply}{logs}"
        time.sleep(1)
    assert location["name"] == "evidence_assets"
    assert {"SENSOR", "ASSET", "QUEUED_RUN_COORDINATOR"} <= {daemon["daemonType"] for daemon in daemons}
    assert all(process.poll() is None for process in processes.values())


# The files for a deployment say what the code and Dagster understand


COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())


def test_every_service_has_all_variables_that_dagster_reads() -> None:
    text = "".join((DEPLOY / name).read_text() for name in ("dagster.yaml", "on_ray.yaml", "workspace.yaml"))
    read_by_dagster = set(re.findall(r"\{env: (\w+)\}", text))
    services = [service for service in COMPOSE["services"].values() if service.get("image") == "evidence-assets"]
    assert len(services) == 5
    for service in services:
        assert read_by_dagster <= set(service["environment"])
        assert set(service["depends_on"]) <= set(COMPOSE["services"])


def test_no_file_has_a_secret() -> None:
    for path in sorted(DEPLOY.rglob("*.yaml")):
        for line in path.read_text().splitlines():
            matches = re.search(r"(?:PASSWORD|SECRET_ACCESS_KEY|TOKEN)\w*: *\"?(\S+)", line)
            assert not matches or matches[1].startswith(("${", "{env:")), f"{path.name}: {line}"


def test_kubernetes_runs_the_same_as_compose() -> None:
    values = yaml.safe_load((DEPLOY / "kubernetes" / "values.yaml").read_text())
    [deployment] = values["dagster-user-deployments"]["deployments"]
    assert deployment["codeServerArgs"] == ["-m", "evidence_assets.definitions"]
    variables = COMPOSE["services"]["code"]["environment"]
    assert {entry["name"] for entry in deployment["env"]} <= set(variables)
