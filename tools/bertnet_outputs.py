"""Count the harvests that BertNet's authors published, as ours are counted, beside the printed figures.

    python -m tools.bertnet_outputs RESULTS [--raw data_lake/raw]

RESULTS is the folder ``results`` of their repository: ``<set>/<setting>/<model>/<relation>/ent_tuples.json``, each a
list of ``[[head, tail], score]``, best first. The sets ``conceptnet`` and ``lama`` are counted, with the relations that
K-Bloom's packaged collections name. The setting says how many prompts were used: ``1000tuples_initprompts``,
``…_top1prompts``, ``…_top20prompts``. Novelty needs the reference tuples, below ``--raw`` as for `evidence run`
(``systems/kbloom/references.yaml``); it is left out of what has none.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence_assets.benchmarks.json_streams import json_items
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.harvest.triple_metrics import list_entities, novelty
from evidence_assets.lake.errors import BadInput
from evidence_assets.reproduction.published_figures import Figure, PublishedName, figure_for
from evidence_assets.systems.kbloom.scores import load_references
from evidence_assets.systems.kbloom.seeds import PACKAGED_RELATIONS, collection_folder, list_seed_files

TUPLES = "ent_tuples.json"
SETTINGS = {
    "initial_prompt": re.compile(r"_initprompts(_|$)"),
    "top1_prompt": re.compile(r"_(top)?1prompts(_|$)"),
    "multi_prompts": re.compile(r"_(top)?20prompts(_|$)"),
}
"""Names of settings in print, and of their folders; the first that matches."""


@dataclass(frozen=True)
class RecordedHarvest:
    """Tuples of all relations of a set that one model yielded in one setting."""

    collection: str
    setting: str
    model: str
    pairs: dict[str, list[EntityPair]]

    @property
    def variant(self) -> str:
        """Name of the setting in print; empty if it is not printed."""
        return next((name for name, pattern in SETTINGS.items() if pattern.search(self.setting)), "")

    @property
    def all_pairs(self) -> list[EntityPair]:
        return [pair for relation_pairs in self.pairs.values() for pair in relation_pairs]

    @property
    def counts(self) -> dict[str, int]:
        """The printed counts, under their names in print."""
        pairs = self.all_pairs
        return {"tuples": len(pairs), "fact_count": 2 * len(pairs), "diversity": len(list_entities(pairs))}

    def measurements(self, references: Mapping[str, Collection[str]]) -> Iterator[tuple[str, str, float]]:
        """Name, set and value of each count, and of the novelty against each reference of the collection."""
        for metric, count in self.counts.items():
            yield metric, self.collection, count
        for name, entities in references.items():
            if load_references()[name].collection == self.collection:
                yield "novelty", name, novelty(self.all_pairs, entities)

    def printed(self, metric: str, scope: str = "") -> Figure | None:
        """The figure in print, if the setting has one."""
        name = PublishedName("bertnet", self.variant)
        return figure_for(scope or self.collection, name, self.model, metric) if self.variant else None


def read_recorded_harvests(folder: Path) -> list[RecordedHarvest]:
    """The harvests below a folder, by set, setting and model.

    Other sets, and relations that the collection of a set does not have, are left out.
    """
    pairs_by_relation: dict[tuple[str, str, str], dict[str, list[EntityPair]]] = defaultdict(dict)
    known_files = {
        path.name: {file.stem.casefold(): file.stem for file in list_seed_files(collection_folder(path.name))}
        for path in sorted(PACKAGED_RELATIONS.iterdir())
        if path.is_dir()
    }
    for file in sorted(folder.rglob(TUPLES)):
        collection, setting, model, relation = ("", "", "", "", *file.resolve().parts)[-5:-1]
        if collection not in known_files:
            continue
        name = known_files[collection].get(relation.casefold()) or known_files[collection].get(
            relation.partition("_")[0].casefold()
        )
        if name is not None:
            pairs_by_relation[collection, setting, model][name] = _pairs(file)
    if not pairs_by_relation:
        layout = f"<set>/<setting>/<model>/<relation>/{TUPLES}"
        raise BadInput(f"has no file {layout} of a set {' or '.join(known_files)}: name the folder above", file=folder)
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


def read_references(raw: Path) -> dict[str, set[str]]:
    """Entities of each reference whose files are below this folder."""
    return {
        name: list_entities(pair for pairs in reference.read_pairs(raw).values() for pair in pairs)
        for name, reference in load_references().items()
        if all((raw / path).exists() for path in reference.paths)
    }


def main(folder: Path, raw: Path | None = None) -> None:
    harvests, references = read_recorded_harvests(folder), read_references(raw) if raw else {}
    printed_sets = 0
    for harvest in harvests:
        printed_sets += harvest.printed("tuples") is not None
        for metric, scope, value in harvest.measurements(references):
            figure = harvest.printed(metric, scope)
            digits = 2 if metric == "novelty" else 0
            print(
                f"{harvest.collection} {harvest.setting} {harvest.model}, {len(harvest.pairs)} relations: {metric}"
                + (f" against {scope}" if scope != harvest.collection else "")
                + f" {value:,.{digits}f}"
                + (f", printed {figure.value:,.{digits}f}" if figure else "")
            )
    print(
        f"{len(harvests)} sets, {printed_sets} of them in print; novelty against {', '.join(references) or 'nothing'}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the published results")
    parser.add_argument("--raw", type=Path, help="folder with reference tuples, such as data_lake/raw")
    options = parser.parse_args()
    main(options.folder, options.raw)
