"""Every architecture that the transformers library has a masked model of is asked alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.text.prompt_text import SLOT
from evidence_assets_tests.models.tiny_masked import word_piece

LEFT_OUT = {
    "esmc": "reads proteins",
    "modernvbert": "reads images",
    "ultravbert": "reads images",
    "perceiver": "reads bytes",
    "wav2vec2": "reads sound",
    "funnel": "the library's own code fails on texts of a few tokens",
}
"""Architectures that are not asked, and why."""
SMALL: dict[str, Any] = {
    **dict.fromkeys(["hidden_size", "dim", "embedding_size", "emb_dim", "d_model"], 16),
    **dict.fromkeys(["intermediate_size", "hidden_dim", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff"], 32),
    **dict.fromkeys(["num_hidden_layers", "n_layers", "encoder_layers", "decoder_layers", "num_layers"], 2),
    **dict.fromkeys(["num_attention_heads", "n_heads", "num_heads", "num_key_value_heads"], 2),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 2),
    **dict.fromkeys(["entity_vocab_size", "pronunciation_vocab_size", "shape_vocab_size"], 20),
    **dict.fromkeys(["pronunciation_embed_dim", "shape_embed_dim", "entity_emb_size"], 8),
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "axial_pos_embds": False,
    "default_language": "en_XX",
    "initializer_range": 0.5,
    "init_std": 0.5,
}


def tiny(kind: str) -> HFMaskedLM:
    """A random masked model of this architecture, with the tests' own tokenizer."""
    tokenizer = word_piece()._tokenizer
    config = AutoConfig.for_model(kind)
    for name, value in {**SMALL, "vocab_size": len(tokenizer)}.items():
        if hasattr(config, name):
            setattr(config, name, value)
    if kind == "reformer":
        config.is_decoder = False
    torch.manual_seed(0)
    return HFMaskedLM(AutoModelForMaskedLM.from_config(config), tokenizer, model_id=kind)


@pytest.mark.parametrize("kind", sorted(set(MODEL_FOR_MASKED_LM_MAPPING_NAMES) - set(LEFT_OUT)))
def test_it_says_what_its_own_forward_pass_says(kind: str) -> None:
    model = tiny(kind)
    texts = [f"the {SLOT} is near the sea", f"a {SLOT} near {SLOT}", "the river is near iron"]
    rows = model.slot_log_probs(texts[:2], [0, 1])
    for text, slot, row in zip(texts[:2], (0, 1), rows, strict=True):
        ids = model._tokenizer(text.replace(SLOT, "[MASK]"))["input_ids"]
        at = [i for i, piece in enumerate(ids) if piece == model._tokenizer.mask_token_id][slot]
        given = torch.tensor([ids] * 8)
        with torch.inference_mode():
            logits = model._model(input_ids=given, attention_mask=torch.ones_like(given)).logits[0, at].float()
        expected = torch.log_softmax(logits, dim=-1)[torch.tensor(model._pieces)].numpy()
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(model.slot_log_probs([text], [slot])[0], row)
    assert [word.words for word in model.word_vectors(texts[2:])] == [("the", "river", "is", "near", "iron")]
    assert np.isfinite(model.word_log_probs(texts[2:])[0].log_probs).all()


def test_the_named_ones_are_among_them() -> None:
    assert {"distilbert", "electra", "modernbert", "bert", "roberta", "deberta-v2"} <= set(
        MODEL_FOR_MASKED_LM_MAPPING_NAMES
    )
