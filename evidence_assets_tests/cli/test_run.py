"""``evidence run``: materializes exactly what a benchmark needs, also after a kill or a failure."""

import os
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import dagster as dg
import networkx as nx
import pytest
from typer.testing import CliRunner

from evidence_assets.assets.definitions import load_definitions
from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.cli import app, runner
from evidence_assets.cli.run_selection import (
    EVERYTHING,
    RunSelection,
    batches,
    find_benchmark,
    join_selections,
    list_partitions,
    select_assets,
    select_harvest_scores,
    select_variants,
    split_independent,
)
from evidence_assets.cli.runner import Report, RunQueue, Unit, UnitResult
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets_tests.benchmarks.official.contract import write_files
from evidence_assets_tests.conftest import World, new_world

COMMAND = ("run", "sample_mcqa", "--variants", "bm25")


@pytest.fixture(scope="module")
def killed_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world whose run was killed midway and rerun; ``again.txt`` has the rerun's output."""
    world = new_world(tmp_path_factory.mktemp("killed") / "world")
    command = [sys.executable, "-m", "evidence_assets.cli", *COMMAND]
    environment = {**os.environ, **world.environment}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if line.lstrip().startswith("3/"))
        process.kill()
    rerun = world.invoke(*COMMAND)
    assert rerun.exit_code == 0, rerun.output
    (world.root / "again.txt").write_text(rerun.output)
    return world


def test_a_benchmark_is_materialized_with_its_upstream_assets_only(killed_world: World) -> None:
    output, lake = (killed_world.root / "again.txt").read_text(), Lake(killed_world.root / "data_lake")
    assert "Scoreboard" in output and "accuracy" in output
    assert {asset for table, asset in lake.assets() if table == "scores"} == {"scores/mcqa/bm25"}
    assert [path.parent.name for path in lake.files("questions")] == ["sample_mcqa"]
    assert not lake.files("kg_edges") and not lake.files("prompts"), "no graph is read by bm25"
    with dg.DagsterInstance.from_config(str(killed_world.root / "dagster_home")) as instance:
        assert instance.get_runs_count() > 3, "the runs are those that the UI shows"


def test_a_rerun_after_a_kill_gives_the_bytes_of_an_undisturbed_run(killed_world: World, made_world: World) -> None:
    undisturbed, finished = made_world.data(), killed_world.data()
    assert len(finished) > 20
    assert {name: undisturbed.get(name) for name in finished} == finished


def test_a_plan_materializes_nothing(world: World) -> None:
    planned = world.invoke(*COMMAND, "--plan")
    assert planned.exit_code == 0 and "assets will be materialized or reused" in planned.stdout, planned.output
    assert not Lake(world.root / "data_lake").assets()


def test_failures_are_reported_and_their_downstream_assets_skipped(world: World) -> None:
    with (world.root / "small.yaml").open("a") as profile:
        profile.write(f"encoder: {{name: '{world.root}/no_such_model'}}\n")
    result = world.invoke("run", "sample_mcqa", "--variants", "cosine")
    assert result.exit_code == 1 and "sample_mcqa has no scores" in result.stdout
    failed, skipped = (result.stdout.partition(f"\n{words}")[2] for words in ("These assets failed", "Skipped"))
    assert "corpus/sample/chunks [0]: " in failed and "no_such_model" in failed
    assert "evidence/mcqa/cosine [sample_mcqa|0]" in skipped and "questions/mcqa" not in skipped
    assert "run `evidence run sample_mcqa` again" in result.stdout and "Traceback" not in result.output


def test_the_assets_of_a_benchmark_exclude_those_of_others() -> None:
    graph, benchmark = load_definitions().resolve_asset_graph(), find_benchmark("sample_graph")
    selection = select_assets(graph, benchmark, select_variants(benchmark, ["ugat"]))
    assert selection.keys is not None
    names = {"/".join(key.path) for key in selection.keys}
    assert {"scores/mcqa/ugat", "counterfactuals/mcqa/ugat", "knowledge/sample/edges", "subgraphs/mcqa"} <= names
    assert "corpus/sample/chunks" not in names or not benchmark.corpus
    assert not any(name.startswith(("scores/mcqa/bm25", "scores/table")) for name in names)
    scores = dg.AssetKey(["scores", "mcqa", "ugat"])
    assert selection.has_partition(scores, "sample_graph|0") and not selection.has_partition(scores, "sample_mcqa|0")
    assert selection.collections == frozenset({"biomedical", "commonsense"})


