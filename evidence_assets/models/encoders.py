"""Encoders of texts: pooled sentence vectors and contextual token vectors.

A vector depends only on its text (see ``models.inference``): on a CPU bit for bit, on CUDA if the library uses one
kernel for both batch sizes. Torch is imported when an encoder is loaded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.inference import (
    MINILM_SHA256,
    Result,
    explain_load_errors,
    find_minilm_folder,
    kernel_name,
    map_batches,
    max_input_tokens,
    model_revision,
    pretrained_options,
    require_numbers,
    resolve_device,
)
from evidence_assets.models.protocols import FloatArray, TokenVectors

if TYPE_CHECKING:
    import torch

EMBEDDED_ENCODER = "embedded-minilm"
"""Name of the encoder whose weights are installed by pip."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MIN_PRODUCT_ROWS = 16
"""Smaller float32 products use a CPU kernel that rounds differently (measured below 6 rows)."""
_AMX_ROWS = 128
"""Rows of every bfloat16 product on a CPU with AMX, where sums depend on the number of rows."""


def load_encoder(
    name: str, *, revision: str | None = None, device: str = "auto", dtype: str = "auto"
) -> TransformerEncoder:
    """Load an encoder by name.

    ``name``: ``embedded-minilm`` for the installed weights, a model folder (revision: its content hash), or a Hugging
        Face name.
    ``dtype``: ``auto`` selects bfloat16 on CUDA, and for the embedded encoder on CPUs that multiply it natively (two to
        three times as fast, cosine to the float32 vector above 0.999); otherwise float32.
    """
    import torch

    device = resolve_device(device)
    if dtype == "auto":
        is_native = device == "cpu" and name == EMBEDDED_ENCODER and _cpu_has("avx512_bf16")
        dtype = "bfloat16" if is_native or device.startswith("cuda") else "float32"
    uses_amx = device == "cpu" and dtype == "bfloat16" and _cpu_has("amx_bf16")
    if name == EMBEDDED_ENCODER:
        model = _load_packaged(device, getattr(torch, dtype))
        known_revision = MINILM_SHA256[:12]
    else:
        model = _load_sentence_transformer(name, revision, device, getattr(torch, dtype))
        known_revision = model_revision(name, revision)
    if device == "cpu":
        _pad_products(model.network, uses_amx)
    return TransformerEncoder(name, f"{known_revision}-{dtype}{'_amx' * uses_amx}", model)


def encoder_folder(name: str) -> str:
    """The folder of the installed encoder for its name; other names, or folders, unchanged."""
    return str(find_minilm_folder()) if name == EMBEDDED_ENCODER else name


def _cpu_has(feature: str) -> bool:
    """Whether this CPU has an instruction set: ``avx512_bf16`` (emulated bfloat16 is slow) or ``amx_bf16``."""
    import torch

    return bool(torch.cpu.get_capabilities().get(feature))


@dataclass(frozen=True)
class LoadedModel:
    """The parts of an encoder: network, tokenizer and pooling."""

    network: Any
    tokenizer: Tokenizer
    device: torch.device
    dimensions: int
    max_tokens: int
    """Longest input, including special tokens."""
    pool: Callable[[torch.Tensor], torch.Tensor]
    """One vector per text from its token vectors, scaled to unit length if the model does so."""
    pool_unscaled: Callable[[torch.Tensor], torch.Tensor]


def _load_packaged(device: str, dtype: torch.dtype) -> LoadedModel:
    """The packaged MiniLM, without transformers: its import would double the time of a first answer."""
    import torch

    from evidence_assets.models.bert import Bert

    folder = find_minilm_folder()
    network = Bert(folder, dtype).eval().to(device)
    settings = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))

    def pool(hidden: torch.Tensor) -> torch.Tensor:
        return hidden.sum(1) / hidden.shape[1]

    return LoadedModel(
        network=network,
        tokenizer=Tokenizer.from_file(str(folder / "tokenizer.json")),
        device=torch.device(device),
        dimensions=int(network.config.hidden_size),
        max_tokens=int(settings["max_seq_length"]),
        pool=lambda hidden: torch.nn.functional.normalize(pool(hidden), dim=1),
        pool_unscaled=pool,
    )


