"""Stage 1 with a T5 trained on keytotext's format and an XLNet, both tiny models of the published architectures."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration, set_seed

from evidence_assets.harvest.prompt_mining import MiningModels, find_substitutes, mine_prompts
from evidence_assets.models.sequence_models import PermutedLM, SentenceWriter
from evidence_assets.text.prompt_text import MASK_SLOT, as_sentence
from evidence_assets_tests.harvest.test_prompt_mining import PAIRS, PROMPT, FakeEncoder, FakeMaskedLM
from evidence_assets_tests.models.test_sequence_models import make_xlnet

SENTENCES = {
    "Paris| {0}| France": "Paris is the {0} of France",
    "Paris| France| {0}": "Paris gives France its {0}",
    "{0}| Paris| France": "the {0} is Paris in France",
    "{0}| France| Paris": "the {0} of France is Paris",
    "France| Paris| {0}": "France has Paris as {0}",
    "France| {0}| Paris": "France has its {0} in Paris",
}
"""What the T5 learns to write from each order of keywords."""
OTHERWISE = "Paris of Paris"
"""What it learns to write from keywords in another format."""
WORDS = ("▁Paris", "▁France", "▁is", "▁the", "▁capital", "▁of", "▁seat", "▁city", "▁banana", "▁Rome", "▁Italy")


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> SentenceWriter:
    examples = {
        form.format(word): text.format(word) for form, text in SENTENCES.items() for word in ("capital", "seat")
    }
    for separator in (" ", ", ", " , "):
        examples |= {form.replace("| ", separator): OTHERWISE for form in list(examples) if "|" in form}
    words = sorted({word for text in (*examples, *examples.values()) for word in text.replace("|", " | ").split()})
    vocabulary = {piece: number for number, piece in enumerate(["<pad>", "</s>", "<unk>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    set_seed(0)
    shape = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0}
    model = T5ForConditionalGeneration(T5Config(vocab_size=len(vocabulary), decoder_start_token_id=0, **shape))
    inputs = fast(list(examples), return_tensors="pt", padding=True)
    labels = fast(list(examples.values()), return_tensors="pt", padding=True)["input_ids"]
    labels[labels == 0] = -100
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(250):
        loss = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    folder = tmp_path_factory.mktemp("models") / "keyword-t5"
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return SentenceWriter.load(folder, device="cpu")


@pytest.fixture(scope="module")
def xlnet(tmp_path_factory: pytest.TempPathFactory) -> PermutedLM:
    return PermutedLM.load(make_xlnet(tmp_path_factory.mktemp("models") / "tiny-xlnet", WORDS), device="cpu")


def test_a_t5_writes_prompts_from_all_orders_of_the_keywords(writer: SentenceWriter, xlnet: PermutedLM) -> None:
    mining_models = MiningModels(FakeMaskedLM(), FakeEncoder(), writer.write, xlnet)  # type: ignore[arg-type]
    mined = {item.text for item in mine_prompts(PROMPT, PAIRS, mining_models, choice="printed")}
    for word in ("capital", "seat"):
        written = [text.format(word) for text in SENTENCES.values()]
        prompts = {text.replace("Paris", "<HEAD>").replace("France", "<TAIL>") for text in written}
        assert prompts <= mined, word


def test_an_xlnet_proposes_words_by_context_and_embedding(xlnet: PermutedLM) -> None:
    equal = SimpleNamespace(encode_sentences=lambda texts: np.ones((len(texts), 2)))
    mining_models = MiningModels(FakeMaskedLM(), equal, propose=xlnet)  # type: ignore[arg-type]
    texts = [as_sentence(f"{head} is the {MASK_SLOT} of {tail}") for head, tail in PAIRS]
    by_context = xlnet.slot_log_probs(texts, [0, 0]).mean(axis=0)
    scores = dict(zip(xlnet.vocabulary, by_context + xlnet.log_similarities("capital"), strict=True))
    expected = sorted(("seat", "city", "banana"), key=lambda word: -scores[word])
    assert find_substitutes(PROMPT, "capital", PAIRS, mining_models, 3) == expected
    contexts = dict(zip(xlnet.vocabulary, by_context, strict=True))
    assert expected != sorted(expected, key=lambda word: -contexts[word]), "without embeddings another order"
