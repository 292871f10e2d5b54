"""The shipped sample: the generator's bytes, and every piece of gold evidence at its stated position."""

import hashlib
import json
from pathlib import Path
from typing import Any

from evidence_assets.assets.raw_files import copy_sample
from evidence_assets_tests.conftest import REPOSITORY, run_python
from tools.sample_world.__main__ import SHIPPED

FULL, SMALL = SHIPPED / "full", SHIPPED / "small"


def read(folder: Path, name: str) -> list[Any]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def triples(folder: Path, name: str) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_generator_writes_the_shipped_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    run_python("-m", "tools.sample_world", str(tmp_path), cwd=REPOSITORY, env={"PYTHONHASHSEED": "4711"})
    shipped = digest(SHIPPED)
    del shipped["README.md"]
    assert digest(tmp_path) == shipped


def test_the_asset_copies_whole_files_and_leaves_others(tmp_path: Path) -> None:
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "mine.yaml").write_text("mine")
    (tmp_path / "held_out.tsv").write_text("half of a f")
    names = copy_sample("small", tmp_path)
    assert names == sorted(digest(SMALL))
    assert digest(tmp_path) == digest(SMALL) | {"seeds/mine.yaml": hashlib.sha256(b"mine").hexdigest()}


def test_gold_sentences_are_at_their_offsets_and_state_the_answer() -> None:
    articles = {article["doc_id"]: article["text"] for article in read(FULL, "corpus/sample/articles.jsonl")}
    for question in read(FULL, "benchmarks/sample_mcqa.jsonl"):
        named: set[str] = set()
        for row in question["gold_evidence"]:
            start, end = map(int, row["locator"].split(":"))
            assert row["kind"] == "sentence" and articles[row["source"]][start:end] == row["text"]
            assert row["text"].endswith(".") and row["text"][0].isupper()
            head, _, tail = row["fact"]
            assert head.lower() in row["text"].lower() and tail.lower() in row["text"].lower()
            named |= {head, tail}
        if question["answerable"]:
            right = {question["options"][i] for i in question["gold"]}
            wrong = set(question["options"]) - right
            # the facts name every right option and no wrong one; for the odd one out it is the other way round
            assert (
                (wrong <= named and not right & named)
                if question["negated"]
                else (right <= named and not wrong & named)
            )
