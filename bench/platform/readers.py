"""Rate and peak memory of the readers on files of full size, made here and thrown away.

    python -m bench.platform.readers [SCALE]

Each reading runs in a process of its own, so that its peak resident memory is its own; beside it the plainest baseline
reads the same file (``json.loads`` or ``str.split`` a line, ``json.load`` of an array; no check of anything) and must
count the same rows. To see that memory does not grow with the file, each is also read at a tenth of its size. SCALE
(default 1) shrinks all files.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measuring import in_new_process, measured, resident
from evidence_assets.benchmarks.corpora import read_documents
from evidence_assets.benchmarks.graphs.formats import read_tab_separated
from evidence_assets.benchmarks.readers import read_questions

MEDMCQA_ROWS, HOTPOT_ROWS, DOCUMENTS, TSV_LINES = 193_155, 90_447, 1_000_000, 10_000_000
CONSTANT = 160
"""Megabytes that ten times the rows may add: ids are kept, to notice doubles, 100 bytes each."""
TEXT = "The left renal vein crosses in front of the aorta below the superior mesenteric artery. " * 5


def write_medmcqa(folder: Path, rows: int) -> None:
    with (folder / "train.json").open("w", encoding="utf-8") as stream:
        for i in range(rows):
            row = {"id": f"{i:08x}", "question": f"Which of these is number {i}?", "exp": TEXT, "cop": 1 + i % 4}
            row |= {f"op{letter}": f"the {letter} of {i}" for letter in "abcd"}
            stream.write(
                json.dumps(row | {"subject_name": "Anatomy", "topic_name": None, "choice_type": "single"}) + "\n"
            )


def write_hotpotqa(folder: Path, rows: int) -> None:
    """One array, a question a line."""
    context = [[f"Vein {number}", [TEXT] * 3] for number in range(5)]
    row = {"question": TEXT, "answer": "Ann", "supporting_facts": [["Vein 1", 0]], "context": context}
    with (folder / "hotpot_train_v1.1.json").open("w", encoding="utf-8") as stream:
        stream.write("[\n")
        stream.writelines(
            json.dumps(row | {"_id": f"{i:08x}"}) + (",\n" if i + 1 < rows else "\n") for i in range(rows)
        )
        stream.write("]\n")


def write_documents(folder: Path, rows: int) -> None:
    with (folder / "chunks.jsonl").open("w", encoding="utf-8") as stream:
        for i in range(rows):
            stream.write(f'{{"doc_id": "d{i}", "title": "Vein {i}", "text": "{TEXT}{i}"}}\n')


def write_tsv(folder: Path, rows: int) -> None:
    with (folder / "facts.tsv").open("w", encoding="utf-8") as stream:
        stream.writelines(f"entity {i % 99991}\trelated to\tentity {i % 65537}\n" for i in range(rows))


def read_medmcqa(folder: Path) -> int:
    return sum(1 for _ in read_questions("medmcqa", folder, "train"))


def read_hotpotqa(folder: Path) -> int:
    return sum(1 for _ in read_questions("hotpotqa", folder, "train"))


def read_chunks(folder: Path) -> int:
    return sum(1 for _ in read_documents(folder))


def read_tsv(folder: Path) -> int:
    return sum(1 for _ in read_tab_separated(folder / "facts.tsv"))


def plain_json(folder: Path) -> int:
    (path,) = folder.iterdir()
    with path.open(encoding="utf-8") as stream:
        return sum(1 for line in stream if json.loads(line))


def plain_array(folder: Path) -> int:
    (path,) = folder.iterdir()
    with path.open(encoding="utf-8") as stream:
        return len(json.load(stream))


def plain_tsv(folder: Path) -> int:
    with (folder / "facts.tsv").open(encoding="utf-8") as stream:
        return sum(1 for line in stream if len(line.rstrip("\n").split("\t")) == 3)


def measure(read: Callable[[Path], int], folder: Path) -> tuple[int, float, float]:
    """Rows, seconds, and by how many MiB the peak memory grows."""
    before = resident("VmHWM")
    count, used = measured(read, folder)
    return count, used.wall, resident("VmHWM") - before


def main(scale: float) -> None:
    print(f"{'file':<24} {'rows':>11} {'MB':>7} {'s':>7} {'rows/s':>9} {'x plain':>8} {'peak +MB':>9} {'at 1/10':>8}")
    for name, rows, write, read, plain in (
        ("MedMCQA train.json", MEDMCQA_ROWS, write_medmcqa, read_medmcqa, plain_json),
        ("HotpotQA, one array", HOTPOT_ROWS, write_hotpotqa, read_hotpotqa, plain_array),
        ("documents JSON lines", DOCUMENTS, write_documents, read_chunks, plain_json),
        ("graph, TSV of triples", TSV_LINES, write_tsv, read_tsv, plain_tsv),
    ):
        row_count = int(rows * scale)
        growth = []
        for size in (row_count // 10, row_count):
            with tempfile.TemporaryDirectory() as folder_name:
                folder = Path(folder_name)
                write(folder, size)
                megabytes = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
                plain_count, plain_seconds, _ = in_new_process(measure, plain, folder)
                count, seconds, growth_mib = in_new_process(measure, read, folder)
                assert count == plain_count == size, (count, plain_count, size)
                growth.append(growth_mib)
        assert growth[1] < growth[0] + CONSTANT, (
            f"{name}: {growth[0]:.0f} MB at a tenth, {growth[1]:.0f} MB at full size"
        )
        print(
            f"{name:<24} {count:>11,} {megabytes:>7.0f} {seconds:>7.1f} {count / seconds:>9,.0f} "
            f"{seconds / plain_seconds:>8.2f} {growth[1]:>9.0f} {growth[0]:>8.0f}"
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
