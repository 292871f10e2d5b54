"""Identifiers: blake2b hashes (128 bit, hex) of canonical content. Equal content has an equal id."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=np.generic.item
)

_MEGABYTE = 1 << 20


def key_for_model(key: str, model: str) -> str:
    """Asset key of a model's version of an asset; ``model`` is empty for the profile's default model."""
    return f"{key}/{model}" if model else key


def content_id(*parts: Any) -> str:
    """Id of the content ``parts``; their order matters."""
    canonical = _ENCODER.encode(parts).encode("utf-8", errors="surrogatepass")
    return hashlib.blake2b(canonical, digest_size=16).hexdigest()


def file_id(path: Path) -> str:
    """Id of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, partial(hashlib.blake2b, digest_size=16)).hexdigest()


def file_fingerprint(path: Path) -> str:
    """Id of a large file by its size, its first and its last megabyte, as reading all of it takes seconds."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        first = stream.read(_MEGABYTE)
        stream.seek(max(0, size - _MEGABYTE))
        last = stream.read(_MEGABYTE)
    return content_id("fingerprint", size, first.hex(), last.hex())


def short_id(identifier: str) -> str:
    """The first 12 digits of a hash; other ids unchanged."""
    return identifier[:12] if len(identifier) == 32 and not set(identifier) - set("0123456789abcdef") else identifier


def shard_of(identifier: str, shards: int) -> int:
    """Stable shard of an id (a hex string), the same on every machine."""
    return int(identifier[:8], 16) % shards
