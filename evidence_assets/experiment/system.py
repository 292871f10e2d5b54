"""What a system is to the experiment: its methods with their settings, what they read, and one version.

A system's package says ``SYSTEM = System(…)``. A method either picks evidence, and then the stages from evidence to
scores are those of its task family, or it states stages of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import polars as pl
from pydantic import TypeAdapter, ValidationError

from evidence_assets import profiles
from evidence_assets.benchmarks.declared import Benchmark, of_family
from evidence_assets.experiment.answers import Answerer
from evidence_assets.experiment.selection import Selector
from evidence_assets.experiment.stage import Read, Stage
from evidence_assets.experiment.step import Step
from evidence_assets.experiment.variants import FILE, SYSTEMS, Variant, crossed_with, opted_in
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id, with_model
from evidence_assets.profiles import KINDS, Kind
from evidence_assets.reasoning.asking import PromptedTask
from evidence_assets.retrieval.corpus import index_key
from evidence_assets.text.nearest import nearest

S = TypeVar("S")


def parameter_names(settings: type[Any]) -> list[str]:
    return [f.name for f in fields(settings) if f.init] if is_dataclass(settings) else []


def read_settings(
    settings: type[S], stated: Mapping[str, Any], *, where: str, file: Path | None = None, defaults: Mapping[str, Any]
) -> S:
    """Settings of this type with ``stated`` values over the ``defaults`` of a profile.

    Raises BadInput if a name is none of its fields, or a value does not fit; ``where`` says whose settings they are.
    """
    known = parameter_names(settings)
    for name in stated:
        if name not in known:
            meant = f"did you mean {nearest(name, known)!r}? It has {', '.join(known)}" if known else "it has none"
            raise BadInput(f"{where} has no parameter {name!r}; {meant}", file=file, field=name)
    try:
        return TypeAdapter(settings).validate_python({**defaults, **stated})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{where}: {first['msg']}", file=file, field=field or None) from error


Source = Literal[
    "corpus",
    "tables",
    "graph",
    "joined_graph",
    "graph_passages",
    "subgraphs",
    "token_store",
    "taxonomy",
    "knowledge_base",
]


@dataclass(frozen=True)
class NoSettings:
    """Settings of a method without parameters."""


@dataclass(frozen=True, kw_only=True)
class _Parametrised(Generic[S]):
    """What both kinds of method have: settings, and what a profile sets of them."""

    settings: type[S]
    """Dataclass of its parameters."""
    defaults: Callable[[profiles.Profile], Mapping[str, Any]] = lambda profile: {}
    """Parameters that a profile sets where the variant does not."""
    models: Callable[[S], Sequence[Kind]] = lambda settings: ()
    """Kinds of models that it works with before anything is answered."""

    def settings_of(self, variant: Variant) -> S:
        """The settings of a variant in the profile in use, with the models that it uses."""
        return read_settings(
            self.settings,
            variant.parameters,
            where=f"variant {variant.place}",
            file=SYSTEMS / variant.system / FILE,
            defaults=self.defaults(variant.profile),
        )


@dataclass(frozen=True, kw_only=True)
class Method(_Parametrised[S]):
    """A way to pick evidence; the stages from there to scores are those of the task family.

    ``open``: Makes the selector for one step, named as the variant is.
    ``reads``: What of a benchmark it reads.
    ``more_reads``: Assets that it reads besides.
    ``failed``: Why questions of a partition could not be prepared, by question id: they end as failed rows, and nothing
        is asked.
    ``answerer``: Makes who answers, where that is the system itself; see ``experiment.stages``.
    ``own_encoder``: Whether its encoder meets no stored vectors although it reads some: those of the profile's first
        then do.
    ``asks``: What it asks a language model, to pick or to answer.
    ``published``: How its paper asks for answers, by name (``reasoning.published.STYLES``); empty where it does not
        say.
    """

    open: Callable[[str, Step, S], Selector]
    reads: tuple[Source, ...] = ()
    own_encoder: bool = False
    more_reads: Callable[[Variant, S], Sequence[Read]] | None = None
    failed: Callable[[Step, S], Mapping[str, str]] | None = None
    answerer: Callable[[str, Step, S, pl.DataFrame], Answerer] | None = None
    asks: tuple[PromptedTask[Any, Any], ...] = ()
    published: str = ""


@dataclass(frozen=True)
class Scope:
    """What a method that answers no questions is scored on: what it is called in scores, the metrics, and what it needs."""

    name: str
    metrics: frozenset[str]
    holds: str


@dataclass(frozen=True, kw_only=True)
class OwnStages(_Parametrised[S]):
    """A method that states its stages itself; ``scored_on`` is what figures may be printed for.

    ``asks_first`` asks what its stages ask a language model, of the first row that they would ask about: to be shown.
    """

    stages: Callable[[Variant, S], list[Stage]]
    asks_first: Callable[[Variant, S, Step], None] | None = None
    scored_on: Callable[[S], Sequence[Scope]] = lambda settings: ()


@dataclass(frozen=True)
class System:
    """One published system, or a group of baselines.

    ``version``: Changes when equal input gives another output; the system's golden test goes red when it should have.
    """

    name: str
    version: str
    methods: Mapping[str, Method[Any] | OwnStages[Any]] = field(default_factory=dict)

    def method_of(self, variant: Variant) -> Method[Any] | OwnStages[Any]:
        name = variant.method or self.name
        if name not in self.methods:
            raise BadInput(
                f"variant {variant.place}: there is no method {name!r}; known: {', '.join(self.methods)}",
                file=SYSTEMS / self.name / FILE,
                field="method",
            )
        return self.methods[name]

    def version_with(self, settings: Any) -> str:
        """Code version of what is made with these settings."""
        return f"{self.version}:{content_id(asdict(settings))[:12]}"


def answers_by_model(variant: Variant) -> bool:
    """Whether a language model answers what was picked, where the profile has one."""
    return variant.family == "graph" or (variant.family in ("mcqa", "table") and variant.solver == "generator")


def crossings(system: System, variant: Variant, opted: frozenset[str] | None = None) -> list[Variant]:
    """The variant once for every combination of the models that it, or an opted-in preset of it, is crossed with.

    A kind that it does not work with is left out. Models that come first in the profile are not named.

    Raises BadInput if a model is none of the profile's.
    """
    method = system.method_of(variant)
    kinds = set(method.models(method.settings_of(variant)))
    if isinstance(method, Method) and answers_by_model(variant):
        kinds.add("generator")
    crossed = crossed_with(variant.models, variant.presets, opted_in() if opted is None else opted)
    axes = {kind: crossed[kind] for kind in KINDS if kind in kinds & crossed.keys()}
    profile = profiles.load()
    return [
        variant.model_copy(
            update={"using": {k: name for k, name in zip(axes, names, strict=True) if name != profile.names(k)[0]}}
        )
        for names in product(*axes.values())
    ]


def lacking(reads: Sequence[Source], benchmark: Benchmark) -> str:
    """Why a method that reads this has nothing to read for a benchmark; empty where it has.

    One that reads a corpus and a graph works with either; ``joined_graph`` is the benchmark's graph or, where it is
    answered from a corpus, the one beside that. One that reads tables, which are the benchmark's own, does without all.
    """
    if "tables" in reads:
        return ""
    named = {"corpus": benchmark.corpus, "graph": benchmark.graph, "joined_graph": benchmark.joined_graph}
    wanted = [source for source in named if source in reads]
    if not wanted or any(named[source] for source in wanted):
        return ""
    return f"benchmark {benchmark.name} names no {' and no '.join(w.removeprefix('joined_') for w in wanted)}"


def source_reads(family: str, sources: Sequence[Source], encoder: str = "") -> list[Read]:
    """Assets that hold what a method reads, over all of the family's benchmarks; vectors are those of this encoder.

    Vectors of tokens are those of the profile's ``token_encoder``, of which there is one.
    """

    def vectors(key: str) -> Read:
        return Read(with_model(key, encoder), "every" if key.endswith("/passages") else "same")

    benchmarks = of_family(family)
    corpora = sorted({b.corpus for b in benchmarks if b.corpus})
    graphs = sorted({b.joined_graph if "joined_graph" in sources else b.graph for b in benchmarks} - {""})
    reads: list[Read] = []
    if "corpus" in sources:
        for name in corpora:
            reads += [Read(f"corpus/{name}/chunks", "every"), Read(index_key(name, encoder))]
    if "token_store" in sources:
        reads += [Read(f"corpus/{name}/token_store") for name in corpora]
    if "graph" in sources or "joined_graph" in sources:
        reads += [Read(f"knowledge/{name}/{part}") for name in graphs for part in ("nodes", "edges", "csr")]
        reads += [vectors(f"knowledge/{name}/node_vectors") for name in graphs]
    if "subgraphs" in sources:
        reads.append(vectors(f"subgraphs/{family}"))
    if "graph_passages" in sources:
        reads += [vectors(f"knowledge/{name}/passages") for name in sorted({b.graph for b in benchmarks if b.graph})]
    if "taxonomy" in sources:
        reads += [Read(f"knowledge/{name}/nodes") for name in sorted({b.taxonomy for b in benchmarks if b.taxonomy})]
    if "knowledge_base" in sources:
        reads += [Read(f"knowledge/{name}/{part}") for name in graphs for part in ("nodes", "edges", "csr")]
        reads += [vectors(f"knowledge/{name}/{part}") for name in graphs for part in ("passages", "passage_index")]
    if "tables" in sources:
        reads.append(Read("tables", "benchmark"))
    return reads
