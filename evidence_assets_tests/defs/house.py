"""A small lake with a few seed files, and the two sensors of the code base ticked as the daemon ticks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import yaml
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._core.loader import LoadingContextForTest
from dagster._grpc.impl import get_external_sensor_execution

from evidence_assets.components.partitions import question_partitions
from evidence_assets.components.reasoner import Reasoner
from evidence_assets.components.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.definitions import defs
from evidence_assets.lake.store import Lake
from evidence_assets.systems.selection import Asked, Parent, Pick, asked, evidence_rows

RELATIONS: dict[str, tuple[str, list[list[str]]]] = {
    "may_treat": ("<HEAD> may treat <TAIL>", [["allopurinol", "gout"], ["rifampicin", "tuberculosis"]]),
    "listed_with": ("<HEAD> is listed with <TAIL>", [["gout", "allopurinol"]]),
    "leads_to": ("<HEAD> can lead to <TAIL>", [["epilepsy", "gout"]]),
}
"""Three relations in words that the small corpus holds; what they say is of no matter here."""

Asset = tuple[str, str | None]
COLLECTION = "knowledge/kbloom/biomedical"


def write_seed(lake: Path, name: str, prompt: str, pairs: Sequence[Sequence[str]], **more: Any) -> Path:
    """Write a seed file as a person would."""
    path = lake / "raw" / "seeds" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"id": name, "collection": "biomedical", "prompt": prompt, "pairs": [list(p) for p in pairs], **more}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


class ByRelation:
    """Gives each question the best triple of one relation, so that an edit of that relation touches these questions."""

    name = "by_relation"

    def __init__(self, triples: pl.DataFrame) -> None:
        self._best = triples.filter(pl.col("rank") == 1).sort("relation_id").to_dicts()
        self.version = "|".join(row["triple_id"] for row in self._best)

    def select(self, questions: Sequence[Asked], progress: Callable[[int, int], None] | None = None) -> list[list[Pick]]:
        found = []
        for question in questions:
            row = self._best[int(question.question_id[:8], 16) % len(self._best)]
            text = f"{row['head']} {row['relation']} {row['tail']}"
            parent = Parent("triple", row["triple_id"], row["triple_id"])
            found.append([Pick(option, "triple", (parent,), "", text, 1.0) for option, _ in question.hypotheses])
        return found


def question_assets() -> dg.Definitions:
    """Evidence from the collection for the multiple-choice questions, and what the product's reasoner makes of it."""

    def make(step: Step) -> Made:
        questions = asked(step.read("questions", "questions/mcqa", step.partition))
        selector = ByRelation(step.read("triples", COLLECTION))
        rows = evidence_rows(selector, questions, step.previous(), step.previous_lineage())
        return Made(rows.rows, rows.lineage, rows.metadata, rows.reused)

    evidence = table_asset(
        "evidence/mcqa/by_relation", "evidence", make, description="Evidence of the test.", group="test",
        code_version="1", deps=[dep("questions/mcqa"), dep(COLLECTION)], partitions=question_partitions("mcqa"),
    )  # fmt: skip
    made = Reasoner(name="by_relation", family="mcqa", selector="by_relation").build_defs(None)  # type: ignore[arg-type]
    return dg.Definitions.merge(dg.Definitions(assets=[evidence], asset_checks=[sound_check(evidence)]), made)


@cache
def definitions() -> dg.Definitions:
    """What the code base loads, and the assets of the test."""
    return dg.Definitions.merge(defs(), question_assets())


