"""Count the harvests that BertNet's authors recorded, as ours are counted, beside the printed figures.

    python tools/bertnet_outputs.py FOLDER

The folder holds ``<set>/<setting>/<model>/<relation>/ent_tuples.json``, each a list of ``[[head, tail], score]``, best
first. The set is ``conceptnet`` or ``lama``, of which the relations count that K-Bloom's packaged collections name; the
setting says how many prompts were used, and whether they are the initial ones.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.json_streams import json_items
from evidence_assets.experiment.scores.published_figures import Figure, PublishedName, figure_for
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.harvest.triple_metrics import count_extracted_entities, diversity
from evidence_assets.lake.errors import BadInput
from evidence_assets.systems.kbloom.seeds import PACKAGED_RELATIONS, collection_folder, list_seed_files

TUPLES = "ent_tuples.json"
SETTINGS = {"initprompts": "initial_prompt", "_1prompts": "top1_prompt", "_20prompts": "multi_prompts"}
"""What the name of a setting contains, and what it is printed as; the first that fits."""


@dataclass(frozen=True)
class RecordedHarvest:
    """Tuples of all relations of a set that one model yielded in one setting."""

    collection: str
    setting: str
    model: str
    pairs: dict[str, list[EntityPair]]

    @property
    def numbers(self) -> dict[str, int]:
        """The counts that are printed, under their names there."""
        pairs = [pair for relation_pairs in self.pairs.values() for pair in relation_pairs]
        return {"tuples": len(pairs), "fact_count": count_extracted_entities(pairs), "diversity": diversity(pairs)}

    def printed(self, metric: str) -> Figure | None:
        """What is printed for it, where its setting is a printed one."""
        variant = next((name for part, name in SETTINGS.items() if part in self.setting), "")
        return figure_for(self.collection, PublishedName("bertnet", variant), self.model, metric) if variant else None


def read_recorded_harvests(folder: Path) -> list[RecordedHarvest]:
    """The harvests below a folder, by set, setting and model; relations that are not of the set are left out."""
    pairs_by_relation: dict[tuple[str, str, str], dict[str, list[EntityPair]]] = defaultdict(dict)
    known_files = {
        path.name: {file.stem.casefold(): file.stem for file in list_seed_files(collection_folder(path.name))}
        for path in sorted(PACKAGED_RELATIONS.iterdir())
        if path.is_dir()
    }
    for file in sorted(folder.rglob(TUPLES)):
        parts = file.resolve().parts[-5:-1]
        if len(parts) < 4 or parts[0] not in known_files:
            raise BadInput(
                f"is not in a folder <set>/<setting>/<model>/<relation>; sets are {', '.join(known_files)}", file=file
            )
        collection, setting, model, relation = parts
        name = known_files[collection].get(relation.casefold()) or known_files[collection].get(
            relation.partition("_")[0].casefold()
        )
        if name is not None:
            pairs_by_relation[collection, setting, model][name] = _pairs(file)
    return [RecordedHarvest(*key, pairs) for key, pairs in sorted(pairs_by_relation.items())]


def _pairs(file: Path) -> list[EntityPair]:
    pairs = []
    for line, _, value in json_items(file):
        if not _is_scored_pair(value):
            raise BadInput("expected [[head, tail], score]", file=file, line=line)
        pairs.append((value[0][0], value[0][1]))
    return pairs


def _is_scored_pair(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], list) or len(value[0]) != 2:
        return False
    return all(isinstance(side, str) and side.strip() for side in value[0]) and isinstance(value[1], int | float)


def main(folder: Path) -> None:
    for one in read_recorded_harvests(folder):
        for metric, value in one.numbers.items():
            printed = one.printed(metric)
            printed_note = f", printed {printed.value:,.0f}" if printed else ""
            print(
                f"{one.collection} {one.setting} {one.model}, {len(one.pairs)} relations: "
                f"{metric} {value:,}{printed_note}"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
