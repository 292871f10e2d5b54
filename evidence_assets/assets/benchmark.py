"""A benchmark: it joins its family's partitions; of its own it has only the raw asset that looks at its files."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from evidence_assets import profiles
from evidence_assets.assets.raw_files import raw_assets
from evidence_assets.benchmarks import declared
from evidence_assets.benchmarks.declarations import instances
from evidence_assets.benchmarks.info import datasets
from evidence_assets.lake.errors import BadInput

ANSWERED_FROM = {"corpus": ("Corpus",), "graph": ("Graph", "KnowledgeBase"), "background_graph": ("Graph",)}
"""Components that make what a benchmark is answered from."""


class Expected(declared.Expected, dg.Resolvable):
    """How large a benchmark is."""


class Sample(declared.Sample, dg.Resolvable):
    """Questions drawn at random."""


class Subset(declared.Subset, dg.Resolvable):
    """A part of a benchmark."""

    sample: Sample | None = None
    expected: Expected | None = None


class Benchmark(declared.Benchmark, dg.Component, dg.Resolvable):
    """One benchmark, as its YAML states it."""

    expected: Expected = Expected()
    subsets: Sequence[Subset] = ()

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.runs_in():
            return dg.Definitions()
        for field in ANSWERED_FROM:
            self._refuse_undeclared(field)
        listed = sorted({subset.ids for subset in self.subsets} - {""})
        wanted = datasets()[self.reader].wanted(self.split) if self.reader in datasets() else ""
        return dg.Definitions(assets=raw_assets(self, self.raw, [*self.files, *listed], wanted)[1])

    def _refuse_undeclared(self, field: str) -> None:
        """Refuse a corpus or graph that nothing makes in this profile: its questions would wait for it for ever."""
        name, profile = getattr(self, field), profiles.load()
        makers = [
            d for component in ANSWERED_FROM[field] for d in instances(component) if d.attributes.get("name") == name
        ]
        if name and not any(profile.is_any_of(d.attributes.get("profiles") or ()) for d in makers):
            where = "is declared for other profiles only" if makers else "is declared nowhere"
            raise BadInput(
                f"benchmark {self.name} is answered from {name!r}, which {where}: declare a "
                f"{' or '.join(ANSWERED_FROM[field])} of this name for profile {profile.name}, or take the line out",
                field=field,
            )
