"""Linking against 800,000 names, beside a plain rapidfuzz scan of all of them; equal results are asserted.

Run: ``python -m bench.graphs.entity_linking [--names 800000] [--concepts 60]``
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from rapidfuzz import fuzz, process

from evidence_assets.graphs.entity_linking import EntityLinker


def generated_names(n: int, generator: np.random.Generator) -> list[str]:
    """Names of one to four words from syllables, with the skew of a real vocabulary."""
    syllables = [c + v + e for c in "bcdfghklmnprstvw" for v in "aeiou" for e in ("", "n", "r", "st", "l")]
    vocabulary = ["".join(generator.choice(syllables, size=generator.integers(1, 4))) for _ in range(60_000)]
    weights = 1 / (np.arange(len(vocabulary)) + 50)
    words = generator.choice(vocabulary, size=(n, 4), p=weights / weights.sum())
    counts = generator.integers(1, 5, size=n)
    return [" ".join(row[:count]) for row, count in zip(words, counts, strict=True)]


def misspelt(name: str, generator: np.random.Generator) -> str:
    place = int(generator.integers(len(name)))
    return name[:place] + "q" + name[place + int(generator.integers(2)) :]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=800_000)
    parser.add_argument("--concepts", type=int, default=60)
    arguments = parser.parse_args()
    generator = np.random.default_rng(0)
    names = generated_names(arguments.names, generator)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    linker = EntityLinker(names)
    print(
        f"names {len(names):,}, distinct keys {len(linker.keys):,}; tables built in {time.perf_counter() - start:.1f} s"
    )
    start = time.perf_counter()
    linker.fuzzy("warm up")
    print(f"fuzzy signatures built in {time.perf_counter() - start:.1f} s")
    start = time.perf_counter()
    linker.find_spans("warm up")
    print(f"first words collected in {time.perf_counter() - start:.1f} s")
    added_megabytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"peak memory grew by {added_megabytes:.0f} MiB (tables, signatures and first words)")

    known_names = [names[i] for i in generator.integers(0, len(names), 20_000)]
    start = time.perf_counter()
    links = [linker.link(name) for name in known_names]
    per_known = (time.perf_counter() - start) / len(known_names)
    assert all(link.rule == "exact" for link in links)
    print(f"known names: {1000 * per_known:.4f} ms a concept")

    text = " and ".join(known_names[:2000])
    start = time.perf_counter()
    spans = linker.find_spans(text)
    seconds = time.perf_counter() - start
    print(
        f"spans: {len(spans):,} in a text of {len(text):,} characters, {1e6 * seconds / len(text):.2f} µs a character"
    )

    keys = linker.keys.to_list()
    times, scan = [], []
    # One at a time and taking turns, so that both see the same machine.
    for number in range(arguments.concepts):
        concept = misspelt(known_names[number], generator)
        start = time.perf_counter()
        score, ids = linker.fuzzy(concept)
        linked_keys = sorted(linker.keys.gather(ids))
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        matches = process.extract(concept, keys, scorer=fuzz.ratio, score_cutoff=85, limit=50)
        scan.append(time.perf_counter() - start)
        best = [name for name, value, _ in matches if value == matches[0][1]]
        assert sorted(best) == linked_keys or len(matches) == 50, (concept, best, linked_keys)
        assert (matches[0][1] / 100 if matches else 0.0) == score
    print(
        f"misspelt names: median {1000 * np.median(times):.3f} ms, 95th {1000 * np.quantile(times, 0.95):.3f} ms; "
        f"rapidfuzz scan median {1000 * np.median(scan):.1f} ms; ratio {np.median(scan) / np.median(times):.0f}×, "
        "equal results"
    )


if __name__ == "__main__":
    main()
