"""Converts relations and harvests to rows of the lake, with the lineage from seed to triple."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import polars as pl

from evidence_assets.experiment.stage import StageOutput
from evidence_assets.harvest.prompt_mining import MinedPrompt
from evidence_assets.harvest.triple_metrics import Direction, Triple, canonical_triple
from evidence_assets.harvest.tuple_search import SHAPES
from evidence_assets.lake.errors import StaleInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, GENERATED, edge
from evidence_assets.systems.kbloom import VERSION
from evidence_assets.systems.kbloom.harvesting import (
    Candidate,
    EntityKinds,
    HarvestedTriple,
    KBloomSettings,
    KeptPrompt,
    MiningSettings,
    SearchSettings,
)
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


# Stage 1: prompts ---------------------------------------------------------------------------------------------------


def hash_prompt_inputs(
    relation: Relation, models: Sequence[str], settings: MiningSettings, kbloom_texts: Sequence[str] = ()
) -> str:
    """Hash of the inputs of a relation's prompts; fields of the seed file that mining does not read do not count."""
    inputs = (relation.id, relation.prompt, relation.pairs)
    return content_id(VERSION, *inputs, models, asdict(settings), sorted(kbloom_texts))


def build_prompt_rows(relation: Relation, variant: str, prompts: Sequence[MinedPrompt], input_hash: str) -> list[Row]:
    """Rows of ``prompts``."""
    shared = {"relation_id": relation.id, "variant": variant, "input_hash": input_hash}
    names = ("text", "weight", "bert_score", "ibleu", "certainty", "kept")
    return [
        {**shared, "prompt_id": content_id("prompt", relation.id, variant, prompt.text), **_columns(prompt, *names)}
        for prompt in prompts
    ]


def link_prompts(relation: Relation, prompt_ids: Iterable[str], model: str) -> list[Row]:
    """Lineage: a prompt derives from the seeds, and the model generates it."""
    seeds = [_seed_id(relation, *pair) for pair in relation.pairs]
    lineage = list[Row]()
    for prompt_id in prompt_ids:
        lineage += [edge("prompt", prompt_id, DERIVED, "seed", seed, relation.seed_hash) for seed in seeds]
        lineage.append(edge("prompt", prompt_id, GENERATED, "model", model, model))
    return lineage


def read_kept_prompts(rows: pl.DataFrame) -> dict[str, KeptPrompt]:
    """The prompts that the search uses by id, in an order that does not depend on the ids."""
    kept_rows = rows.filter(pl.col("kept")).sort(-pl.col("weight"), "text")
    return {row["prompt_id"]: KeptPrompt(row["text"], row["weight"]) for row in kept_rows.iter_rows(named=True)}


# Stage 2: candidates ------------------------------------------------------------------------------------------------


def hash_search_inputs(relation: Relation, model: str, settings: SearchSettings, prompts: Iterable[KeptPrompt]) -> str:
    """Hash of the inputs of a relation's candidates."""
    return content_id(VERSION, relation.id, relation.prompt, model, asdict(settings), list(prompts))


@dataclass(frozen=True)
class CandidateRows:
    """Builds the rows of ``candidate_tuples`` of one search of a relation."""

    relation_id: str
    variant: str
    model_id: str

    def candidate_id(self, pair: Candidate | HarvestedTriple) -> str:
        return content_id("candidate", self.relation_id, self.model_id, self.variant, pair.head, pair.tail)

    def build(self, candidates: Sequence[Candidate], input_hash: str) -> list[Row]:
        """Rows of candidates, best first."""
        shared = asdict(self) | {"input_hash": input_hash}
        return [
            {
                **shared,
                **asdict(candidate),
                "candidate_id": self.candidate_id(candidate),
                "shape": "{}-{}".format(*candidate.shape),
                "probability_rank": rank,
            }
            for rank, candidate in enumerate(candidates, 1)
        ]

    def link(
        self, candidates: Sequence[Candidate], finders: Sequence[Sequence[int]], prompt_ids: Sequence[str]
    ) -> list[Row]:
        """Lineage: a candidate derives from the prompts that find it on their own, or from all if none does.

        ``finders``: Numbers of the prompts that find each candidate.
        """
        lineage = list[Row]()
        for candidate, numbers in zip(candidates, finders, strict=True):
            candidate_id = self.candidate_id(candidate)
            prompts = [prompt_ids[number] for number in numbers] or prompt_ids
            lineage += [edge("candidate", candidate_id, DERIVED, "prompt", prompt, prompt) for prompt in prompts]
        return lineage


def read_candidates(rows: pl.DataFrame) -> list[Candidate]:
    """The candidates of rows of one search, best first."""
    shapes = {"{}-{}".format(*shape): shape for shape in SHAPES}
    columns = rows.sort("probability_rank").select(field.name for field in fields(Candidate))
    return [Candidate(**row | {"shape": shapes[row["shape"]]}) for row in columns.iter_rows(named=True)]


# Stage 3: triples ---------------------------------------------------------------------------------------------------


def hash_harvest_inputs(
    relation: Relation,
    model: str,
    settings: Sequence[KBloomSettings],
    candidates: Sequence[str],
    kinds: EntityKinds | None = None,
    causal: str = "",
) -> str:
    """Hash of the inputs of a relation's triples; kinds count only if the relation restricts them.

    ``candidates``: Hash of the inputs of each search. ``causal``: The causal model that rates the fluency.
    """
    has_kinds = bool(relation.head_kinds or relation.tail_kinds)
    inputs: list[object] = [[asdict(one) for one in settings], list(candidates), causal]
    if has_kinds and kinds is not None:
        inputs.append(sorted((name, sorted(of_entity)) for name, of_entity in kinds.items()))
    return content_id(VERSION, relation.seed_hash, model, *inputs)


def build_triple_rows(
    relation: Relation, harvests: Mapping[str, Sequence[HarvestedTriple]], model: str, source: str, input_hash: str
) -> StageOutput:
    """Rows of ``triples`` of one relation: those of K-Bloom and of the baseline, by name.

    Lineage: a triple derives from its candidate, and the model generates it.
    """
    shared = {"relation": relation.id, "relation_id": relation.id, "model_id": model, "source": source}
    shared |= {"licence": LICENCE, "input_hash": input_hash}
    names = ("head", "tail", "semantic", "fluency", "score", "rank", "agreement")
    triple_rows = list[Row]()
    lineage = list[Row]()
    generated_ids = set[str]()
    for variant, triples in harvests.items():
        candidate_rows = CandidateRows(relation.id, variant, model)
        for triple in triples:
            triple_id = content_id("triple", triple.head, relation.id, triple.tail)
            row = {"triple_id": triple_id, "origin": variant, "flags": list(triple.flags), **_columns(triple, *names)}
            triple_rows.append(shared | row)
            candidate = candidate_rows.candidate_id(triple)
            lineage.append(
                edge("triple", triple_id, DERIVED, "candidate", candidate, candidate, triple.rank, triple.score)
            )
            if triple_id not in generated_ids:
                lineage.append(edge("triple", triple_id, GENERATED, "model", model, model))
            generated_ids.add(triple_id)
    return StageOutput(triple_rows, lineage, reused=0)


# Collections --------------------------------------------------------------------------------------------------------


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
    # Without the hash of the inputs: a collection changes only if its triples do.
    return rows.with_columns(pl.Series("flags", flags, dtype=rows.schema["flags"]), input_hash=None)


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
