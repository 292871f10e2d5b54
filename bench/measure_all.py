"""Everything that is measured on real data, and the tables of ``docs/measured.md`` that show it.

    python bench/measure_all.py [--only NAME …] [--lakes FOLDER]

``bench/measured.yaml`` states the measurements: a benchmark of a world, variants and metrics each. Every one is made by
``measure_variants.py`` from materialized assets, and its table is put between its marks in the page, so that a figure
that a commit changes shows in its diff. What was materialized stays in the folder of lakes; another run takes it over.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

import yaml

BENCH = Path(__file__).resolve().parent
PAGE = BENCH.parent / "docs" / "measured.md"


def put(page: str, name: str, table: str) -> str:
    """The page with the table ``name`` in place of what stands between its marks."""
    marks = re.compile(rf"(<!-- measured: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not marks.search(page):
        raise SystemExit(f"docs/measured.md has no marks for {name!r}: <!-- measured: {name} --> … <!-- end -->")
    return marks.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page)


def main() -> None:
    stated = yaml.safe_load((BENCH / "measured.yaml").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(stated), default=sorted(stated))
    parser.add_argument("--lakes", type=Path, default=Path(".measure"), help="where to keep what is materialized")
    asked = parser.parse_args()
    for name in asked.only:
        entry = stated[name]
        world = ["--world", str(BENCH / "worlds" / entry["world"])] if "world" in entry else []
        lake = asked.lakes / entry.get("world", "sample").removesuffix(".yaml")
        table = lake.with_suffix(f".{name}.md")
        lake.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, str(BENCH / "measure_variants.py"), entry["benchmark"], *entry["variants"], *world]
        command += ["--lake", str(lake), "--metrics", ",".join(entry["metrics"]), "--markdown", str(table)]
        print(f"== {name}: {entry['benchmark']}", flush=True)
        subprocess.run(command, check=True)
        PAGE.write_text(put(PAGE.read_text(encoding="utf-8"), name, table.read_text("utf-8").strip()), encoding="utf-8")


if __name__ == "__main__":
    main()
