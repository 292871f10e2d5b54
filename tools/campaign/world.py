"""A small world, and processes that materialize it: forked from one that has everything loaded, so that each takes
seconds.

A process can kill its group at its n-th write of the lake. It notes what it has flushed to the disk and what
it has renamed, so that a power cut can be acted out afterwards: what was never flushed is cut short, and renames in a
folder that was not flushed after them are undone.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PROFILE = """\
extends: embedded
name: campaign
sample: small
harvesting: {training_steps: 40, n: 8, prompts: 2, sample_relations: [may_treat]}
"""
LOADED = ("torch", "transformers", "sentence_transformers", "faiss", "duckdb", "torch_geometric")
FAMILIES = ("search", "graph", "sample_skb")
LEFT_OUT = ("sample_claims", "sample_graph")
VARIANTS = ("uscrake", "ucret", "kbloom")


def in_small_world(asset: str) -> bool:
    """Whether an asset belongs to the small world: one variant of each system, of two task families."""
    parts = asset.split("/")
    shared = ("raw", "corpus", "knowledge", "models", "tables", "questions", "subgraphs")
    return not set(FAMILIES) & set(parts) and (parts[0] in shared or parts[-1] in VARIANTS)


@dataclass(frozen=True)
class World:
    """A lake, a Dagster home, a profile and a sample of its own, below one folder."""

    root: Path

    @property
    def lake(self) -> Path:
        return self.root / "data_lake"

    @property
    def home(self) -> Path:
        return self.root / "dagster_home"

    @property
    def sample(self) -> Path:
        """What the packaged sample is in this world: the files that a round edits."""
        return self.root / "package" / "sample" / "small"

    @property
    def environment(self) -> dict[str, str]:
        # one profile for all worlds, because code loaded before a fork depends on it
        named = {"EVIDENCE_LAKE": self.lake, "DAGSTER_HOME": self.home, "EVIDENCE_PROFILE": self.root.parent / "p.yaml"}
        return {name: str(path) for name, path in named.items()}

    @classmethod
    def new(cls, root: Path) -> World:
        world = cls(root)
        world.home.mkdir(parents=True)
        shutil.copytree(REPOSITORY / "evidence_assets" / "sample" / "small", world.sample)
        return world

    def copy(self, root: Path) -> World:
        shutil.copytree(self.root, root, symlinks=True)
        return World(root)


def prepare(folder: Path) -> None:
    """Load once what every forked process needs, under the profile of the campaign."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "p.yaml").write_text(PROFILE)
    os.environ |= {"EVIDENCE_PROFILE": str(folder / "p.yaml"), "OMP_NUM_THREADS": "1"}
    for name in LOADED:
        import_module(name)
    import_module("evidence_assets.cli.runner").load_definitions().resolve_asset_graph()


@dataclass
class Moment:
    """When a process is killed: at its n-th write of the lake, before or after it, or never where ``write`` is 0."""

    write: int = 0
    after: bool = False


def start(world: World, moment: Moment | None = None) -> int:
    """Start a process, in a group of its own, that materializes the world; its id."""
    return _fork(world, lambda: _materialize(world, moment or Moment()))


def in_child(world: World, work: Callable[[], Any]) -> Any:
    """What ``work`` returns, as JSON carries it, in a process that ends with it."""
    reader, writer = os.pipe()

    def tell() -> int:
        with os.fdopen(writer, "w") as stream:
            json.dump(work(), stream)
        return 0

    child = _fork(world, tell)
    os.close(writer)
    with os.fdopen(reader) as stream:
        output = stream.read()
    if wait_for(child) != 0:
        raise RuntimeError(f"a process of the campaign failed: {(world.root / 'said.txt').read_text()[-3000:]}")
    return json.loads(output)


