"""Whether a trained reader judges texts better than the cosine that the embedded profile uses.

    python -m bench.measure_reader_judge READER

READER is a folder of ``bench.measure_reader``. The texts nearest by cosine are ranked again by the reader's score of
question and right option with each text as its only fact: the 15 nearest facts of OpenBookQA's book. Recall of the gold
fact at 1, 2 and 5 is paired over questions (95 %, bootstrap), on the second half.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.differences import format_difference
from bench.measure_reader import DATA, DEVELOPMENT, read_pieces
from evidence_assets.experiment.scores.metrics import paired_bootstrap
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.reader.network import OptionInput
from evidence_assets.models.reader.training import TrainedReader

Case = tuple[str, str, frozenset[str]]
"""Question, option, and gold texts."""


def read_openbook() -> tuple[list[Case], list[str]]:
    facts = list(read_pieces("obqa"))
    by_text = {fact.strip().rstrip(".").casefold(): fact for fact in facts}
    cases = []
    for row in map(json.loads, (DATA / DEVELOPMENT["obqa"]).read_text(encoding="utf-8").splitlines()):
        gold = by_text.get(row["fact1"].strip().rstrip(".").casefold())
        if gold:
            choices = {choice["label"]: choice["text"] for choice in row["question"]["choices"]}
            cases.append((row["question"]["stem"], choices[row["answerKey"]], frozenset([gold])))
    return cases, facts


def rank_twice(
    cases: Sequence[Case], texts: Sequence[str], reader: TrainedReader, limit: int
) -> Iterator[tuple[list[str], list[str]]]:
    """The nearest texts of each question, by cosine and by the reader."""
    encoder = load_encoder(EMBEDDED_ENCODER)
    matrix = np.asarray(encoder.encode_sentences(list(texts)))
    queries = np.asarray(encoder.encode_sentences([f"{question} {option}".strip() for question, option, _ in cases]))
    for (question, option, _), query in zip(cases, queries, strict=True):
        nearest = [texts[n] for n in np.argsort(-(matrix @ query), kind="stable")[:limit]]
        scores = reader.score([OptionInput(question, option, (text,)) for text in nearest])
        yield nearest, [nearest[n] for n in np.argsort(-scores, kind="stable")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", type=Path)
    reader = TrainedReader(parser.parse_args().reader, "reader")
    for name, (cases, texts), limit in (("OpenBookQA", read_openbook(), 15),):
        rankings = list(rank_twice(cases, texts, reader, limit))
        half = len(cases) // 2
        for k in (1, 2, 5):
            cosine, judged = (
                [
                    len(gold & {*ranked[side][:k]}) / len(gold)
                    for (*_, gold), ranked in zip(cases, rankings, strict=True)
                ]
                for side in (0, 1)
            )
            difference = paired_bootstrap(np.array(judged[half:]), np.array(cosine[half:]))
            print(
                f"{name} recall@{k}: reader {np.mean(judged[half:]):.1%}, cosine {np.mean(cosine[half:]):.1%}, "
                f"{format_difference(difference, '+.1%')}, n = {len(cases) - half}",
                flush=True,
            )


if __name__ == "__main__":
    main()
