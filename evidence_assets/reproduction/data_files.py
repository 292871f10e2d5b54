"""Files below the lake's ``raw`` folder: which ones are declared, and which ones a variant needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from evidence_assets import systems
from evidence_assets.benchmarks.dataset_info import load_datasets, matching_files
from evidence_assets.benchmarks.declared_benchmarks import (
    FAMILIES,
    Benchmark,
    all_benchmarks,
    all_raw_files,
    declarations_of,
)
from evidence_assets.benchmarks.downloads import download_sources
from evidence_assets.experiment.evidence.sources import read_sources
from evidence_assets.experiment.methods import AnyMethod, combine_models
from evidence_assets.experiment.stage import Stage
from evidence_assets.experiment.stages import build_stages
from evidence_assets.experiment.variants import Variant, variants
from evidence_assets.reproduction.presets import presets
from evidence_assets.systems.kbloom.harvest_stages import SEARCH_TABLES, SEED_ASSET
from evidence_assets.systems.kbloom.scores import load_references
from evidence_assets.systems.kbloom.system import SEED_FOLDER_ASSET


@dataclass(frozen=True)
class DataFiles:
    """Files of one benchmark, corpus, graph, knowledge base or reference.

    ``files``: Folder below ``raw`` and name of each; ``|`` separates alternative names, ``*`` matches any. Without a
    name, the folder's files.
    ``contents``: Content, origin and licence.
    """

    name: str
    files: tuple[tuple[str, str], ...]
    contents: str

    @property
    def folders(self) -> list[str]:
        """Target folders below ``raw``, without repetitions."""
        return list(dict.fromkeys(folder for folder, _ in self.files))

    def targets(self, raw: Path) -> list[Path]:
        """Where to put them in the lake's ``raw`` folder; of alternative names, the first."""
        return [raw / folder / name.partition("|")[0] for folder, name in self.files]

    @property
    def is_downloadable(self) -> bool:
        """Whether ``evidence get NAME`` can download them."""
        return self.name in download_sources()

    def find(self, raw: Path) -> list[Path] | None:
        """The files that exist in the lake's ``raw`` folder; None if one is missing."""
        paths: list[Path] = []
        for folder, name in self.files:
            target = raw / folder
            matches = matching_files(target, name) if name else [p for p in sorted(target.rglob("*")) if p.is_file()]
            if not matches:
                return None
            paths += matches
        return paths

    def describe_origin(self) -> str:
        """The command that downloads them, or where to obtain them."""
        return f"EVIDENCE_NETWORK=1 evidence get {self.name}" if self.is_downloadable else self.contents


def _split_path(path: str) -> tuple[str, str]:
    """Folder and name of a path; a path without a suffix is a folder."""
    parts = PurePosixPath(path)
    return (parts.parent.as_posix(), parts.name) if parts.suffix else (path, "")


def benchmark_files(benchmark: Benchmark, split: str = "") -> DataFiles:
    """The files of a benchmark's split; by default of the split that it answers."""
    split = split or benchmark.split
    name = benchmark.base_name if split == benchmark.split else f"{benchmark.base_name}, split {split}"
    dataset = load_datasets().get(benchmark.reader)
    if dataset is None or split not in dataset.files:
        return DataFiles(name, tuple(map(_split_path, benchmark.files)), benchmark.contents)
    folder, *others = benchmark.files
    files = [(folder, pattern) for pattern in dataset.files[split]]
    return DataFiles(name, (*files, *map(_split_path, others)), benchmark.contents or dataset.describe_files(split))


def _graph_files(attributes: Mapping[str, Any]) -> DataFiles:
    paths = (path for file in attributes["files"] for path in (*file["paths"], file.get("names", "")) if path)
    return DataFiles(attributes["name"], tuple(map(_split_path, dict.fromkeys(paths))), attributes.get("contents", ""))


def _folder_files(attributes: Mapping[str, Any]) -> DataFiles:
    return DataFiles(attributes["name"], ((attributes["folder"], ""),), attributes.get("contents", ""))


def declared_data() -> dict[str, DataFiles]:
    """All declared files that users supply, by asset: ``corpus/wikipedia``, ``knowledge/freebase``, ``raw/links``…

    Without those of another asset, such as the sample's. Benchmarks have those of the split that they answer.
    """
    readers = {"Corpus": ("corpus", _folder_files), "Graph": ("knowledge", _graph_files)}
    readers["KnowledgeBase"] = ("knowledge", _folder_files)
    data = {
        f"{kind}/{declared.attributes['name']}": read(declared.attributes)
        for component, (kind, read) in readers.items()
        for declared in declarations_of(component)
        if not declared.attributes.get("source")
    }
    for benchmark in all_benchmarks().values():
        if benchmark.name == benchmark.base_name and not benchmark.source:
            data[benchmark.raw_asset] = benchmark_files(benchmark)
    for files in all_raw_files():
        short_name = files.name.rpartition("/")[2]
        data[f"raw/{files.name}"] = DataFiles(short_name, tuple(map(_split_path, files.paths)), files.contents)
    for reference in load_references().values():
        data[reference.key] = DataFiles(reference.name, tuple(map(_split_path, reference.paths)), reference.contents)
    return data


def find_data(name: str) -> list[DataFiles]:
    """Declared files with this name, or else those in a folder of this name, such as ``lama`` or ``stark``."""
    files = list(declared_data().values())
    named = [each for each in files if each.name == name]
    return named or [each for each in files if any(name in PurePosixPath(folder).parts for folder in each.folders)]


