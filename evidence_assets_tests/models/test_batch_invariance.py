"""Results of local models are bitwise equal for single texts, in any batch and with any number of threads."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.inference import map_single_threaded
from evidence_assets.models.protocols import Encoder
from evidence_assets.models.rerankers import CrossEncoderReranker
from evidence_assets.text.prompt_text import MASK_SLOT
from evidence_assets_tests.models.test_rerankers import make_cross_encoder
from evidence_assets_tests.models.tiny_masked import word_piece

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


@pytest.fixture(scope="module", params=["float32", "bfloat16", pytest.param("float16", marks=pytest.mark.long)])
def encoder(request: pytest.FixtureRequest) -> Encoder:
    if request.param == "bfloat16" and torch.cpu.get_capabilities().get("amx_bf16"):
        pytest.skip("not selected automatically on CPUs with AMX")
    return load_encoder(EMBEDDED_ENCODER, device="cpu", dtype=request.param)


@few_examples
@given(lengths=st.lists(LENGTHS, min_size=1, max_size=55), first=THREADS, second=THREADS, data=st.data())
def test_encoder_vectors_do_not_depend_on_batch_or_threads(
    encoder: Encoder, lengths: list[int], first: int, second: int, data: st.DataObject
) -> None:
    texts = make_texts([*lengths, *[lengths[0]] * 9], len(lengths))
    sample = data.draw(st.lists(st.sampled_from(range(len(texts))), min_size=1, max_size=5, unique=True))
    with threads(first):
        batch_vectors, tokens = encoder.encode_sentences(texts), encoder.encode_tokens([texts[i] for i in sample])
    with threads(second):
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
            assert np.array_equal(model.word_log_probs([plain[i]])[0].log_probs, words[i].log_probs)
            assert np.array_equal(model.word_vectors([plain[i]])[0].vectors, vectors[i].vectors)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_items_run_on_one_thread_each_in_order_and_raise_their_error(count: int) -> None:
    def work(item: int) -> tuple[int, int]:
        if item == 9:
            raise ValueError("nine")
        return item, torch.get_num_threads()

    with threads(count):
        assert list(map_single_threaded(work, range(8))) == [(item, 1) for item in range(8)]
        assert list(map_single_threaded(work, [3])) == [(3, 1)]
        for items in ([9], range(12)):
            with pytest.raises(ValueError, match="nine"):
                list(map_single_threaded(work, items))


def test_different_kernels_have_different_revisions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    encoder = load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")
    assert load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32").revision == encoder.revision
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32").revision != encoder.revision
