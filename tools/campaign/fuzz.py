"""Spoilt inputs to everything that reads what a person may put there: datasets, corpora, graphs, seeds, profiles,
declarations, arguments of the command line.

A find is whatever else than being read, or being refused by an error of this project that names the file: another
error, one that names none, more than ten seconds, or much memory.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools.campaign.mutations import ODD, spoil
from tools.campaign.world import REPOSITORY, table

MINIATURES = Path(__file__).parent / "miniatures.json"
"""Valid files of every reader, from its contract test; a test keeps them equal."""
SECONDS = 10
MEGABYTES = 400
"""What an input may add to the memory of its reader; the largest expand to 30 MB."""
BATCH = 200
"""Inputs per process."""


@dataclass(frozen=True)
class Target:
    """Valid files, and how they are read from the folder that they are laid in."""

    name: str
    files: Mapping[str, bytes]
    read: Callable[[Path], object]


class TooLong(BaseException):
    """Ten seconds have passed."""


def _all(rows: Iterable[object]) -> None:
    deque(rows, maxlen=0)


def _read_split(read: Callable[[str, Path, str], Iterable[object]], name: str, split: str, folder: Path) -> None:
    _all(read(name, folder, split))


def _texts(files: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in files.items()}


def datasets() -> Iterator[Target]:
    """Every reader of questions, passages and graphs, with the miniature files of its contract test."""
    from evidence_assets.benchmarks.graphs.formats import FORMATS
    from evidence_assets.benchmarks.readers import PASSAGES, read_passages, read_questions

    miniatures = json.loads(MINIATURES.read_text(encoding="utf-8"))
    for name, split, texts in miniatures["questions"]:
        yield Target(f"{name} {split}", _texts(texts), partial(_read_split, read_questions, name, split))
        if name in PASSAGES:
            yield Target(f"{name} passages", _texts(texts), partial(_read_split, read_passages, name, split))
    for name, texts in miniatures["graphs"]:

        def read(folder: Path, form: Any = FORMATS[name], files: Sequence[str] = tuple(texts)) -> None:
            paths = [folder / file for file in files]
            _all(form.read(*paths))
            _all(form.synonyms(paths))

        yield Target(f"graph {name}", _texts(texts), read)
    yield Target("stark", _texts(miniatures["stark"]) | _stark_tensors(), _read_stark)


def _stark_tensors() -> dict[str, bytes]:
    """The types and edges of three nodes, as STaRK's processed layout saves them."""
    import torch

    tensors = {"node_types": [0, 1, 1], "edge_index": [[1, 0, 1], [0, 1, 0]], "edge_types": [1, 1, 1]}
    files = {}
    for name, values in tensors.items():
        buffer = io.BytesIO()
        torch.save(torch.tensor(values), buffer)
        files[f"{name}.pt"] = buffer.getvalue()
    return files


def _read_stark(folder: Path) -> None:
    from evidence_assets.benchmarks.official.stark import read_stark_edges, read_stark_nodes

    read_stark_nodes(folder, "prime")
    read_stark_edges(folder, "prime")


