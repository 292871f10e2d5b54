"""Models that write: how likely a text is after another (BARTScore), what is written after it, or in its gaps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from evidence_assets.models.inference import (
    equal_length_batches,
    explain_load_errors,
    find_hub_revision,
    pretrained_options,
    resolve_device,
)
from evidence_assets.models.masked import UnusableModel, find_word_marker, list_whole_words, require_mask
from evidence_assets.models.protocols import FloatArray
from evidence_assets.text.prompt_text import MASK_SLOT

PAIRS_PER_BATCH = 64


class SequenceModel:
    """A model that writes text, with its tokenizer, on a device, under the name and revision it was loaded by."""

    def __init__(self, model: Any, tokenizer: Any, *, model_id: str, revision: str = "", device: str = "cpu") -> None:
        self._model, self._tokenizer, self._device = model.to(device).eval(), tokenizer, torch.device(device)
        self.model_id, self.revision = model_id, revision

    @classmethod
    def load(cls, name: str | Path, *, revision: str | None = None, device: str = "auto") -> Self:
        """Load from a folder or a hub name; reads only safetensors weights. ``auto`` takes CUDA if there is one."""
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

        options, known = pretrained_options(str(name), revision)
        known_as = Path(name).name if options["local_files_only"] else str(name)
        with explain_load_errors(f"the language model {str(name)!r}"):
            config = AutoConfig.from_pretrained(str(name), **options)
            if all(each.endswith("ForMaskedLM") for each in config.architectures or ()):
                raise ValueError("it writes no text; name an encoder-decoder such as BART or a causal language model")
            kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            tokenizer = AutoTokenizer.from_pretrained(str(name), **options)
            model = kind.from_pretrained(str(name), use_safetensors=True, dtype=torch.float32, **options)
        if not options["local_files_only"]:
            known = find_hub_revision(str(name), revision) or known
        return cls(model, tokenizer, model_id=known_as, revision=known or "", device=resolve_device(device))


class TextLikelihood(SequenceModel):
    """An encoder-decoder such as BART, or a causal language model such as GPT, that rates given texts.

    ``score(x, y) = 1/m · Σ_t log p(y_t | y_<t, x)`` over the m tokens of y (Yuan et al. 2021, uniform weights). A
    causal model reads x and y as one text. Pairs of equal token counts are run together, unpadded, so that no score
    depends on the other pairs of the call but for the last digits.
    """

    @property
    def _encodes(self) -> bool:
        return bool(self._model.config.is_encoder_decoder)

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Mean log-probability of the tokens of each pair's second text, given its first; at most 0."""
        rows = [self._row(*pair) for pair in pairs]
        lengths = [(len(source), len(target)) for source, target in rows]
        scores = np.zeros(len(rows), dtype=np.float32)
        for batch in equal_length_batches(lengths, lambda _: PAIRS_PER_BATCH):
            scores[batch] = self._means([rows[i][0] for i in batch], [rows[i][1] for i in batch])
        if np.isnan(scores).any():
            raise UnusableModel(f"{self.model_id} yields NaN; fetch its weights again")
        return scores

    def _row(self, source: str, target: str) -> tuple[list[int], list[int]]:
        before = list(self._tokenizer(source)["input_ids"])
        after = list(self._tokenizer(target, add_special_tokens=self._encodes)["input_ids"])
        if not before or not after:
            raise ValueError(f"a likelihood needs two texts with a token each, not {source!r} and {target!r}")
        ends = {self._tokenizer.eos_token_id, self._tokenizer.sep_token_id} - {None}
        if not self._encodes and len(before) > 1 and before[-1] in ends:
            before.pop()  # the text goes on
        longest = max(len(before), len(after)) if self._encodes else len(before) + len(after)
        most = int(getattr(self._model.config, "max_position_embeddings", 0) or longest)
        if longest > most:
            raise ValueError(f"{self.model_id} reads {most} tokens, this text has {longest}: {target!r}")
        return before, after

    def _means(self, sources: list[list[int]], targets: list[list[int]]) -> FloatArray:
        wanted = torch.tensor(targets, device=self._device)
        given = torch.tensor(sources, device=self._device)
        with torch.inference_mode():
            if self._encodes:
                logits = self._model(input_ids=given, attention_mask=torch.ones_like(given), labels=wanted).logits
            else:
                whole = torch.cat([given, wanted], dim=1)
                logits = self._model(input_ids=whole, attention_mask=torch.ones_like(whole)).logits
                logits = logits[:, given.shape[1] - 1 : -1]
            known = torch.log_softmax(logits.float(), dim=-1).gather(2, wanted[:, :, None])[:, :, 0]
        means: FloatArray = known.mean(dim=1).cpu().numpy().astype(np.float32)
        return means