class Upstream(NamedTuple):
    """What an asset reads, directly or not.

    ``inputs``: Sources and raw assets, each with the split that is read, if not that of the benchmark.
    ``methods``: The methods of its own and of other variants that it reads.
    """

    inputs: frozenset[tuple[str, str]]
    methods: tuple[AnyMethod, ...]


class RequiredData:
    """Finds the files that variants read, by following the inputs of their stages."""

    def __init__(self) -> None:
        self._stages: dict[str, tuple[AnyMethod, Stage] | None] = {}

    @cached_property
    def _declared(self) -> dict[str, DataFiles]:
        return declared_data()

    @cached_property
    def _harvested(self) -> dict[str, Sequence[str]]:
        """Assets of harvested triples that are merged into each graph."""
        graphs = (declared.attributes for declared in declarations_of("Graph"))
        return {f"knowledge/{each['name']}": each.get("harvested", ()) for each in graphs}

    def of_scores(self, asset: str, benchmark: Benchmark | None, collection: str = "") -> dict[str, DataFiles]:
        """Files that the scores of a variant need, by asset.

        ``collection``: The collection of a harvest; only harvests have no benchmark.
        """
        data: dict[str, DataFiles] = {}
        for key, split in self.find_upstream(asset, benchmark).inputs:
            for harvested in self._harvested.get(key, ()):
                data[harvested] = _seed_files(harvested.rpartition("/")[2])
            if key in (SEED_ASSET, SEED_FOLDER_ASSET) and collection:
                data[f"{key}/{collection}"] = _seed_files(collection)
            elif split:
                data[f"{key}/{split}"] = benchmark_files(_benchmark_of(key), split)
            elif benchmark and key == benchmark.raw_asset:
                data[key] = benchmark_files(benchmark)
            elif key in self._declared:
                data[key] = self._declared[key]
        return data

    def find_upstream(self, asset: str, benchmark: Benchmark | None) -> Upstream:
        """What a variant's asset reads for a benchmark, directly or through other variants."""
        queue = [asset]
        visited: set[str] = set()
        inputs: set[tuple[str, str]] = set()
        methods: dict[str, AnyMethod] = {}
        while queue:
            key = queue.pop()
            if key in visited:
                continue
            visited.add(key)
            # Harvests share searches: a search's own variant may use other models than the harvest that reads it.
            if (owner := self._find_stage(key)) and owner[1].table not in SEARCH_TABLES:
                methods[owner[0].variant.key] = owner[0]
            for parent, split in self._find_parents(key, benchmark):
                source = "/".join(parent.split("/")[:2])
                if parent.startswith("raw/") or parent == SEED_ASSET:
                    inputs.add((parent, split))
                elif parent.startswith("corpus/") or source in self._harvested or source in self._declared:
                    inputs.add((source, split))
                    queue += self._harvested.get(source, ())
                else:
                    queue.append(parent)
        return Upstream(frozenset(inputs), tuple(methods.values()))

    def _find_parents(self, key: str, benchmark: Benchmark | None) -> Iterator[tuple[str, str]]:
        """The inputs of an asset for a benchmark, each with its split."""
        table = key.partition("/")[0]
        if benchmark and table in ("questions", "tables"):
            yield benchmark.raw_asset, ""
        elif benchmark and table == "subgraphs":
            yield from ((source, "") for source in read_sources(["subgraphs"], benchmark))
        elif owner := self._find_stage(key):
            method, stage = owner
            is_shared = benchmark is not None and method.variant.family in FAMILIES
            read = read_sources(method.sources, benchmark) if benchmark and is_shared else frozenset()
            for each in stage.inputs:
                is_source = each.key.startswith(("corpus/", "knowledge/"))
                if not (is_shared and is_source) or "/".join(each.key.split("/")[:2]) in read:
                    yield each.key, each.split

    def _find_stage(self, key: str) -> tuple[AnyMethod, Stage] | None:
        """The stage that computes an asset, with its method; None if no variant has one."""
        if key not in self._stages:
            self._stages[key] = None
            for variant in _variants_of_asset(key):
                for method in combine_models(systems.open_method(variant), frozenset(presets())):
                    self._stages |= {stage.key: (method, stage) for stage in build_stages(method)}
        return self._stages[key]


def _variants_of_asset(key: str) -> list[Variant]:
    """The variants whose stages may compute an asset: ``scores/mcqa/bm25``, ``models/masked_lm``."""
    parts = key.split("/")
    names = {"/".join(parts[:2]), "/".join(parts[1:3])}
    if len(parts) > 2:  # scores of a harvest end in what they are compared with
        names |= {f"{parts[1]}/{v.name}" for v in variants() if parts[2].startswith(f"{v.name}_")}
    return [variant for variant in variants() if variant.key in names]


def _benchmark_of(raw_asset: str) -> Benchmark:
    return next(benchmark for benchmark in all_benchmarks().values() if benchmark.raw_asset == raw_asset)


def _seed_files(collection: str) -> DataFiles:
    contents = (
        f"the packaged seed files of {collection}; the first run copies them to raw/seeds, where you can edit them"
    )
    return DataFiles(f"seeds of {collection}", (), contents)


def sort_data(data: Iterable[DataFiles]) -> list[DataFiles]:
    """Files by name, without repetitions."""
    return sorted(set(data), key=lambda each: each.name)
