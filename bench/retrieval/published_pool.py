"""A pool of USCRaKE's published size, for one question of five options: seconds, memory and disk of the code that runs.

    python -m bench.retrieval.published_pool [--R 2000 20000] [--json FILE]

Chunks have 512 tokens of 1,024 numbers. The corpus has R chunks, so the options share their pool; pools that differ are
encoded for their union. Token vectors are drawn: the sum of vectors of the word, of its place, and of one of 50 topics,
to which a chunk is more or less close, so that some chunks are nearer to an option than others. Drawing them is stated
apart, as is the time of an encoder of BGE-M3's size with random weights for each of 16 chunks. Each row is a process of
its own. Disk is what the cache of token vectors has in files, and in deleted files that are still mapped, at its peak.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel, set_seed

from bench.measuring import Used, in_new_process, make_parser, measured, timed
from bench.result_files import print_table, write_results
from bench.retrieval.encoder import texts_of
from bench.retrieval.pool import QUESTION, WORDS, SyntheticEncoder, corpus
from evidence_assets.models.encoders import load_encoder
from evidence_assets.models.inference import find_minilm_folder, save_model
from evidence_assets.models.protocols import TokenVectors
from evidence_assets.models.vectors import Array
from evidence_assets.retrieval import token_store
from evidence_assets.retrieval.corpus import IndexedCorpus
from evidence_assets.systems.uscrake.evidence_judges import LateInteraction
from evidence_assets.systems.uscrake.mean_ranking import MeanRanking, write_chunk_means
from evidence_assets.systems.uscrake.passages import MAX_CHUNK_TOKENS, EncodedPassages, Passages
from evidence_assets.systems.uscrake.selector import UscrakeSelector
from evidence_assets.systems.uscrake.settings import MeanFirstSettings, UscrakeSettings
from evidence_assets.text.chunking import split_chunks
from evidence_assets.transport import get_ground_cost

CACHE_BYTES = 15 * 10**9
"""With the 4.3 GB of the chunks that are ranked at a time, less than 20 GB."""
PUBLISHED: dict[str, Any] = {"cost": "jsd", "k": 15, "parts": "chunks", "grain": "chunk", "titles": False, "links": 0.0}
TOPICS, ENCODED_CHUNKS, WORDS_PER_TEXT = 50, 16, 800
COLUMNS = (
    "what",
    "R",
    "chunks drawn",
    "s, wall / CPU",
    "of it drawing, s",
    "own memory, MiB",
    "with mapped files, MiB",
    "disk, GB",
)


class PublishedSize(SyntheticEncoder):
    """Vectors of the published size; records the disk in use at each call, the seconds of drawing, and the chunks."""

    dimensions = 1024
    tokens_of_chunk = MAX_CHUNK_TOKENS

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._words = np.random.default_rng(1).standard_normal((WORDS, self.dimensions), np.float32)
        self._topics = np.random.default_rng(2).standard_normal((TOPICS, self.dimensions), np.float32)
        self.disk_bytes = self.n_chunks = 0
        self.seconds = 0.0

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        self.record()
        token_vectors, seconds = timed(super().encode_tokens, texts)
        self.seconds += seconds
        self.n_chunks += sum(text.isdecimal() for text in texts)
        return token_vectors

    def _draw(self, text: str, names: Sequence[str]) -> Array:
        rng = self._random(text)
        closeness = 2 * rng.random() if text.isdecimal() else 2
        topic = closeness * self._topics[rng.integers(TOPICS)]
        places = rng.standard_normal((len(names), self.dimensions), np.float32)
        return np.asarray(self._words[[int(name[1:]) for name in names]] + places + topic)

    def record(self) -> None:
        """Bytes of the cache's files, and of deleted ones that are still mapped."""
        files = sum(path.stat().st_size for path in self._cache.rglob("*.arrow"))
        mappings = [line.split() for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
        deleted = {m[5]: m[0].split("-") for m in mappings if m[-1] == "(deleted)" and str(self._cache) in m[5]}
        mapped = sum(int(end, 16) - int(start, 16) for start, end in deleted.values())
        self.disk_bytes = max(self.disk_bytes, files + mapped)


def open_passages(folder: Path) -> tuple[Passages, PublishedSize]:
    encoder = PublishedSize(folder / "cache")
    expected = token_store.source_version("v", f"{encoder.model_id}@{encoder.revision}")
    store = token_store.TokenStore(folder / "store", expected=expected, cache=folder / "cache", max_bytes=CACHE_BYTES)
    return Passages(IndexedCorpus(folder / "index", "made", "v"), store), encoder


def write_corpus(folder: Path, n_chunks: int) -> None:
    corpus(folder / "index", n_chunks, n_chunks, PublishedSize.dimensions)
    encoder = PublishedSize(folder / "cache")
    texts = [str(number) for number in range(n_chunks)]
    token_store.build_store(folder / "store", [texts], encoder, f"{encoder.model_id}@{encoder.revision}", "v")


def describe(what: str, R: int, encoder: PublishedSize, used: Used) -> tuple[str, ...]:
    """A row of the results."""
    encoder.record()
    return (
        what,
        f"{R:,}",
        f"{encoder.n_chunks:,}",
        f"{used.wall:.1f} / {used.cpu:.1f}",
        f"{encoder.seconds:.1f}",
        f"{used.peak:,.0f}",
        f"{used.with_files:,.0f}",
        f"{encoder.disk_bytes / 1e9:.2f}",
    )


def ask(folder: Path, what: str, settings: UscrakeSettings) -> tuple[str, ...]:
    """Rank the pools of the question's options."""
    passages, encoder = open_passages(folder)
    selector = UscrakeSelector(settings, passages, encoder, encoder, LateInteraction(encoder))
    (evidence,), used = measured(lambda: list(selector.select([QUESTION])))
    assert len(evidence) == len(QUESTION.options) * settings.k
    return describe(what, settings.R, encoder, used)


def write_means(folder: Path, what: str, settings: MeanFirstSettings) -> tuple[str, ...]:
    """Write the mean points of all chunks, as the first question does."""
    passages, encoder = open_passages(folder)
    encoded = EncodedPassages(passages.corpus, passages.store, encoder, settings.weighting, settings.titles)
    path = MeanRanking(settings, encoded).path
    _, used = measured(write_chunk_means, path, encoded, get_ground_cost(settings.cost))
    return describe(what, settings.R, encoder, used)


def empty_cache(folder: Path) -> None:
    """Delete the token vectors, and keep the mean points."""
    for segment in (folder / "cache").rglob("*.arrow"):
        segment.unlink()


def encode() -> tuple[str, ...]:
    """Encode chunks with an encoder of BGE-M3's size with random weights, as the product loads and calls it."""
    set_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(find_minilm_folder(), model_max_length=MAX_CHUNK_TOKENS + 2)
    size = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    config = XLMRobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=8194, type_vocab_size=1, **size)
    with tempfile.TemporaryDirectory() as folder:
        save_model(XLMRobertaModel(config), tokenizer, Path(folder))
        encoder = load_encoder(folder)
        texts = []
        for text in texts_of(ENCODED_CHUNKS, WORDS_PER_TEXT, WORDS_PER_TEXT):
            chunk = split_chunks(text, encoder.count_tokens, min(MAX_CHUNK_TOKENS, encoder.max_tokens))[0]
            texts.append(text[chunk.start : chunk.end])
        n_tokens = sum(encoder.count_tokens(texts)) / len(texts)
        encoder.encode_tokens(texts[:1])  # warm-up
        _, used = measured(encoder.encode_tokens, texts)
    what = f"an encoder of BGE-M3's size, for each of {ENCODED_CHUNKS} chunks of {n_tokens:.0f} tokens"
    each = f"{used.wall / len(texts):.2f} / {used.cpu / len(texts):.2f}"
    return (what, "", "", each, "", f"{used.peak:,.0f}", f"{used.with_files:,.0f}", "")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--R", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []

    def add(row: tuple[str, ...]) -> None:
        rows.append(row)
        print(time.strftime("%H:%M:%S"), row, flush=True)

    add(in_new_process(encode))
    for R in options.R:
        exact, mean_first = UscrakeSettings(R=R, **PUBLISHED), MeanFirstSettings(R=R, **PUBLISHED)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            in_new_process(write_corpus, folder, R)
            add(in_new_process(ask, folder, "exact ranking", exact))
            empty_cache(folder)
            add(in_new_process(write_means, folder, "mean points of all chunks, once", mean_first))
            empty_cache(folder)
            add(in_new_process(ask, folder, "mean points first, then the nearest tenth", mean_first))
    print_table(COLUMNS, rows)
    if options.json:
        write_results(options.json, COLUMNS, rows)


if __name__ == "__main__":
    main()
