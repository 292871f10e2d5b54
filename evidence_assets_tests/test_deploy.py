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
    """Variables that the settings for Dagster take from the environment."""
    text = "".join((DEPLOY / name).read_text() for name in ("dagster.yaml", "workspace.yaml"))
    return set(re.findall(r"\{env: (\w+)\}", text))


def test_dagster_takes_the_settings_but_for_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    stated = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())
    assert set(stated.pop("storage")["postgres"]["postgres_db"]) >= {
        "hostname",
        "username",
        "password",
        "db_name",
        "scheme",
    }
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(stated))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.get() as instance:
        assert instance.run_monitoring_enabled and instance.run_retries_enabled


def test_every_service_of_ours_is_told_all_that_dagster_reads() -> None:
    ours = {name: service for name, service in COMPOSE["services"].items() if service.get("image") == "evidence-assets"}
    assert set(ours) == {"code", "webserver", "daemon", "ray-head", "ray-worker"}
    for service in ours.values():
        assert read_by_dagster() <= set(service["environment"])
        assert set(service["depends_on"]) <= set(COMPOSE["services"])
        assert service["environment"]["RAY_ADDRESS"] == "http://ray-head:8265"
    assert "--head" in ours["ray-head"]["command"] and "ray-head:6379" in ours["ray-worker"]["command"]
    assert ours["code"]["command"][-1] == "evidence_assets.definitions"
    told = COMPOSE["services"]["code"]
    assert (
        str(told["environment"]["EVIDENCE_CODE_PORT"]) in told["command"]
        and told["environment"]["EVIDENCE_CODE_HOST"] == "code"
    )


def test_no_secret_stands_in_a_file() -> None:
    for path in sorted(DEPLOY.rglob("*.yaml")):
        for line in path.read_text().splitlines():
            found = re.search(r"(?:PASSWORD|SECRET_ACCESS_KEY|TOKEN)\w*: *\"?(\S+)", line)
            assert not found or found[1].startswith(("${", "{env:")), f"{path.name}: {line}"


def test_what_kubernetes_runs_is_what_compose_runs() -> None:
    values = yaml.safe_load((DEPLOY / "kubernetes" / "values.yaml").read_text())
    [deployment] = values["dagster-user-deployments"]["deployments"]
    assert deployment["codeServerArgs"] == ["-m", "evidence_assets.definitions"] and deployment["envSecrets"]
    kinds = [d["kind"] for d in yaml.safe_load_all((DEPLOY / "kubernetes" / "vllm.yaml").read_text())]
    assert kinds == ["Deployment", "Service"]
    ray = yaml.safe_load((DEPLOY / "kubernetes" / "ray.yaml").read_text())
    told, stated = (
        {one["name"]: one.get("value") for one in some} for some in (ray["common"]["containerEnv"], deployment["env"])
    )
    assert stated["RAY_ADDRESS"] == f"http://{ray['fullnameOverride']}-head-svc:8265"
    assert all(stated[name] == told[name] for name in stated if name.startswith("EVIDENCE_"))
    assert ray["image"] == deployment["image"] and ray["head"]["rayStartParams"]["num-cpus"] == "0"
    secrets = {secret["name"] for secret in deployment["envSecrets"]}
    for pods in (ray["head"], ray["worker"], *ray["additionalWorkerGroups"].values()):
        assert {one["secretRef"]["name"] for one in pods["envFrom"]} == secrets