def user_data() -> Iterator[Target]:
    """A person's own questions, tables, corpora, knowledge bases and seeds: those of the sample."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evidence_assets.benchmarks import user_benchmark as reader
    from evidence_assets.benchmarks.corpora import read_documents
    from evidence_assets.benchmarks.knowledge_bases import read_knowledge_base
    from evidence_assets.systems.kbloom.seeds import read_seed_folder

    sample = REPOSITORY / "evidence_assets" / "sample" / "small"
    for file in sorted((sample / "benchmarks").glob("*.jsonl")):
        yield Target(
            f"own {file.stem}",
            {"q.jsonl": file.read_bytes()},
            lambda f: _all(reader.read_questions(f / "q.jsonl", "b")),
        )
    tables = {"tables.jsonl": (sample / "tables" / "tables.jsonl").read_bytes()}
    yield Target("own tables", tables, lambda f: _all(reader.read_tables(f / "tables.jsonl", "b")))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["1", "2"], "title": ["T", "U"], "text": ["one", "two"], "n": ["1", "2"]}), sink)
    shard = sink.getvalue().to_pybytes()
    for name, content in (("t.csv", b'name,value\n"A, b",1\n'), ("t.parquet", shard)):
        yield Target(f"table {name}", {name: content}, partial(lambda n, f: reader.read_table_file(f / n), name))
    articles = (sample / "corpus" / "sample" / "articles.jsonl").read_bytes()
    for name, content in (
        ("a.jsonl", articles),
        ("a.parquet", shard),
        ("deep/a.md", b"# T\n\nBody.\n"),
        ("a.txt", b"One.\n"),
    ):
        yield Target(
            f"corpus {name}",
            {name: content, **({} if name[-1] != "t" else {"b.txt": b"Two."})},
            lambda f: _all(read_documents(f)),
        )
    base = {file.name: file.read_bytes() for file in (sample / "skb" / "sample").iterdir()}
    yield Target("knowledge base", base, read_knowledge_base)

    def seeds(folder: Path) -> None:
        for error in read_seed_folder(folder).errors:
            _ours(error, folder)

    yield Target("seeds", {"a.yaml": (sample / "seeds" / "may_treat.yaml").read_bytes()}, seeds)


def declarations() -> Iterator[Target]:
    """Profiles, benchmarks, knowledge bases, variants and presets in YAML."""
    from evidence_assets import profiles
    from evidence_assets.benchmarks import declared_benchmarks as documents
    from evidence_assets.benchmarks.declared_benchmarks import all_benchmarks
    from evidence_assets.benchmarks.knowledge_bases import knowledge_bases
    from evidence_assets.experiment.variants import variants_of
    from evidence_assets.reproduction.presets import presets

    def clear_caches(*caches: Any) -> None:
        for cache in (documents.declarations, *caches):
            cache.cache_clear()

    def profile(folder: Path) -> None:
        clear_caches(profiles._load)
        profiles.load(str(folder / "p.yaml"))

    def bases(folder: Path) -> None:
        clear_caches(knowledge_bases)
        knowledge_bases(folder)

    def benchmarks(folder: Path) -> None:
        clear_caches()
        all_benchmarks(folder)

    def variants(folder: Path) -> None:
        clear_caches(variants_of)
        variants_of("s", folder)

    def tables(folder: Path) -> None:
        clear_caches(presets)
        presets(folder / "presets.yaml")

    package = REPOSITORY / "evidence_assets"
    yield Target("profile", {"p.yaml": (package / "profiles" / "embedded.yaml").read_bytes()}, profile)
    profile_text = b"extends: embedded\nname: own\nharvesting: {training_steps: 3}\n"
    yield Target("profile that extends", {"p.yaml": profile_text}, profile)
    defs = {path.stem: path.read_bytes() for path in sorted((package / "defs").rglob("*.yaml"))}
    contents = {f"{path.parent.name}.yaml": path.read_bytes() for path in sorted((package / "defs").rglob("*.yaml"))}
    benchmarks_text = next(content for content in contents.values() if b"Benchmark" in content)
    yield Target("benchmarks", {"d.yaml": benchmarks_text}, benchmarks)
    bases_there = [content for content in [*defs.values(), *contents.values()] if b"KnowledgeBase" in content]
    yield Target("knowledge bases", {"d.yaml": bases_there[0]}, bases)
    variants_text = (package / "systems" / "baselines" / "variants.yaml").read_bytes()
    yield Target("variants", {"s/variants.yaml": variants_text}, variants)
    yield Target("presets", {"presets.yaml": (package / "reproduction" / "presets.yaml").read_bytes()}, tables)


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("query", "SELECT 1"),
    ("query", "SELECT * FROM questions", "--format", "json"),
    ("trace", "abc"),
    ("impact", "abc", "--all"),
    ("diff", "a", "b"),
    ("scoreboard",),
    ("card", "abc"),
    ("presets",),
    ("add", "benchmark", "own", "--questions", "FOLDER/q.jsonl"),
    ("--help",),
)


def command_line() -> Target:
    """Arguments in every place of every command that loads no models."""
    import typer.testing

    from evidence_assets.cli import add_benchmark, app
    from evidence_assets.lake.store import Lake

    vars(add_benchmark)["write_benchmark"] = lambda *_: None  # it would declare the benchmark in this repository
    runner = typer.testing.CliRunner()
    words = [str(value)[:2000] for value in ODD] + [
        "--lake",
        "--json",
        "1e400",
        "-1",
        "'",
        '"; DROP',
        "%",
        "SELECT 1/0",
        "--",
        "\udcff",
    ]

    def read(folder: Path) -> None:
        chance = random.Random((folder / "seed").read_bytes())
        arguments = [argument.replace("FOLDER", str(folder)) for argument in chance.choice(COMMANDS)]
        for _ in range(chance.choice((1, 1, 2, 3))):
            index = chance.randrange(1, len(arguments) + 1)
            if chance.random() < 0.5 and index < len(arguments):
                arguments[index] = chance.choice(words)
            else:
                arguments.insert(index, chance.choice(words))
        lake = folder / "data_lake"
        Lake.create(lake)
        os.environ["EVIDENCE_LAKE"] = str(lake)
        result = runner.invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise RuntimeError(f"evidence {arguments!r:.300}") from result.exception

    question = b'{"source_id": "1", "text": "Which buzzes?", "options": ["Bee", "Cat"], "gold": "A"}\n'
    return Target("command line", {"seed": bytes(16), "q.jsonl": question}, read)


def targets() -> list[Target]:
    return [*datasets(), *user_data(), *declarations(), command_line()]


def _ours(error: BaseException, folder: Path) -> None:
    """Raise what is no error of this project that names the file."""
    from evidence_assets.lake.errors import BadInput, LakeVersionError

    if isinstance(error, LakeVersionError):
        return
    if not isinstance(error, BadInput):
        raise error
    if not error.file or str(folder) not in str(error):
        raise AssertionError(f"names no file: {error}") from error
    str(error).encode("utf-8", "surrogateescape")


def read_corrupted(target: Target, chance: random.Random, folder: Path) -> tuple[str, str] | None:
    """Lay, spoil and read one input; what was found wrong, as where and what."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in target.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if target.name == "command line":
        (folder / "seed").write_bytes(chance.randbytes(16))
    else:
        for _ in range(chance.choice((1, 1, 2))):
            path = folder / chance.choice(sorted(target.files))
            if path.is_file() and not path.is_symlink():
                spoil(path, chance)
    Path("/proc/self/clear_refs").write_text("5")  # the largest memory counts from here
    base = _peak()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of work, whatever else the machine does
    signal.alarm(6 * SECONDS)  # for what waits without working
    try:
        target.read(folder)
    except TooLong as error:
        return _where(error), f"longer than {SECONDS} s"
    except BaseException as error:
        try:
            _ours(error, folder)
        except BaseException as find:
            while find.__cause__ is not None and isinstance(find, RuntimeError):
                find = find.__cause__
            return _where(find), f"{type(find).__name__}: {str(find)[:200]!r}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
    if (added := _peak() - base) > MEGABYTES:
        return "memory", f"{target.name}: {added:.0f} MB more"
    return None


