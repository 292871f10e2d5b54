"""Masked language models of Hugging Face that implement ``models.protocols.MaskedLM``."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.lake.ids import file_id
from evidence_assets.models.inference import (
    WEIGHTS_FILE,
    PretrainedModel,
    equal_length_batches,
    fill_up,
    kernel_name,
    map_single_threaded,
    max_input_tokens,
    require_numbers,
)
from evidence_assets.models.protocols import FloatArray, WordContext, WordVectors
from evidence_assets.text.prompt_text import MASK_SLOT
from evidence_assets.text.words import is_word


@dataclass(frozen=True)
class _Encoded:
    """Token ids of a text, the number of each token's word (None for special tokens), and the words."""

    ids: list[int]
    word_of: list[int | None]
    words: dict[int, str]

    def words_by_position(self) -> list[tuple[int, int]]:
        """(position, word) of the tokens of words."""
        return [(i, word) for i, word in enumerate(self.word_of) if word is not None and word in self.words]

    def mask_from(self, start: int, mask_id: int, context: WordContext) -> list[int]:
        """Token ids with the rest of a word masked; for the context ``left``, also all later words."""
        word = self.word_of[start]
        return [
            mask_id if i >= start and other is not None and (context == "left" or other == word) else piece
            for i, (piece, other) in enumerate(zip(self.ids, self.word_of, strict=True))
        ]


class _Target(NamedTuple):
    """A token whose log-probability at a position of a row of token ids is part of that of a word of a text."""

    row: list[int]
    position: int
    piece: int
    text: int
    word: int


