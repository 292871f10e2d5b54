"""Components for benchmarks (raw files, questions, tables, subgraphs) and a lake's declarations."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
from pydantic import BaseModel

from evidence_assets import profiles
from evidence_assets.assets.corpus import Corpus
from evidence_assets.assets.graph import Graph, GraphPassages, KnowledgeBase
from evidence_assets.assets.partitions import (
    benchmark_partitions,
    encoder_options,
    list_encoders,
    question_partitions,
    with_encoder,
)
from evidence_assets.assets.raw_files import raw_assets
from evidence_assets.assets.system import build_deps
from evidence_assets.assets.table_asset import table_asset, table_check
from evidence_assets.benchmarks import declared_benchmarks
from evidence_assets.benchmarks.dataset_info import find_dataset, load_datasets
from evidence_assets.benchmarks.declared_benchmarks import (
    FAMILIES,
    BenchmarkSubset,
    Declaration,
    benchmarks_of_family,
    declarations,
    declarations_of,
    user_folders,
)
from evidence_assets.benchmarks.readers import read_benchmark_questions, read_benchmark_tables
from evidence_assets.benchmarks.records import table_rows
from evidence_assets.experiment.evidence.question_concepts import VERSION
from evidence_assets.experiment.evidence.sources import build_subgraphs, source_inputs
from evidence_assets.experiment.question_rows import question_rows
from evidence_assets.experiment.stage import StageContext, StageInput, StageOutput
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import key_for_model
from evidence_assets.text.spelling import did_you_mean

SOURCE_COMPONENTS = {
    "corpus": ("Corpus",),
    "graph": ("Graph", "KnowledgeBase"),
    "background_graph": ("Graph",),
    "taxonomy": ("KnowledgeBase",),
}
"""Components that can define the source that a benchmark names in a field."""


class Sample(declared_benchmarks.Sample, dg.Resolvable):
    """A random sample of the questions."""


class ListedSample(declared_benchmarks.ListedSample, dg.Resolvable):
    """A sample whose questions a file lists."""


class Subset(declared_benchmarks.Subset, dg.Resolvable):
    """Part of a benchmark."""

    sample: Sample | None = None
    listed: ListedSample | None = None


class Benchmark(declared_benchmarks.Benchmark, dg.Component, dg.Resolvable):
    """One benchmark, as declared in YAML."""

    subsets: Sequence[Subset] = ()

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.is_in_profile():
            return dg.Definitions()
        for field, components in SOURCE_COMPONENTS.items():
            name = getattr(self, field)
            declared = [d.attributes for c in components for d in declarations_of(c)]
            usable = [str(d.get("name")) for d in declared if profiles.load().is_any_of(d.get("profiles") or ())]
            if name and name not in usable:
                is_declared = name in [d.get("name") for d in declared]
                problem = "is declared for other profiles only" if is_declared else "is not declared"
                suggestion = "." if is_declared else did_you_mean(name, usable)
                raise BadInput(
                    f"benchmark {self.name} uses {name!r}, which {problem}{suggestion} Declare a "
                    f"{' or '.join(components)} with this name for profile {profiles.load().name}, or remove the line",
                    field=field,
                )
        self.check_reader()
        contents = "" if self.reader == "own" else find_dataset(self.reader).describe_files(self.split)
        return dg.Definitions(assets=raw_assets(self, self.raw_asset, self.files, contents, self.optional_files)[1])


COMPONENTS: dict[str, type[dg.Component]] = {
    kind.__name__: kind for kind in (Benchmark, Corpus, Graph, GraphPassages, KnowledgeBase)
}
"""The classes of ``USER_COMPONENTS``."""


class Declared(dg.Component, dg.Model, dg.Resolvable):
    """Loads the ``declarations`` of the lake and the project like the YAML in ``defs``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        return dg.Definitions.merge(
            *(_defs_of(document, context) for folder in user_folders() for document in declarations(folder))
        )


