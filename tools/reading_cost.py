"""What a reader of the product pays: ``python tools/reading_cost.py [--by-package] [--run] [--check]``.

- AST nodes of the package; functions over 300 nodes; the largest function.
- Packed assignments ``a, b = x, y``; unpacking the result of one call does not count.
- With ``--run``: functions and files of the package that one ``evidence ask`` executes (three options, a folder with
  one file, BM25), without the bodies of modules and classes, lambdas and comprehensions.

``--check`` exits with 1 if a figure is above its ceiling in ``tools/reading_cost.yaml``. Those of ``nodes`` and
of what a question executes have room for features, and a feature that needs more raises them. The others only fall.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "evidence_assets"
CEILINGS = Path(__file__).with_suffix(".yaml")
LARGE = 300
DOCUMENT = "The pump of station 3 was replaced in 2019. It was built by Orlow. Station 4 has no pump.\n"
QUESTION = ["Who built the pump of station 3?", "Orlow", "Kettlewell", "Station 4"]
SHORTEN = f"split a function that you changed; `python tools/reading_cost.py` lists those over {LARGE} nodes"
CALL_LESS = (
    "call less on the way to an answer (`python tools/reading_cost.py --walk` lists what is called), "
    "or raise it by what the feature costs and say so in the commit"
)
ADVICE = {
    "nodes": "simplify, or raise `nodes` by what the feature costs and say so in the commit",
    "large functions": SHORTEN,
    "largest function": SHORTEN,
    "packed assignments": "write a statement for each name instead of `a, b = x, y`",
    "functions executed": CALL_LESS,
    "files executed": CALL_LESS,
}
"""What to do about a figure above its ceiling."""
NOT_FUNCTIONS = {"<module>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


@dataclass(frozen=True)
class Function:
    """A function of the product and the number of its AST nodes, nested functions included."""

    nodes: int
    place: str


def count_nodes(tree: ast.AST) -> int:
    return sum(1 for _ in ast.walk(tree))


def is_packed(node: ast.AST) -> bool:
    """Whether a statement binds several names to several expressions."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    return any(isinstance(target, ast.Tuple) for target in node.targets)


def find_functions(tree: ast.AST, file: Path) -> list[Function]:
    """All functions and methods of a file."""
    return [
        Function(count_nodes(node), f"{file.relative_to(ROOT)}:{node.lineno} {node.name}")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def measure_source(show_packages: bool) -> dict[str, int]:
    """Print and return the figures of the source."""
    by_package: dict[str, Counter[str]] = {}
    functions: list[Function] = []
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        file_functions = find_functions(tree, file)
        functions += file_functions
        package = file.relative_to(PACKAGE).parts[0]
        counts = by_package.setdefault(package, Counter())
        counts["nodes"] += count_nodes(tree)
        counts["large functions"] += sum(f.nodes > LARGE for f in file_functions)
        counts["packed assignments"] += sum(is_packed(node) for node in ast.walk(tree))
    if show_packages:
        print(f"{'package':<20}{'nodes':>9}{'large':>7}{'packed':>8}")
        for package, counts in sorted(by_package.items()):
            print(f"{package:<20}{counts['nodes']:>9,}{counts['large functions']:>7}{counts['packed assignments']:>8}")
    for function in sorted(functions, key=lambda f: -f.nodes):
        if function.nodes <= LARGE:
            break
        print(f"{function.nodes:>5} nodes: {function.place}")
    totals = sum(by_package.values(), Counter())
    return {**totals, "largest function": max(f.nodes for f in functions)}


def measure_run(show_walk: bool) -> dict[str, int]:
    """Functions and files of the product that one question executes, in a new lake."""
    called: dict[CodeType, None] = {}

    def record(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            called.setdefault(frame.f_code)

    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder) / "documents"
        documents.mkdir()
        (documents / "pumps.txt").write_text(DOCUMENT, encoding="utf-8")
        os.environ["EVIDENCE_LAKE"] = str(Path(folder) / "lake")
        from evidence_assets.cli import main as run_command

        class_bodies = find_class_bodies()
        sys.argv = ["evidence", "ask", *QUESTION, "--corpus", str(documents), "--system", "bm25"]
        sys.setprofile(record)
        try:
            run_command()
        except SystemExit as stop:
            if stop.code:
                raise
        finally:
            sys.setprofile(None)
    places = [
        (Path(code.co_filename).relative_to(PACKAGE), code.co_firstlineno, code.co_qualname)
        for code in called
        if code.co_filename.startswith(str(PACKAGE)) and code.co_name not in NOT_FUNCTIONS
    ]
    places = [place for place in places if (place[0], place[2]) not in class_bodies]
    if show_walk:
        for file, line, name in places:
            print(f"{file}:{line} {name}")
    return {"functions executed": len(places), "files executed": len({file for file, _, _ in places})}


def find_class_bodies() -> set[tuple[Path, str]]:
    """File and name of the classes of the product, whose bodies run as code of that name."""
    bodies: set[tuple[Path, str]] = set()
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        name = file.relative_to(PACKAGE)
        bodies |= {(name, node.name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return bodies


def check_ceilings(figures: Mapping[str, int], ceilings: Mapping[str, int]) -> list[str]:
    """What to do about each figure above its ceiling."""
    return [
        f"{name}: {figures[name] - ceiling:,} over the ceiling {ceiling:,} of tools/{CEILINGS.name}: {ADVICE[name]}"
        for name, ceiling in ceilings.items()
        if name in figures and figures[name] > ceiling
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by-package", action="store_true", help="print a line per package")
    parser.add_argument("--run", action="store_true", help="count what one question executes")
    parser.add_argument("--walk", action="store_true", help="list the functions of that question, in order")
    parser.add_argument("--check", action="store_true", help="fail above a ceiling of reading_cost.yaml")
    chosen = parser.parse_args()
    figures = measure_source(chosen.by_package)
    if chosen.run or chosen.walk:
        figures |= measure_run(chosen.walk)
    for name, value in figures.items():
        print(f"{name:<25}{value:>9,}")
    ceilings = yaml.safe_load(CEILINGS.read_text(encoding="utf-8")) if chosen.check else {}
    problems = check_ceilings(figures, ceilings)
    sys.exit("\n".join(problems) or None)


if __name__ == "__main__":
    main()