def wait_for(child: int) -> int:
    """Wait for a process; its exit status, negative where a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _fork(world: World, work: Callable[[], int]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        os.environ |= world.environment
        output_file = os.open(world.root / "said.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(output_file, 1)
        os.dup2(output_file, 2)
        status = work()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _materialize(world: World, moment: Moment) -> int:
    sample: Any = import_module("evidence_assets.assets.raw_files")
    runner: Any = import_module("evidence_assets.cli.runner")

    class Small(runner.RunSelection):  # type: ignore[misc]
        def has_asset(self, key: Any) -> bool:
            return in_small_world("/".join(key.path))

        def has_partition(self, key: Any, name: str) -> bool:
            return not name.startswith(LEFT_OUT)

    sample.resources = SimpleNamespace(files=lambda _: world.root / "package", as_file=contextlib.nullcontext)
    writes = _watch(world, moment)
    report = runner.run_all(Small())
    (world.root / "writes.txt").write_text(str(writes[0]))
    for failure in report.failures:
        print(f"FAILED {failure.name} [{failure.partition}]: {failure.message}")
    return int(bool(report.failures or report.skipped))


def _watch(world: World, moment: Moment) -> list[int]:
    """Count writes of the lake, note those that a power cut could undo, and kill the group at the moment."""
    notes = os.open(world.root / "notes.jsonl", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
    backups = world.root / "backups"
    shutil.rmtree(backups, ignore_errors=True)
    backups.mkdir()
    count, lake = [0], str(world.lake) + os.sep
    real_fsync, real_link = os.fsync, os.link

    def note(*fields: Any) -> None:
        os.write(notes, (json.dumps(fields) + "\n").encode())

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            path = os.fspath(Path(f"/proc/self/fd/{arguments[0]}").resolve() if name == "fsync" else arguments[0])
            if not f"{path}/".startswith(lake):
                return real(*arguments, **named)
            count[0] += 1
            if count[0] == moment.write and not moment.after:
                os.killpg(0, signal.SIGKILL)
            try:
                if name in ("rename", "replace"):
                    target, backup = os.fspath(arguments[1]), ""
                    if Path(target).is_file():
                        backup = str(backups / str(count[0]))
                        real_link(target, backup)
                    result = real(*arguments, **named)
                    note("rename", path, target, backup)
                else:
                    result = real_fsync(arguments[0]) if name == "fsync" else real(*arguments, **named)
                    if name == "fsync":
                        status = os.fstat(arguments[0])
                        note("fsync", path, status.st_ino, status.st_mtime_ns)
            finally:  # also after a write that failed, such as an mkdir of an existing folder
                if count[0] == moment.write:
                    os.killpg(0, signal.SIGKILL)
            return result

        return call

    def utime(path: Any, *arguments: Any, real: Callable[..., None] = os.utime, **named: Any) -> None:
        before = Path(path).stat()
        real(path, *arguments, **named)
        if os.fspath(path).startswith(lake):
            note("utime", os.fspath(path), before.st_ino, before.st_mtime_ns, Path(path).stat().st_mtime_ns)

    for name in ("rename", "replace", "fsync", "mkdir", "unlink"):
        setattr(os, name, watched(name, getattr(os, name)))
    os.utime = utime
    return count


def cut_power(world: World, since: float, chance: random.Random) -> int:
    """What the disk may hold after a power cut; how many files and renames were lost.

    A file is safe as it was when it was last flushed (another time alone makes it no less safe), a rename when its
    folder was flushed after it. Of the renames that are not safe a file system may have lost the last ones, never one
    before another that it kept.
    """
    noted: list[list[Any]] = []
    for line in (world.root / "notes.jsonl").read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the last line of a killed process
            noted.append(json.loads(line))
    flushed: dict[int, int] = {}
    unsafe: list[list[Any]] = []
    for kind, path, *more in noted:
        if kind == "fsync":
            flushed[more[0]] = more[1]
            unsafe = [rename for rename in unsafe if str(Path(rename[1]).parent) != path]
        elif kind == "utime":
            file, before, after = more
            if before <= since * 1e9 or flushed.get(file) == before:
                flushed[file] = after
        else:
            unsafe.append([path, *more])
    n_lost = 0
    for path in sorted(world.lake.rglob("*")):
        if path.is_file() and not path.is_symlink():
            status = path.stat()
            new = status.st_mtime > since or status.st_ctime > since
            if new and status.st_size and flushed.get(status.st_ino) != status.st_mtime_ns and status.st_mtime > since:
                os.truncate(path, chance.randrange(status.st_size))
                n_lost += 1
    for source, target, backup in reversed(unsafe[chance.randint(0, len(unsafe)) :]):
        was, now = Path(source), Path(target)
        if now.exists() and not was.exists() and was.parent.is_dir():
            now.rename(was)
            if backup:
                os.link(backup, now)
            n_lost += 1
    return n_lost


def kill_after(child: int, seconds: float) -> bool:
    """Kill a process's group after a time; whether it still lived."""
    deadline = time.monotonic() + seconds
    while (seconds_left := deadline - time.monotonic()) > 0:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(min(seconds_left, 0.02))
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return wait_for(child) == -signal.SIGKILL


def table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Rows under their names, in columns for people."""
    texts = [[str(value) for value in row] for row in [names, *rows]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(names))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in texts
    )
