"""The extractive reader against the model's own logits, with a tiny random XLM-RoBERTa."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForQuestionAnswering, set_seed

from evidence_assets.models.span_reader import MAX_SPAN_TOKENS, SpanReader
from evidence_assets_tests.models.tiny import TEXTS

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


def make_reader(folder: Path, seed: int = 0, positions: int = 66) -> Path:
    """A one-layer XLM-RoBERTa for question answering with random weights, saved in the Hugging Face layout."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=150, special_tokens=SPECIAL))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", model_max_length=512, **names
    )
    fast.save_pretrained(folder)
    set_seed(seed)
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=positions,
        initializer_range=1.0,
    )
    XLMRobertaForQuestionAnswering(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_reader(tmp_path_factory.mktemp("reader") / "tiny-xlm-roberta")


TEXT = "(aspirin, may treat, pain)\n(insulin, lowers, glucose)"


def test_the_span_is_the_best_pair_of_logits_of_a_plain_loop(folder: Path) -> None:
    reader = SpanReader(str(folder), device="cpu")
    assert reader.model_id == "tiny-xlm-roberta" and reader.revision and reader.max_tokens == 64
    n_answers = 0
    for question in ("which drug may treat pain", "insulin lowers", "the patient", "fever", "take one of the letters"):
        encoding = reader.tokenizer(question, TEXT, return_tensors="pt", return_offsets_mapping=True)
        offsets, sequences = encoding.pop("offset_mapping")[0].tolist(), encoding.sequence_ids(0)
        with torch.inference_mode():
            output = reader.network(**encoding)
        starts, ends = output.start_logits[0].numpy(), output.end_logits[0].numpy()
        best, expected = -np.inf, (0, 0)
        for i in range(len(offsets)):
            for j in range(i, min(i + MAX_SPAN_TOKENS, len(offsets))):
                if sequences[i] == sequences[j] == 1 and starts[i] + ends[j] > best:
                    best, expected = starts[i] + ends[j], (offsets[i][0], offsets[j][1])
        span = reader.read(question, TEXT)
        if best <= starts[0] + ends[0]:
            assert span is None, question
        else:
            n_answers += 1
            assert span is not None and (span.start, span.end) == expected, question
            assert span.probability == pytest.approx(1 / (1 + np.exp(starts[0] + ends[0] - best)), abs=1e-4)
    assert n_answers > 0, "at least one question has an answer"


def test_a_long_text_is_read_in_windows(folder: Path) -> None:
    reader = SpanReader(str(folder), device="cpu")
    long = "\n".join([TEXT] * 20)
    span = reader.read("which drug may treat pain", long)
    assert span is None or span.tokens > reader.max_tokens
    assert reader.read("which drug", " \n") is None
    with pytest.raises(ValueError, match="the question alone has"):
        reader.read("which drug may treat pain " * 20, TEXT)
