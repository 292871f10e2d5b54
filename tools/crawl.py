"""Click through the explorer for an hour and show that no file of the lake changed.

    python -m tools.crawl LAKE [--minutes 60] [--pause 0.5] [--seed 1]

A reader of its own process answers on 127.0.0.1. The crawler opens a page, takes a link of it at random, now and then
starts again at the first page or with a search, and now and then asks for what is not there. Any status but 200 (or
404 where it was asked for), a page over a second, and any file whose hash has changed is reported, and the exit
code is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

PORT = 3917
STARTS = ("/", "/scores", "/questions", "/search?q=gout")
NOT_THERE = ("/question/nobody", "/source/chunk/../../etc/passwd", "/nothing", "/source/cell/%00")
SLOW = 1.0


def hashes(folder: Path) -> dict[str, str]:
    """Every file below a folder with its content hash."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def page(address: str) -> tuple[int, str]:
    """The status and the text of a page."""
    with closing(HTTPConnection("127.0.0.1", PORT, timeout=60)) as connection:
        connection.request("GET", address)
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


def links(text: str) -> list[str]:
    """Pages of the explorer that a page leads to."""
    hrefs = (unescape(link) for link in re.findall(r'href="(/[^"#]*)', text))
    return [link for link in hrefs if not link.startswith("/static/")]


def walk(minutes: float, pause: float, chance: random.Random) -> tuple[list[str], list[float], Counter[str]]:
    """What went wrong, the seconds of each page, and how many pages of each kind were read."""
    faults, seconds, kinds = list[str](), list[float](), Counter[str]()
    end, ways = time.monotonic() + 60 * minutes, list(STARTS)
    while time.monotonic() < end:
        missing = chance.random() < 0.02
        address = chance.choice(NOT_THERE) if missing else chance.choice(ways)
        start = time.perf_counter()
        status, text = page(address)
        seconds.append(time.perf_counter() - start)
        kinds[address.split("/")[1].partition("?")[0] or "home"] += 1
        if status != 200 and not (missing and status in (400, 404)):
            faults.append(f"{status} for {address}: {text[:200]}")
        if seconds[-1] > SLOW:
            faults.append(f"{seconds[-1]:.1f} s for {address}")
        next_links = links(text)
        words = re.findall(r"[a-z]{5,}", text)
        if chance.random() < 0.05 and words:
            next_links = [f"/search?q={quote(chance.choice(words))}"]
        ways = next_links if next_links and chance.random() > 0.05 else list(STARTS)
        time.sleep(pause)
    return faults, seconds, kinds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lake", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--pause", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    before = hashes(options.lake)
    command = [sys.executable, "-m", "evidence_assets.cli", "explore", "--lake", str(options.lake), "--port", str(PORT)]
    server = subprocess.Popen(command)
    try:
        for _ in range(240):
            try:
                page("/")
                break
            except ConnectionError:
                if server.poll() is not None:
                    sys.exit("the explorer did not start: it says why above")
                time.sleep(0.25)
        faults, seconds, kinds = walk(options.minutes, options.pause, random.Random(options.seed))
    finally:
        server.terminate()
        server.wait()
    after = hashes(options.lake)
    faults += [
        f"changed: {name}" for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    ]
    ranked = sorted(seconds)
    print(
        f"{len(seconds)} pages in {options.minutes:g} minutes: "
        f"{', '.join(f'{n} {kind}' for kind, n in kinds.most_common())}"
    )
    print(
        f"median {1000 * statistics.median(ranked):.0f} ms, 99 % under "
        f"{1000 * ranked[int(0.99 * len(ranked))]:.0f} ms, "
        f"slowest {1000 * ranked[-1]:.0f} ms; {len(before)} files of the lake, {len(faults)} things wrong"
    )
    print("\n".join(faults[:50]))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
