"""Encoders: a vector depends on its text alone, offsets point into the text, and bad input is reported."""

import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models import encoders, inference
from evidence_assets.models import registry as registry
from evidence_assets.models.bert import Bert
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.inference import find_minilm_folder, map_single_threaded
from evidence_assets.models.protocols import Encoder, LocalEncoder
from evidence_assets.models.registry import CachingEncoder
from evidence_assets.models.rerankers import CrossEncoderReranker
from evidence_assets.text.prompt_text import MASK_SLOT
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.tiny import make_encoder, word_piece
from evidence_assets_tests.systems.small_models import WordEncoder

SAMPLE = [
    "Aspirin may treat a headache.",
    "Insulin lowers the glucose-6-phosphate level, naïvely speaking.",
    "",
    "Metformin is used in type 2 diabetes and it is taken with meals.",
    "Aspirin may treat a fever.",
    "A [SEP] in a text is a word like any other [MASK].",
    "broken \ud800 half",
    "你好 world",
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("tiny-encoder"))


def test_a_card_keeps_the_vectors_of_tokens_that_are_ranked(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder(str(tiny), device="cpu")
    texts = [*SAMPLE, "Aspirin" + " " * 200]
    assert all(tokens.on_device is None for tokens in encoder.encode_tokens(texts))
    monkeypatch.setattr(encoder, "_keeps_vectors", True)
    for tokens in encoder.encode_tokens(texts):
        assert tokens.on_device is not None and len(tokens.on_device) == len(tokens.tokens)
        np.testing.assert_array_equal(tokens.on_device.numpy(), tokens.vectors.astype(np.float16))
    others = [*encoder.token_layers(texts, 1), *encoder.encode_with_tokens(texts)[1]]
    assert all(tokens.on_device is None for tokens in others), "nobody ranks by these"
    is_kept = [tokens.on_device is not None for tokens in CachingEncoder(encoder).encode_tokens(texts)]
    assert is_kept == [False] * len(SAMPLE) + [True], "the cache of short texts would not free a card's memory"


class EncoderContract:
    """Tests of every encoder; subclasses provide the fixture ``encoder``."""

    def test_shapes_and_norms(self, encoder: Encoder) -> None:
        assert encoder.model_id and encoder.revision
        vectors = encoder.encode_sentences(SAMPLE)
        assert vectors.shape == (len(SAMPLE), encoder.dimensions) and vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
        assert encoder.encode_sentences([]).shape == (0, encoder.dimensions)
        assert encoder.encode_tokens([]) == []

    def test_longer_text_is_refused_not_truncated(self, encoder: Encoder) -> None:
        longest = " ".join(["a"] * encoder.max_tokens)
        assert encoder.count_tokens([longest, longest + " a"]) == [encoder.max_tokens, encoder.max_tokens + 1]
        assert np.isfinite(encoder.encode_sentences([longest])).all()
        with pytest.raises(BadInput, match="Split it into chunks"):
            encoder.encode_sentences([longest + " a"])


class TokenEncoderContract(EncoderContract):
    """Tests of every encoder that also returns token vectors."""

    def test_offsets_point_to_the_words(self, encoder: Encoder) -> None:
        for text, encoded, count in zip(
            SAMPLE, encoder.encode_tokens(SAMPLE), encoder.count_tokens(SAMPLE), strict=True
        ):
            assert encoded.vectors.shape == (count, encoder.dimensions) and encoded.vectors.dtype == np.float32
            assert encoded.offsets.shape == (count, 2) and len(encoded.tokens) == count
            assert all(0 <= a <= b <= len(text) and " " not in text[a:b].strip() for a, b in encoded.offsets)


class TestMiniLM(TokenEncoderContract):
    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> Encoder:
        return load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")


class TestLocalFolder(TokenEncoderContract):
    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls, tiny: Path) -> Encoder:
        return load_encoder(str(tiny), device="cpu")