def _load_sentence_transformer(name: str, revision: str | None, device: str, dtype: torch.dtype) -> LoadedModel:
    options = pretrained_options(name, revision)
    from sentence_transformers import SentenceTransformer

    with explain_load_errors(f"the encoder {name!r}"):
        model = SentenceTransformer(name, device=device, model_kwargs={"dtype": dtype}, **options)
    if not getattr(model.tokenizer, "is_fast", False):
        raise ModelUnavailable(
            f"the tokenizer of {name!r} has no character offsets. Add its tokenizer.json to the model folder"
        )
    model.eval()
    pooling = list(model)[1:]
    for module in pooling:
        module.float()  # pooling sums over tokens, for which bfloat16 is too coarse
    return LoadedModel(
        network=model[0].auto_model,
        tokenizer=model.tokenizer.backend_tokenizer,
        device=model.device,
        dimensions=int(model.get_embedding_dimension()),
        max_tokens=max_input_tokens(model[0].auto_model.config, model.max_seq_length),
        pool=lambda hidden: _pool(hidden, pooling),
        # by name, as each major release has this class in another module
        pool_unscaled=lambda hidden: _pool(hidden, [m for m in pooling if type(m).__name__ != "Normalize"]),
    )


def _pad_products(network: Any, uses_amx: bool) -> None:
    """Make every linear layer multiply a round number of rows (:func:`row_multiple`), or blocks of ``_AMX_ROWS``."""
    import torch

    class PaddedLinear(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            rows = inputs.flatten(0, -2)
            multiple = _AMX_ROWS if uses_amx else row_multiple(len(rows))
            padded = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % multiple))
            if uses_amx:
                blocks = padded.view(-1, _AMX_ROWS, padded.shape[1])
                products = torch.cat([super(PaddedLinear, self).forward(block) for block in blocks])
            else:
                products = super().forward(padded)
            return products[: len(rows)].view(*inputs.shape[:-1], -1)

    for module in network.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = PaddedLinear


def row_multiple(tokens: int) -> int:
    """Products of ``tokens`` rows are padded with zeros to a multiple of this number (by at most an eighth above 16).

    oneDNN caches kernels for every number of rows, 1.7 MB for the embedded encoder. Half of that is never freed.

    >>> row_multiple(20), row_multiple(300), row_multiple(2000)
    (16, 32, 128)
    """
    return max(_MIN_PRODUCT_ROWS, 1 << max(0, tokens.bit_length() - 4))