def _defs_of(document: Declaration, context: dg.ComponentLoadContext) -> dg.Definitions:
    component = COMPONENTS[document.component]
    if issubclass(component, BaseModel):
        document.check_names(document.attributes, component.model_fields)
    try:
        return component.from_attributes_dict(attributes=document.attributes, context=context).build_defs(context)
    except BadInput as error:
        raise error if error.file else document.error(error.message, error.field) from error


def _build_questions(context: StageContext) -> StageOutput:
    declared = context.benchmark
    all_questions = read_benchmark_questions(context.lake, declared, context.warn)
    questions = [q for q in all_questions if q.split == declared.split]
    rows = question_rows(questions, declared.split, context.shard, context.profile.shards.questions, declared.graph)
    metadata: dict[str, object] = {
        "answerable": sum(bool(row["gold"]) for row in rows),
        "without gold answer": sum(row["gold"] is None for row in rows),
        "in all shards": len(questions),
    }
    dataset = None if isinstance(declared, BenchmarkSubset) else load_datasets().get(declared.reader)
    if dataset and (note := dataset.count_note(declared.split, len(questions))):
        context.warn(note)
        metadata["official count"] = note
    return StageOutput(rows, metadata=metadata)


def build_tables(context: StageContext) -> StageOutput:
    """Read the tables of a benchmark; report those without cells and those that share an id."""
    tables = read_benchmark_tables(context.lake, context.benchmark)
    metadata: dict[str, object] = {"without cells": sum(not any(table.rows) for table in tables)}
    if renamed := [f"{table.published_id} → {table.table_id}" for table in tables if table.published_id]:
        metadata["renamed"] = renamed
        context.warn(f"{len(renamed)} tables have the id of another table and were renamed: {', '.join(renamed)}.")
    return StageOutput(table_rows(tables), metadata=metadata)


class Questions(dg.Component, dg.Model, dg.Resolvable):
    """``questions/<family>`` for every family with a benchmark, and ``tables``."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        assets = [
            table_asset(
                f"questions/{family}",
                "questions",
                _build_questions,
                description=f"Questions of the {family} benchmarks, with options and gold answers.",
                group="benchmarks",
                code_version="3",
                deps=sorted({b.raw_asset for b in benchmarks_of_family(family)}),
                partitions=question_partitions(family),
            )
            for family in FAMILIES
            if benchmarks_of_family(family)
        ]
        if benchmarks_of_family("table"):
            assets.append(
                table_asset(
                    "tables",
                    "tables",
                    build_tables,
                    description="Tables of claims and questions, as read from the benchmarks' files.",
                    group="benchmarks",
                    code_version="1",
                    deps=sorted({b.raw_asset for b in benchmarks_of_family("table")}),
                    partitions=benchmark_partitions("table"),
                )
            )
        return dg.Definitions(assets=assets, asset_checks=[table_check(asset) for asset in assets])


class Subgraphs(dg.Component, dg.Model, dg.Resolvable):
    """``subgraphs/mcqa``, for the profile's first encoder and the encoders of loaded variants."""

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not benchmarks_of_family("mcqa"):
            return dg.Definitions()
        assets = [_subgraph_asset(name) for name in list_encoders("subgraphs/mcqa")]
        return dg.Definitions(assets=assets, asset_checks=[table_check(asset) for asset in assets])


def _subgraph_asset(name: str) -> dg.AssetsDefinition:
    """Subgraphs linked by one encoder; an empty name means the profile's first."""
    limits = profiles.load().ugat
    return table_asset(
        key_for_model("subgraphs/mcqa", name),
        "subgraphs",
        lambda context: build_subgraphs(with_encoder(context, name)),
        deps=build_deps([StageInput("questions/mcqa"), *source_inputs("mcqa", ("graph",), name)]),
        partitions=question_partitions("mcqa"),
        **encoder_options(
            name,
            "ugat",
            f"{VERSION}:{limits.D}:{limits.cap}:{limits.max_nodes}",
            "Subgraph of each question: the concepts of question and options, and their neighbourhood",
        ),
    )
