"""Identifiers: blake2b (128 bit, hex) of the canonical form of content: equal content, equal id."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if type(value) is str:  # nearly all of what ids are made of
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def canonical_bytes(value: Any) -> bytes:
    """Bytes that are equal for equal content: JSON with sorted keys, no spaces, UTF-8 with lone surrogates."""
    return _ENCODER.encode(_plain(value)).encode("utf-8", errors="surrogatepass")


def key_for_model(key: str, model: str) -> str:
    """Key of an asset as this model makes it; a model that needs no naming, as the profile's first, is empty here."""
    return f"{key}/{model}" if model else key


def content_id(*parts: Any) -> str:
    """Id of the content ``parts``, in this order."""
    return hashlib.blake2b(canonical_bytes(parts), digest_size=16).hexdigest()


def file_id(path: Path) -> str:
    """Id of a file's bytes, read in blocks."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def short_id(identifier: str) -> str:
    """The beginning of a hash; a source's own id, which is none, as it stands."""
    return identifier[:12] if len(identifier) == 32 and not set(identifier) - set("0123456789abcdef") else identifier


def shard_of(identifier: str, shards: int) -> int:
    """Stable shard of an id (a hex string), the same on every machine."""
    return int(identifier[:8], 16) % shards