def test_evidence_alone_is_scored_without_the_assets_of_answers() -> None:
    graph, benchmark = load_definitions().resolve_asset_graph(), find_benchmark("sample_graph")
    variants = select_variants(benchmark, ["ugat"])
    every, alone = (select_assets(graph, benchmark, variants, has_answers=has).keys for has in (True, False))
    assert every is not None and alone is not None
    dropped = {"/".join(key.path) for key in every - alone}
    assert dropped >= {f"{table}/mcqa/ugat" for table in ("chains", "predictions", "citations", "counterfactuals")}
    assert {"scores/mcqa/ugat", "evidence/mcqa/ugat", "subgraphs/mcqa", "knowledge/sample/edges"} <= {
        "/".join(key.path) for key in alone
    }
    selection = select_assets(graph, benchmark, variants, has_answers=False)
    assert not selection.has_partition(dg.AssetKey(["scores", "mcqa", "ugat"]), "sample_mcqa")


def test_options_of_benchmarks_are_refused_for_a_graph() -> None:
    for options in (["--evidence-only"], ["--plan"], ["--variants", "bm25"]):
        result = CliRunner().invoke(app, ["run", "sample", *options])
        assert result.exit_code == 1 and f"remove {options[0]}" in " ".join(result.output.split())


def test_chunks_alone_need_no_graph(other_settings: pytest.MonkeyPatch) -> None:
    other_settings.setenv("EVIDENCE_PRESETS", "uscrake_sources")
    graph = load_definitions().resolve_asset_graph()
    benchmark = find_benchmark("sample_mcqa")
    keys: dict[str, set[str]] = {}
    for name in ("uscrake_chunks", "uscrake_graph"):
        selection = select_assets(graph, benchmark, select_variants(benchmark, [name]))
        keys[name] = {"/".join(key.path) for key in selection.keys or ()}
    assert "corpus/sample/index" in keys["uscrake_chunks"] and "knowledge/sample/csr" in keys["uscrake_graph"]
    assert not any(key.startswith(("knowledge/", "scores/knowledge")) for key in keys["uscrake_chunks"])
    assert "corpus/sample/index" not in keys["uscrake_graph"]


