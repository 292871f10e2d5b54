"""References that harvests are compared with outside the sample, from a user's files of ConceptNet, LAMA or UMLS."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evidence_assets.benchmarks.graphs.formats import find_format
from evidence_assets.benchmarks.official.graph_questions import read_lama_facts
from evidence_assets.harvest.prompt_mining import EntityPair
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.input_files import read_yaml_mapping

REFERENCES_FILE = Path(__file__).with_suffix(".yaml")
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

    def pairs(self, raw: Path) -> dict[str, list[EntityPair]]:
        """Head and tail of every tuple that it states, by the relation's id; what is marked as untrue is left out."""
        found: dict[str, list[EntityPair]] = defaultdict(list)
        if self.format == LAMA:
            for fact in read_lama_facts(raw / self.paths[0]):
                found[fact.relation].append((fact.subject, fact.object))
            return dict(found)
        files = [raw / path for path in self.paths]
        for triple in find_format(self.format, files).read(*files):
            if triple.label is not False:
                found[triple.relation].append((triple.head, triple.tail))
        return dict(found)


@cache
def load_references(file: Path = REFERENCES_FILE) -> dict[str, Reference]:
    try:
        return {name: Reference(name=name, **fields) for name, fields in read_yaml_mapping(file).items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"a reference is not as it should be: {error}", file=file) from error
