"""Trains the small masked language model of the default profile on the sample corpus.

The result is a Hugging Face folder (safetensors and a whole-word tokenizer) for ``masked.HFMaskedLM``.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordLevel

from evidence_assets.models.inference import save_model, torch_threads
from evidence_assets.models.masked import list_whole_words

if TYPE_CHECKING:
    from transformers import BertForMaskedLM, PreTrainedTokenizerFast

VERSION = "4"
"""Bump when equal sentences and settings give another model."""

_ACCURACY_SENTENCES = 300
_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training. Larger models, or fewer than four wordings per fact, learn almost nothing.

    In a masked mention of several words, each word is masked with ``word_mask_share``, so that the model also learns to
    complete names. ``initial_deviation`` is that of the weights: BERT's 0.02, for a width of 768, needs 3,000 steps.
    """

    steps: int
    batch_size: int = 128
    learning_rate: float = 5e-3
    width: int = 64
    inner_width: int = 64
    layers: int = 1
    heads: int = 4
    initial_deviation: float = 0.1
    entity_mask_share: float = 0.35
    word_mask_share: float = 0.75
    other_mask_share: float = 0.05
    held_out_share: float = 0.02
    seed: int = 0
    threads: int = 1


def train_sample_masked_lm(
    sentences: Sequence[str], entities: Collection[str], folder: Path, settings: TrainingSettings
) -> dict[str, float | None]:
    """Train on ``sentences``, save to ``folder``, return counts of sentences and words, and accuracies.

    ``entities`` are names whose mentions are masked with ``entity_mask_share``. The number of steps is fixed, so that
    equal input produces equal weights.
    """
    texts = sorted(set(sentences))
    tokenizer = _whole_word_tokenizer(texts)
    encoded = _encode_sentences(texts, entities, tokenizer)
    generator = torch.Generator().manual_seed(settings.seed)
    held_out, training = _split_sentences(encoded, settings.held_out_share, generator)
    mask = tokenizer.mask_token_id
    with torch_threads(settings.threads):  # the order of sums affects the weights
        torch.manual_seed(settings.seed)
        model = _build_model(tokenizer, settings, longest=max(len(each.ids) for each in encoded))
        _train(model, _MaskedBatches(training, mask, settings, generator), settings)
        tested = training[:: max(1, len(training) // _ACCURACY_SENTENCES)]
        accuracies = [_accuracy(model, sample, mask) for sample in (tested, held_out)]
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, tokenizer, folder)
    counts = {"vocabulary": len(list_whole_words(tokenizer, "")[0]), "sentences": len(training)}
    return {**counts, "accuracy": accuracies[0], "held_out_accuracy": accuracies[1]}


def _build_model(tokenizer: PreTrainedTokenizerFast, settings: TrainingSettings, longest: int) -> BertForMaskedLM:
    from transformers import BertConfig, BertForMaskedLM  # takes 1.4 s

    return BertForMaskedLM(
        BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=settings.width,
            num_hidden_layers=settings.layers,
            num_attention_heads=settings.heads,
            intermediate_size=settings.inner_width,
            initializer_range=settings.initial_deviation,
            max_position_embeddings=max(64, longest + 8),
            type_vocab_size=1,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def _whole_word_tokenizer(sentences: Sequence[str]) -> PreTrainedTokenizerFast:
    """A lower-case tokenizer with one token for every word of the sentences."""
    normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    splitter = pre_tokenizers.BertPreTokenizer()
    words = sorted({w for text in sentences for w, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))})
    vocabulary = {word: number for number, word in enumerate([*_SPECIAL, *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    )
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


@dataclass(frozen=True)
class _Sentence:
    """Token ids of a sentence, and the spans of its entity mentions."""

    ids: list[int]
    mentions: list[tuple[int, int]]


def _encode_sentences(
    texts: Sequence[str], entities: Collection[str], tokenizer: PreTrainedTokenizerFast
) -> list[_Sentence]:
    entity_names = sorted(set(entities))
    encodings = tokenizer(entity_names, add_special_tokens=False).encodings if entity_names else []
    names = {tuple(encoding.ids) for encoding in encodings}
    rows = [encoding.ids for encoding in tokenizer(texts).encodings]
    return [_Sentence(row, _find_mentions(row, names)) for row in rows]


def _split_sentences(
    sentences: Sequence[_Sentence], share: float, generator: torch.Generator
) -> tuple[list[_Sentence], list[_Sentence]]:
    """A random share of sentences, and the others."""
    order = torch.randperm(len(sentences), generator=generator).tolist()
    count = round(share * len(sentences))
    return [sentences[i] for i in sorted(order[:count])], [sentences[i] for i in sorted(order[count:])]


def _find_mentions(row: Sequence[int], names: set[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Spans of entity mentions, from the left, the longest match first."""
    longest = max(map(len, names), default=0)
    spans = []
    start = 1
    while start < len(row) - 1:
        for length in range(min(longest, len(row) - 1 - start), 0, -1):
            if tuple(row[start : start + length]) in names:
                spans.append((start, start + length))
                start += length
                break
        else:
            start += 1
    return spans


class _Bucket(NamedTuple):
    """Sentences of equal length.

    ``mention``: Number of each position's mention; 0 for none. ``is_multiword``: Whether it has several words.
    """

    ids: torch.Tensor
    mention: torch.Tensor
    is_multiword: torch.Tensor

    @classmethod
    def of(cls, sentences: Sequence[_Sentence]) -> _Bucket:
        ids = torch.tensor([sentence.ids for sentence in sentences])
        mention = torch.zeros_like(ids)
        is_multiword = torch.zeros_like(ids, dtype=torch.bool)
        for row, sentence in enumerate(sentences):
            for number, (start, stop) in enumerate(sentence.mentions, start=1):
                mention[row, start:stop] = number
                is_multiword[row, start:stop] = stop - start > 1
        return cls(ids, mention, is_multiword)


class _MaskedBatches:
    """Random batches of masked sentences of equal length; lengths are sampled by frequency."""

    def __init__(
        self, sentences: Sequence[_Sentence], mask_id: int, settings: TrainingSettings, generator: torch.Generator
    ) -> None:
        self._generator = generator
        self._mask_id = mask_id
        self._settings = settings
        by_length: dict[int, list[_Sentence]] = {}
        for sentence in sentences:
            by_length.setdefault(len(sentence.ids), []).append(sentence)
        self._buckets = [_Bucket.of(by_length[length]) for length in sorted(by_length)]
        sizes = torch.tensor([len(bucket.ids) for bucket in self._buckets], dtype=torch.float64)
        self._shares = sizes / sizes.sum()

    def sample(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Masked ids, and the true ids at masked positions (−1 elsewhere)."""
        bucket = self._buckets[int(torch.multinomial(self._shares, 1, generator=self._generator))]
        sample = torch.randint(len(bucket.ids), (self._settings.batch_size,), generator=self._generator)
        ids, mention, is_multiword = (values[sample] for values in bucket)
        draws = torch.rand(len(ids), int(mention.max()) + 1, generator=self._generator)
        in_mention = draws.gather(1, mention) < self._settings.entity_mask_share
        word_draws = torch.rand(ids.shape, generator=self._generator)
        in_mention &= ~is_multiword | (word_draws < self._settings.word_mask_share)
        masked = torch.where(mention > 0, in_mention, word_draws < self._settings.other_mask_share)
        masked[:, 0] = masked[:, -1] = False
        masked[~masked.any(dim=1), 1] = True
        return torch.where(masked, self._mask_id, ids), torch.where(masked, ids, -1)


def _train(model: BertForMaskedLM, batches: _MaskedBatches, settings: TrainingSettings) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0, fused=True)
    warmup = max(1, settings.steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (settings.steps - step) / settings.steps)
    )
    model.train()
    for _ in range(settings.steps):
        ids, targets = batches.sample()
        masked = (targets.flatten() >= 0).nonzero().squeeze(1)
        logits = model.cls(encode_positions(model, ids, masked))
        loss = torch.nn.functional.cross_entropy(logits, targets.flatten()[masked])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    model.eval()


def encode_positions(model: BertForMaskedLM, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Last hidden states at some positions of the flattened batch.

    The last layer uses the other positions as keys and values only, so that training takes three fifths of the time.
    """
    *lower_layers, last = model.base_model.encoder.layer
    hidden = model.base_model.embeddings(input_ids=ids)
    for layer in lower_layers:
        hidden = layer(hidden)
    inputs = hidden.flatten(0, 1).index_select(0, positions)
    attention = last.attention.self
    heads = (attention.num_attention_heads, attention.attention_head_size)
    rows = positions // ids.shape[1]
    keys, values = (
        project(hidden).index_select(0, rows).unflatten(-1, heads) for project in (attention.key, attention.value)
    )
    queries = attention.query(inputs).unflatten(-1, heads).unsqueeze(1)
    shares = ((queries * keys).sum(-1) * attention.scaling).softmax(dim=1)
    mixed = (shares.unsqueeze(-1) * values).sum(dim=1).flatten(1)
    states: torch.Tensor = last.feed_forward_chunk(last.attention.output(mixed, inputs))
    return states


def _accuracy(model: BertForMaskedLM, sentences: Sequence[_Sentence], mask_id: int) -> float | None:
    """Share of entity words predicted correctly, with one mention masked at a time; None without mentions."""
    hits = total = 0
    with torch.inference_mode():
        for sentence in (each for each in sentences if each.mentions):
            ids = torch.tensor([sentence.ids] * len(sentence.mentions))
            for masked, (start, stop) in zip(ids, sentence.mentions, strict=True):
                masked[start:stop] = mask_id
            guesses = model(input_ids=ids).logits.argmax(dim=-1).tolist()
            for guess, (start, stop) in zip(guesses, sentence.mentions, strict=True):
                hits += sum(map(operator.eq, guess[start:stop], sentence.ids[start:stop]))
                total += stop - start
    return hits / total if total else None