class HFMaskedLM:
    """A Hugging Face masked language model with WordPiece, whole-word, byte-level BPE or SentencePiece tokens.

    Texts of equal token count form batches without padding. Tokenizers that mark spaces read every text with a leading
    space, so that the first word of a sentence has the same token as elsewhere.

    ``batch_size``: Maximum texts of a forward pass.
    """

    def __init__(
        self, model: Any, tokenizer: Any, model_id: str, revision: str = "", batch_size: int = 512, device: str = "cpu"
    ) -> None:
        require_mask(tokenizer, model_id)
        self._model = model.to(device).eval()
        self._tokenizer = tokenizer
        self._mask_id = tokenizer.mask_token_id  # the tokenizer looks it up by name each time
        # the wrapper's call also copies each encoding into lists, which took a sixth of a harvest
        self._backend = tokenizer.backend_tokenizer
        self._backend.no_truncation()
        self._backend.no_padding()
        self._device = torch.device(device)
        self._batch_size = batch_size
        self._selection = threading.local()
        self._model.base_model.register_forward_hook(self._select_positions)
        self._max_tokens = max_input_tokens(model.config)
        self.model_id = model_id
        self.revision = f"{revision}-{kernel_name(device)}"
        marker = find_word_marker(tokenizer)
        self._prefix = " " if marker else ""
        self.vocabulary, self._pieces = list_whole_words(tokenizer, marker)

    @classmethod
    def load(
        cls, name: str | Path, *, model_id: str | None = None, revision: str | None = None, device: str = "auto"
    ) -> HFMaskedLM:
        """Load from a folder (revision: the hash of its weights) or a hub name; reads only safetensors."""
        from transformers import AutoModelForMaskedLM

        options = {"use_safetensors": True, "dtype": torch.float32}
        loaded = PretrainedModel(AutoModelForMaskedLM, str(name), revision=revision, device=device, **options)
        weights = Path(name) / WEIGHTS_FILE
        known_revision = file_id(weights) if weights.is_file() else loaded.revision
        model_id = model_id or loaded.model_id
        return cls(loaded.network, loaded.tokenizer, model_id, known_revision, device=loaded.device)

    def slot_log_probs(
        self, texts: Sequence[str], slots: Sequence[int], words: npt.NDArray[np.intp] | None = None
    ) -> FloatArray:
        pieces = self._pieces if words is None else self._pieces[words]
        columns = torch.as_tensor(pieces, dtype=torch.long, device=self._device)
        rows = [encoding.ids for _, encoding in self._tokenize(texts)]
        positions = []
        for text, slot, ids in zip(texts, slots, rows, strict=True):
            masks = [position for position, piece in enumerate(ids) if piece == self._mask_id]
            if not 0 <= slot < len(masks):
                raise ValueError(f"slot {slot} is not in a text with {len(masks)} masked slots: {text!r}")
            positions.append(masks[slot])
        out = np.empty((len(texts), len(pieces)), dtype=np.float32)
        return self._map_log_probs(rows, positions, lambda _, log_probs: log_probs.index_select(1, columns), out)

    def fill_log_probs(
        self, texts: Sequence[str], words: Sequence[Sequence[str]], slots: Sequence[Sequence[int]]
    ) -> list[FloatArray]:
        targets: list[_Target] = []
        for index, (_, encoding) in enumerate(self._tokenize(texts)):
            targets += self._fill_slots(index, encoding.ids, words[index], slots[index])
        if (longest := max((len(target.row) for target in targets), default=0)) > self._max_tokens:
            raise ValueError(f"{self.model_id} reads {self._max_tokens} tokens, but a filled text has {longest}")
        sums = [np.zeros(len(text_words), dtype=np.float32) for text_words in words]
        for target, value in zip(targets, self._target_log_probs(targets), strict=True):
            sums[target.text][target.word] += value
        return sums

    def _fill_slots(
        self, text: int, ids: Sequence[int], words: Sequence[str], slots: Sequence[int]
    ) -> Iterator[_Target]:
        """Yield a target for each token of the words that fill the slots of a text one after another."""
        pieces = [self._backend.encode(self._prefix + word, add_special_tokens=False).ids for word in words]
        widths = dict(zip(slots, map(len, pieces), strict=True))
        row, ranges = _widen_masks(ids, self._mask_id, widths)
        for word, slot in enumerate(slots):
            for position, piece in zip(ranges[slot], pieces[word], strict=True):
                yield _Target(list(row), position, piece, text, word)
                row[position] = piece

    def word_vectors(self, texts: Sequence[str]) -> list[WordVectors]:
        encoded = self._encode(texts)
        results: dict[int, WordVectors] = {}

        def run(group: list[int]) -> FloatArray:
            with torch.inference_mode():
                states = self._model.base_model(**self._inputs([encoded[i].ids for i in group])).last_hidden_state
            hidden: FloatArray = states[: len(group)].float().cpu().numpy()
            return hidden

        for group, hidden in self._map_groups(run, [item.ids for item in encoded]):
            results |= {i: _pool_words(encoded[i], hidden[row]) for row, i in enumerate(group)}
        return [results[i] for i in range(len(texts))]

    def word_log_probs(self, texts: Sequence[str], context: WordContext = "both") -> list[FloatArray]:
        targets = [
            _Target(item.mask_from(position, self._mask_id, context), position, item.ids[position], text, word)
            for text, item in enumerate(self._encode(texts))
            for position, word in item.words_by_position()
        ]
        sums: list[dict[int, float]] = [{} for _ in texts]
        for target, score in zip(targets, self._target_log_probs(targets), strict=True):
            sums[target.text][target.word] = sums[target.text].get(target.word, 0.0) + float(score)
        return [np.asarray(list(total.values()), dtype=np.float32) for total in sums]

    def find_unknown_words(self, text: str) -> tuple[str, ...]:
        unknown_id = self._tokenizer.unk_token_id
        [encoded] = self._encode([text])
        words = {word for piece, word in zip(encoded.ids, encoded.word_of, strict=True) if piece == unknown_id}
        return tuple(sorted(encoded.words[word] for word in words if word in encoded.words))

    def _encode(self, texts: Sequence[str]) -> list[_Encoded]:
        return [_group_words(text, encoding) for text, encoding in self._tokenize(texts)]

    def _tokenize(self, texts: Sequence[str]) -> list[tuple[str, Any]]:
        """Each text as given to the tokenizer, and its encoding."""
        if not texts:
            return []
        mask = self._tokenizer.mask_token
        inputs = [self._prefix + text.replace(MASK_SLOT, mask) for text in texts]
        result = []
        for text, masked_text, encoding in zip(texts, inputs, self._backend.encode_batch(inputs), strict=True):
            ids = encoding.ids
            if len(ids) > self._max_tokens:
                raise ValueError(
                    f"{self.model_id} reads {self._max_tokens} tokens, but this text has {len(ids)}: {text!r}"
                )
            if ids.count(self._mask_id) != text.count(MASK_SLOT):
                raise ValueError(f"the text contains the model's mask token {mask!r}: {text!r}. Remove it")
            result.append((masked_text, encoding))
        return result

    def _map_groups(
        self, run: Callable[[list[int]], FloatArray], rows: Sequence[Sequence[int]]
    ) -> Iterator[tuple[list[int], FloatArray]]:
        """Yield (group, ``run(group)``) for groups of rows of equal length."""
        groups = list(equal_length_batches([len(row) for row in rows], lambda _: self._batch_size))
        for group, values in zip(groups, map_single_threaded(run, groups, self._device.type), strict=True):
            require_numbers(values, self.model_id)
            yield group, values

    def _map_log_probs(
        self,
        rows: Sequence[Sequence[int]],
        positions: Sequence[int],
        select: Callable[[list[int], torch.Tensor], torch.Tensor],
        out: FloatArray,
    ) -> FloatArray:
        """Fill ``out`` with the selected log-probabilities at one position of each row."""

        def run(group: list[int]) -> FloatArray:
            log_probs = self._log_probs([rows[i] for i in group], [positions[i] for i in group])
            selected: FloatArray = select(group, log_probs).cpu().numpy()
            return selected

        for group, selected in self._map_groups(run, rows):
            out[group] = selected
        return out

    def _target_log_probs(self, targets: Sequence[_Target]) -> FloatArray:
        def select(group: list[int], log_probs: torch.Tensor) -> torch.Tensor:
            columns = torch.as_tensor([targets[i].piece for i in group], device=self._device)
            return log_probs.gather(1, columns[:, None])[:, 0]

        out = np.zeros(len(targets), dtype=np.float32)
        return self._map_log_probs([t.row for t in targets], [t.position for t in targets], select, out)

    def _log_probs(self, rows: Sequence[Sequence[int]], positions: Sequence[int]) -> torch.Tensor:
        """Log-probabilities of all tokens at one position of each row."""
        self._selection.positions = torch.as_tensor(fill_up(positions), device=self._device)
        try:
            with torch.inference_mode():
                logits = self._model(**self._inputs(rows)).logits[: len(rows), 0].float()
                return torch.log_softmax(logits, dim=-1)
        finally:
            del self._selection.positions

    def _select_positions(self, module: Any, inputs: Any, output: Any) -> Any:
        """Forward hook: pass only the hidden states of the selected positions to the head."""
        positions = getattr(self._selection, "positions", None)
        if positions is not None:
            hidden = output.last_hidden_state
            output.last_hidden_state = hidden[torch.arange(len(hidden), device=self._device), positions][:, None]
        return output

    def _inputs(self, rows: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
        ids = torch.as_tensor(fill_up(rows), dtype=torch.long, device=self._device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def require_mask(tokenizer: Any, model_id: str) -> None:
    """Raise ModelUnavailable for a tokenizer without offsets or mask token."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelUnavailable(f"{model_id}: the tokenizer has no character offsets; load its fast version")
    if tokenizer.mask_token_id is None:
        raise ModelUnavailable(f"{model_id} has no mask token; K-Bloom needs a masked language model such as BERT")


def find_word_marker(tokenizer: Any) -> str:
    """Prefix of tokens that start a word; empty for WordPiece and whole words."""
    kind = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["type"]
    if kind in {"WordPiece", "WordLevel"}:
        return ""
    return "Ġ" if any(piece.startswith("Ġ") for piece in tokenizer.get_vocab()) else "▁"


def list_whole_words(tokenizer: Any, marker: str) -> tuple[tuple[str, ...], npt.NDArray[np.intp]]:
    special = set(tokenizer.all_special_tokens)
    words: list[str] = []
    pieces: list[int] = []
    for piece, number in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if piece in special or (marker and not piece.startswith(marker)):
            continue
        word = tokenizer.convert_tokens_to_string([piece]).strip() if marker else piece
        if is_word(word):
            words.append(word)
            pieces.append(number)
    return tuple(words), np.asarray(pieces, dtype=np.intp)


def _widen_masks(ids: Sequence[int], mask_id: int, widths: Mapping[int, int]) -> tuple[list[int], list[range]]:
    """Repeat the k-th mask ``widths[k]`` times; returns the ids and the positions of each mask."""
    row: list[int] = []
    ranges: list[range] = []
    for piece in ids:
        if piece == mask_id:
            ranges.append(range(len(row), len(row) + widths[len(ranges)]))
            row += [mask_id] * len(ranges[-1])
        else:
            row.append(piece)
    return row, ranges


def _group_words(text: str, encoding: Any) -> _Encoded:
    """Assign tokens to words; those without a letter or digit have no text."""
    numbers = dict.fromkeys(word for word in encoding.word_ids if word is not None)
    surfaces = {number: text[slice(*encoding.word_to_chars(number))].strip() for number in numbers}
    words = {number: surface for number, surface in surfaces.items() if any(map(str.isalnum, surface))}
    word_of = [
        None if special else word for word, special in zip(encoding.word_ids, encoding.special_tokens_mask, strict=True)
    ]
    return _Encoded(list(encoding.ids), word_of, words)


def _pool_words(encoded: _Encoded, hidden: FloatArray) -> WordVectors:
    members: dict[int, list[int]] = {}
    for position, word in encoded.words_by_position():
        members.setdefault(word, []).append(position)
    vectors = [hidden[positions].mean(axis=0) for positions in members.values()]
    return WordVectors(
        tuple(encoded.words[word] for word in members),
        np.stack(vectors).astype(np.float32) if vectors else np.zeros((0, hidden.shape[1]), dtype=np.float32),
    )
