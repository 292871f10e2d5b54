"""Converts relations and harvests to rows of the lake, with the lineage from seed to triple."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from evidence_assets.experiment.stage import StageOutput
from evidence_assets.harvest.triple_metrics import Direction, Triple, canonical_triple
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, edge
from evidence_assets.systems.kbloom import VERSION
from evidence_assets.systems.kbloom.harvesting import EntityKinds, Harvest, KBloomSettings
from evidence_assets.systems.kbloom.seeds import Relation

LICENCE = "harvested from a model"

Row = dict[str, Any]
_RELATION_COLUMNS = ("collection", "prompt", "template", "inverse", "symmetric", "functional")


def build_seed_rows(relation: Relation) -> list[Row]:
    """Rows of ``relation_seeds``: one for each seed pair, with the other fields of the seed file repeated."""
    kinds = {"head_kinds": list(relation.head_kinds), "tail_kinds": list(relation.tail_kinds)}
    shared = _columns(relation, *_RELATION_COLUMNS, "seed_hash") | kinds | {"relation_id": relation.id}
    return [
        {**shared, "head": head, "tail": tail, "position": position, "seed_id": _seed_id(relation, head, tail)}
        for position, (head, tail) in enumerate(relation.pairs)
    ]


def build_relation(rows: pl.DataFrame) -> Relation:
    """The relation of its rows in ``relation_seeds``: a harvest depends on the lake, not on the seed file."""
    if rows.is_empty():
        raise StaleInput("knowledge/seeds has no seeds of this relation; materialize it first")
    rows = rows.sort("position")
    first = rows.row(0, named=True)
    columns = {name: first[name] for name in _RELATION_COLUMNS}
    columns |= {name: tuple(first[name]) for name in ("head_kinds", "tail_kinds")}
    return Relation(first["relation_id"], pairs=tuple(rows.select("head", "tail").rows()), **columns)


def build_relations(rows: pl.DataFrame) -> list[Relation]:
    return [build_relation(seeds) for _, seeds in sorted(rows.group_by("relation_id"))]


def read_entity_kinds(triples: pl.DataFrame) -> dict[str, frozenset[str]]:
    """Kinds of every entity with a type in the triples, by its name in lower case."""
    kinds: dict[str, frozenset[str]] = {}
    for side in ("head", "tail"):
        for name, kind in triples.select(side, f"{side}_type").drop_nulls().unique().iter_rows():
            kinds[name.casefold()] = kinds.get(name.casefold(), frozenset()) | {kind}
    return kinds


def hash_harvest_inputs(
    relation: Relation,
    model: str,
    encoder: str,
    settings: Sequence[KBloomSettings],
    kinds: EntityKinds | None = None,
    other_models: Sequence[str] = (),
) -> str:
    """Hash of the inputs of a relation's harvest; kinds count only if the relation restricts them.

    ``other_models``: Models other than the masked one and the encoder that write prompts.
    """
    has_kinds = bool(relation.head_kinds or relation.tail_kinds)
    inputs: list[Any] = [[asdict(one) for one in settings]]
    if has_kinds and kinds is not None:
        inputs.append(sorted((name, sorted(of_entity)) for name, of_entity in kinds.items()))
    return content_id(VERSION, relation.seed_hash, model, encoder, *inputs, *other_models)


def build_harvest_rows(
    relation: Relation, harvests: Sequence[Harvest], *, model: str, source: str, input_hash: str
) -> StageOutput:
    """Rows of ``triples`` of one relation, with those of ``prompts`` and ``candidate_tuples``.

    Lineage: a prompt derives from the seeds; a triple from its candidate; the candidate of a triple from the prompts
    that find it on their own, or from all kept prompts if none does. The model generates prompts and triples.

    Raises BadInput if a harvest is empty: the relation failed.
    """
    prompts = list[Row]()
    candidate_tuples = list[Row]()
    triples = list[Row]()
    lineage = list[Row]()
    seeds = [_seed_id(relation, *pair) for pair in relation.pairs]
    for harvest in harvests:
        if not harvest.triples:
            raise BadInput(
                f"relation {relation.id!r}: {model} yields no pair. Its vocabulary has no candidate entity for this "
                "prompt, or none of an allowed kind. Change the prompt or the allowed kinds, or use another model"
            )
        ids = [content_id("prompt", relation.id, harvest.variant, prompt.text) for prompt in harvest.prompts]
        kept_positions = [number for number, prompt in enumerate(harvest.prompts) if prompt.kept]
        shared = {"relation_id": relation.id, "variant": harvest.variant}
        origins = {"relation": relation.id, "relation_id": relation.id, "origin": harvest.variant, "model_id": model}
        origins |= {"source": source, "licence": LICENCE}
        for prompt_id, prompt in zip(ids, harvest.prompts, strict=True):
            columns = _columns(prompt, "text", "weight", "bert_score", "ibleu", "certainty", "kept")
            prompts.append(shared | columns | {"prompt_id": prompt_id, "input_hash": input_hash})
            lineage += [edge("prompt", prompt_id, DERIVED, "seed", seed, relation.seed_hash) for seed in seeds]
            lineage.append(edge("prompt", prompt_id, GENERATED, "model", model, model))
        candidate_ids: dict[tuple[str, str], str] = {}
        agreement = {(t.head, t.tail): t.agreement for t in harvest.triples}
        for rank, candidate in enumerate(harvest.candidates, 1):
            pair = (candidate.head, candidate.tail)
            candidate_ids[pair] = content_id("candidate", relation.id, model, harvest.variant, *pair)
            columns = _columns(candidate, "head", "tail", "log_likelihood")
            columns |= {"shape": "{}-{}".format(*candidate.shape), "probability_rank": rank}
            columns |= {"candidate_id": candidate_ids[pair], "model_id": model, "agreement": agreement.get(pair)}
            candidate_tuples.append(shared | columns)
        for triple in harvest.triples:
            candidate_id = candidate_ids[triple.head, triple.tail]
            triple_id = content_id("triple", triple.head, relation.id, triple.tail)
            columns = _columns(triple, "head", "tail", "semantic", "fluency", "score", "rank", "agreement")
            triples.append(columns | origins | {"triple_id": triple_id, "flags": list(triple.flags)})
            prompt_positions = triple.found_by or kept_positions
            lineage += [edge("candidate", candidate_id, DERIVED, "prompt", ids[n], ids[n]) for n in prompt_positions]
            lineage.append(
                edge("triple", triple_id, DERIVED, "candidate", candidate_id, candidate_id, triple.rank, triple.score)
            )
    triple_ids = dict.fromkeys(triple["triple_id"] for triple in triples)
    lineage += [edge("triple", triple_id, GENERATED, "model", model, model) for triple_id in triple_ids]
    metadata: dict[str, object] = {
        "prompts": sum(p.kept for p in harvests[0].prompts),
        "candidates": len(candidate_tuples),
    }
    side_tables = {"prompts": prompts, "candidate_tuples": candidate_tuples}
    return StageOutput(triples, lineage, metadata, reused=0, other_tables=side_tables)


def select_collection(triples: pl.DataFrame, seeds: pl.DataFrame, collection: str, origin: str) -> pl.DataFrame:
    """Triples of one origin and of the collection's current relations, flagged by their reverse.

    ``both_ways``: the relation is symmetric and both directions were harvested; ``by_inverse``: the same fact was
    harvested for the inverse relation; ``reversed``: the relation is not symmetric but both directions were harvested,
    so one of them is doubtful.
    """
    members = build_relations(seeds.filter(pl.col("collection") == collection))
    rows = triples.filter((pl.col("origin") == origin) & pl.col("relation_id").is_in([one.id for one in members]))
    directions = {one.id: Direction(one.symmetric, one.inverse) for one in members}
    facts: list[Triple] = list(rows.select("head", "relation", "tail").iter_rows())
    fact_counts = Counter(canonical_triple(fact, directions) for fact in facts)
    directed_facts = {(head.casefold(), relation, tail.casefold()) for head, relation, tail in facts}

    def flags(fact: Triple) -> list[str]:
        head = fact[0].casefold()
        relation = fact[1]
        tail = fact[2].casefold()
        if (tail, relation, head) in directed_facts and head != tail:
            return ["both_ways" if directions[relation].symmetric else "reversed"]
        by_inverse = not directions[relation].symmetric and fact_counts[canonical_triple(fact, directions)] > 1
        return ["by_inverse"] if by_inverse else []

    flagged = [[*search_flags, *flags(fact)] for search_flags, fact in zip(rows["flags"], facts, strict=True)]
    return rows.with_columns(pl.Series("flags", flagged, dtype=rows.schema["flags"]))


def _columns(record: object, *names: str) -> Row:
    """Columns with the names and values of these attributes."""
    return {name: getattr(record, name) for name in names}


def _seed_id(relation: Relation, head: str, tail: str) -> str:
    return content_id("seed", relation.id, head, tail)
