"""YAML declarations of components, read without Dagster; those of benchmarks and their subsets.

A subset is answered and scored as a separate benchmark, so its scores are never mistaken for those of the benchmark.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from evidence_assets import profiles
from evidence_assets.benchmarks.dataset_info import find_dataset, load_datasets
from evidence_assets.benchmarks.records import QuestionRecord
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.catalogue import DECLARATIONS_FOLDER, find_lake, project_folder
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.input_files import parse_yaml_file
from evidence_assets.lake.mirror import fetch_folder
from evidence_assets.profiles import StrictModel
from evidence_assets.text.spelling import did_you_mean

Model = TypeVar("Model", bound=BaseModel)
PACKAGE_DEFS = Path(__file__).resolve().parent.parent / "defs"
Family = Literal["mcqa", "table", "graph", "search", "retrieval"]
FAMILIES: dict[Family, str] = {
    "mcqa": "multiple-choice questions",
    "table": "questions and claims about tables",
    "graph": "questions on a graph",
    "search": "searches of a knowledge base",
    "retrieval": "passages for a question",
}
FAMILY_OF_TASK: dict[str, Family] = {
    "mcqa": "mcqa",
    "verification": "table",
    "table_qa": "table",
    "kgqa": "graph",
    "skb_search": "search",
    "retrieval": "retrieval",
}
USER_COMPONENTS = ("Benchmark", "Corpus", "Graph", "GraphPassages", "KnowledgeBase")
"""The only components that a lake or project may declare: declarations are data and must not name other code."""
RENAMED_FIELDS = {"holds": "contents", "differs": "difference_note"}
"""Present names of fields by the names in older declarations."""
SEED_SEPARATOR = "-seed"
"""Separates the name of a random sample from its seed; the papers omit the seed."""
LISTED_SUFFIX = "-listed"
"""Ends the name of a sample whose questions a file lists."""


@dataclass(frozen=True)
class Declaration:
    """One YAML document: a component and its attributes."""

    file: Path
    component: str
    """Name of the component's class."""
    attributes: dict[str, Any]
    number: int = 0
    """Its position in the file, from 0."""

    def error(self, message: str, field: str | None = None) -> BadInput:
        """An error with the file and the line of the field, or of the document."""
        nodes = parse_yaml_file(self.file, lambda text, loader: list(yaml.compose_all(text, loader)))
        pairs = list(nodes[self.number].value)
        pairs += [pair for key, value in pairs if key.value == "attributes" for pair in value.value]
        lines = (key.start_mark.line for key, _ in pairs if key.value == (field or "").partition(".")[0])
        line = next(lines, nodes[self.number].start_mark.line) + 1
        return BadInput(message, file=self.file, line=line, field=field)

    def check_names(self, names: Iterable[str], fields: Iterable[str]) -> None:
        """Raise BadInput for the first of these names that is no field."""
        available = list(fields)
        for name in names:
            if name not in available:
                raise self.error(f"unknown field{did_you_mean(name, available)}", name)


def check_name(name: str, kind: str) -> None:
    """Raise BadInput for a name that cannot be part of asset keys, groups and folders."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]{0,99}", name):
        message = f"{name!r} is not a valid {kind} name: use at most 100 lowercase letters, digits and '_'"
        raise BadInput(message, field="name")


def user_folders(lake: Path | None = None) -> tuple[Path, ...]:
    """The folders of users' declarations: the lake's and the project's."""
    return (lake or find_lake()) / DECLARATIONS_FOLDER, project_folder() / DECLARATIONS_FOLDER


@lru_cache
def declarations(folder: Path | None = None) -> tuple[Declaration, ...]:
    """Read every document below ``folder``, in file order; by default those of package, lake and project."""
    folders = (PACKAGE_DEFS, *user_folders()) if folder is None else (folder,)
    documents = tuple(document for directory in folders for document in _read_folder(directory))
    for document in documents:
        if not document.file.is_relative_to(PACKAGE_DEFS) and document.component not in USER_COMPONENTS:
            suggestion = did_you_mean(document.component, USER_COMPONENTS)
            message = f"a lake or project cannot declare the component {document.component!r}{suggestion}"
            raise document.error(message, "type")
    return documents


