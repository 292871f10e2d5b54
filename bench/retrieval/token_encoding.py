"""Contextual token vectors of the packaged MiniLM, for benches of transport.

Texts are encoded in buckets of equal length, without padding, and kept in a temporary folder between runs.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evidence_assets.lake.ids import content_id
from evidence_assets.models.inference import find_minilm_folder

BATCH_TOKENS = 4096
MAX_TOKENS = 256


@dataclass(frozen=True)
class Encoded:
    """Word pieces of many texts end to end, without special tokens."""

    vectors: NDArray[np.float16]
    offsets: NDArray[np.int64]
    pieces: list[str]

    def rows(self, text: int) -> slice:
        return slice(int(self.offsets[text]), int(self.offsets[text + 1]))

    def pieces_of(self, text: int) -> list[str]:
        return self.pieces[self.rows(text)]


def encode(texts: list[str]) -> Encoded:
    """The last hidden layer of every word piece."""
    cache = Path(tempfile.gettempdir()) / "evidence-token-vectors" / content_id(3, texts)
    if not (cache / "pieces.json").exists():
        _encode(texts, cache)
    pieces = json.loads((cache / "pieces.json").read_text(encoding="utf-8"))
    return Encoded(np.load(cache / "vectors.npy"), np.load(cache / "offsets.npy"), pieces)


def _encode(texts: list[str], cache: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(find_minilm_folder())
    model: Any = AutoModel.from_pretrained(find_minilm_folder()).eval()
    ids = [tokenizer(text, truncation=True, max_length=MAX_TOKENS)["input_ids"] for text in texts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    vectors: list[Any] = [None] * len(ids)
    with torch.inference_mode():
        for length, group in groupby(order, key=lambda i: len(ids[i])):
            members = list(group)
            step = max(1, BATCH_TOKENS // length)
            for low in range(0, len(members), step):
                batch = members[low : low + step]
                hidden = model(input_ids=torch.tensor([ids[i] for i in batch])).last_hidden_state
                for row, i in enumerate(batch):
                    vectors[i] = hidden[row, 1:-1].numpy().astype(np.float16)
    cache.mkdir(parents=True, exist_ok=True)
    np.save(cache / "vectors.npy", np.concatenate(vectors))
    np.save(cache / "offsets.npy", np.cumsum([0, *(len(rows) for rows in vectors)]))
    pieces = [piece for text in ids for piece in tokenizer.convert_ids_to_tokens(text[1:-1])]
    (cache / "pieces.json").write_text(json.dumps(pieces), encoding="utf-8")
