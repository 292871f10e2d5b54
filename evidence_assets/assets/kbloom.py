"""K-Bloom as assets: triples harvested from a masked language model, by relation, merged by collection, scored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import dagster as dg
from pydantic import Field

from evidence_assets import profiles
from evidence_assets.assets import harvest_judged
from evidence_assets.assets.models_in_use import MASKED_LM, encoder, masked_lm, model_key
from evidence_assets.assets.partitions import EVERY
from evidence_assets.assets.relations import FOLDER, RELATIONS, SEEDS
from evidence_assets.assets.table_asset import Made, Step, dep, sound_check, table_asset
from evidence_assets.assets.variant import Variant
from evidence_assets.systems.kbloom import VERSION
from evidence_assets.systems.kbloom import rows as harvest_rows
from evidence_assets.systems.kbloom import scores as harvest_scores
from evidence_assets.systems.kbloom.plot import bars
from evidence_assets.systems.kbloom.sample_model import names_of
from evidence_assets.systems.kbloom.system import KBloomSettings, check_kinds, check_seeds, harvest, mine

SEEDS_NAME, FOLDER_NAME = "/".join(SEEDS.path), "/".join(FOLDER.path)


class KBloom(dg.Component, Variant):
    """Makes ``knowledge/<name>/harvest``, one partition a seed file, ``knowledge/<name>/<collection>`` and scores.

    The harvest holds the triples of K-Bloom and, in the same rows' table under their own origin, those of the baseline
    that searches with the same prompts; a collection holds K-Bloom's only.
    """

    name: str
    collections: list[str]
    """Collections of relations that are merged, each into an asset of its own."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What differs from the defaults of ``systems.kbloom.system.KBloomSettings``."""
    baseline: bool = True
    """Whether the baseline is run beside it."""
    kinds: str = ""
    """Asset of ``triples`` whose types of heads and tails say of what kind an entity is, for seed files that name some."""
    coverage: bool = False
    """Whether its coverage is estimated, which harvests every relation twice more."""
    truth: Literal["sample", ""] = ""
    """``sample`` scores it against the facts that the sample corpus states."""

    def _settings(self) -> list[KBloomSettings]:
        harvesting = profiles.load().harvesting
        own = KBloomSettings(**{"n": harvesting.n, "max_prompts": harvesting.prompts, **self.settings})
        return [own, replace(own, variant="bertnet")] if self.baseline else [own]

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        if not self.loaded:
            return dg.Definitions()
        profile = profiles.load()
        base, settings = f"knowledge/{self.name}", self._settings()
        harvested = f"{base}/harvest"

        def make_harvest(step: Step) -> Made:
            relation = harvest_rows.relation_of(step.read("relation_seeds", SEEDS_NAME, step.partition))
            model, words = masked_lm(step.lake, profile.harvesting.model), encoder(profile.encoder)
            if relation.collection not in self.collections:
                known = ", ".join(self.collections)
                step.context.log.warning(f"collection {relation.collection!r} is merged nowhere; known: {known}")
            kinds = harvest_rows.kinds_of(step.read("triples", self.kinds)) if self.kinds else None
            key = harvest_rows.harvest_hash(relation, model_key(model), model_key(words), settings, kinds)
            before = step.lake.read("prompts", step.asset, step.partition)
            if before.height and set(before["input_hash"]) == {key}:
                triples = step.previous()
                candidates = step.lake.read("candidate_tuples", step.asset, step.partition)
                beside = {"prompts": before, "candidate_tuples": candidates}
                return Made(triples, step.previous_lineage().to_arrow(), {}, triples.height, beside)
            check_seeds(relation, model)
            check_kinds(relation, kinds)
            prompts = mine(relation, model, words, settings[0])
            made = harvest_rows.harvest_rows(
                relation,
                [harvest(relation, model, words, one, prompts=prompts, kinds=kinds) for one in settings],
                model=model_key(model), source=harvested, input_hash=key,
            )  # fmt: skip
            return Made(
                made.triples,
                made.lineage,
                {
                    "prompts": sum(p.kept for p in prompts),
                    "candidates": len(made.candidates),
                    "model": model_key(model),
                },
                reused=0,
                beside={"prompts": made.prompts, "candidate_tuples": made.candidates},
            )

        assets = [
            table_asset(
                harvested, "triples", make_harvest, group=self.name, tags=self.tags, kinds=("parquet", "pytorch"), pool="gpu",
                description="Triples of one relation, from its prompt and seed pairs, with the prompts and candidates "
                "that led to them.",
                code_version=f"{VERSION}:{settings}",
                deps=[SEEDS_NAME, MASKED_LM, *([self.kinds] if self.kinds else [])], partitions=RELATIONS,
            )
        ]  # fmt: skip
        for collection in self.collections:
            assets.append(self._merged(base, collection))
        variants: dict[str, str] = {s.variant: self.name if s is settings[0] else s.variant for s in settings}
        if self.truth:
            assets.append(self._scores(base, variants))
        if self.coverage:
            assets.append(harvest_judged.coverage(base, self.name, settings[0], self.kinds, self.tags))
        assets += harvest_judged.judged(base, self.name, variants, self.tags)
        return dg.Definitions(assets=assets, asset_checks=[sound_check(asset) for asset in assets])

    def _merged(self, base: str, collection: str) -> dg.AssetsDefinition:
        def make(step: Step) -> Made:
            seeds = step.read("relation_seeds", SEEDS_NAME)
            triples = step.read("triples", f"{base}/harvest")
            rows = harvest_rows.in_collection(triples, seeds, collection, "kbloom")
            return Made(rows, metadata={"relations": rows["relation_id"].n_unique()})

        return table_asset(
            f"{base}/{collection}", "triples", make, group=self.name, tags=self.tags, code_version=VERSION,
            description=f"Harvested triples of all relations of {collection}, best first in each, flagged by what their "
            "reverse says.",
            deps=[dep(f"{base}/harvest", EVERY), dep(SEEDS_NAME, EVERY), FOLDER_NAME],
        )  # fmt: skip

    def _scores(self, base: str, variants: dict[str, str]) -> dg.AssetsDefinition:
        def make(step: Step) -> Made:
            folder = step.lake.raw / "sample"
            scored = harvest_scores.score_rows(
                harvest_rows.relations_of(step.read("relation_seeds", SEEDS_NAME)),
                step.read("triples", f"{base}/harvest"),
                stated=harvest_scores.read_facts(folder / "stated.tsv"),
                held_out=harvest_scores.read_facts(folder / "held_out.tsv"),
                variants=variants,
                known=names_of([folder / "graphs" / f"{name}.tsv" for name in ("biomedical", "commonsense")]),
            )
            shown = [row for row in scored if row["metric"] == "precision@50"]
            by_variant = {v: [row for row in shown if row["selector"] == v] for v in variants.values()}
            plot = bars(
                "precision@50",
                [row["scope_id"] for row in by_variant[self.name]],
                {v: [(r["value"], r["low"], r["high"]) for r in rows] for v, rows in by_variant.items()},
            )
            totals = {
                f"{row['selector']}_{row['metric']}_{row['scope_id']}": row["value"]
                for row in scored
                if row["scope_kind"] == "collection" and row["value"] is not None
            }
            return Made(scored, metadata={"plot": dg.MetadataValue.md(plot), **totals})

        return table_asset(
            f"scores/{base}", "scores", make, group=self.name, tags=self.tags, code_version=VERSION,
            description="What the harvest reaches against the facts that the sample corpus states, seeds left out, and "
            "whether facts that it holds back are recovered above chance.",
            deps=[dep(f"{base}/harvest", EVERY), dep(SEEDS_NAME, EVERY), FOLDER_NAME, "raw/sample"],
        )  # fmt: skip
