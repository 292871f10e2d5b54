"""Time each kind of explorer page on the lake of bench.platform.trace: a million predictions, each with twenty rows.

The first page reads every prediction once, counts all rows and ranks the answers worth a look; that is reported
separately. Later pages read what they show.

    python -m bench.platform.explorer --predictions 1000000 --folder made
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from bench.measuring import make_parser, timed
from bench.platform.trace import generate
from evidence_assets.explorer.lake_reader import LakeReader
from evidence_assets.explorer.site import Site
from evidence_assets.lake.store import Lake

ALLOWED = 0.300


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--predictions", type=int, default=100_000)
    parser.add_argument("--per-partition", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument(
        "--folder", type=Path, help="Where to make the lake, and keep it; used again where it is there."
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        lake = Lake.create((arguments.folder or Path(temporary)) / "data_lake")
        generate(lake, arguments.predictions, arguments.per_partition)
        reader = LakeReader(lake.root)
        start = time.perf_counter()
        with reader.opened():
            rows = reader.rows("SELECT question_id FROM all_answers USING SAMPLE reservoir(64 ROWS) REPEATABLE (1)")
        print(f"reading {arguments.predictions:,} predictions once: {time.perf_counter() - start:.2f} s")
        chunks = lake.read("chunks", "corpus/c/chunks", "0", ["chunk_id", "doc_id"]).head(64).to_dicts()
        pages = {
            "home": ["/"] * arguments.times,
            "questions": ["/questions"] * arguments.times,
            "questions, filtered": ["/questions?benchmark=b1&status=answered&page=7"] * arguments.times,
            "questions, last page": [f"/questions?page={arguments.predictions // 50}"] * arguments.times,
            "a question": [f"/question/{row['question_id']}" for row in rows[: arguments.times]],
            "a chunk": [f"/source/chunk/{chunk['chunk_id']}" for chunk in chunks[: arguments.times]],
            "a document": [f"/source/document/{chunk['doc_id']}" for chunk in chunks[: arguments.times]],
            "a search that finds": ["/search?q=sentence"] * arguments.times,
            "a search in vain": ["/search?q=nowhere"] * arguments.times,
        }
        site = Site(reader)
        _, first_seconds = timed(site.reply, "/", {})
        print(f"counting and ranking for the first page once: {first_seconds:.2f} s")
        for name, addresses in pages.items():
            seconds = []
            for address in [addresses[0], *addresses]:
                parts = urlsplit(address)
                (status, html), page_seconds = timed(site.reply, parts.path, dict(parse_qsl(parts.query)))
                seconds.append(page_seconds)
                assert status == 200, (address, html)
            middle, worst = statistics.median(seconds[1:]), max(seconds[1:])
            print(
                f"{name:24} {1000 * middle:6.0f} ms, worst {1000 * worst:6.0f} ms; "
                f"{middle / ALLOWED:.2f} of the {1000 * ALLOWED:.0f} ms allowed"
            )


if __name__ == "__main__":
    main()
