"""Fail on names and phrases that have a plain form; part of `make lint`.

python tools/plain_words.py
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {ROOT / "bench" / "answers" / name for name in ("pages", "pages_other_words")}
"""Data: documents as people write them."""
FOLDERS = ("evidence_assets", "evidence_assets_tests", "bench", "docs", "tools")
NAMES = {
    *("found", "known", "own", "asked", "made", "said", "stated", "kept", "wanted", "shown", "told"),
    *("taken", "seen", "done", "given", "held", "drawn", "mended", "beside", "besides", "apart", "together", "anew"),
    *("following", "placing", "making", "keeping", "asking", "telling"),
}
"""Names that do not say what they hold."""
STORED_NAMES = {"prompt_mining.py": {"kept"}}
"""Names of YAML keys and columns, which stay."""
PHRASES = re.compile(
    r"\b(?:(?:is|are|was|were|be|been) (?:told|said|mended)\b|goes without saying|taken over|takes? over|gainsay\w*|"
    r"(?:made|asked) anew|made again|(?:lies|lie|stands|stand) (?:in|beside|below)\b|of no news|as it were|"
    r"who (?:reads|answers|explains|asks|reasons)\b|whoever)",
    re.IGNORECASE,
)
"""Phrases with a plain form."""


def _files(*suffixes: str) -> Iterator[Path]:
    yield from (path for path in ROOT.glob("*.md") if path.suffix in suffixes)
    for folder in FOLDERS:
        paths = (path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
        yield from sorted(path for path in paths if PAGES.isdisjoint(path.parents))


def _assigned_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name


def findings() -> list[str]:
    """Each retired name or phrase as `file:line: text`."""
    lines = []
    for path in _files(".py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        retired_names = NAMES - STORED_NAMES.get(path.name, set())
        bare = [(line, name) for line, name in _assigned_names(tree) if name.strip("_").lower() in retired_names]
        lines += [f"{path.relative_to(ROOT)}:{line}: rename {name!r} after what it holds" for line, name in bare]
    for path in _files(".py", ".md", ".html"):
        if path == Path(__file__):  # it spells out the retired phrases
            continue
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            lines += [f"{path.relative_to(ROOT)}:{line}: rewrite {m[0]!r}" for m in PHRASES.finditer(text)]
    return lines


if __name__ == "__main__":
    retired = findings()
    print("\n".join(retired))
    sys.exit(bool(retired))