def _where(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/evidence_assets/" in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside"


def _peak() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _batch(every: list[Target], numbers: range, seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    def late(*_: object) -> None:
        raise TooLong

    for reached in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(reached, late)
    memory_limit = 4 * 2**30
    resource.setrlimit(resource.RLIMIT_DATA, (memory_limit, memory_limit))
    for number in numbers:
        target = every[number % len(every)]
        if find := read_corrupted(target, random.Random(f"{seed} {number}"), folder / "input"):
            find_folder = folder / "finds" / str(number)
            if not any(Path(name).is_symlink() for name in (folder / "input").rglob("*")):
                shutil.copytree(folder / "input", find_folder, symlinks=True, ignore=_no_pipes, dirs_exist_ok=True)
            yield {"number": number, "target": target.name, "where": find[0], "what": find[1]}


def _no_pipes(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not (Path(folder) / name).is_file() and not (Path(folder) / name).is_dir()]


def campaign(folder: Path, inputs: int, seed: int, only: str = "") -> int:
    """Read so many spoilt inputs and print what was found; how many different finds there were."""
    every = [target for target in targets() if only in target.name]
    folder.mkdir(parents=True, exist_ok=True)
    finds: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for start in range(0, inputs, BATCH):
        numbers = range(start, min(start + BATCH, inputs))
        for find in _forked(every, numbers, seed, folder):
            finds.setdefault((find["where"], find["what"].partition(":")[0]), []).append(find)
    rows = [
        [len(errors), where, errors[0]["target"], errors[0]["number"], errors[0]["what"][:110]]
        for (where, _), errors in sorted(finds.items(), key=lambda item: -len(item[1]))
    ]
    print(table(("times", "where", "first target", "input", "what"), rows) if rows else "no find")
    counts = Counter(every[number % len(every)].name for number in range(inputs))
    print(f"{inputs} inputs to {len(counts)} readers, {len(finds)} different finds, seed {seed}")
    return len(finds)


def _forked(every: list[Target], numbers: range, seed: int, folder: Path) -> Iterator[dict[str, Any]]:
    """The finds of a batch, read in a process that ends with it; one that dies is a find of its own."""
    notes = folder / "notes.jsonl"
    notes.unlink(missing_ok=True)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        status = 1
        try:
            with notes.open("w") as stream:
                for find in _batch(every, numbers, seed, folder):
                    stream.write(json.dumps(find) + "\n")
                    stream.flush()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for line in notes.read_text().splitlines():
        yield json.loads(line)
    if exit_code:
        yield {
            "number": numbers.start,
            "target": "a batch",
            "where": "process",
            "what": f"died: {exit_code} in inputs {numbers}",
        }
