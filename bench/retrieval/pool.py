"""One question of five options with pools of R chunks of 410 tokens: seconds, and memory beside what files are mapped.

Chunks are made: each has one of ``--distinct`` texts, whose tokens are random unit vectors, as if an encoder had been
asked; of vectors alone none are kept twice, so that a pool of any size can be measured on a small disk. What is ranked
is as large as it would be. Memory is that of pages of no file (RssAnon), at its highest, less what the process had
before the question.

    python -m bench.retrieval.pool --R 20000 --costs fusion maxsim cosine jsd
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measuring import in_new_process, make_parser, measured
from evidence_assets.models.protocols import FloatArray, TokenVectors
from evidence_assets.models.vectors import Array, unit_rows
from evidence_assets.reasoning.questions import Question
from evidence_assets.retrieval import index_building, token_store
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.retrieval.corpus_files import SCHEMA, Shard, write_corpus_files
from evidence_assets.systems.uscrake.evidence_judges import LateInteraction
from evidence_assets.systems.uscrake.passages import Passages
from evidence_assets.systems.uscrake.selector import UscrakeSelector
from evidence_assets.systems.uscrake.settings import UscrakeSettings

DIMENSIONS, TOKENS, ASKED_TOKENS, WORDS, AT_ONCE = 384, 410, 24, 30_000, 4096
QUESTION = Question("q", "b", "mcqa", "Which of these is it?", ("one", "two", "three", "four", "five"))


class SyntheticEncoder:
    """Random unit vectors for any text, the same for the same text; a text of a chunk is a number."""

    model_id, revision, dimensions, max_tokens = "made", "1", DIMENSIONS, 512
    tokens_of_chunk = TOKENS

    def _random(self, text: str) -> np.random.Generator:
        return np.random.default_rng(list(text.encode()))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(tokens) for tokens in self.split_tokens(texts)]

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        lengths = [self.tokens_of_chunk if text.isdecimal() else ASKED_TOKENS for text in texts]
        token_numbers = (self._random(text).zipf(1.3, n) % WORDS for text, n in zip(texts, lengths, strict=True))
        return [tuple(f"w{i}" for i in numbers) for numbers in token_numbers]

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        return unit_rows(np.stack([self._random(t).normal(size=self.dimensions) for t in texts])).astype(np.float32)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        token_vectors = []
        for text, names in zip(texts, self.split_tokens(texts), strict=True):
            n = len(names)
            vectors = unit_rows(self._draw(text, names)).astype(np.float32)
            spans = np.zeros((n, 2), np.int32)
            spans[:, 1] = len(text)
            token_vectors.append(TokenVectors(vectors, spans, names))
        return token_vectors

    def _draw(self, text: str, names: Sequence[str]) -> Array:
        """Vectors of the tokens of a text."""
        return np.asarray(self._random(text).normal(size=(len(names), self.dimensions)))


def corpus(folder: Path, chunks: int, distinct: int, dimensions: int = DIMENSIONS) -> None:
    """Write a corpus of so many chunks, with random vectors in a flat index."""
    rng = np.random.default_rng(0)

    def batches() -> list[pa.RecordBatch]:
        texts = []
        for start in range(0, chunks, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, chunks))
            rows = [
                {
                    "chunk_id": f"{i:09d}",
                    "doc_id": f"d{i}",
                    "title": "",
                    "text": str(i % distinct),
                    "sentence_offsets": [{"start": 0, "end": len(str(i % distinct))}],
                }
                for i in numbers
            ]
            texts.append(pa.RecordBatch.from_pylist(rows, SCHEMA))
        return texts

    vectors = (unit_rows(rng.normal(size=(len(batch), dimensions))) for batch in batches())
    folder.mkdir()
    write_corpus_files(folder, [Shard(batches(), vectors)])
    index_building.write_index(folder, built_from="v", model_id="made")


def ask(place: Path, cost: str, size: int) -> None:
    """Ask the question in a process of its own, so that nothing is measured that another cost left behind."""
    encoder = SyntheticEncoder()
    expected = token_store.source_version("v", f"{encoder.model_id}@{encoder.revision}")
    store = token_store.TokenStore(place / "store", expected=expected, cache=place / "cache")
    passages = Passages(IndexedCorpus(place / "index", "made", "v"), store)
    settings = UscrakeSettings(cost=cost, R=size, k=15)
    selector = UscrakeSelector(settings, passages, encoder, encoder, LateInteraction(encoder))
    (picks,), used = measured(lambda: list(selector.select([QUESTION])))
    print(
        f"{cost}: R = {size:,}, chunks of {TOKENS} tokens: {used.wall:.1f} s, "
        f"{used.megabytes:,.0f} MB at most, {len(picks)} picks",
        flush=True,
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--R", type=int, default=20_000)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--distinct", type=int, default=2_000)
    parser.add_argument("--costs", nargs="+", default=["fusion", "maxsim", "cosine", "jsd"])
    arguments = parser.parse_args()
    encoder = SyntheticEncoder()
    with tempfile.TemporaryDirectory() as folder:
        corpus(Path(folder) / "index", arguments.chunks, arguments.distinct)
        texts, model = [str(i) for i in range(arguments.distinct)], f"{encoder.model_id}@{encoder.revision}"
        token_store.build_store(Path(folder) / "store", [texts], encoder, model, "v")
        for cost in arguments.costs:
            in_new_process(ask, Path(folder), cost, arguments.R)


if __name__ == "__main__":
    main()
