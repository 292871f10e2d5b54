"""Likelihoods and beams against the model's own probabilities, for encoder-decoders and a causal model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    XLNetConfig,
    XLNetLMHeadModel,
    set_seed,
)

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.sequence_models import PermutedLM, SentenceWriter, TextLikelihood
from evidence_assets.text.prompt_text import MASK_SLOT
from evidence_assets_tests.models.tiny import make_causal, word_piece

PAIRS = [("aspirin may", "treat pain"), ("insulin lowers glucose", "the patient has a fever"), ("a", "treat pain")]


def save_tiny(folder: Path, model: Any, config: Any, shape: str, **others: Any) -> Path:
    """A one-layer model with the tokenizer of the tiny BERT, saved in the Hugging Face layout."""
    tokenizer = word_piece()._tokenizer
    tokenizer.save_pretrained(folder)
    set_seed(0)
    sizes = {name: int(size) for name, _, size in (each.partition("=") for each in shape.split())}
    model_config = config(vocab_size=len(tokenizer), d_model=16, pad_token_id=0, eos_token_id=3, **sizes, **others)
    model(model_config).save_pretrained(folder)
    return folder


def make_bart(folder: Path) -> Path:
    shape = (
        "encoder_layers=1 decoder_layers=1 encoder_attention_heads=2 decoder_attention_heads=2 encoder_ffn_dim=32 "
        "decoder_ffn_dim=32 max_position_embeddings=24 bos_token_id=2 decoder_start_token_id=3"
    )
    return save_tiny(folder, BartForConditionalGeneration, BartConfig, shape, init_std=0.5, forced_eos_token_id=None)


def make_t5(folder: Path) -> Path:
    shape = "d_kv=8 d_ff=32 num_layers=1 num_heads=2 decoder_start_token_id=0"
    return save_tiny(folder, T5ForConditionalGeneration, T5Config, shape, initializer_factor=4.0)


def test_one_beam_selects_the_most_probable_token_each_time(tmp_path: Path) -> None:
    one = SentenceWriter(make_t5(tmp_path / "tiny-t5"), device="cpu")
    one.n_sentences, one.max_tokens = 1, 6
    model, tokenizer = one.network, one.tokenizer
    texts = ["river sea", "iron near copper", "town harbour"]
    batch = one.write(texts)
    assert batch == [one.write([text])[0] for text in texts]
    for text, sentences in zip(texts, batch, strict=True):
        inputs, output = tokenizer(text, return_tensors="pt")["input_ids"], [0]
        while len(output) < 7 and output[-1] != 3:
            with torch.inference_mode():
                output.append(
                    int(model(input_ids=inputs, decoder_input_ids=torch.tensor([output])).logits[0, -1].argmax())
                )
        assert sentences == [tokenizer.decode(output, skip_special_tokens=True).strip()]


def test_encoder_decoder_score_is_the_mean_log_probability(tmp_path: Path) -> None:
    model = TextLikelihood(make_bart(tmp_path / "tiny-bart"), device="cpu")
    assert model.model_id == "tiny-bart" and model.revision
    pairs = [("the river", "near the sea"), ("iron", "a town"), ("copper is near", "near the sea")]
    scores = model.score(pairs)
    for (source, target), score in zip(pairs, scores, strict=True):
        inputs, targets = (model.tokenizer(text, return_tensors="pt")["input_ids"] for text in (source, target))
        shifted = torch.cat([torch.tensor([[3]]), targets[:, :-1]], dim=1)
        with torch.inference_mode():
            logits = model.network(input_ids=inputs, decoder_input_ids=shifted).logits[0]
        expected = torch.log_softmax(logits, -1)[range(targets.shape[1]), targets[0]].mean()
        assert score == pytest.approx(float(expected), abs=1e-5) and score < 0
    np.testing.assert_allclose(model.score(pairs[2:])[0], scores[2], atol=1e-6)
    assert scores[0] != scores[2], "what stands before counts"


def test_causal_model_reads_both_texts_as_one(tmp_path: Path) -> None:
    config = make_causal(tmp_path / "tiny-llama") / "config.json"
    config.write_text(config.read_text().replace('"architectures"', '"other"'))  # it is optional
    model = TextLikelihood(config.parent, device="cpu")
    scores = model.score(PAIRS)
    for (source, target), score in zip(PAIRS, scores, strict=True):
        source_ids = model.tokenizer(source)["input_ids"]
        target_ids = model.tokenizer(target, add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = model.network(input_ids=torch.tensor([source_ids + target_ids])).logits[0]
        steps = torch.log_softmax(logits, -1)[len(source_ids) - 1 : -1]
        assert score == pytest.approx(float(steps[range(len(target_ids)), target_ids].mean()), abs=1e-5)
    assert scores[0] != scores[2]


def make_gpt2(folder: Path) -> Path:
    """A one-layer GPT-2 with the byte-level tokenizer of the tiny Llama, whose only special token ends a text."""
    make_causal(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    shape = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 256, "initializer_range": 0.5}
    set_seed(0)
    config = GPT2Config(vocab_size=len(tokenizer), bos_token_id=1, eos_token_id=1, **shape)
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def test_perplexity_of_gpt_is_given_the_tokens_before(tmp_path: Path) -> None:
    model = TextLikelihood(make_gpt2(tmp_path / "tiny-gpt2"), device="cpu")
    assert type(model.network).__name__ == "GPT2LMHeadModel"
    texts = ["aspirin may treat pain.", "insulin lowers glucose", "pain"]
    for text, mean in zip(texts, model.mean_log_probs(texts), strict=True):
        ids = [1, *model.tokenizer(text)["input_ids"]]
        with torch.inference_mode():
            steps = [
                torch.log_softmax(model.network(torch.tensor([ids[:end]])).logits[0, -1], -1)
                for end in range(1, len(ids))
            ]
        expected = np.mean([float(step[token]) for step, token in zip(steps, ids[1:], strict=True)])
        assert mean == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="reads 256 tokens"):
        model.mean_log_probs(["pain " * 200])
    bart = TextLikelihood(make_bart(tmp_path / "tiny-bart"), device="cpu")
    with pytest.raises(ModelUnavailable, match="tiny-bart is no causal language model"):
        bart.mean_log_probs(texts)


def test_unusable_models_and_texts_are_reported(tmp_path: Path) -> None:
    masked = word_piece()
    masked._model.save_pretrained(tmp_path / "tiny-bert")
    masked._tokenizer.save_pretrained(tmp_path / "tiny-bert")
    with pytest.raises(ModelUnavailable, match="it does not generate text"):
        TextLikelihood(tmp_path / "tiny-bert")
    model = TextLikelihood(make_bart(tmp_path / "tiny-bart"), device="cpu")
    with pytest.raises(ValueError, match="reads 24 tokens"):
        model.score([("the river", "the sea " * 20)])
    with torch.no_grad():
        model.network.model.shared.weight[6] = float("nan")
    with pytest.raises(ModelUnavailable, match="yields values that are not numbers"):
        model.score([("the river", "the sea")])


# XLNet's predictions for a slot against its own logits with the slot hidden by another method


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
    return PermutedLM(make_xlnet(tmp_path_factory.mktemp("models") / "tiny-xlnet"), device="cpu")


def test_the_word_in_a_slot_does_not_affect_its_prediction(xlnet: PermutedLM) -> None:
    assert xlnet.vocabulary == ("river", "sea", "town", "near", "is", "har", "the") and xlnet.model_id == "tiny-xlnet"
    [log_probs] = xlnet.slot_log_probs([f"the {MASK_SLOT} is near the sea"], [0])
    for hidden in ("river", "town"):
        ids = xlnet.tokenizer(f"the {hidden} is near the sea", return_tensors="pt")["input_ids"]
        hidden_positions = torch.zeros(1, ids.shape[1], ids.shape[1])
        hidden_positions[:, :, 1] = 1
        target = torch.zeros(1, 1, ids.shape[1])
        target[0, 0, 1] = 1
        with torch.inference_mode():
            logits = xlnet.network(input_ids=ids, perm_mask=hidden_positions, target_mapping=target).logits[0, 0]
        expected = torch.log_softmax(logits, -1)[[PIECES.index(f"▁{word}") for word in xlnet.vocabulary]]
        np.testing.assert_allclose(log_probs, expected.numpy(), atol=1e-5)


def test_log_similarities_compare_input_embeddings(xlnet: PermutedLM) -> None:
    table = xlnet.network.get_input_embeddings().weight.detach().numpy()
    word = table[[PIECES.index("▁har"), PIECES.index("bour")]].mean(axis=0)
    products = np.array([table[PIECES.index(f"▁{entry}")] @ word for entry in xlnet.vocabulary])
    np.testing.assert_allclose(xlnet.log_similarities("harbour"), products - np.log(np.exp(products).sum()), atol=1e-5)
