"""What Dagster loads: a snapshot of every asset's specification, and rules that all of them keep."""

import ast
import json
import os
from pathlib import Path

import dagster as dg
import pytest

from evidence_assets.assets.definitions import load_definitions
from evidence_assets.assets.seeds import MAX_RELATIONS
from evidence_assets.lake.schemas import TABLES
from evidence_assets_tests.conftest import REPOSITORY, run_python

SNAPSHOT = Path(__file__).parent / "asset_specs.json"


@pytest.fixture(scope="module")
def definitions() -> dg.Definitions:
    return load_definitions()


def test_loading_the_definitions_does_not_import_heavy_packages() -> None:
    """Every process of a cluster loads them: runs, steps, the code location. Each run would load a function's twice."""
    code = (
        "import sys; from evidence_assets.definitions import defs; defs.get_repository_def()\n"
        "heavy = {'transformers', 'sentence_transformers', 'ot', 'scipy.stats', 'faiss', 'ray'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    run_python("-c", code, timeout=120)


def specs(definitions: dg.Definitions) -> dict[str, object]:
    """The visible properties of each asset."""
    graph = definitions.resolve_asset_graph()
    result: dict[str, object] = {}
    for spec in sorted(definitions.resolve_all_asset_specs(), key=lambda s: s.key.to_user_string()):
        node = graph.get(spec.key)
        result[spec.key.to_user_string()] = {
            "group": spec.group_name,
            "kinds": sorted(spec.kinds),
            "owners": list(spec.owners),
            "code_version": spec.code_version,
            "table": spec.metadata.get("table"),
            "partitions": sorted(getattr(node.partitions_def, "partition_dimension_names", None) or [])
            if isinstance(node.partitions_def, dg.MultiPartitionsDefinition)
            else type(node.partitions_def).__name__,
            "deps": sorted(dep.asset_key.to_user_string() for dep in spec.deps),
            "checks": sorted(key.name for key in graph.asset_check_keys if key.asset_key == spec.key),
        }
    return result


def test_the_specifications_match_the_snapshot(definitions: dg.Definitions) -> None:
    """After a deliberate change: UPDATE_SNAPSHOT=1 pytest evidence_assets_tests/test_definitions.py,
    then review it.
    """
    specs_by_key = json.loads(json.dumps(specs(definitions)))
    if os.environ.get("UPDATE_SNAPSHOT"):
        SNAPSHOT.write_text(json.dumps(specs_by_key, indent=1) + "\n")
    assert specs_by_key == json.loads(SNAPSHOT.read_text())


def test_every_asset_has_a_description_and_metadata(definitions: dg.Definitions) -> None:
    for spec in definitions.resolve_all_asset_specs():
        name = spec.key.to_user_string()
        assert spec.description and spec.description.endswith("."), name
        assert spec.owners and spec.group_name and spec.kinds and spec.code_version, name
        if spec.metadata.get("table"):
            table = TABLES[spec.metadata["table"]]
            assert [c.name for c in spec.metadata["dagster/column_schema"].columns] == list(table.names), name


@pytest.mark.parametrize(
    ("profile", "presets"), [("embedded", ""), pytest.param("paper", "all", marks=pytest.mark.long)]
)
def test_no_edge_fans_in_more_than_64_partitions(
    profile: str, presets: str, other_settings: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    other_settings.setenv("EVIDENCE_PROFILE", profile)
    other_settings.setenv("EVIDENCE_PRESETS", presets)
    instance = dg.DagsterInstance.ephemeral()
    request.addfinalizer(instance.dispose)
    instance.add_dynamic_partitions("relations", [f"r{i}" for i in range(MAX_RELATIONS)])
    graph, visited = load_definitions().resolve_asset_graph(), set()
    for key in graph.materializable_asset_keys:
        node = graph.get(key)
        for parent in node.parent_keys:
            upstream = graph.get(parent).partitions_def
            if upstream is None:
                continue
            mapping = graph.get_partition_mapping(key, parent)
            edge = (node.partitions_def, upstream, repr(mapping))
            if edge in visited:
                continue
            visited.add(edge)
            subset = None
            if node.partitions_def is not None:
                first = node.partitions_def.get_partition_keys(dynamic_partitions_store=instance)[0]
                subset = node.partitions_def.subset_with_partition_keys([first])
            with dg.partition_loading_context(dynamic_partitions_store=instance):
                result = mapping.get_upstream_mapped_partitions_result_for_partitions(
                    subset, node.partitions_def, upstream
                )
                assert len(result.partitions_subset) <= 64, (key, parent)


def test_only_public_names_of_libraries_are_imported() -> None:
    """What begins with an underscore may change in any release. Typeshed is for type checkers alone."""
    private = []
    for file in sorted((REPOSITORY / "evidence_assets").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{name}" for name in names]
            parts = [
                part
                for name in names
                for part in name.split(".")
                if name.split(".")[0] not in ("__future__", "_typeshed")
            ]
            if any(part.startswith("_") for part in parts):
                private.append(f"{file.relative_to(REPOSITORY)}:{node.lineno}: {names}")
    assert not private