def _read_folder(folder: Path) -> Iterator[Declaration]:
    for path in sorted(fetch_folder(folder).rglob("*.yaml")):
        documents = parse_yaml_file(path, lambda text, loader: list(yaml.load_all(text, loader)))
        for number, document in enumerate(documents):
            if not document:
                continue
            if not isinstance(document, dict):
                raise BadInput("every document must be a mapping with a type and attributes", file=path)
            attributes = document.get("attributes") or {}
            if not isinstance(attributes, dict):
                raise BadInput("is not a mapping", file=path, field="attributes")
            attributes = {RENAMED_FIELDS.get(name, name): value for name, value in attributes.items()}
            component = str(document.get("type", "")).rpartition(".")[2]
            declaration = Declaration(path, component, attributes, number)
            declaration.check_names(document, ("type", "attributes"))
            yield declaration


def validate_attributes(model: type[Model], document: Declaration) -> Model:
    """Validate the attributes of a document; the error names file and field."""
    document.check_names(document.attributes, model.model_fields)
    try:
        return model.model_validate(document.attributes)
    except ValidationError as error:
        first = error.errors()[0]
        raise document.error(first["msg"], ".".join(str(key) for key in first["loc"])) from error


def declarations_of(component: str, folder: Path | None = None) -> list[Declaration]:
    """Find the declarations of one component class, such as ``Corpus``."""
    return [document for document in declarations(folder) if document.component == component]


def list_joined_harvests(folder: Path | None = None) -> dict[str, tuple[str, ...]]:
    """The assets of harvested triples that each declared graph joins, by its name."""
    graphs = (declaration.attributes for declaration in declarations_of("Graph", folder))
    return {str(graph["name"]): tuple(graph.get("harvested", ())) for graph in graphs}


def write_declarations(folder: Path, *entries: tuple[str, dict[str, Any]]) -> None:
    """Write a folder of declarations atomically: components such as ``corpus.Corpus`` with their attributes."""
    documents = [{"type": f"evidence_assets.assets.{name}", "attributes": attributes} for name, attributes in entries]
    with replacing_folder(folder) as temporary:
        text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
        (temporary / "defs.yaml").write_text(text, encoding="utf-8")
    (folder.parent / f".{folder.name}.lock").unlink(missing_ok=True)
    declarations.cache_clear()
    benchmarks.cache_clear()


class Sample(StrictModel):
    """A random sample of questions, without replacement."""

    n: int = Field(ge=1)
    seed: int = Field(0, ge=0)


class ListedSample(StrictModel):
    """A sample whose questions a user's file lists, such as that of a paper's authors."""

    n: int = Field(ge=1)
    """Its size in print."""
    file: str
    """File below the lake's ``raw``: one id of the official files per line."""


class Subset(StrictModel):
    """A subset of a benchmark. Its fields are applied in the order of their definition."""

    split: str = Field("", pattern=r"^[\w.-]*$")
    """Split to use instead of the benchmark's."""
    limit: int = Field(0, ge=0)
    """Number of questions from the start of the files; 0 for all."""
    sample: Sample | None = None
    listed: ListedSample | None = None
    """The subset exists where the file does."""

    @property
    def suffix(self) -> str:
        """Suffix of the benchmark's name: ``first150``, ``sample100-seed0``, ``sample100-listed``, ``test-0.1``."""
        first = f"first{self.limit}" if self.limit else ""
        sample_name = f"sample{self.sample.n}{SEED_SEPARATOR}{self.sample.seed}" if self.sample else ""
        listed_name = f"sample{self.listed.n}{LISTED_SUFFIX}" if self.listed else ""
        return "+".join(filter(None, (self.split, first, sample_name, listed_name)))

    @model_validator(mode="after")
    def _is_not_empty(self) -> Subset:
        if not self.suffix:
            raise ValueError("a subset needs split, limit, sample or listed")
        return self

    def select(self, questions: Iterable[QuestionRecord]) -> Iterator[QuestionRecord]:
        """Select the subset's questions from those of the split, in order."""
        if self.limit:
            questions = islice(questions, self.limit)
        return iter(questions if self.sample is None else draw_sample(questions, self.sample))


