"""Processes killed at random while they make the lake, and what is left when the work is then done to its end.

A round begins with an empty lake, one from which random tables were removed, or one whose seeds, documents, questions
or tables were edited; is killed one to three times, in time or at a write, with or without a power cut; and must end
with the bytes of a run that nobody disturbed.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.campaign.world import Moment, World, cut_power, in_child, kill_after, prepare, start, table, wait_for


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise ValueError(f"{path} no longer holds {old!r}: choose another edit")
    path.write_text(text.replace(old, new), encoding="utf-8")


def _seed(world: World) -> None:
    seed_file = world.lake / "raw" / "seeds" / "may_treat.yaml"
    if not seed_file.exists():
        seed_file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(world.sample / "seeds" / "may_treat.yaml", seed_file)
    _replace(seed_file, "- - phenytoin\n  - epilepsy\n", "")


def _document(world: World) -> None:
    articles = world.sample / "corpus" / "sample" / "articles.jsonl"
    _replace(articles, "lamotrigine at hand.", "lamotrigine at hand. Doctors prescribe allopurinol for gout.")


def _question(world: World) -> None:
    _replace(world.sample / "benchmarks" / "sample_mcqa.jsonl", "Which illness is allopurinol", "What is allopurinol")


def _table(world: World) -> None:
    _replace(world.sample / "tables" / "tables.jsonl", "12104", "12105")


EDITS: dict[str, Callable[[World], None]] = {
    "seed": _seed,
    "document": _document,
    "question": _question,
    "table": _table,
}
KINDS = ("empty", "removed", *EDITS)


@dataclass
class Undisturbed:
    """What a kind of round must end with, and how long it takes from its beginning."""

    data: dict[str, str]
    seconds: float
    writes: int


COLUMNS = ("rounds", "kills", "lost in power cuts", "different bytes", "failed", "dangling", "temporary", "started")
DEFECTS = COLUMNS[3:]
Tally = Counter[str]
"""What the rounds of one kind showed, by column; and their kills by how."""


def data(world: World) -> dict[str, str]:
    """Hash of every file of the lake but what differs between runs: the history and the locks."""
    return {
        str(path.relative_to(world.lake)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(world.lake.rglob("*"))
        if path.is_file()
        and path.relative_to(world.lake).parts[0] not in ("history", ".locks", "cache")
        and not path.name.endswith(".lock")
    }


def remove_some(world: World, chance: random.Random) -> None:
    """Remove random folders of assets and files of partitions, as a person with a file manager would."""
    folders = sorted(path for path in world.lake.glob("[!.]*/asset=*") if path.parent.name != "history")
    for folder in chance.sample(folders, chance.randint(1, 6)):
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        if folder.parent.name != "indexes" and files and chance.random() < 0.5:
            chance.choice(files).unlink()
        else:
            shutil.rmtree(folder)


def find_leftovers(world: World) -> dict[str, list[str]]:
    """What nobody may find after a run that ended well: lost parents, temporary files, runs that seem to go on."""
    import dagster as dg

    from evidence_assets.lake.catalogue import connect
    from evidence_assets.lake.lineage import find_dangling_edges
    from evidence_assets.lake.store import Lake

    finished = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
    unfinished = [status for status in dg.DagsterRunStatus if status not in finished]
    with connect(world.lake) as connection:
        files = Lake(world.lake).files("lineage_edges")
        dangling = [str(edge) for path in files for edge in find_dangling_edges(connection, path)]
    with dg.DagsterInstance.get() as instance:
        started = [run.run_id for run in instance.get_runs(dg.RunsFilter(statuses=unfinished))]
    temporary = [
        str(p.relative_to(world.root)) for p in world.lake.rglob("*") if p.suffix in (".tmp", ".old", ".partial")
    ]
    lock_files = [str(path.relative_to(world.root)) for path in (world.home / "alive").glob("*")]
    temporary += lock_files[1:]  # the next process deletes the last one's
    return {"dangling": dangling, "temporary": temporary, "started": started}


def _undisturbed(world: World) -> Undisturbed:
    began = time.monotonic()
    if wait_for(start(world)) != 0:
        raise RuntimeError(f"an undisturbed run failed:\n{(world.root / 'said.txt').read_text()[-3000:]}")
    return Undisturbed(data(world), time.monotonic() - began, int((world.root / "writes.txt").read_text()))


def campaign(folder: Path, rounds: int, seed: int, only: Sequence[str] = ()) -> int:
    """Run the rounds and print what they showed; how many defects there were."""
    prepare(folder)
    chance = random.Random(seed)
    kinds = [chance.choice(list(only) or KINDS) for _ in range(rounds)]
    base = World.new(folder / "base")
    references = {"empty": _undisturbed(base)}
    references["removed"] = Undisturbed(references["empty"].data, *_rerun(base, folder))
    tallies = {kind: Tally() for kind in KINDS}
    for kind in [kind for kind in EDITS if kind in kinds]:
        fresh_world = World.new(folder / f"{kind}_anew")
        edited = base.copy(folder / f"{kind}_edited")
        for world in (fresh_world, edited):
            EDITS[kind](world)
        fresh, references[kind] = _undisturbed(fresh_world), _undisturbed(edited)
        if differences := _different_files(fresh.data, references[kind].data):
            print(f"{kind}: an edited lake, differs from one made from the edited input: {differences}")
            tallies[kind]["different bytes"] += 1
        shutil.rmtree(fresh_world.root)
    for number, kind in enumerate(kinds):
        chance = random.Random(f"{seed} {number}")
        world = World.new(folder / "round") if kind == "empty" else base.copy(folder / "round")
        if kind in EDITS:
            EDITS[kind](world)
        elif kind == "removed":
            remove_some(world, chance)
        defects = _round(world, references[kind], tallies[kind], chance)
        print(f"round {number + 1}/{rounds} {kind}: {'; '.join(defects) or 'no difference'}")
        if defects and not (defect_folder := folder / f"defect_{number}").exists():
            world.root.rename(defect_folder)
        shutil.rmtree(world.root, ignore_errors=True)
        if (number + 1) % 20 == 0 or number + 1 == rounds:
            print(_printed(tallies))
    return sum(tally[name] for tally in tallies.values() for name in DEFECTS)


def _rerun(base: World, folder: Path) -> tuple[float, int]:
    """Seconds and writes of a second run over a finished lake, which must change nothing."""
    second_world = base.copy(folder / "again")
    before, rerun = data(second_world), _undisturbed(second_world)
    if differences := _different_files(before, rerun.data):
        raise RuntimeError(f"a second undisturbed run differs from the first: {differences}")
    shutil.rmtree(second_world.root)
    return rerun.seconds, rerun.writes


def _round(world: World, reference: Undisturbed, tally: Tally, chance: random.Random) -> list[str]:
    power = chance.random() < 0.4
    for _ in range(chance.choice((1, 2, 2, 3))):
        began = time.time()
        if chance.random() < 0.5:
            how = "by write"
            killed = wait_for(start(world, Moment(chance.randint(1, reference.writes), chance.random() < 0.5))) == -9
        else:
            how = "by time"
            killed = kill_after(start(world), chance.uniform(0.1, reference.seconds))
        tally["kills"] += killed
        tally[f"{how}, power cut" if power else how] += killed
        if power and killed:
            tally["lost in power cuts"] += cut_power(world, began, chance)
    tally["rounds"] += 1
    if wait_for(start(world)) != 0:
        tally["failed"] += 1
        return ["the run to the end failed: " + (world.root / "said.txt").read_text()[-1500:]]
    problems: dict[str, list[str]] = in_child(world, lambda: find_leftovers(world))
    problems["different bytes"] = _different_files(reference.data, data(world))
    for name, what in problems.items():
        tally[name] += len(what)
    return [f"{name}: {what[:3]}" for name, what in problems.items() if what]


def _different_files(expected_hashes: dict[str, str], actual_hashes: dict[str, str]) -> list[str]:
    return sorted(
        name
        for name in expected_hashes.keys() | actual_hashes.keys()
        if expected_hashes.get(name) != actual_hashes.get(name)
    )


def _printed(tallies: dict[str, Tally]) -> str:
    nonempty = {kind: tally for kind, tally in tallies.items() if tally}
    total = sum(nonempty.values(), Tally())
    rows = [[kind, *(tally[name] for name in COLUMNS)] for kind, tally in {**nonempty, "all": total}.items()]
    kills = ", ".join(f"{count} {how}" for how, count in sorted(total.items()) if how.startswith("by "))
    return f"{table(('lake', *COLUMNS), rows)}\nkills: {kills}"
