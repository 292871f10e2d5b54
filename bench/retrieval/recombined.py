"""A corpus of any size out of real sentences put together anew, and an encoder that knows their vectors already.

Belongs here: what `bench.retrieval.scale` needs to have a million chunks without encoding each. The sentences are
those of HotpotQA's passages, PubMedQA's abstracts and OpenBookQA's facts in `EVIDENCE_DEV_DATA`; each is encoded once,
for real. A text made of them gets the mean of its sentences' vectors, and their token vectors one after another: what
a network would give but for the words of other sentences. Every document has a title of its own, so that the
vocabulary grows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.dev_data import dev_data, hotpotqa_pages, hotpotqa_rows
from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import FloatArray, TokenVectors
from evidence_assets.models.vectors import unit_rows
from evidence_assets.text.sentences import sentence_spans

BETWEEN = "\n"
"""Stands between the sentences of a document: by it a chunk is taken apart again."""
LONGEST = 60
"""Sentences of more tokens are left out, so that none is ever cut."""
SENTENCES_A_DOCUMENT = 40
DOCUMENTS_A_FILE = 2_000


def _texts(folder: Path) -> Iterator[str]:
    for passage in hotpotqa_pages().values():
        yield " ".join(passage)
    for name in ("ori_pqal.json", "ori_pqal_not_test.json"):
        for abstract in json.loads((folder / "pubmedqa" / name).read_text(encoding="utf-8")).values():
            yield from abstract["CONTEXTS"]
    for line in (folder / "obqa" / "Data" / "Main" / "openbook.txt").read_text(encoding="utf-8").splitlines():
        yield line.strip().strip('"') + "."


def questions() -> list[str]:
    """Real questions: those of HotpotQA's and PubMedQA's subsets, the first of each before the second."""
    pubmed = json.loads((dev_data() / "pubmedqa" / "ori_pqal.json").read_text(encoding="utf-8")).values()
    pairs = zip(hotpotqa_rows(), pubmed, strict=False)
    return [text for hotpot, abstract in pairs for text in (hotpot["question"], abstract["QUESTION"])]


class Recombined:
    """The encoder: vectors of known sentences are read, other texts (questions, titles) are encoded."""

    def __init__(self, folder: Path) -> None:
        self._encoder = load_encoder(EMBEDDED_ENCODER)
        self.model_id, self.revision = f"recombined-{self._encoder.model_id}", self._encoder.revision
        self.dimensions, self.max_tokens = self._encoder.dimensions, self._encoder.max_tokens
        if not folder.is_dir():
            self._write(folder)
        self.texts: list[str] = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
        self._place = {text: i for i, text in enumerate(self.texts)}
        self._vectors, self._tokens, self._spans, self._bounds = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("vectors", "tokens", "spans", "bounds")
        )
        self._pieces: list[list[str]] = json.loads((folder / "pieces.json").read_text(encoding="utf-8"))

    def _write(self, folder: Path) -> None:
        data = dev_data()
        known_words = dict.fromkeys(
            " ".join(text[a:b].split()) for text in _texts(data) for a, b in sentence_spans(" ".join(text.split()))
        )
        counts = self._encoder.count_tokens(list(known_words))
        # One that is read as two when it stands alone would be cut where no known sentence ends.
        kept_words = [
            text
            for text, count in zip(known_words, counts, strict=True)
            if 4 <= count <= LONGEST and len(sentence_spans(text)) == 1 and text[-1] in ".!?"
        ]
        tokens = self._encoder.encode_tokens(kept_words)
        with replacing_folder(folder) as temporary:
            (temporary / "sentences.json").write_text(json.dumps(kept_words), encoding="utf-8")
            (temporary / "pieces.json").write_text(json.dumps([t.tokens for t in tokens]), encoding="utf-8")
            np.save(temporary / "vectors.npy", self._encoder.encode_sentences(kept_words))
            np.save(temporary / "tokens.npy", np.concatenate([t.vectors for t in tokens]).astype(np.float16))
            np.save(temporary / "spans.npy", np.concatenate([t.offsets for t in tokens]))
            np.save(temporary / "bounds.npy", np.cumsum([0, *(len(t.tokens) for t in tokens)]))

    def chunks_a_document(self, tokens: int) -> float:
        """About how many chunks of so many tokens a document is cut into."""
        return SENTENCES_A_DOCUMENT / (tokens / (len(self._tokens) / len(self.texts)) - 0.5)

    def _places(self, text: str) -> list[int] | None:
        """The sentences that a text is made of; None where it is another text."""
        places = [self._place.get(sentence) for sentence in text.split(BETWEEN)]
        return None if None in places else [place for place in places if place is not None]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        positions = [self._places(text) for text in texts]
        others = iter(self._encoder.count_tokens([t for t, p in zip(texts, positions, strict=True) if p is None]))
        return [next(others) if p is None else sum(len(self._pieces[i]) for i in p) for p in positions]

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Surface forms of the tokens of each text."""
        positions = [self._places(text) for text in texts]
        others = iter(self._encoder.split_tokens([t for t, p in zip(texts, positions, strict=True) if p is None]))
        return [next(others) if p is None else tuple(form for i in p for form in self._pieces[i]) for p in positions]

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        positions = [self._places(text) for text in texts]
        others = iter(self._encoder.encode_sentences([t for t, p in zip(texts, positions, strict=True) if p is None]))
        rows = [next(others) if p is None else self._vectors[p].mean(axis=0) for p in positions]
        return unit_rows(np.stack(rows)).astype(np.float32)

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        positions = [self._places(text) for text in texts]
        others = iter(self._encoder.encode_tokens([t for t, p in zip(texts, positions, strict=True) if p is None]))
        return [next(others) if p is None else self._joined(p) for p in positions]

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[FloatArray, list[TokenVectors]]:
        return self.encode_sentences(texts), self.encode_tokens(texts)

    def _joined(self, places: Sequence[int]) -> TokenVectors:
        vectors, spans, start = [], [], 0
        for place in places:
            rows = slice(int(self._bounds[place]), int(self._bounds[place + 1]))
            vectors.append(np.asarray(self._tokens[rows], np.float32))
            spans.append(np.asarray(self._spans[rows]) + start)
            start += len(self.texts[place]) + len(BETWEEN)
        pieces = tuple(form for place in places for form in self._pieces[place])
        return TokenVectors(np.concatenate(vectors), np.concatenate(spans).astype(np.int32), pieces)


def write_documents(folder: Path, sentences: Sequence[str], documents: int) -> None:
    """Documents in Parquet shards as of Wikipedia; the first files are the same whatever the number of documents."""
    folder.mkdir(parents=True)
    for first in range(0, documents, DOCUMENTS_A_FILE):
        rng = np.random.default_rng(first)
        numbers = range(first, min(first + DOCUMENTS_A_FILE, documents))
        texts = [
            BETWEEN.join(sentences[i] for i in rng.integers(0, len(sentences), SENTENCES_A_DOCUMENT)) for _ in numbers
        ]
        columns = {"id": [str(n) for n in numbers], "title": [f"Page {_name(n)}" for n in numbers], "text": texts}
        pq.write_table(pa.table(columns), folder / f"{first:09d}.parquet")


def _name(number: int) -> str:
    """A word that no other number has.

    >>> _name(0), _name(27)
    ('Qa', 'Qbb')
    """
    letters, quotient = "", number
    while quotient or not letters:
        letters, quotient = chr(ord("a") + quotient % 26) + letters, quotient // 26
    return f"Q{letters}"
