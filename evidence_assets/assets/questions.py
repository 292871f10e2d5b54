"""Questions of every family, the tables that some of them are asked of, and the subgraphs around others."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.encoders import encoding, further_encoders, tags_of, version_of_encoder
from evidence_assets.assets.partitions import benchmark_partitions, question_partitions
from evidence_assets.assets.system import deps_of
from evidence_assets.assets.table_asset import sound_check, table_asset
from evidence_assets.benchmarks.declared import FAMILIES, Family, Part, of_family
from evidence_assets.benchmarks.info import datasets
from evidence_assets.benchmarks.readers import questions_of, tables_of
from evidence_assets.benchmarks.records import Question, question_rows, table_rows
from evidence_assets.experiment.evidence.question_concepts import VERSION
from evidence_assets.experiment.evidence.sources import make_subgraphs, source_reads
from evidence_assets.experiment.stage import Read, StageContext, StageOutput
from evidence_assets.lake.ids import with_model


def _make_questions(step: StageContext) -> StageOutput:
    declared, found = step.benchmark, 0

    def counted() -> Iterator[Question]:
        nonlocal found
        for question in questions_of(step.lake, declared):
            found += question.split == declared.split
            yield question

    rows = question_rows(counted(), declared.split, step.shard, step.profile.shards.questions, declared.graph)
    metadata: dict[str, object] = {"answerable": sum(bool(row["gold"]) for row in rows), "in all shards": found}
    whole = not isinstance(declared, Part)
    if (
        whole
        and declared.reader in datasets()
        and (note := datasets()[declared.reader].count_note(declared.split, found))
    ):
        step.warn(note)
        metadata["official count"] = note
    return StageOutput(rows, metadata=metadata)


def _questions(family: Family) -> dg.AssetsDefinition:
    return table_asset(
        f"questions/{family}",
        "questions",
        _make_questions,
        description=f"Questions of the {family} benchmarks, with options and gold answers.",
        group="benchmarks",
        code_version="1",
        deps=sorted({b.raw for b in of_family(family)}),
        partitions=question_partitions(family),
    )


class Questions(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``questions/<family>`` of every family that has a benchmark, and ``tables``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        assets = [_questions(family) for family in FAMILIES if of_family(family)]
        if of_family("table"):
            assets.append(
                table_asset(
                    "tables",
                    "tables",
                    lambda step: StageOutput(table_rows(tables_of(step.lake, step.benchmark))),
                    description="Tables that claims and questions are about, as they were read.",
                    group="benchmarks",
                    code_version="1",
                    deps=sorted({b.raw for b in of_family("table")}),
                    partitions=benchmark_partitions("table"),
                )
            )
        return dg.Definitions(assets=assets, asset_checks=[sound_check(asset) for asset in assets])


class Subgraphs(dg.Component, dg.Model, dg.Resolvable):
    """Makes ``subgraphs/mcqa``, and ``subgraphs/mcqa/<encoder>`` for every further encoder that a loaded variant reads them
    with."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not of_family("mcqa"):
            return dg.Definitions()
        assets = [_asset(name) for name in ("", *further_encoders("subgraphs/mcqa"))]
        return dg.Definitions(assets=assets, asset_checks=[sound_check(asset) for asset in assets])


def _asset(name: str) -> dg.AssetsDefinition:
    """Subgraphs of concepts that one encoder linked: the profile's first where none is named."""
    limits = profiles.load().ugat
    return table_asset(
        with_model("subgraphs/mcqa", name),
        "subgraphs",
        lambda step: make_subgraphs(encoding(step, name)),
        description="Concepts of each question and of its options in the benchmark's graph, and the graph around them.",
        group="_".join(filter(None, ["ugat", name])),
        code_version=f"{VERSION}:{limits.D}:{limits.cap}:{limits.max_nodes}{version_of_encoder(name)}",
        deps=deps_of([Read("questions/mcqa"), *source_reads("mcqa", ("graph",), name)]),
        partitions=question_partitions("mcqa"),
        pool="gpu",
        tags=tags_of(name),
    )