def test_equals_sentence_transformers_and_the_raw_network() -> None:
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel, AutoTokenizer

    folder = str(find_minilm_folder())
    encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")
    texts = [text for text in SAMPLE if "[SEP]" not in text and "\ud800" not in text]
    expected = SentenceTransformer(folder, device="cpu").encode(texts, normalize_embeddings=True)
    assert np.abs(encoder.encode_sentences(texts) - expected).max() < 1e-5
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        raw = model(**tokenizer(texts[1], return_tensors="pt")).last_hidden_state[0, 1:-1].numpy()
    encoded = encoder.encode_tokens([texts[1]])[0]
    assert np.abs(encoded.vectors - raw).max() < 1e-4
    assert [texts[1][a:b] for a, b in encoded.offsets][2:6] == ["the", "glucose", "-", "6"]
    assert "naive" in encoded.tokens
    odd = encoder.encode_tokens(["a [SEP] b", "x \ud800 y"])
    assert odd[0].tokens == ("a", "[", "sep", "]", "b"), "control tokens in a text are text"
    assert odd[1].offsets[-1].tolist() == [4, 5]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_packaged_network_has_the_bits_of_transformers(dtype: torch.dtype) -> None:
    from transformers import BertModel

    folder = find_minilm_folder()
    theirs, ours = BertModel.from_pretrained(folder, dtype=dtype).eval(), Bert(folder, dtype)
    for rows, length in ((1, 3), (5, 17), (2, 130)):
        ids = torch.randint(1000, 30000, (rows, length), generator=torch.Generator().manual_seed(length))
        with torch.inference_mode():
            expected = theirs(input_ids=ids, output_hidden_states=True).hidden_states
            output = ours(ids, output_hidden_states=True)
        assert output.hidden_states is not None and len(output.hidden_states) == len(expected)
        assert all(map(torch.equal, expected, output.hidden_states))
        assert torch.equal(output.last_hidden_state, expected[-1])


def test_auto_dtype_follows_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype, features in {
        "float32": set(),
        "bfloat16": {"avx512_bf16"},
        "bfloat16_amx": {"avx512_bf16", "amx_bf16"},
    }.items():
        monkeypatch.setattr(encoders, "_cpu_has", features.__contains__)
        assert f"-{dtype}-" in load_encoder(EMBEDDED_ENCODER, device="cpu").revision


def test_revision_of_a_folder_follows_its_content(tiny: Path, tmp_path: Path) -> None:
    before = load_encoder(str(tiny), device="cpu").revision
    copy = tmp_path / "copy"
    shutil.copytree(tiny, copy)
    assert load_encoder(str(copy), device="cpu").revision == before
    other = make_encoder(tmp_path / "other", seed=1)
    assert load_encoder(str(other), device="cpu").revision != before


def test_embedded_weights_are_checked_on_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "MINILM_SHA256", "0" * 64)
    with pytest.raises(ModelUnavailable, match=r"fail their checksum.*pip install --force-reinstall"):
        load_encoder(EMBEDDED_ENCODER)


def test_each_text_is_encoded_once_and_returned_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = WordEncoder()
    encoder = CachingEncoder(inner)
    texts = ["a", "bb", "a", "ccc"]
    assert np.array_equal(encoder.encode_sentences(texts), WordEncoder().encode_sentences(texts))
    assert np.array_equal(encoder.encode_sentences(["ccc", "d"]), WordEncoder().encode_sentences(["ccc", "d"]))
    assert inner.encoded_texts == ["a", "bb", "ccc", "d"]
    assert encoder.encode_sentences([]).shape == (0, inner.dimensions)
    monkeypatch.setattr(registry, "MAX_CACHED_VECTORS", 3)
    encoder.encode_sentences(["e"])
    assert len(encoder._sentences) == 3


def test_the_tokens_of_short_texts_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, calls, long = load_encoder(EMBEDDED_ENCODER), list[list[str]](), "glucose " * 40
    expected = inner.encode_tokens(["a cat", "a dog", long, "a cat"])
    encode = inner.encode_tokens
    monkeypatch.setattr(inner, "encode_tokens", lambda texts: calls.append(list(texts)) or encode(texts))
    encoder = CachingEncoder(inner)
    encoder.encode_tokens(["a dog", long])
    for tokens, reference in zip(encoder.encode_tokens(["a cat", "a dog", long, "a cat"]), expected, strict=True):
        assert tokens.tokens == reference.tokens and np.array_equal(tokens.vectors, reference.vectors)
    assert calls == [["a dog"], [long], ["a cat"], [long]]
    layers, expected_layers = (one.token_layers([long], 2)[0].vectors for one in (encoder, inner))
    assert np.array_equal(layers, expected_layers)


def test_pooled_vectors_have_their_own_length_and_the_same_direction() -> None:
    texts = ["a cat", "the capital of Australia is Canberra"]
    encoder = load_encoder(EMBEDDED_ENCODER)
    pooled = encoder.pool_sentences(texts)
    lengths = np.linalg.norm(pooled, axis=1)
    assert (np.abs(lengths - 1) > 0.1).all()
    np.testing.assert_allclose(pooled / lengths[:, None], encoder.encode_sentences(texts), atol=1e-5)


# Results of local models are bitwise equal for single texts, in any batch and with any number of threads


WORDS = "the fever aspirin insulin pain of may treat glucose lowers river copper near a in cell".split()  # noqa: SIM905
THREADS = st.sampled_from([1, 2, 4])
LENGTHS = st.one_of(st.integers(1, 24), st.sampled_from([31, 64, 127, 200]))
few_examples = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
        assert torch.get_num_threads() == count, "a call must not change the number of threads"
    finally:
        torch.set_num_threads(before)


