"""Converts relations and harvests to rows of the lake, with the lineage from seed to triple."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

import polars as pl

from evidence_assets.experiment.stage import StageOutput
from evidence_assets.harvest.triple_metrics import Direction, Triple, canonical_triple
from evidence_assets.harvest.tuple_search import ScoredPair
from evidence_assets.lake.errors import BadInput, StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, edge
from evidence_assets.systems.kbloom import VERSION
from evidence_assets.systems.kbloom.harvesting import EntityKinds, Harvest, HarvestedTriple, KBloomSettings
from evidence_assets.systems.kbloom.seeds import Relation

LICENCE = "harvested from a model"

Row = dict[str, object]
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
    inputs: list[object] = [[asdict(one) for one in settings]]
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
    tables = _HarvestTables(relation, model)
    for harvest in harvests:
        if not harvest.triples:
            raise BadInput(
                f"relation {relation.id!r}: {model} yields no pair. Its vocabulary has no candidate entity for this "
                "prompt, or none of an allowed kind. Change the prompt or the allowed kinds, or use another model"
            )
        prompt_ids = tables.add_prompts(harvest, input_hash)
        tables.add_candidates(harvest)
        tables.add_triples(harvest, source, prompt_ids)
    metadata: dict[str, object] = {"prompts": len(harvests[0].kept_prompts), "candidates": len(tables.candidates)}
    side_tables = {"prompts": tables.prompts, "candidate_tuples": tables.candidates}
    return StageOutput(tables.triples, tables.lineage, metadata, reused=0, other_tables=side_tables)


class _HarvestTables:
    """Rows of the harvests of a relation by table, and their lineage."""

    def __init__(self, relation: Relation, model: str) -> None:
        self._relation = relation
        self._model = model
        self.prompts = list[Row]()
        self.candidates = list[Row]()
        self.triples = list[Row]()
        self.lineage = list[Row]()

    def add_prompts(self, harvest: Harvest, input_hash: str) -> dict[str, str]:
        """Returns the id of each prompt."""
        relation = self._relation
        seed_ids = [_seed_id(relation, *pair) for pair in relation.pairs]
        ids: dict[str, str] = {}
        for prompt in harvest.prompts:
            prompt_id = content_id("prompt", relation.id, harvest.variant, prompt.text)
            ids[prompt.text] = prompt_id
            self.prompts.append(
                {
                    "prompt_id": prompt_id,
                    "relation_id": relation.id,
                    "variant": harvest.variant,
                    "input_hash": input_hash,
                    **_columns(prompt, "text", "weight", "bert_score", "ibleu", "certainty", "kept"),
                }
            )
            self.lineage += [edge("prompt", prompt_id, DERIVED, "seed", seed, relation.seed_hash) for seed in seed_ids]
            self._add_origin("prompt", prompt_id)
        return ids

    def add_candidates(self, harvest: Harvest) -> None:
        agreement = {(triple.head, triple.tail): triple.agreement for triple in harvest.triples}
        for rank, candidate in enumerate(harvest.candidates, 1):
            self.candidates.append(
                {
                    "candidate_id": self._candidate_id(harvest, candidate),
                    "relation_id": self._relation.id,
                    "variant": harvest.variant,
                    "model_id": self._model,
                    "shape": "{}-{}".format(*candidate.shape),
                    "probability_rank": rank,
                    "agreement": agreement.get((candidate.head, candidate.tail)),
                    **_columns(candidate, "head", "tail", "log_likelihood"),
                }
            )

    def add_triples(self, harvest: Harvest, source: str, prompt_ids: Mapping[str, str]) -> None:
        relation_id = self._relation.id
        previous_ids = {triple["triple_id"] for triple in self.triples}
        for triple in harvest.triples:
            triple_id = content_id("triple", triple.head, relation_id, triple.tail)
            self.triples.append(
                {
                    "triple_id": triple_id,
                    "relation": relation_id,
                    "relation_id": relation_id,
                    "origin": harvest.variant,
                    "model_id": self._model,
                    "source": source,
                    "licence": LICENCE,
                    "flags": list(triple.flags),
                    **_columns(triple, "head", "tail", "semantic", "fluency", "score", "rank", "agreement"),
                }
            )
            candidate = self._candidate_id(harvest, triple)
            prompts = [prompt_ids[prompt.text] for prompt in triple.found_by or harvest.kept_prompts]
            self.lineage += [edge("candidate", candidate, DERIVED, "prompt", prompt, prompt) for prompt in prompts]
            self.lineage.append(
                edge("triple", triple_id, DERIVED, "candidate", candidate, candidate, triple.rank, triple.score)
            )
            if triple_id not in previous_ids:
                self._add_origin("triple", triple_id)

    def _add_origin(self, kind: str, row_id: str) -> None:
        self.lineage.append(edge(kind, row_id, GENERATED, "model", self._model, self._model))

    def _candidate_id(self, harvest: Harvest, pair: ScoredPair | HarvestedTriple) -> str:
        return content_id("candidate", self._relation.id, self._model, harvest.variant, pair.head, pair.tail)


def select_collection(triples: pl.DataFrame, seeds: pl.DataFrame, collection: str, origin: str) -> pl.DataFrame:
    """Triples of one origin and of the collection's current relations, flagged by their reverse.

    ``both_ways``: the relation is symmetric and both directions were harvested; ``by_inverse``: the same fact was
    harvested for the inverse relation; ``reversed``: the relation is not symmetric but both directions were harvested,
    so one of them is doubtful.
    """
    relations = build_relations(seeds.filter(pl.col("collection") == collection))
    directions = {relation.id: Direction(relation.symmetric, relation.inverse) for relation in relations}
    rows = triples.filter((pl.col("origin") == origin) & pl.col("relation_id").is_in(list(directions)))
    columns = rows.select("head", "relation", "tail").iter_rows()
    facts = [(head.casefold(), relation, tail.casefold()) for head, relation, tail in columns]
    flags = map(list.__add__, rows["flags"].to_list(), _flag_reverses(facts, directions))
    return rows.with_columns(pl.Series("flags", flags, dtype=rows.schema["flags"]))


def _flag_reverses(facts: Sequence[Triple], directions: Mapping[str, Direction]) -> Iterator[list[str]]:
    """Flags of each fact, in lower case."""
    distinct_facts = set(facts)
    forms = [canonical_triple(fact, directions) for fact in facts]
    counts = Counter(forms)
    for (head, relation, tail), form in zip(facts, forms, strict=True):
        is_symmetric = directions[relation].symmetric
        if head != tail and (tail, relation, head) in distinct_facts:
            yield ["both_ways" if is_symmetric else "reversed"]
        else:
            yield ["by_inverse"] if counts[form] > 1 and not is_symmetric else []


def _columns(record: object, *names: str) -> Row:
    """Columns with the names and values of these attributes."""
    return {name: getattr(record, name) for name in names}


def _seed_id(relation: Relation, head: str, tail: str) -> str:
    return content_id("seed", relation.id, head, tail)