class SentenceWriter(SequenceModel):
    """An encoder-decoder such as T5 that writes sentences, by beam search: the same ones whenever it is asked."""

    n_sentences = 3
    """Beams, all of which are sentences that come back."""
    max_tokens = 48
    """Tokens of a sentence at most."""

    def __init__(self, model: Any, tokenizer: Any, **known: str) -> None:
        super().__init__(model, tokenizer, **known)
        if not model.config.is_encoder_decoder:
            raise UnusableModel(
                f"{self.model_id} is no encoder-decoder; name one such as T5 to write sentences out of keywords"
            )

    def write(self, texts: Sequence[str]) -> list[list[str]]:
        """The sentences written after each text, the likeliest first; texts of equal length run together, unpadded."""
        rows = [list(self._tokenizer(text)["input_ids"]) for text in texts]
        made: list[list[str]] = [[] for _ in texts]
        for batch in equal_length_batches([len(row) for row in rows], lambda _: 16):
            given = torch.tensor([rows[i] for i in batch], device=self._device)
            with torch.inference_mode():
                written = self._model.generate(
                    input_ids=given,
                    attention_mask=torch.ones_like(given),
                    num_beams=self.n_sentences,
                    do_sample=False,
                    num_return_sequences=self.n_sentences,
                    max_new_tokens=self.max_tokens,
                )
            said = self._tokenizer.batch_decode(written, skip_special_tokens=True)
            for place, index in enumerate(batch):
                own = said[place * self.n_sentences : (place + 1) * self.n_sentences]
                made[index] = list(dict.fromkeys(text.strip() for text in own if text.strip()))
        return made


class PermutedLM(SequenceModel):
    """An XLNet that says which words fit a place that it does not see, all others seen."""

    def __init__(self, model: Any, tokenizer: Any, **known: str) -> None:
        super().__init__(model, tokenizer, **known)
        require_mask(tokenizer, self.model_id)
        if getattr(model.config, "model_type", "") != "xlnet":
            raise UnusableModel(
                f"{self.model_id} is no XLNet: name one to propose substitutes, or none for the masked model's"
            )
        self.vocabulary, self._pieces = list_whole_words(tokenizer, find_word_marker(tokenizer))

    def slot_log_probs(self, texts: Sequence[str], slots: Sequence[int]) -> FloatArray:
        """Log-probabilities of the vocabulary's words at one slot of each text; other slots are not seen either."""
        mask = self._tokenizer.mask_token_id
        rows = [
            list(self._tokenizer(text.replace(MASK_SLOT, self._tokenizer.mask_token))["input_ids"]) for text in texts
        ]
        out = np.empty((len(texts), len(self.vocabulary)), dtype=np.float32)
        for batch in equal_length_batches([len(row) for row in rows], lambda _: 32):
            ids = torch.tensor([rows[i] for i in batch], device=self._device)
            hidden = ids == mask
            wanted = torch.zeros(len(batch), 1, ids.shape[1], device=self._device)
            for place, index in enumerate(batch):
                wanted[place, 0, hidden[place].nonzero()[slots[index]]] = 1
            unseen = hidden[:, None, :].expand(-1, ids.shape[1], -1).float()
            with torch.inference_mode():
                logits = self._model(input_ids=ids, perm_mask=unseen, target_mapping=wanted).logits[:, 0].float()
            if torch.isnan(logits).any():
                raise UnusableModel(f"{self.model_id} yields NaN; fetch its weights again")
            out[batch] = torch.log_softmax(logits, dim=-1)[:, self._pieces].cpu().numpy()
        return out

    def log_similarities(self, word: str) -> npt.NDArray[np.float64]:
        """Log-softmax, over the vocabulary, of the inner products of input embeddings with that of a word.

        A word of several pieces has their mean.
        """
        ids = self._tokenizer(word, add_special_tokens=False)["input_ids"]
        table = self._model.get_input_embeddings().weight
        with torch.inference_mode():
            near = table[self._pieces].float() @ table[ids].float().mean(dim=0)
            found: npt.NDArray[np.float64] = torch.log_softmax(near, dim=0).cpu().numpy().astype(np.float64)
        return found
