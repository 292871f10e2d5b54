"""Whether the solver of tables needs a rule: all development cases with the code of the working tree and before.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.prune_rules [--keep "Remove …" --removed RULE …]

Scores TabMCQ (300 questions), TabFact (1,024 statements), SCITAB (120 claims) and the five sets of plain tables, and
compares the right answers of all together with the last entry of ``bench/tables/table_rules.json``, in pairs. A rule
may go if the 95 % interval of the difference includes zero. ``--keep`` appends the result to the file, with the rules
of ``table_rules_screening.json`` that the step removed and the number left. Verdicts by case are cached beside it,
under the hash of the solver's files.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench.tables.claim_data import read_scitab, read_tabfact
from bench.tables.measure_plain import FOLDER, REFUSED, RIGHT, WRONG, answer, grade_set
from evidence_assets.benchmarks.readers import read_pairs
from evidence_assets.benchmarks.records import QuestionRecord, Table
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.lake.ids import content_id

ROOT = Path(__file__).resolve().parents[2]
CODE = [ROOT / "evidence_assets" / package / "tables" for package in ("extractive", "reasoning")]
RESULTS = ROOT / "bench" / "tables" / "table_rules.json"
SCREENING = RESULTS.with_name("table_rules_screening.json")
PLAIN_SETS = ("first", "second", "third", "fourth", "fifth")
BENCHMARKS = ("tabmcq", "tabfact", "scitab")
HALVES = "first half", "second half"

Verdicts = dict[str, str]
"""The verdict on each case by its key: set, half and number."""


def read_benchmark(name: str, folder: Path) -> Iterator[tuple[QuestionRecord, Table, bool]]:
    """The cases of a benchmark, and whether each is of the first half."""
    if name == "tabmcq":
        pairs = list(read_pairs("tabmcq", folder / "tabmcq", "all"))
        yield from ((*pair, 2 * n < len(pairs)) for n, pair in enumerate(pairs))
        return
    claims = read_scitab(folder) if name == "scitab" else read_tabfact(folder)
    yield from ((claim.question, claim.table, claim.is_first_half) for claim in claims)


def score_benchmark(name: str, folder: Path) -> Verdicts:
    """Right if the best of the offered labels is, even of a claim that no operation settles."""
    verdicts = {}
    for n, (question, table, is_first) in enumerate(read_benchmark(name, folder)):
        choice = answer(table, question.text, question.task, question.options)
        verdict = WRONG if choice.status == "answered" else REFUSED
        verdicts[f"{name}, {HALVES[not is_first]}, {n}"] = RIGHT if choice.answer in question.gold else verdict
    return verdicts


def score_plain(name: str) -> Verdicts:
    """Verdicts on a set of plain tables; every other table is of the first half."""
    tables = sorted(path.stem for path in (FOLDER / name).glob("*.csv"))
    return {
        f"plain {name}, {HALVES[tables.index(case['table']) % 2]}, {n}": verdict
        for n, (case, verdict, _) in enumerate(grade_set(name))
    }


def score_tree() -> Verdicts:
    """The verdicts with the code of the working tree."""
    folder = Path(os.environ["EVIDENCE_DEV_DATA"])
    with ProcessPoolExecutor(2) as pool:
        benchmarks = pool.map(partial(score_benchmark, folder=folder), BENCHMARKS)
        plain = pool.map(score_plain, PLAIN_SETS)
        return {key: verdict for verdicts in (*benchmarks, *plain) for key, verdict in verdicts.items()}


def read_or_score(code: str) -> Verdicts:
    """The cached verdicts of some code; if there are none, those of the working tree, if it is that code."""
    cache = RESULTS.with_name(f"table_rules-{code}.json")
    if not cache.exists():
        if code != hash_code():
            raise SystemExit(f"There are no cached verdicts of the code {code}: score its revision first.")
        cache.parent.mkdir(exist_ok=True)
        cache.write_text(json.dumps(score_tree()), encoding="utf-8")
    verdicts: Verdicts = json.loads(cache.read_text(encoding="utf-8"))
    return verdicts


def hash_code() -> str:
    files = sorted(path for folder in CODE for path in folder.iterdir() if path.suffix in {".py", ".yaml"})
    return content_id([(path.name, path.read_text(encoding="utf-8")) for path in files])[:12]


def count_logic_lines(file: Path) -> int:
    """Lines of code without imports, docstrings, comments and blank lines."""
    text = file.read_text(encoding="utf-8")
    skipped = {n for n, line in enumerate(text.splitlines(), 1) if not line.strip() or line.strip().startswith("#")}
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and (is_text or isinstance(node, ast.Import | ast.ImportFrom)):
            skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(text.splitlines()) - len(skipped)


def compare(before: Verdicts, after: Verdicts) -> dict[str, Any]:
    """Difference of the shares of right answers on all cases, in points, with its 95 % interval, and single changes."""
    difference = paired_bootstrap([after[key] == RIGHT for key in before], [v == RIGHT for v in before.values()])
    changes = Counter((before[key], after[key]) for key in before if before[key] != after[key])
    return {
        "points": [round(100 * value, 2) for value in (difference.value, difference.low, difference.high)],
        "won": sum(n for (_, verdict), n in changes.items() if verdict == RIGHT),
        "lost": sum(n for (verdict, _), n in changes.items() if verdict == RIGHT),
    }


def count_right(verdicts: Mapping[str, str]) -> dict[str, str]:
    """Right answers of all cases, by set and half."""
    sizes = Counter(key.rpartition(", ")[0] for key in verdicts)
    right = Counter(key.rpartition(", ")[0] for key, verdict in verdicts.items() if verdict == RIGHT)
    return {name: f"{right[name]} of {size}" for name, size in sizes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", metavar="STEP", help="append the result to the file, with these words")
    rules = [rule["rule"] for rule in json.loads(SCREENING.read_text(encoding="utf-8"))["rules"]]
    parser.add_argument("--removed", nargs="+", default=[], metavar="RULE", choices=rules, help="of the screening")
    options = parser.parse_args()
    keep = options.keep
    entries: list[dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    code = hash_code()
    verdicts = read_or_score(code)
    entry: dict[str, Any] = {
        "step": keep,
        "revision": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True
        ).stdout.strip(),
        "code": code,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "logic lines": sum(count_logic_lines(file) for folder in CODE for file in folder.glob("*.py")),
        "removed": options.removed,
        "rules left": len(rules) - sum(len(each["removed"]) for each in [*entries, {"removed": options.removed}]),
        "right": sum(verdict == RIGHT for verdict in verdicts.values()),
        "wrong": sum(verdict not in (RIGHT, REFUSED) for verdict in verdicts.values()),
        "of": len(verdicts),
        "right by set": count_right(verdicts),
    }
    if entries:
        entry["to the step before"] = compare(read_or_score(entries[-1]["code"]), verdicts)
        entry["to the first"] = compare(read_or_score(entries[0]["code"]), verdicts)
    print(json.dumps({name: value for name, value in entry.items() if keep or name != "right by set"}, indent=1))
    if keep:
        RESULTS.write_text(json.dumps([*entries, entry], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
