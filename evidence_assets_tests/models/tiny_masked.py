"""Tiny random masked models, built in the test: WordPiece, byte-level BPE, whole words."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from evidence_assets.models.masked import HFMaskedLM

CORPUS = [
    "the river Alda flows into the sea of Borna",
    "iron and copper are mined near the river",
    "a harbour town lies where the river meets the sea",
    "copper wires carry the river of light",
] * 5
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "initializer_range": 0.5,
}


def word_piece(seed: int = 0, *, cased: bool = False, model_id: str = "tiny-bert") -> HFMaskedLM:
    """BERT with WordPiece pieces; only some words are whole."""
    words = ["the", "river", "sea", "iron", "copper", "town", "is", "near", "a", "42", "!"]
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused1]"]
    vocabulary = [*marks, *words, "har", "##bour", "##s", "flow", "."]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=24, **SMALL)
    return HFMaskedLM(BertForMaskedLM(config), fast, model_id=model_id, batch_size=5)


def byte_pair(seed: int = 0) -> HFMaskedLM:
    """RoBERTa with byte-level BPE learned from a few sentences."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=special, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator([f" {line}" for line in CORPUS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    ends = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", **ends)
    fast.add_special_tokens({"mask_token": AddedToken("<mask>", lstrip=True, special=True)})
    torch.manual_seed(seed)
    config = RobertaConfig(vocab_size=len(fast), max_position_embeddings=40, pad_token_id=1, **SMALL)
    return HFMaskedLM(RobertaForMaskedLM(config), fast, model_id="tiny-roberta", batch_size=5)
