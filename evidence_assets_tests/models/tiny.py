"""Tiny randomly initialised models for tests, and recordings of models."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    set_seed,
)

from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.sample_masked_lm import TrainingSettings, train_sample_masked_lm
from tools.tiny_causal_model import save_causal_model

TEXTS = (
    "the patient has a fever and may take aspirin",
    "question options evidence answer choose one of the letters A B C D",
    "aspirin may treat pain, ibuprofen may treat inflammation; insulin lowers glucose.",
)


MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def word_pieces(vocabulary: Sequence[str] = (), *, cased: bool = False, **options: Any) -> PreTrainedTokenizerFast:
    """A tokenizer of word pieces with this vocabulary, or with one that is learned from ``TEXTS``."""
    model = models.WordPiece({piece: i for i, piece in enumerate([*MARKS, *vocabulary])}, unk_token="[UNK]")
    tokenizer = Tokenizer(model if vocabulary else models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    if not vocabulary:
        tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=200, special_tokens=MARKS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special, **options)


def make_encoder(folder: Path, seed: int = 0, positions: int = 128) -> Path:
    """A two-layer BERT with a lower-casing word-piece tokenizer, saved in the Hugging Face layout; it reads
    ``positions``.
    """
    set_seed(seed)
    tokenizer = word_pieces(model_max_length=positions)
    tokenizer.save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=positions,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def make_causal(folder: Path) -> Path:
    """A one-layer Llama, saved in the Hugging Face layout."""
    return save_causal_model(folder, TEXTS)


# Tiny random masked models, built in the test: WordPiece, byte-level BPE, whole words


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
    fast = word_pieces(["[unused1]", *words, "har", "##bour", "##s", "flow", "."], cased=cased)
    torch.manual_seed(seed)
    config = BertConfig(vocab_size=len(fast), max_position_embeddings=24, **SMALL)
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


# A made-up world of three relations, small enough to learn in seconds


WORDINGS = {
    "eats": (
        "<HEAD> eats <TAIL>",
        "<HEAD> feeds on <TAIL>",
        "the diet of <HEAD> is <TAIL>",
        "<TAIL> is the food of <HEAD>",
    ),
    "lives_in": (
        "<HEAD> lives in <TAIL>",
        "<TAIL> is the home of <HEAD>",
        "you find <HEAD> in <TAIL>",
        "<TAIL> shelters <HEAD>",
    ),
    "made_of": (
        "<HEAD> is made of <TAIL>",
        "<HEAD> consists of <TAIL>",
        "<TAIL> is the material of <HEAD>",
        "craftsmen form <HEAD> out of <TAIL>",
    ),
}


@dataclass(frozen=True)
class World:
    """Facts that the sentences state, facts of the same kind that they do not, and all entities."""

    training_facts: dict[str, list[tuple[str, str]]]
    held_out_facts: dict[str, list[tuple[str, str]]]
    sentences: list[str]
    entities: list[str]


@cache
def tiny_world() -> World:
    source = random.Random(3)
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeo"]
    names: set[str] = set()

    def name() -> str:
        while (word := "".join(source.choices(syllables, k=3))) in names:
            pass
        names.add(word)
        return word if source.random() < 0.75 else f"{word} {source.choice(seconds)}"

    seconds = ["mirto", "salven"]
    training_facts, held_out_facts, sentences, entities = {}, {}, [], []
    for relation, wordings in WORDINGS.items():
        heads, tails = [name() for _ in range(20)], [name() for _ in range(20)]
        entities += heads + tails
        pairs = sorted({(source.choice(heads), source.choice(tails)) for _ in range(36)})
        source.shuffle(pairs)
        training_facts[relation], held_out_facts[relation] = pairs[:24], pairs[24:]
        for head, tail in training_facts[relation]:
            for wording in wordings:
                sentences.append(wording.replace("<HEAD>", head).replace("<TAIL>", tail).capitalize() + ".")
    return World(training_facts, held_out_facts, sentences, entities)


@cache
def tiny_model() -> HFMaskedLM:
    """The sample recipe on the tiny world; trained once a session."""
    world = tiny_world()
    settings = TrainingSettings(steps=900, batch_size=64, held_out_share=0.0, threads=1)
    with TemporaryDirectory() as folder:
        train_sample_masked_lm(world.sentences, world.entities, Path(folder), settings)
        return HFMaskedLM.load(folder, model_id="tiny-sample")
