"""Reference tuples that harvests are compared with, from a user's files of ConceptNet, LAMA or UMLS."""

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
    """A reference: a collection of relations, and the files with its tuples."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    collection: str
    """Collection of the relations that it covers."""
    format: str
    """A graph format (``benchmarks.graphs.formats``), or ``lama``."""
    paths: tuple[str, ...]
    """Paths of its files, relative to the lake's ``raw`` folder."""
    holds: str
    """Content of the files and where to obtain them."""

    @property
    def key(self) -> str:
        """Key of the raw asset that observes its files."""
        return f"raw/references/{self.name}"

    def read_pairs(self, raw: Path) -> dict[str, list[EntityPair]]:
        """Head and tail of every reference tuple by relation id, without tuples labelled false."""
        pairs: dict[str, list[EntityPair]] = defaultdict(list)
        if self.format == LAMA:
            for fact in read_lama_facts(raw / self.paths[0]):
                pairs[fact.relation].append((fact.subject, fact.object))
            return dict(pairs)
        files = [raw / path for path in self.paths]
        for triple in find_format(self.format, files).read(*files):
            if triple.label is not False:
                pairs[triple.relation].append((triple.head, triple.tail))
        return dict(pairs)


@cache
def load_references(file: Path = REFERENCES_FILE) -> dict[str, Reference]:
    try:
        return {name: Reference(name=name, **fields) for name, fields in read_yaml_mapping(file).items()}
    except (TypeError, ValidationError) as error:
        raise BadInput(f"invalid reference: {error}. Correct the fields that the error names", file=file) from error
