"""XLNet as a proposer of substitutes: what fits a place in a text, and what is like a word.

Belongs here: one permutation language model, asked for words as K-Bloom's first stage asks a masked one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from evidence_assets.models.masked import UnusableModel, require_mask, whole_words, word_start_marker
from evidence_assets.models.protocols import FloatArray
from evidence_assets.models.running import equal_length_batches
from evidence_assets.models.text_writing import Pretrained
from evidence_assets.text.prompt_text import SLOT


class PermutedLM(Pretrained):
    """An XLNet that says which words fit a place that it does not see, all others seen."""

    def __init__(self, model: Any, tokenizer: Any, **known: str) -> None:
        super().__init__(model, tokenizer, **known)
        require_mask(tokenizer, self.model_id)
        if getattr(model.config, "model_type", "") != "xlnet":
            raise UnusableModel(
                f"{self.model_id} is no XLNet: name one to propose substitutes, or none for the masked model's"
            )
        self.vocabulary, self._pieces = whole_words(tokenizer, word_start_marker(tokenizer))

    def slot_log_probs(self, texts: Sequence[str], slots: Sequence[int]) -> FloatArray:
        """Log-probabilities of the vocabulary's words at one slot of each text; other slots are not seen either."""
        mask = self._tokenizer.mask_token_id
        rows = [list(self._tokenizer(text.replace(SLOT, self._tokenizer.mask_token))["input_ids"]) for text in texts]
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
                raise UnusableModel(f"{self.model_id} yields NaN; load it in float32 or check its weights")
            out[batch] = torch.log_softmax(logits, dim=-1)[:, self._pieces].cpu().numpy()
        return out

    def likeness(self, word: str) -> npt.NDArray[np.float64]:
        """Log-softmax, over the vocabulary, of the inner products of input embeddings with that of a word.

        A word of several pieces has their mean.
        """
        ids = self._tokenizer(word, add_special_tokens=False)["input_ids"]
        table = self._model.get_input_embeddings().weight
        with torch.inference_mode():
            near = table[self._pieces].float() @ table[ids].float().mean(dim=0)
            found: npt.NDArray[np.float64] = torch.log_softmax(near, dim=0).cpu().numpy().astype(np.float64)
        return found
