"""The files for a deployment say what the code and Dagster understand."""

from __future__ import annotations

import re
from typing import Any

import dagster as dg
import pytest
import yaml

from evidence_assets_tests.conftest import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yaml").read_text())


def read_by_dagster() -> set[str]:
    """Environment variables in Dagster's settings."""
    text = "".join((DEPLOY / name).read_text() for name in ("dagster.yaml", "workspace.yaml"))
    return set(re.findall(r"\{env: (\w+)\}", text))


def test_dagster_loads_the_settings_without_the_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    settings = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
    assert set(settings.pop("storage")["postgres"]["postgres_db"]) >= {
        "hostname",
        "username",
        "password",
        "db_name",
        "scheme",
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(settings))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert instance.run_monitoring_enabled and instance.run_retries_enabled


def test_every_service_has_all_variables_that_dagster_reads() -> None:
    services = {
        name: service for name, service in COMPOSE["services"].items() if service.get("image") == "evidence-assets"
    }
    assert set(services) == {"code", "webserver", "daemon", "ray-head", "ray-worker"}
    for service in services.values():
        assert read_by_dagster() <= set(service["environment"])
        assert set(service["depends_on"]) <= set(COMPOSE["services"])
        assert service["environment"]["RAY_ADDRESS"] == "http://ray-head:8265"
    assert "--head" in services["ray-head"]["command"] and "ray-head:6379" in services["ray-worker"]["command"]
    assert services["code"]["command"][-1] == "evidence_assets.definitions"
    code = COMPOSE["services"]["code"]
    assert (
        str(code["environment"]["EVIDENCE_CODE_PORT"]) in code["command"]
        and code["environment"]["EVIDENCE_CODE_HOST"] == "code"
    )


def test_no_file_has_a_secret() -> None:
    for path in sorted(DEPLOY.rglob("*.yaml")):
        for line in path.read_text().splitlines():
            matches = re.search(r"(?:PASSWORD|SECRET_ACCESS_KEY|TOKEN)\w*: *\"?(\S+)", line)
            assert not matches or matches[1].startswith(("${", "{env:")), f"{path.name}: {line}"


def test_kubernetes_runs_the_same_as_compose() -> None:
    values = yaml.safe_load((DEPLOY / "kubernetes" / "values.yaml").read_text())
    [deployment] = values["dagster-user-deployments"]["deployments"]
    assert deployment["codeServerArgs"] == ["-m", "evidence_assets.definitions"] and deployment["envSecrets"]
    kinds = [d["kind"] for d in yaml.safe_load_all((DEPLOY / "kubernetes" / "vllm.yaml").read_text())]
    assert kinds == ["Deployment", "Service"]
    ray = yaml.safe_load((DEPLOY / "kubernetes" / "ray.yaml").read_text())
    ray_variables, code_variables = (
        {entry["name"]: entry.get("value") for entry in entries}
        for entries in (ray["common"]["containerEnv"], deployment["env"])
    )
    assert code_variables["RAY_ADDRESS"] == f"http://{ray['fullnameOverride']}-head-svc:8265"
    assert all(code_variables[name] == ray_variables[name] for name in code_variables if name.startswith("EVIDENCE_"))
    assert ray["image"] == deployment["image"] and ray["head"]["rayStartParams"]["num-cpus"] == "0"
    secrets = {secret["name"] for secret in deployment["envSecrets"]}
    for pods in (ray["head"], ray["worker"], *ray["additionalWorkerGroups"].values()):
        assert {entry["secretRef"]["name"] for entry in pods["envFrom"]} == secrets