def draw_sample(questions: Iterable[QuestionRecord], sample: Sample) -> list[QuestionRecord]:
    """Sample the ``n`` questions with the lowest hashes of id and seed, whatever the order of the file."""
    numbered = list(enumerate(questions))
    numbered.sort(key=lambda item: content_id("drawn", sample.seed, item[1].source_id))
    return [question for _, question in sorted(numbered[: sample.n], key=lambda item: item[0])]


class RawInput(StrictModel):
    """Declaration of an asset that reads files below the lake's ``raw``."""

    source: str = ""
    """Raw asset that provides the files; if empty, a separate asset observes them."""
    profiles: tuple[str, ...] = ()
    """Profiles (and profiles that extend them) that include the asset; empty for all."""
    contents: str = ""
    """Content, source and licence of the files, shown if they are missing."""
    difference_note: str = ""
    """Difference from the data behind published figures, such as another date; shown with each score that uses it."""

    def is_in_profile(self) -> bool:
        """Whether the active profile includes it."""
        return profiles.load().is_any_of(self.profiles)


class RawFiles(RawInput):
    """Files below the lake's ``raw`` shared by benchmarks or graphs, such as word vectors."""

    name: str
    """The asset ``raw/<name>`` observes the files."""
    paths: tuple[str, ...]
    presets: tuple[str, ...] = ()
    """Presets whose variants read the files: the asset exists if one of these is loaded; empty for always."""


def all_raw_files() -> list[RawFiles]:
    """Load all declarations of shared raw files."""
    return [validate_attributes(RawFiles, declaration) for declaration in declarations_of("RawFiles")]


