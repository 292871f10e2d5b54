"""Sequence models: text likelihood (BARTScore), sentences from keywords, and words for masked positions (XLNet)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.inference import (
    PretrainedModel,
    equal_length_batches,
    explain_load_errors,
    pretrained_options,
    require_numbers,
)
from evidence_assets.models.masked import find_word_marker, list_whole_words, require_mask
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.vectors import Array
from evidence_assets.text.prompt_text import MASK_SLOT

PAIRS_PER_BATCH = 64


class SequenceModel(PretrainedModel):
    """A sequence model from a folder or a hub name, of which only safetensors are read.

    ``device``: ``auto`` selects CUDA if available.
    """

    def __init__(self, name: str | Path, *, revision: str | None = None, device: str = "auto") -> None:
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

        source = pretrained_options(str(name), revision)
        with explain_load_errors(f"the language model {str(name)!r}"):
            config = AutoConfig.from_pretrained(str(name), **source)
            if config.architectures and all(each.endswith("ForMaskedLM") for each in config.architectures):
                raise ValueError(
                    "it does not generate text; choose an encoder-decoder such as BART or a causal language model"
                )
        self._is_encoder_decoder = bool(config.is_encoder_decoder)
        model_class = AutoModelForSeq2SeqLM if self._is_encoder_decoder else AutoModelForCausalLM
        options = {"use_safetensors": True, "dtype": torch.float32}
        super().__init__(model_class, str(name), revision=revision, device=device, **options)


class TextLikelihood(SequenceModel):
    """Likelihood of texts under an encoder-decoder such as BART or a causal language model such as GPT.

    ``score(x, y) = 1/m · Σ_t log p(y_t | y_<t, x)`` over the m tokens of y (Yuan et al. 2021, uniform weights). A
    causal model reads x and y as one text. Pairs of equal token counts form batches without padding, so that scores
    depend on other pairs in the last digits at most.
    """

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Mean log-probability of the tokens of each pair's second text, given its first; at most 0."""
        return self._score_rows([self._encode_pair(*pair) for pair in pairs])

    def mean_log_probs(self, texts: Sequence[str]) -> FloatArray:
        """Mean log-probability of the tokens of each text, given those before it: −log of a causal model's perplexity.

        The first token follows the start token, which is the end token where the tokenizer has no other (GPT-2).
        """
        tokenizer = self.tokenizer
        start = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        if self._is_encoder_decoder or start is None:
            raise ModelUnavailable(
                f"{self.model_id} is no causal language model. Choose one such as GPT-2 for the fluency"
            )
        rows = [([start], list(tokenizer(text, add_special_tokens=False)["input_ids"])) for text in texts]
        for (_, ids), text in zip(rows, texts, strict=True):
            self._check_length(1 + len(ids), text)
        return self._score_rows(rows)

    def _score_rows(self, rows: Sequence[tuple[list[int], list[int]]]) -> FloatArray:
        """Mean log-probability of the second list of tokens of each row, given the first."""
        lengths = [(len(source), len(target)) for source, target in rows]
        scores = np.zeros(len(rows), dtype=np.float32)
        for batch in equal_length_batches(lengths, lambda _: PAIRS_PER_BATCH):
            scores[batch] = self._mean_log_probs([rows[i][0] for i in batch], [rows[i][1] for i in batch])
        require_numbers(scores, self.model_id)
        return scores

    def _encode_pair(self, source: str, target: str) -> tuple[list[int], list[int]]:
        source_ids = list(self.tokenizer(source)["input_ids"])
        target_ids = list(self.tokenizer(target, add_special_tokens=self._is_encoder_decoder)["input_ids"])
        ends = {self.tokenizer.eos_token_id, self.tokenizer.sep_token_id} - {None}
        if not self._is_encoder_decoder and len(source_ids) > 1 and source_ids[-1] in ends:
            source_ids.pop()  # the target continues the text
        lengths = len(source_ids), len(target_ids)
        longest = max(lengths) if self._is_encoder_decoder else sum(lengths)
        self._check_length(longest, target)
        return source_ids, target_ids

    def _check_length(self, length: int, text: str) -> None:
        max_tokens = int(getattr(self.network.config, "max_position_embeddings", 0) or length)
        if length > max_tokens:
            raise ValueError(f"{self.model_id} reads {max_tokens} tokens, but this text has {length}: {text!r}")

    def _mean_log_probs(self, sources: list[list[int]], targets: list[list[int]]) -> FloatArray:
        target_ids = torch.tensor(targets, device=self.device)
        source_ids = torch.tensor(sources, device=self.device)
        with torch.inference_mode():
            if self._is_encoder_decoder:
                logits = self.network(
                    input_ids=source_ids, attention_mask=torch.ones_like(source_ids), labels=target_ids
                ).logits
            else:
                ids = torch.cat([source_ids, target_ids], dim=1)
                logits = self.network(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
                logits = logits[:, source_ids.shape[1] - 1 : -1]
            log_probs = torch.log_softmax(logits.float(), dim=-1).gather(2, target_ids[:, :, None])[:, :, 0]
        means: FloatArray = log_probs.mean(dim=1).cpu().numpy().astype(np.float32)
        return means


class SentenceWriter(SequenceModel):
    """An encoder-decoder such as T5 that writes sentences by deterministic beam search."""

    n_sentences = 3
    """Number of beams and of returned sentences."""
    max_tokens = 48
    """Maximum tokens of a sentence."""

    def __init__(self, name: str | Path, **options: Any) -> None:
        super().__init__(name, **options)
        if not self._is_encoder_decoder:
            raise ModelUnavailable(
                f"{self.model_id} is not an encoder-decoder. Choose one such as T5 to write sentences from keywords"
            )

    def write(self, texts: Sequence[str]) -> list[list[str]]:
        """Sentences generated from each text, the most probable first; batches are not padded."""
        rows = [list(self.tokenizer(text)["input_ids"]) for text in texts]
        sentences: list[list[str]] = [[] for _ in texts]
        for batch in equal_length_batches([len(row) for row in rows], lambda _: 16):
            inputs = torch.tensor([rows[i] for i in batch], device=self.device)
            with torch.inference_mode():
                outputs = self.network.generate(
                    input_ids=inputs,
                    attention_mask=torch.ones_like(inputs),
                    num_beams=self.n_sentences,
                    do_sample=False,
                    num_return_sequences=self.n_sentences,
                    max_new_tokens=self.max_tokens,
                )
            decoded = self.tokenizer.batch_decode(outputs, skip_special_tokens=True)
            for row, index in enumerate(batch):
                beams = decoded[row * self.n_sentences : (row + 1) * self.n_sentences]
                sentences[index] = list(dict.fromkeys(text.strip() for text in beams if text.strip()))
        return sentences


class PermutedLM(SequenceModel):
    """An XLNet that predicts the words of masked positions from all other positions."""

    def __init__(self, name: str | Path, **options: Any) -> None:
        super().__init__(name, **options)
        require_mask(self.tokenizer, self.model_id)
        if getattr(self.network.config, "model_type", "") != "xlnet":
            raise ModelUnavailable(
                f"{self.model_id} is not an XLNet. Choose one, or none to use the masked model's substitutes"
            )
        self.vocabulary, self._pieces = list_whole_words(self.tokenizer, find_word_marker(self.tokenizer))

    def slot_log_probs(self, texts: Sequence[str], slots: Sequence[int]) -> FloatArray:
        """Log-probabilities of the vocabulary at one slot of each text; all slots are hidden."""
        rows = [list(self.tokenizer(t.replace(MASK_SLOT, self.tokenizer.mask_token))["input_ids"]) for t in texts]
        out = np.empty((len(texts), len(self.vocabulary)), dtype=np.float32)
        for batch in equal_length_batches([len(row) for row in rows], lambda _: 32):
            ids = torch.tensor([rows[i] for i in batch], device=self.device)
            out[batch] = self._log_probs(ids, [slots[i] for i in batch])[:, self._pieces].cpu().numpy()
        require_numbers(out, self.model_id)
        return out

    def _log_probs(self, ids: torch.Tensor, slots: Sequence[int]) -> torch.Tensor:
        """Log-probabilities of all tokens at one masked position of each row, whose masked positions are hidden."""
        hidden = ids == self.tokenizer.mask_token_id
        targets = torch.zeros(len(ids), 1, ids.shape[1], device=self.device)
        for row, slot in enumerate(slots):
            targets[row, 0, hidden[row].nonzero()[slot]] = 1
        perm_mask = hidden[:, None, :].expand(-1, ids.shape[1], -1).float()
        with torch.inference_mode():
            logits = self.network(input_ids=ids, perm_mask=perm_mask, target_mapping=targets).logits[:, 0].float()
        return torch.log_softmax(logits, dim=-1)

    def log_similarities(self, word: str) -> Array:
        """Log-softmax over the vocabulary of the inner products of input embeddings with that of a word.

        The embedding of a word of several tokens is their mean.
        """
        ids = self.tokenizer(word, add_special_tokens=False)["input_ids"]
        table = self.network.get_input_embeddings().weight
        with torch.inference_mode():
            products = table[self._pieces].float() @ table[ids].float().mean(dim=0)
            log_probs: Array = torch.log_softmax(products, dim=0).cpu().numpy().astype(np.float64)
        return log_probs
