"""Seed files with pairs drawn at random from ConceptNet or LAMA, as published, in place of the packaged pairs.

The reference's files must be in the lake (``systems/kbloom/references.yaml`` says where to obtain them)::

    python -m tools.sample_seeds conceptnet_train600k data_lake/raw/seeds [--lake data_lake] [--seed 0]

Each packaged relation of the collection keeps its prompt and gets up to five distinct tuples whose entities have one or
two words. Relations without tuples in the reference are listed and not written.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.lake.store import Lake
from evidence_assets.systems.kbloom.scores import load_references
from evidence_assets.systems.kbloom.seeds import Relation, collection_folder, read_seed_folder

MAX_PAIRS, MAX_WORDS = 5, 2


def draw_pairs(relation: str, tuples: Sequence[EntityPair], seed: int) -> list[EntityPair]:
    """Up to five distinct tuples, drawn by the seed and the relation's name."""
    usable = sorted(
        {pair for pair in tuples if pair[0] != pair[1] and all(len(entity.split()) <= MAX_WORDS for entity in pair)}
    )
    return random.Random(f"{seed}:{relation}").sample(usable, min(MAX_PAIRS, len(usable)))


def write_seed_files(
    relations: Sequence[Relation], tuples: Mapping[str, Sequence[EntityPair]], folder: Path, seed: int
) -> list[str]:
    """Write a seed file for each relation with tuples; returns the ids of the others."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for relation in relations:
        pairs = draw_pairs(relation.id, tuples.get(relation.id, ()), seed)
        if not pairs:
            missing.append(relation.id)
            continue
        fields: dict[str, Any] = {key: value for key, value in asdict(relation).items() if value}
        fields = {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}
        text = yaml.safe_dump(fields | {"pairs": [list(pair) for pair in pairs]}, allow_unicode=True, sort_keys=False)
        (folder / f"{relation.id}.yaml").write_text(text, encoding="utf-8")
    return missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", choices=sorted(load_references()))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lake", default="data_lake")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    reference = load_references()[options.reference]
    tuples = reference.read_pairs(Lake(options.lake).fetch_raw(*reference.paths))
    relations = read_seed_folder(collection_folder(reference.collection)).relations
    missing = write_seed_files(relations, tuples, options.folder, options.seed)
    unwritten = ", ".join(missing) or "none"
    print(f"{len(relations) - len(missing)} seed files in {options.folder}; without tuples: {unwritten}")


if __name__ == "__main__":
    main()
