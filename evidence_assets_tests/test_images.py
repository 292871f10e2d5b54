"""The images and compose files: their commands start a server in a bare folder; linters check the rest."""

import io
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import pytest
import yaml
from dockerfile_parse import DockerfileParser

from evidence_assets import profiles
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


# The language models of the profile `paper`


PAPER = profiles.load("paper").generators
DEPLOYED = profiles.load(str(DEPLOY / "paper.yaml")).generators
KUBERNETES = {
    (document["kind"], document["metadata"]["name"]): document["spec"]
    for document in yaml.safe_load_all((DEPLOY / "kubernetes" / "vllm.yaml").read_text())
}


def port_of(model: profiles.GeneratorSettings) -> int:
    return urlsplit(model.base_url).port or 0


def test_the_deployed_profile_has_the_models_of_paper_in_their_order() -> None:
    assert list(DEPLOYED) == list(PAPER) and len({port_of(model) for model in PAPER.values()}) == 3
    for key, model in PAPER.items():
        deployed = DEPLOYED[key]
        assert deployed.model_copy(update={"base_url": model.base_url}) == model
        assert urlsplit(deployed.base_url).hostname == key.replace("_", "-"), "the host is the service"
        assert port_of(deployed) == port_of(model)
        assert model.name.lower().endswith("awq"), "4 bits"


@pytest.mark.parametrize("key", PAPER)
def test_compose_and_kubernetes_serve_a_model_on_the_port_of_the_profile(key: str) -> None:
    model = PAPER[key]
    host = key.replace("_", "-")
    port = port_of(model)
    service = COMPOSE["services"][host]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    pod = KUBERNETES["Deployment", host]["template"]
    [container] = pod["spec"]["containers"]
    for arguments in (service["command"], container["args"]):
        options = dict(zip(arguments[::2], arguments[1::2], strict=True))
        assert (options["--model"], options["--port"]) == (model.name, str(port))
    assert container["image"] == service["image"] and container["args"] == service["command"]
    assert container["ports"] == [{"containerPort": port}] and container["readinessProbe"]["httpGet"]["port"] == port
    kubernetes_service = KUBERNETES["Service", host]
    assert kubernetes_service["ports"] == [{"port": port}]
    assert kubernetes_service["selector"] == pod["metadata"]["labels"]


def test_each_served_model_has_a_card_of_its_own() -> None:
    cards = [
        device["device_ids"]
        for key in PAPER
        for device in COMPOSE["services"][key.replace("_", "-")]["deploy"]["resources"]["reservations"]["devices"]
    ]
    assert cards == [["0"], ["1"], ["2"]]


def test_the_page_of_deployment_states_ports_and_computed_memory() -> None:
    """Weights in 4 bits with a scale of 16 bits and a zero point of 4 for 128 weights; the cache is that of 16 bits."""
    page = (REPOSITORY / "docs" / "deploy.md").read_text()
    rows = {cells[0]: cells[1:] for line in page.splitlines() if len(cells := line.strip("| ").split(" | ")) == 4}
    architectures = [(70.0, 152_064, 8192, 80), (68.5, 128_256, 8192, 80), (13.1, 152_064, 5120, 48)]
    weights = [layers * (4 + 20 / 128) / 8 + 4 * words * width / 1e9 for layers, words, width, _ in architectures]
    cache = [2 * layers * 8 * 128 * 2 for *_, layers in architectures]
    assert rows["port"] == [str(port_of(model)) for model in PAPER.values()]
    assert rows["weights, GB"] == [f"{size:.1f}" for size in weights]
    assert rows["key-value cache, bytes of a token"] == [f"{size:,}" for size in cache]
    room = [0.9 * card - round(size, 1) for card, size in zip((80, 80, 24), weights, strict=True)]
    tokens = [1000 * round(size * 1e6 / token) for size, token in zip(room, cache, strict=True)]
    assert rows["left for the cache at 90 % of the card, GB · tokens"] == [
        f"{size:.1f} · {count:,}" for size, count in zip(room, tokens, strict=True)
    ]
