"""Rerankers: scores match the formula and depend on their pair alone; tuning of cross-encoders."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, set_seed

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.models.protocols import Encoder, Reranker
from evidence_assets.models.registry import get_reranker
from evidence_assets.models.rerankers import (
    CrossEncoderReranker,
    LabelledPair,
    MaxSimReranker,
    TuningSettings,
    tune_reranker,
)
from evidence_assets.profiles import EncoderSettings, RerankerSettings
from evidence_assets_tests.models.tiny import make_encoder

QUERY = "Which medicine treats type 2 diabetes?"
TEXTS = [
    "Metformin is prescribed for type 2 diabetes.",
    "A hammer is used for driving nails.",
    "Diabetes of type 2 is a disease, and metformin its first medicine!",
    "fever pain the of",
]
TOKEN_ENCODER = EncoderSettings(name=EMBEDDED_ENCODER, device="cpu")
PAIRS = [(query, text) for query in (QUERY, "driving nails", "pain") for text in TEXTS]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return load_encoder(EMBEDDED_ENCODER, device="cpu", dtype="float32")


def make_cross_encoder(folder: Path, outputs: int = 1) -> Path:
    make_encoder(folder)
    set_seed(0)
    config = BertConfig.from_pretrained(folder, num_labels=outputs)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


class RerankerContract:
    """Tests of every reranker; subclasses provide the fixture ``reranker``."""

    def test_fulfils_the_protocol(self, reranker: Reranker) -> None:
        assert reranker.model_id and reranker.revision
        assert reranker.score([]).shape == (0,)

    def test_score_depends_on_its_pair_alone(self, reranker: Reranker) -> None:
        scores = reranker.score(PAIRS)
        assert scores.shape == (len(PAIRS),) and scores.dtype == np.float32 and np.isfinite(scores).all()
        assert np.allclose([reranker.score([pair])[0] for pair in PAIRS], scores, atol=1e-6)
        assert len(set(scores.tolist())) > 3


class TestMaxSim(RerankerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, encoder: Encoder) -> Reranker:
        return MaxSimReranker(encoder)

    def test_is_the_formula(self, reranker: Reranker, encoder: Encoder) -> None:
        query, text = encoder.encode_tokens([QUERY, TEXTS[2]])
        total = []
        for vector, token in zip(query.vectors, query.tokens, strict=True):
            if token == "?":
                continue
            norms = np.linalg.norm(vector) * np.linalg.norm(text.vectors, axis=1)
            total.append(max(text.vectors @ vector / norms))
        assert reranker.score([(QUERY, TEXTS[2])])[0] == pytest.approx(np.mean(total), abs=1e-5)

    def test_empty_texts(self, reranker: Reranker) -> None:
        scores = reranker.score([("pain", ""), ("?!", "pain"), ("pain", "pain")])
        assert scores[:2].tolist() == [-1.0, 0.0] and scores[2] > 0.9


class TestCrossEncoder(RerankerContract):
    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, tmp_path_factory: pytest.TempPathFactory) -> Reranker:
        return CrossEncoderReranker(str(make_cross_encoder(tmp_path_factory.mktemp("cross"))), device="cpu")

    def test_equals_the_padded_network(self, reranker: Reranker) -> None:
        folder = reranker.model_id
        model, tokenizer = BertForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        features = tokenizer([q for q, _ in PAIRS], [t for _, t in PAIRS], padding=True, return_tensors="pt")
        expected = model.eval()(**features).logits[:, 0].detach().numpy()
        assert np.allclose(reranker.score(PAIRS), expected, atol=1e-5)

    def test_longer_pair_is_refused_not_truncated(self, reranker: Reranker) -> None:
        with pytest.raises(BadInput, match=r"longer than the 128 that .* reads. Split the text"):
            reranker.score([("pain", "pain " * 140)])


def test_the_longer_text_of_a_pair_is_cut_if_a_profile_wants_it(tmp_path: Path) -> None:
    """As the library of Sentence-BERT does; pairs that fit have the same score."""
    name = str(make_cross_encoder(tmp_path / "cross"))
    refusing, cutting = (
        get_reranker(RerankerSettings(name=name, device="cpu", truncate=truncate), TOKEN_ENCODER)
        for truncate in (False, True)
    )
    assert np.array_equal(cutting.score(PAIRS), refusing.score(PAIRS))
    expected, *longer = cutting.score([("fever", f"pain {'fever ' * n}the end") for n in (140, 141, 300)])
    assert longer == [expected, expected] and expected != cutting.score([("fever", "pain")])[0]
    assert cutting.revision != refusing.revision, "in the cache under a name of its own"


def test_a_model_with_several_outputs_is_no_reranker(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="has 3 outputs, but a reranker has one"):
        CrossEncoderReranker(str(make_cross_encoder(tmp_path / "three", outputs=3)))


QUERIES = ("what treats fever", "what treats pain", "what lowers glucose")
LABELLED = [
    LabelledPair(query, text, "aspirin" in text)
    for query in QUERIES
    for text in ("aspirin may treat it", "aspirin lowers it", "insulin may treat it", "choose one of the letters")
]
QUICK = TuningSettings(epochs=40, rate=2e-3)


def test_relevant_texts_score_higher_after_tuning(tmp_path: Path) -> None:
    base = make_cross_encoder(tmp_path / "base")
    losses = tune_reranker(str(base), LABELLED, tmp_path / "tuned", QUICK)
    assert len(losses) == 40
    assert losses[-1] < losses[0] / 2
    scores = CrossEncoderReranker(str(tmp_path / "tuned")).score([(pair.query, pair.text) for pair in LABELLED])
    relevant = np.array([pair.relevant for pair in LABELLED])
    assert np.median(scores[relevant]) > np.median(scores[~relevant])


def test_a_plain_encoder_gets_an_output_and_the_same_pairs_give_the_same_model(tmp_path: Path) -> None:
    base = make_encoder(tmp_path / "base")
    settings = replace(QUICK, epochs=1)
    for name in ("one", "two"):
        tune_reranker(str(base), LABELLED, tmp_path / name, settings)
    first, second = (CrossEncoderReranker(str(tmp_path / name)) for name in ("one", "two"))
    assert first.revision == second.revision
    tune_reranker(str(base), LABELLED, tmp_path / "other", replace(settings, seed=1))
    assert CrossEncoderReranker(str(tmp_path / "other")).revision != first.revision
