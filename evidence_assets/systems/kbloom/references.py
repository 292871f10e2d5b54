"""References that harvests are compared with outside the sample, read from a user's files of ConceptNet, LAMA or
UMLS; and recorded harvests of BertNet, counted as ours are: ``<set>/<setting>/<model>/<relation>/ent_tuples.json``,
each a list of ``[[head, tail], score]``, best first. The set is ``conceptnet`` or ``lama``, of which the first twenty
relations of its own list count; the setting says how many prompts were used, and whether they are the initial
ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from evidence_assets.benchmarks.graphs.formats import format_named
from evidence_assets.benchmarks.official.graph_questions import read_lama_facts
from evidence_assets.benchmarks.reading_json import json_items
from evidence_assets.experiment.scores.published_figures import Figure, PrintedAs, figure_for
from evidence_assets.harvest.triple_metrics import Pair, diversity, extracted_facts
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import yaml_mapping
from evidence_assets.systems.kbloom.seeds import PACKAGED, collection_folder, seed_files

FILE = Path(__file__).with_suffix(".yaml")
LAMA = "lama"


class Reference(BaseModel):
    """One reference, as its YAML states it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    collection: str
    """Collection of the relations that it states."""
    format: str
    """A graph format (``benchmarks.graphs.formats``), or ``lama``."""
    paths: tuple[str, ...]
    """Its files below the lake's ``raw``."""
    holds: str
    """What they hold and where to obtain them."""

    @property
    def key(self) -> str:
        """Key of the raw asset that looks at its files."""
        return f"raw/references/{self.name}"

    def pairs(self, raw: Path) -> dict[str, list[Pair]]:
        """Head and tail of every tuple that it states, by the relation's id; what is marked as untrue is left out."""
        found: dict[str, list[Pair]] = defaultdict(list)
        if self.format == LAMA:
            for fact in read_lama_facts(raw / self.paths[0]):
                found[fact.relation].append((fact.subject, fact.object))
            return dict(found)
        files = [raw / path for path in self.paths]
        for triple in format_named(self.format, files).read(*files):
            if triple.label is not False:
                found[triple.relation].append((triple.head, triple.tail))
        return dict(found)


@cache
def references(file: Path = FILE) -> dict[str, Reference]:
    try:
        return {name: Reference(name=name, **fields) for name, fields in yaml_mapping(file).items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"a reference is not as it should be: {error}", file=file) from error


TUPLES = "ent_tuples.json"
SETTINGS = {"initprompts": "initial_prompt", "_1prompts": "top1_prompt", "_20prompts": "multi_prompts"}
"""What the name of a setting contains, and what it is printed as; the first that fits."""


@dataclass(frozen=True)
class RecordedHarvest:
    """Tuples of all relations of a set that one model yielded in one setting."""

    collection: str
    setting: str
    model: str
    pairs: dict[str, list[Pair]]

    @property
    def numbers(self) -> dict[str, int]:
        """The counts that are printed, under their names there."""
        pairs = [pair for own in self.pairs.values() for pair in own]
        return {"tuples": len(pairs), "fact_count": extracted_facts(pairs), "diversity": diversity(pairs)}

    def printed(self, metric: str) -> Figure | None:
        """What is printed for it, where its setting is a printed one."""
        variant = next((name for part, name in SETTINGS.items() if part in self.setting), "")
        return figure_for(self.collection, PrintedAs("bertnet", variant), self.model, metric) if variant else None


def is_recorded_harvest(folder: Path) -> bool:
    """Whether a folder holds recorded outputs of BertNet."""
    return folder.is_dir() and any(folder.rglob(TUPLES))


def read_recorded_harvests(folder: Path) -> list[RecordedHarvest]:
    """The harvests below a folder, by set, setting and model; relations that are not of the set are left out."""
    found: dict[tuple[str, str, str], dict[str, list[Pair]]] = defaultdict(dict)
    known = {
        path.name: {file.stem.casefold(): file.stem for file in seed_files(collection_folder(path.name))}
        for path in sorted(PACKAGED.iterdir())
        if path.is_dir()
    }
    for file in sorted(folder.rglob(TUPLES)):
        parts = file.resolve().parts[-5:-1]
        if len(parts) < 4 or parts[0] not in known:
            raise BadInput(
                f"lies in no folder <set>/<setting>/<model>/<relation>; sets are {', '.join(known)}", file=file
            )
        collection, setting, model, relation = parts
        name = known[collection].get(relation.casefold()) or known[collection].get(
            relation.partition("_")[0].casefold()
        )
        if name is not None:
            found[collection, setting, model][name] = list(_pairs(file))
    return [RecordedHarvest(*key, pairs) for key, pairs in sorted(found.items())]


def _pairs(file: Path) -> Iterator[Pair]:
    for line, _, value in json_items(file):
        if not _is_scored_pair(value):
            raise BadInput("expected [[head, tail], score]", file=file, line=line)
        yield value[0][0], value[0][1]


def _is_scored_pair(value: Any) -> bool:
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], list) or len(value[0]) != 2:
        return False
    return all(isinstance(side, str) and side.strip() for side in value[0]) and isinstance(value[1], int | float)