def make_texts(lengths: Sequence[int], seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=length)) for length in lengths]


LONG_DTYPES = [pytest.param(dtype, marks=pytest.mark.long) for dtype in ("bfloat16", "float16")]


@pytest.fixture(scope="module", params=["float32", *LONG_DTYPES])
def encoder(request: pytest.FixtureRequest) -> LocalEncoder:
    return load_encoder(EMBEDDED_ENCODER, device="cpu", dtype=request.param)


@few_examples
@given(lengths=st.lists(LENGTHS, min_size=1, max_size=55), first=THREADS, second=THREADS, data=st.data())
def test_encoder_vectors_do_not_depend_on_batch_or_threads(
    encoder: LocalEncoder, lengths: list[int], first: int, second: int, data: st.DataObject
) -> None:
    texts = make_texts([*lengths, *[lengths[0]] * 9], len(lengths))
    sample = data.draw(st.lists(st.sampled_from(range(len(texts))), min_size=1, max_size=5, unique=True))
    with threads(first):
        batch_vectors, tokens = encoder.encode_sentences(texts), encoder.encode_tokens([texts[i] for i in sample])
    with threads(second):
        vectors, both = encoder.encode_with_tokens([texts[i] for i in sample])
        assert np.array_equal(vectors, batch_vectors[sample])
        assert all(np.array_equal(a.vectors, b.vectors) for a, b in zip(both, tokens, strict=True))
        assert np.array_equal(encoder.encode_sentences([texts[i] for i in sample]), batch_vectors[sample])
        for i, text_tokens in zip(sample, tokens, strict=True):
            assert np.array_equal(encoder.encode_sentences([texts[i]])[0], batch_vectors[i])
            assert np.array_equal(encoder.encode_tokens([texts[i]])[0].vectors, text_tokens.vectors)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoderReranker:
    return CrossEncoderReranker(str(make_cross_encoder(tmp_path_factory.mktemp("reranker"))), device="cpu")


@few_examples
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=40), first=THREADS, second=THREADS)
def test_reranker_scores_do_not_depend_on_batch_or_threads(
    reranker: CrossEncoderReranker, lengths: list[int], first: int, second: int
) -> None:
    pairs = [("fever pain", text) for text in make_texts([*lengths, *[lengths[0]] * 9], len(lengths))]
    with threads(first):
        batch_scores = reranker.score(pairs)
    with threads(second):
        assert np.array_equal(np.concatenate([reranker.score([pair]) for pair in pairs]), batch_scores)
        assert np.array_equal(reranker.score(pairs[::2]), batch_scores[::2])


@few_examples
@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=40), first=THREADS, second=THREADS)
def test_masked_model_results_do_not_depend_on_batch_or_threads(lengths: list[int], first: int, second: int) -> None:
    model = word_piece()
    texts = [f"the {MASK_SLOT} is near {text}" for text in make_texts([*lengths, *[lengths[0]] * 9], len(lengths))]
    plain = [text.replace(MASK_SLOT, "river") for text in texts]
    with threads(first):
        slots, words = model.slot_log_probs(texts, [0] * len(texts)), model.word_log_probs(plain)
        vectors = model.word_vectors(plain)
    with threads(second):
        for i in (0, len(texts) // 2, len(texts) - 1):
            assert np.array_equal(model.slot_log_probs([texts[i]], [0])[0], slots[i])
            assert np.array_equal(model.word_log_probs([plain[i]])[0], words[i])
            assert np.array_equal(model.word_vectors([plain[i]])[0].vectors, vectors[i].vectors)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_items_run_on_one_thread_each_in_order_and_raise_their_error(count: int) -> None:
    def work(item: int) -> tuple[int, int]:
        if item == 9:
            raise ValueError("nine")
        pools = [p for p in inference.native_thread_pools().info() if p["user_api"] == "blas"]
        # FAISS's OpenBLAS counts by OpenMP, whose limit is one thread's own; encoders do not call it.
        blas = [p["num_threads"] for p in pools if p["threading_layer"] != "openmp"]
        return item, torch.get_num_threads() if set(blas) == {1} or count == 1 else 0

    with threads(count):
        assert list(map_single_threaded(work, range(8))) == [(item, 1) for item in range(8)]
        assert list(map_single_threaded(work, [3])) == [(3, 1)]
        for items in ([9], range(12)):
            with pytest.raises(ValueError, match="nine"):
                list(map_single_threaded(work, items))


def test_different_kernels_have_different_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")
    assert load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32").revision == encoder.revision
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another CPU")
    assert load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32").revision != encoder.revision
