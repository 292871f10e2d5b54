"""A store of objects at an address such as ``s3://bucket/prefix``, or a folder that several machines share (``file:///…``).

Belongs here: the few things that the lake asks of a store, over the library ``obstore``, and what is told when it cannot be
reached. What objects mean is for ``lake.mirror``.

- A put is whole or not at all: a reader sees the object of before or the new one.
- A get is checked: as many bytes as the store says and, where it keeps what the writer stated, with the same hash.
- Requests that fail for a while (5xx, lost connections) are repeated with growing waits for ``PATIENCE``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import BadInput, StoreUnavailable
from evidence_assets.lake.ids import file_id

ADDRESS = re.compile(r"([a-z][a-z0-9]+):/+(.*)")
"""An address, or what is left of one whose slashes a path has taken for one."""
SCHEMES = ("s3", "gs", "az", "abfs", "file", "memory")
HASH = "blake2b"
"""What a writer states of an object, where the store keeps such words: the hash of ``lake.ids``."""
BLOCK = 16 << 20
"""Bytes that are fetched, or put, at once."""
PATIENCE = timedelta(minutes=3)
"""How long a store may be out of reach before it is given up."""


@dataclass(frozen=True)
class Stored:
    """An object as the store lists it."""

    name: str
    size: int
    tag: str
    """Another one with every put."""
    changed: datetime
    """By the store's clock, which is the same for every machine."""


class Changed(Exception):
    """The object is another one by now, or gone."""


def address_of(place: str | Path) -> str:
    """The address that a text or path is; empty where it is a local path."""
    found = ADDRESS.fullmatch(str(place))
    if found is None:
        return ""
    scheme, rest = found.groups()
    if scheme not in SCHEMES:
        raise BadInput(
            f"{place} is no address of a lake: {', '.join(f'{name}://' for name in SCHEMES[:5])} or a local path"
        )
    return f"{scheme}://{'/' if scheme == 'file' else ''}{rest.strip('/')}"


class ObjectStore:
    """The objects below one address."""

    def __init__(self, address: str) -> None:
        self.address = address

    @cached_property
    def _library(self) -> Any:
        try:
            import obstore
        except ImportError as error:
            raise BadInput(f"{self.address} needs a package: pip install 'evidence-assets[cloud]'") from error
        return obstore

    @cached_property
    def _store(self) -> Any:
        library = self._library.store
        scheme, _, rest = self.address.partition("://")
        if scheme == "memory":
            return library.MemoryStore()
        if scheme == "file":
            Path(rest).mkdir(parents=True, exist_ok=True)
            return library.LocalStore(rest, automatic_cleanup=True)
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT") or ""
        return library.from_url(
            self.address,
            client_options={"timeout": "120s", "allow_http": endpoint.startswith("http://")},
            retry_config={
                "max_retries": 1_000_000,  # only time ends them
                "retry_timeout": PATIENCE,
                # Each wait is drawn from 0.1 s to `base` times the one before: with the usual 2 they would not grow.
                "backoff": {"base": 6, "max_backoff": timedelta(seconds=8)},
            },
        )

    @property
    def _keeps_words(self) -> bool:
        return not self.address.startswith("file:")

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """Tell of what goes wrong by the address and not by the library's words alone."""
        errors = self._library.exceptions
        try:
            yield
        except (FileNotFoundError, errors.AlreadyExistsError, errors.PreconditionError):
            raise
        except (errors.BaseError, OSError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise StoreUnavailable(
                f"{self.address}/{name}: the store does not answer as it should ({reason}); what was there before is "
                "unchanged: run again when it does"
            ) from error

    def put(self, name: str, content: bytes | Path, *, new: bool = False) -> str | None:
        """Put an object in the place of what is there; returns its tag.

        With ``new`` only where nothing is there; None says that something was.
        """
        stated = file_id(content) if isinstance(content, Path) else hashlib.blake2b(content, digest_size=16).hexdigest()
        with self._asking(name):
            try:
                put = self._library.put(
                    self._store,
                    name,
                    content,
                    attributes={HASH: stated} if self._keeps_words else None,
                    mode="create" if new else "overwrite",
                    use_multipart=None if not new else False,
                    chunk_size=BLOCK,
                )
            except self._library.exceptions.AlreadyExistsError:
                return None
        return str(put["e_tag"])

    def head(self, name: str) -> Stored | None:
        """What the store says of an object; None where there is none."""
        with self._asking(name):
            try:
                return _stored(self._library.head(self._store, name))
            except FileNotFoundError:
                return None

    def get(self, name: str) -> bytes | None:
        """A small object; None where there is none."""
        with self._asking(name):
            try:
                got = self._library.get(self._store, name)
                content = bytes(got.bytes())
            except FileNotFoundError:
                return None
        self._check(name, len(content), got.meta["size"], hashlib.blake2b(content, digest_size=16), got.attributes)
        return content

    def get_range(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        with self._asking(name):
            return bytes(self._library.get_range(self._store, name, start=start, length=length))

    def fetch(self, stored: Stored, into: Path) -> None:
        """Write an object into a local file, block by block.

        Raises Changed where another object is there by now, or none.
        """
        digest, written, attributes = hashlib.blake2b(digest_size=16), 0, {}
        with into.open("wb") as file, self._asking(stored.name):
            while written < stored.size or not written:
                options: dict[str, Any] = {"if_match": stored.tag}
                if stored.size > BLOCK:
                    options["range"] = (written, min(written + BLOCK, stored.size))
                try:
                    got = self._library.get(self._store, stored.name, options=options)
                    block = bytes(got.bytes())
                except (FileNotFoundError, self._library.exceptions.PreconditionError) as error:
                    raise Changed(stored.name) from error
                attributes = got.attributes
                digest.update(block)
                written += file.write(block)
                if not block:
                    break
        self._check(stored.name, written, stored.size, digest, attributes)

    def _check(self, name: str, size: int, wanted: int, digest: Any, attributes: Any) -> None:
        stated = attributes.get(HASH, digest.hexdigest())
        if size != wanted or stated != digest.hexdigest():
            raise StoreUnavailable(
                f"{self.address}/{name} arrived with {size:,} of {wanted:,} bytes and the hash {digest.hexdigest()}, its writer "
                f"stated {stated}: run again; if it stays so, make its asset again"
            )

    def listed(self, below: str = "") -> list[Stored]:
        """Every object below a folder, by name."""
        with self._asking(below):
            found = [_stored(meta) for chunk in self._library.list(self._store, below or None) for meta in chunk]
        return sorted(found, key=lambda stored: stored.name)

    def names(self, folder: str) -> list[str]:
        """Names of the folders and objects right below a folder."""
        with self._asking(folder):
            found = self._library.list_with_delimiter(self._store, folder)
        paths = [*found["common_prefixes"], *(meta["path"] for meta in found["objects"])]
        return sorted(path.removeprefix(f"{folder}/") for path in paths)

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; it does not matter whether they are there."""
        for name in names:
            with self._asking(name):
                try:
                    self._library.delete(self._store, name)
                except FileNotFoundError:
                    continue


def _stored(meta: Any) -> Stored:
    return Stored(str(meta["path"]), int(meta["size"]), str(meta["e_tag"]), meta["last_modified"])
