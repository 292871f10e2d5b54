"""XLNet's predictions for a slot against its own logits with the slot hidden by another method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, XLNetConfig, XLNetLMHeadModel, set_seed

from evidence_assets.models.sequence_models import PermutedLM
from evidence_assets.text.prompt_text import MASK_SLOT

WORDS = ("▁river", "▁sea", "▁town", "▁near", "▁is", "▁har", "bour", "▁the")
SPECIAL = ("<unk>", "<pad>", "<sep>", "<cls>", "<mask>")
PIECES = [*SPECIAL, *WORDS]


def make_xlnet(folder: Path, words: Sequence[str] = WORDS) -> Path:
    """A one-layer XLNet with a dozen pieces, saved in the Hugging Face layout."""
    pieces = [*SPECIAL, *words]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0 - i / 9) for i, piece in enumerate(pieces)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <sep> <cls>", special_tokens=[("<sep>", 2), ("<cls>", 3)]
    )
    special = {"unk_token": "<unk>", "pad_token": "<pad>", "sep_token": "<sep>", "cls_token": "<cls>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.add_special_tokens({"mask_token": AddedToken("<mask>", lstrip=True, special=True)})
    fast.save_pretrained(folder)
    set_seed(0)
    config = XLNetConfig(
        vocab_size=len(pieces), d_model=16, n_layer=1, n_head=2, d_inner=32, initializer_range=0.5, pad_token_id=1
    )
    XLNetLMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def xlnet(tmp_path_factory: pytest.TempPathFactory) -> PermutedLM:
    return PermutedLM.load(make_xlnet(tmp_path_factory.mktemp("models") / "tiny-xlnet"), device="cpu")


def test_the_word_in_a_slot_does_not_affect_its_prediction(xlnet: PermutedLM) -> None:
    assert xlnet.vocabulary == ("river", "sea", "town", "near", "is", "har", "the") and xlnet.model_id == "tiny-xlnet"
    [log_probs] = xlnet.slot_log_probs([f"the {MASK_SLOT} is near the sea"], [0])
    for hidden in ("river", "town"):
        ids = xlnet._tokenizer(f"the {hidden} is near the sea", return_tensors="pt")["input_ids"]
        hidden_positions = torch.zeros(1, ids.shape[1], ids.shape[1])
        hidden_positions[:, :, 1] = 1
        target = torch.zeros(1, 1, ids.shape[1])
        target[0, 0, 1] = 1
        with torch.inference_mode():
            logits = xlnet._model(input_ids=ids, perm_mask=hidden_positions, target_mapping=target).logits[0, 0]
        expected = torch.log_softmax(logits, -1)[[PIECES.index(f"▁{word}") for word in xlnet.vocabulary]]
        np.testing.assert_allclose(log_probs, expected.numpy(), atol=1e-5)


def test_each_slot_has_its_own_prediction_in_any_batch(xlnet: PermutedLM) -> None:
    text = f"{MASK_SLOT} is near the {MASK_SLOT}"
    rows = xlnet.slot_log_probs([text, text, f"the {MASK_SLOT}"], [0, 1, 0])
    assert not np.allclose(rows[0], rows[1])
    np.testing.assert_allclose(xlnet.slot_log_probs([text], [1])[0], rows[1], atol=1e-6)


def test_log_similarities_compare_input_embeddings(xlnet: PermutedLM) -> None:
    table = xlnet._model.get_input_embeddings().weight.detach().numpy()
    word = table[[PIECES.index("▁har"), PIECES.index("bour")]].mean(axis=0)
    products = np.array([table[PIECES.index(f"▁{entry}")] @ word for entry in xlnet.vocabulary])
    np.testing.assert_allclose(xlnet.log_similarities("harbour"), products - np.log(np.exp(products).sum()), atol=1e-5)
