"""Count lines and logic lines of Python by package: ``python tools/count_lines.py [REVISION]``.

Logic lines are what is left without imports, docstrings, comments and blank lines.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import PurePosixPath


def logic_lines(source: str) -> int:
    """Lines of ``source`` that hold code other than imports and docstrings."""
    tree = ast.parse(source)
    skipped: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Import() | ast.ImportFrom():
                skipped.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(1 for n, line in lines if n not in skipped and line.strip() and not line.strip().startswith("#"))


def main(revision: str | None) -> None:
    listing = ["git", "ls-tree", "-r", "--name-only", revision] if revision else ["git", "ls-files"]
    paths = [p for p in subprocess.check_output(listing, text=True).splitlines() if p.endswith(".py")]
    totals: dict[str, Counter[str]] = {}
    for path in map(PurePosixPath, paths):
        show = ["git", "show", f"{revision or ''}:{path}"]
        source = subprocess.check_output(show, text=True)
        counts = Counter(files=1, lines=source.count("\n"), logic=logic_lines(source))
        package = "/".join(path.parts[:2]) if path.parts[0] == "evidence_assets" and len(path.parts) > 2 else ""
        for name in {path.parts[0], package} - {""}:
            totals.setdefault(name, Counter()).update(counts)
    print(f"{'package':<36}{'files':>7}{'lines':>8}{'logic':>8}")
    for name in sorted(totals):
        count = totals[name]
        print(f"{name:<36}{count['files']:>7}{count['lines']:>8}{count['logic']:>8}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
