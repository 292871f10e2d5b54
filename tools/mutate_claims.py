"""Check that tests named by docs/reproduction.md fail when their claim is false: ``python -m tools.mutate_claims``.

Applies each mutation of ``mutations.yaml`` to a copy of the repository and runs the claim's test. Words select claims
that contain them. Exits with 1 if a test stays green, a mutation no longer applies, or a claim has none.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
MUTATIONS, PAGE = Path(__file__).with_name("mutations.yaml"), Path("docs/reproduction.md")
TESTS = "evidence_assets_tests"
SLOW_IMPORTS = (
    "dagster",
    "hypothesis",
    "polars",
    "pyarrow",
    "pytest",
    "scipy.stats",
    "sqlalchemy",
    "torch",
    "transformers",
)
RED = 1
"""Exit status of pytest if a test fails; an error of collection has another."""
_TEST = re.compile(r"`([\w/]+\.py::\w+)`")


class Mutation(NamedTuple):
    """An edit that makes a claim false: ``old`` becomes ``new`` in ``file``; ``test`` must then fail."""

    claim: str
    test: str
    file: str
    old: str
    new: str


def read_mutations(path: Path = MUTATIONS) -> list[Mutation]:
    """Read the mutations of all claims."""
    return [Mutation(**entry) for entry in yaml.safe_load(path.read_text(encoding="utf-8"))]


def find_tested_claims(page: str) -> dict[str, set[str]]:
    """The tests that each row of the page names, by the row's first cell; rows with equal first cells are joined."""
    claims: dict[str, set[str]] = {}
    for line in page.splitlines():
        if line.startswith("|") and (tests := _TEST.findall(line)):
            claims.setdefault(line.split("|")[1].strip(), set()).update(tests)
    return claims


def find_problems(mutations: list[Mutation], claims: dict[str, set[str]], root: Path = ROOT) -> list[str]:
    """Claims without a mutation, tests that the page does not name, and edits that do not apply exactly once."""
    named = set().union(*claims.values())
    return [
        *(f"no mutation: {claim}" for claim, tests in claims.items() if not tests & {m.test for m in mutations}),
        *(f"not in {PAGE}: {m.test}" for m in mutations if m.test not in named),
        *(
            f"{m.file}: the old text of {m.claim!r} occurs {count} times"
            for m in mutations
            if (count := (root / m.file).read_text(encoding="utf-8").count(m.old)) != 1
        ),
    ]


def copy_repository(target: Path) -> None:
    """Copy all files that git does not ignore, with uncommitted changes."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)


def run_tests(copy: Path, tests: list[str]) -> int:
    """Run tests in a fork of this process, which has imported the large libraries; return pytest's exit status."""
    child = os.fork()
    if not child:
        os.chdir(copy)
        os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path[0] = str(copy)
        for module in [name for name in sys.modules if name.split(".")[0] == "tools"]:
            del sys.modules[module]
        with (copy / "output.txt").open("w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        status = RED + 1
        try:
            pytest = importlib.import_module("pytest")
            options = [
                "-q",
                "-x",
                "-m",
                "",
                "-p",
                "no:cacheprovider",
                "-W",
                "ignore::pytest.PytestAssertRewriteWarning",
            ]
            status = int(pytest.main([*options, *(f"{TESTS}/{test}" for test in tests)]))
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def apply_mutation(copy: Path, mutation: Mutation) -> str:
    """Run the test of a claim while the claim is false; return red, green or error."""
    file = copy / mutation.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        status = run_tests(copy, [mutation.test])
    finally:
        file.write_text(text, encoding="utf-8")
    return {0: "green", RED: "red"}.get(status, "error")


def main(words: list[str]) -> int:
    """Run the selected mutations and print the table."""
    mutations = [m for m in read_mutations() if not words or any(word in f"{m.claim} {m.test}" for word in words)]
    claims = {} if words else find_tested_claims((ROOT / PAGE).read_text(encoding="utf-8"))
    problems = [] if words else find_problems(mutations, claims)
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        copy_repository(Path(folder))
        if tests := sorted({m.test for m in mutations}):
            status = run_tests(Path(folder), tests)
            problems += [(Path(folder) / "output.txt").read_text()[-2000:]] if status else []
        for mutation in mutations:
            results.append(apply_mutation(Path(folder), mutation))
            print(f"{results[-1]:6}{mutation.claim}  ({mutation.test})", flush=True)
    print(*problems, sep="\n")
    print(f"claims {len(results)}, red {results.count('red')}, green {len(results) - results.count('red')}")
    return int(bool(problems) or set(results) - {"red"} != set())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