@dataclass
class House:
    """One lake, one Dagster instance and the sensors that watch them."""

    root: Path
    instance: dg.DagsterInstance
    loaded: dg.Definitions
    repository: dg.RepositoryDefinition
    cursor: str | None = None
    asked_before: set[str] = field(default_factory=set)
    queue: list[dg.RunRequest] = field(default_factory=list)

    @classmethod
    def open(cls, root: Path) -> House:
        loaded = definitions()
        return cls(root, dg.DagsterInstance.get(), loaded, loaded.get_repository_def())

    @property
    def lake(self) -> Lake:
        return Lake(self.root / "data_lake")

    def seed(self, name: str, pairs: Sequence[Sequence[str]] | None = None, **more: Any) -> Path:
        prompt, own = RELATIONS.get(name, ("<HEAD> may treat <TAIL>", []))
        return write_seed(self.root / "data_lake", name, more.pop("prompt", prompt), pairs or own, **more)

    # The daemon -------------------------------------------------------------------------------------------------------

    def _evaluate(self, sensor: str, cursor: str | None) -> SensorExecutionData:
        """Evaluate a sensor with the function that the code server answers the daemon with."""
        import time; c, w = time.process_time(), time.monotonic()
        tick = get_external_sensor_execution(
            self.repository, None, self.instance.get_ref(), sensor, None, None, cursor, None, None  # type: ignore[arg-type]
        )  # fmt: skip
        print('TICK', sensor, round(time.process_time()-c, 1), round(time.monotonic()-w, 1))
        assert isinstance(tick, SensorExecutionData), tick
        return tick

    def tick_seeds(self) -> list[dg.RunRequest]:
        """One tick of the sensor of the seed files; run keys are honoured and partitions added as the daemon does."""
        tick = self._evaluate("seed_files", None)
        for request in tick.dynamic_partitions_requests or []:
            assert isinstance(request, dg.AddDynamicPartitionsRequest)
            self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        new = [request for request in tick.run_requests or [] if request.run_key not in self.asked_before]
        self.asked_before |= {str(request.run_key) for request in new}
        return new

    def tick_follow(self) -> list[dg.RunRequest]:
        """One tick of the sensor that evaluates the automation conditions."""
        tick = self._evaluate("follow_data", self.cursor)
        self.cursor = tick.cursor
        return list(tick.run_requests or [])

    def tick(self) -> list[Asset]:
        """One tick of both sensors; what they ask for waits in the queue."""
        new = [*self.tick_seeds(), *self.tick_follow()]
        self.queue += new
        return sorted((name, request.partition_key) for request in new for name in _names(request))

    def run(self, request: dg.RunRequest, *, succeeds: bool = True) -> dg.ExecuteInProcessResult:
        import time; c, w = time.process_time(), time.monotonic()
        result = self.loaded.resolve_implicit_global_asset_job_def().execute_in_process(
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            instance=self.instance, partition_key=request.partition_key, asset_selection=request.asset_selection,
            tags={**request.tags, **({"dagster/run_key": request.run_key} if request.run_key else {})},
            raise_on_error=False,
        )  # fmt: skip
        print('RUN', _names(request), request.partition_key, round(time.process_time()-c, 1), round(time.monotonic()-w, 1))
        failed = [e.step_failure_data.error_display_string for e in result.all_events if e.is_step_failure]
        assert result.success is succeeds, failed
        return result

    def make(self, *names: str, partition: str | None = None) -> dg.ExecuteInProcessResult:
        keys = [dg.AssetKey(name.split("/")) for name in names]
        return self.run(dg.RunRequest(asset_selection=keys, partition_key=partition))

    def work(self) -> list[dg.ExecuteInProcessResult]:
        """Run what waits in the queue."""
        waiting, self.queue = self.queue, []
        return [self.run(request) for request in waiting]

    def settle(self, most: int = 15) -> list[list[Asset]]:
        """Tick and work until nothing is asked for; what was asked for at each tick."""
        asked_for = []
        for _ in range(most):
            found = self.tick()
            if not found:
                return asked_for
            asked_for.append(found)
            self.work()
        raise AssertionError(f"no end after {most} ticks: {asked_for}")

    # What can be seen -------------------------------------------------------------------------------------------------

    def stale(self) -> set[Asset]:
        """Stale asset partitions, as the UI shows them."""
        graph = self.loaded.resolve_asset_graph()
        resolver = CachingStaleStatusResolver(self.instance, graph, LoadingContextForTest(self.instance))
        found = set()
        for key in graph.materializable_asset_keys:
            definition = graph.get(key).partitions_def
            partitions = definition.get_partition_keys(dynamic_partitions_store=self.instance) if definition else [None]
            for partition in partitions:
                if resolver.get_status(key, partition) == StaleStatus.STALE:
                    found.add(("/".join(key.path), partition))
        return found

    def last_metadata(self, name: str, partition: str | None = None) -> dict[str, Any]:
        record = self.instance.get_latest_data_version_record(dg.AssetKey(name.split("/")), partition_key=partition)
        assert record is not None and record.asset_materialization is not None
        return {key: value.value for key, value in record.asset_materialization.metadata.items()}

    def runs(self, name: str, partition: str | None = None) -> int:
        """Times that an asset partition was materialized by a run."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(name.split("/")), [partition] if partition else None), limit=100
        ).records
        return sum(record.run_id != "" for record in records)


def _names(request: dg.RunRequest) -> list[str]:
    return ["/".join(key.path) for key in request.asset_selection or []]