def test_relations_of_other_collections_are_not_harvested(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_LAKE", str(lake.root))
    seeds = "id: {0}\ncollection: {1}\nprompt: the <HEAD> is near the <TAIL>\npairs: [[river, sea], [iron, town]]\n"
    collections = {"near": "umls", "far": "lama", "next": "umls"}
    files = {f"seeds/{name}.yaml": seeds.format(name, collection) for name, collection in collections.items()}
    write_files(lake.root / "raw", files | {"seeds/faulty.yaml": "id: faulty\n"})
    graph, harvest = load_definitions().resolve_asset_graph(), dg.AssetKey(["knowledge", "kbloom", "harvest"])
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("relations", [*collections, "faulty"])
        selections = {None: RunSelection(), "umls": RunSelection(collections=frozenset({"umls"}))}
        names = {name: list_partitions(graph, harvest, instance, each) for name, each in selections.items()}
    selection = select_harvest_scores(graph, ["/".join(harvest.path)], {"umls"})
    assert selection.has_asset(dg.AssetKey(["raw", "seeds"])), "it adds the partitions of a new lake"
    assert names == {None: ["near", "far", "next", "faulty"], "umls": ["near", "next", "faulty"]}


def test_joined_selections_keep_each_benchmark_to_its_assets() -> None:
    a, b, shared = (dg.AssetKey(name) for name in ("a", "b", "shared"))
    parts = [("sample_mcqa", {a, shared}), ("sample_graph", {b, shared})]
    joined = join_selections(
        RunSelection(frozenset(keys), dict.fromkeys(keys, frozenset({name})), frozenset()) for name, keys in parts
    )
    assert joined.keys == frozenset({a, b, shared}) and joined.collections == frozenset()
    partitions = {key: [name for name, _ in parts if joined.has_partition(key, f"{name}|0")] for key in (a, b, shared)}
    assert partitions == {a: ["sample_mcqa"], b: ["sample_graph"], shared: ["sample_mcqa", "sample_graph"]}
    assert joined.has_partition(a, "3"), "a shard of a corpus"


def test_a_batch_is_split_into_chunks_chains_with_a_model_and_the_rest() -> None:
    graph = load_definitions().resolve_asset_graph()
    for batch in batches(graph, EVERYTHING):
        parts = split_independent(graph, batch)
        chunks = dg.AssetKey(["corpus", "sample", "chunks"])
        if chunks in batch:
            assert [chunks] in parts
            continue
        related = nx.Graph()
        related.add_nodes_from(batch)
        related.add_edges_from((a, b) for a in batch for b in batch if b in graph.get(a).parent_keys)
        with_models = [part for part in nx.connected_components(related) if any(graph.get(key).pools for key in part)]
        rest = set(batch).difference(*with_models)
        assert sorted(map(sorted, parts)) == sorted(map(sorted, [*with_models, *([rest] if rest else [])]))


def test_the_longest_chain_starts_first() -> None:
    def build(name: str, *deps: str) -> dg.AssetsDefinition:
        @dg.asset(name=name, deps=deps)
        def compute() -> None: ...

        return compute

    assets = [build("a"), build("b"), build("c", "b"), build("d", "a", "c")]
    graph = dg.Definitions(assets=assets).resolve_asset_graph()
    started = list[str]()

    def submit(unit: Unit) -> Future[UnitResult]:
        started.append(unit.keys[0].to_user_string())
        future = Future[UnitResult]()
        future.set_result(UnitResult(Report(), set(unit.keys), []))
        return future

    with dg.DagsterInstance.ephemeral() as instance:
        queue = RunQueue(graph, [[dg.AssetKey(name)] for name in "abcd"], EVERYTHING, instance)
        queue.work(submit, 1)
    assert started == ["b", "a", "c", "d"]


def test_progress_counts_added_partitions_once_per_unit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = dg.DynamicPartitionsDefinition(name="files")

    @dg.asset
    def folder() -> None: ...

    @dg.asset(deps=[folder], partitions_def=files)
    def contents() -> None: ...

    graph = dg.Definitions(assets=[folder, contents]).resolve_asset_graph()
    counted = list[str]()

    def count_partitions(graph: object, key: dg.AssetKey, *arguments: object) -> list[str | None]:
        counted.append(key.to_user_string())
        return list_partitions(graph, key, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "list_partitions", count_partitions)
    with dg.DagsterInstance.ephemeral() as instance:

        def submit(unit: Unit) -> Future[UnitResult]:
            instance.add_dynamic_partitions("files", ["a", "b"])
            future = Future[UnitResult]()
            future.set_result(UnitResult(Report(), set(unit.keys), ["first line", "second line"]))
            return future

        queue = RunQueue(graph, [[folder.key], [contents.key]], EVERYTHING, instance)
        queue.work(submit, 1)
    progress = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert progress == [f"{n}/3" for n in range(1, 7)]
    assert counted.count("folder") == 1 + 3, "once to start it and once for the lines of each of three units"


def test_the_error_for_an_unknown_name_suggests_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIDENCE_PRESETS", "")
    benchmark = benchmarks()["sample_mcqa"]
    with pytest.raises(BadInput, match="did you mean 'uscrake'") as raised:
        select_variants(benchmark, ["uscrak"])
    assert "`evidence variants mcqa` lists them" in str(raised.value) and "bm25" not in str(raised.value)
    assert [v.name for v in select_variants(benchmark, ["uscrake_k5_s5"])] == ["uscrake_k5_s5"]
    without_graph, with_graph = (
        {v.name for v in select_variants(benchmarks()[name], [])} for name in ("sample_mcqa", "sample_graph")
    )
    assert without_graph >= {"uscrake", "bm25"} and with_graph - without_graph >= {"ugat"}, "only with a graph"


def test_the_error_for_a_benchmark_of_another_profile_names_the_profile() -> None:
    message = "'obqa' is declared for the profile paper, not for embedded: set EVIDENCE_PROFILE=paper, .* --reader obqa"
    with pytest.raises(BadInput, match=message):
        find_benchmark("obqa")
    with pytest.raises(BadInput, match="there is no benchmark 'obqx' in this profile"):
        find_benchmark("obqx")


def test_a_variant_runs_with_another_model_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = tmp_path / "two.yaml"
    several = "{llama: {backend: openai, name: meta/llama}, qwen: {backend: openai, name: qwen/qwen}}"
    profile.write_text(f"extends: embedded\nname: two\ngenerators: {several}\n")
    monkeypatch.setenv("EVIDENCE_PROFILE", str(profile))
    benchmark = benchmarks()["sample_mcqa"]
    for names, opted in (
        (["uscrake_published@qwen"], True),
        (["uscrake_published", "uscrake_published@qwen"], True),
        (["uscrake_published"], False),
    ):
        monkeypatch.setenv("EVIDENCE_PRESETS", "")
        assert [v.label for v in select_variants(benchmark, names)] == names
        assert ("uscrake_main" in os.environ["EVIDENCE_PRESETS"]) == opted
    with pytest.raises(BadInput, match="no variant 'bm25@qwn'"):
        select_variants(benchmark, ["bm25@qwn"])
