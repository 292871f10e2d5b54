"""Tiny random masked models, built in the test: WordPiece, byte-level BPE, whole words."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from evidence_assets.models.masked import HFMaskedLM

CORPUS = [
    "the river Alda flows into the sea of Borna",
    "iron and copper are mined near the river",
    "a harbour town lies where the river meets the sea",
    "copper wires carry the river of light",
] * 5


def word_piece(seed: int = 0, *, cased: bool = False, model_id: str = "tiny-bert") -> HFMaskedLM:
    """BERT with WordPiece pieces; only some words are whole."""
    words = ["the", "river", "sea", "iron", "copper", "town", "is", "near", "a", "42", "!"]
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "[unused1]",
        *words,
        "har",
        "##bour",
        "##s",
        "flow",
        ".",
    ]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        initializer_range=0.5,
    )
    return HFMaskedLM(BertForMaskedLM(config), fast, model_id=model_id, batch_size=5)


def byte_pair(seed: int = 0) -> HFMaskedLM:
    """RoBERTa with byte-level BPE learned from a few sentences."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f" {line}" for line in CORPUS], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        cls_token="<s>",
        sep_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
    )
    from tokenizers import AddedToken

    fast.add_special_tokens({"mask_token": AddedToken("<mask>", lstrip=True, special=True)})
    torch.manual_seed(seed)
    config = RobertaConfig(
        vocab_size=len(fast),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        pad_token_id=1,
        initializer_range=0.5,
    )
    return HFMaskedLM(RobertaForMaskedLM(config), fast, model_id="tiny-roberta", batch_size=5)