class Benchmark(RawInput):
    """One benchmark as declared in YAML."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    task: Literal["mcqa", "verification", "table_qa", "kgqa", "skb_search", "retrieval"]
    """Its task; ``retrieval`` scores only the evidence, against the gold documents."""
    reader: str = "own"
    """Reader of its format; ``own`` reads the JSON lines of :mod:`user_benchmark`."""
    path: str = ""
    """File or folder below the lake's ``raw``; by default ``benchmarks/<name>``, or the name of another reader."""
    tables: str = ""
    """File of its tables below ``raw``, for the reader ``own``."""
    split: str = "test"
    corpus: str = ""
    """Corpus with the evidence."""
    graph: str = ""
    """Graph with the evidence."""
    taxonomy: str = ""
    """Knowledge base whose documents begin with the definition of their node."""
    names: str = ""
    """File below ``raw`` of id TAB name, for answers that are ids: a name also counts as a right answer."""
    aliases: str = ""
    """The same for answers with an id among their aliases; without the file, only the dataset's aliases count."""
    taxonomy_relation: str = ""
    """Relation of its graph that defines terms, such as IsA, if there is no taxonomy."""
    background_graph: str = ""
    """Graph of general knowledge for methods that combine text and graph; methods that answer from a graph alone do not
    read it."""
    subsets: Sequence[Subset] = ()
    """Subsets that are answered and scored separately, such as ``obqa.first150``."""

    @property
    def subset_benchmarks(self) -> list[BenchmarkSubset]:
        """Its subsets as separate benchmarks of the same files, without samples whose list is not in the lake."""
        raw = find_lake() / "raw"
        return [
            BenchmarkSubset(
                **dict(self)
                | {
                    "name": f"{self.name}.{subset.suffix}",
                    "source": self.raw_asset,
                    "split": subset.split or self.split,
                    "subsets": [],
                    "subset": subset,
                }
            )
            for subset in self.subsets
            if subset.listed is None or (raw / subset.listed.file).is_file()
        ]

    @property
    def base_name(self) -> str:
        """Name of the benchmark without its subset."""
        return self.name.partition(".")[0]

    @property
    def family(self) -> Family:
        return FAMILY_OF_TASK[self.task]

    @property
    def raw_asset(self) -> str:
        """Key of the raw asset with its files."""
        return self.source or f"raw/benchmarks/{self.base_name}"

    @property
    def files(self) -> list[str]:
        """Its files and folders below ``raw``."""
        if self.reader == "own":
            questions = self.path or f"benchmarks/{self.base_name}/questions.jsonl"
            tables = self.tables or (f"benchmarks/{self.base_name}/tables.jsonl" if self.family == "table" else "")
            return [questions, *([tables] if tables else [])]
        return [self.path or self.reader, *filter(None, [self.names])]

    @property
    def optional_files(self) -> list[str]:
        """Files below ``raw`` that are read if they exist."""
        return [*filter(None, [self.aliases]), *(subset.listed.file for subset in self.subsets if subset.listed)]

    def check_reader(self) -> None:
        """Raise BadInput if its reader is no dataset, or a dataset without its split or with another task."""
        if self.reader == "own":
            return
        if self.reader not in load_datasets():
            suggestion = did_you_mean(self.reader, ["own", *load_datasets()])
            raise BadInput(f"there is no dataset {self.reader!r}{suggestion}", field="reader")
        dataset = find_dataset(self.reader)
        dataset.check_split(self.split)
        if self.task not in (dataset.task, "retrieval"):
            tasks = " or ".join(dict.fromkeys([dataset.task or "retrieval", "retrieval"]))
            raise BadInput(f"the questions of {dataset.title} are {dataset.task}: write {tasks}", field="task")

    @property
    def official_size(self) -> int | None:
        """Official number of questions of its split, if known."""
        dataset = load_datasets().get(self.reader)
        return dataset.counts.get(self.split) if dataset else None

    @property
    def joined_graph(self) -> str:
        """Graph for methods that combine text and graph: the background graph if declared, otherwise its graph."""
        return self.background_graph or self.graph


class BenchmarkSubset(Benchmark):
    """A subset of a declared benchmark."""

    name: str
    subset: Subset

    @property
    def official_size(self) -> int | None:
        sample = self.subset.sample or self.subset.listed
        sizes = (super().official_size, self.subset.limit, sample.n if sample else None)
        return min(filter(None, sizes), default=None)


def all_benchmarks(folder: Path | None = None) -> dict[str, Benchmark]:
    """Load every declared benchmark and subset by name, of all profiles."""
    by_name: dict[str, Benchmark] = {}
    for document in declarations_of("Benchmark", folder):
        benchmark = validate_attributes(Benchmark, document)
        for each in (benchmark, *benchmark.subset_benchmarks):
            if each.name in by_name:
                raise document.error(f"benchmark {each.name!r} is declared twice; rename one", "name")
            try:
                each.check_reader()
            except BadInput as error:
                field = "subsets" if isinstance(each, BenchmarkSubset) else error.field
                raise document.error(error.message, field) from error
            by_name[each.name] = each
    return by_name


@lru_cache
def benchmarks(folder: Path | None = None) -> dict[str, Benchmark]:
    """Load the benchmarks of the active profile by name."""
    return {name: b for name, b in all_benchmarks(folder).items() if b.is_in_profile()}


def benchmarks_of_family(family: str) -> list[Benchmark]:
    """Benchmarks of the active profile in one family, by name."""
    return [b for _, b in sorted(benchmarks().items()) if b.family == family]