class TransformerEncoder:
    """An encoder that runs without padding. Its revision includes the dtype.

    Control tokens in a text, such as ``[SEP]``, are read as plain text, lone surrogates as U+FFFD.
    """

    def __init__(self, model_id: str, revision: str, model: LoadedModel) -> None:
        self._model = model
        self._device = model.device
        self._keeps_vectors = model.device.type == "cuda"
        self._tokenizer = model.tokenizer
        self.model_id = model_id
        self.revision = f"{revision}-{kernel_name(str(self._device))}"
        self._tokenizer.no_truncation()  # stored settings of many models truncate silently
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self._n_special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self.dimensions = model.dimensions
        self.max_tokens = model.max_tokens - self._n_special

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text, without special tokens."""
        return [len(encoding) - self._n_special for encoding in self._tokenize(texts, offsets=False)]

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Surface forms of each text's tokens, without special tokens."""
        encodings = self._tokenize(texts)
        return [tuple(compress(e.tokens, np.equal(e.special_tokens_mask, 0))) for e in encodings]

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Pooled, L2-normalised vectors, n × d."""
        return _scale_to_unit(self._pool_texts(texts, self._model.pool))

    def pool_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Pooled vectors before they are scaled to unit length, n × d."""
        return self._pool_texts(texts, self._model.pool_unscaled)

    def _pool_texts(self, texts: Sequence[str], pool: Callable[[torch.Tensor], torch.Tensor]) -> FloatArray:
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for rows, hidden in self._batches(self._encode(texts, offsets=False), pool):
            vectors[rows] = hidden.cpu().numpy()
        require_numbers(vectors, self.model_id)
        return vectors

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Last hidden layer of each text's tokens, with the tokenizer's surface forms; a card keeps the vectors."""
        return self._read_tokens(texts, 1, is_kept=self._keeps_vectors)

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        """The last ``layers`` hidden layers of each text's tokens, concatenated, the last one at the end."""
        available = int(self._model.network.config.num_hidden_layers) + 1
        if not 1 <= layers <= available:
            raise BadInput(f"{self.model_id} has {available} layers including the embeddings. Ask for 1 to {available}")
        return self._read_tokens(texts, layers)

    def encode_with_tokens(self, texts: Sequence[str]) -> tuple[FloatArray, list[TokenVectors]]:
        """The results of ``encode_sentences`` and ``encode_tokens``, in one pass."""
        pooled = np.empty((len(texts), self.dimensions), np.float32)
        tokens = self._read_tokens(texts, 1, pooled)
        return _scale_to_unit(pooled), tokens

    def _read_tokens(
        self, texts: Sequence[str], layers: int, pooled: FloatArray | None = None, *, is_kept: bool = False
    ) -> list[TokenVectors]:
        """Token vectors of the last layers, kept on the device too; pooled vectors are written to ``pooled``."""
        encodings = self._encode(texts)
        results: list[TokenVectors | None] = [None] * len(texts)
        pool = self._model.pool if pooled is not None else lambda hidden: hidden
        for rows, (hidden, vectors_of_texts) in self._batches(encodings, lambda h: (h, pool(h)), layers):
            batch = hidden.cpu().numpy()
            require_numbers(batch, self.model_id)
            if pooled is not None:
                pooled[rows] = vectors_of_texts.cpu().numpy()
            halves = hidden.half() if is_kept else [None] * len(rows)
            for row, vectors, on_device in zip(rows, batch, halves, strict=True):
                results[row] = _text_tokens(encodings[row], vectors, on_device)
        return [result for result in results if result is not None]

    def _tokenize(self, texts: Sequence[str], *, offsets: bool = True) -> list[Any]:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # avoids warnings when the process forks
        encode_batch = self._tokenizer.encode_batch if offsets else self._tokenizer.encode_batch_fast
        encodings: list[Any] = encode_batch([_LONE_SURROGATE.sub("\ufffd", text) for text in texts])
        return encodings

    def _encode(self, texts: Sequence[str], *, offsets: bool = True) -> list[Any]:
        encodings = self._tokenize(texts, offsets=offsets)
        for text, encoding in zip(texts, encodings, strict=True):
            if len(encoding) - self._n_special > self.max_tokens:
                raise BadInput(
                    f"a text of {len(encoding) - self._n_special} tokens is longer than the {self.max_tokens} that "
                    f"{self.model_id} reads. Split it into chunks (it begins {text[:60]!r})"
                )
        return encodings

    def _batches(
        self, encodings: list[Any], finish: Callable[[torch.Tensor], Result], layers: int = 1
    ) -> Iterator[tuple[list[int], Result]]:
        """Yield (rows of equal token count, ``finish`` of their token vectors), longest first.

        ``finish`` runs on the batch's thread: torch kernels on the caller's thread would start busy-waiting threads.
        """
        import torch

        network = self._model.network

        def run(rows: list[int]) -> Result:
            ids = torch.tensor([encodings[row].ids for row in rows], device=self._device)
            with torch.inference_mode():
                # called directly, because its wrapper inspects the signature in every batch
                if layers == 1:
                    hidden: torch.Tensor = network(input_ids=ids)[0]
                else:
                    states = network(input_ids=ids, output_hidden_states=True).hidden_states
                    hidden = torch.cat(states[-layers:], dim=-1)
                return finish(hidden[: len(rows)].float())

        return map_batches([len(encoding) for encoding in encodings], run, self._device.type)


def _text_tokens(encoding: Any, vectors: FloatArray, on_device: torch.Tensor | None) -> TokenVectors:
    """The tokens of a text without special tokens, from the vectors of all."""
    is_text = np.equal(encoding.special_tokens_mask, 0)
    return TokenVectors(
        vectors=np.ascontiguousarray(vectors[is_text], dtype=np.float32),
        offsets=np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)[is_text],
        tokens=tuple(compress(encoding.tokens, is_text)),
        on_device=None if on_device is None else on_device[is_text],
    )


def _scale_to_unit(vectors: FloatArray) -> FloatArray:
    import torch

    return torch.nn.functional.normalize(torch.from_numpy(vectors), dim=-1).numpy()


def _pool(hidden: torch.Tensor, modules: Sequence[Any]) -> torch.Tensor:
    """Apply the modules after the network to token vectors: one vector per text."""
    features: dict[str, Any] = {"token_embeddings": hidden}
    for module in modules:
        features = module(features)
    pooled: torch.Tensor = features["sentence_embedding"]
    return pooled
