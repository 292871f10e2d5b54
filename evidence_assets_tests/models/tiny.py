"""Tiny randomly initialised models for tests, and recordings of models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    set_seed,
)

from evidence_assets.models.protocols import Completion, Request

TEXTS = (
    "the patient has a fever and may take aspirin",
    "question options evidence answer choose one of the letters A B C D",
    "aspirin may treat pain, ibuprofen may treat inflammation; insulin lowers glucose.",
)


def make_encoder(folder: Path, seed: int = 0, positions: int = 128) -> Path:
    """A two-layer BERT with a lower-casing word-piece tokenizer, saved in the Hugging Face layout; it reads
    ``positions``.
    """
    set_seed(seed)
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=positions,
    )
    fast.save_pretrained(folder)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    BertModel(config).save_pretrained(folder)
    return folder


CHAT_TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def make_causal(
    folder: Path,
    seed: int = 0,
    *,
    qwen: bool = False,
    texts: Sequence[str] = TEXTS,
    vocabulary: int = 300,
    size: int = 32,
) -> Path:
    """A one-layer Llama (or Qwen2) over bytes with a chat template, saved in the Hugging Face layout."""
    set_seed(seed)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<pad>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>")
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    configuration, model = (Qwen2Config, Qwen2ForCausalLM) if qwen else (LlamaConfig, LlamaForCausalLM)
    config = configuration(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=size,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=2 * size,
        max_position_embeddings=8192,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
        initializer_range=0.5,  # so wide that what it says depends on all of its prompt
    )
    model(config).save_pretrained(folder)
    return folder


def record(path: Path, exchanges: Iterable[tuple[Request, Completion]]) -> None:
    """Write a recording of requests and completions."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as stream:
        for request, completion in exchanges:
            stream.write(json.dumps({**asdict(request), **asdict(completion)}) + "\n")
