"""The contract of every generator, and tests of each backend."""

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evidence_assets.lake.errors import BadInput, ModelUnavailable
from evidence_assets.models.local_generators import TransformersGenerator
from evidence_assets.models.protocols import Generator, Request
from evidence_assets.models.registry import load_generator
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.reasoning import prompted_solver
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.reasoning.prompted_solver import PromptedSolver
from evidence_assets.reasoning.tasks import Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure
from evidence_assets_tests.models.servers import complete
from evidence_assets_tests.models.tiny import make_causal
from evidence_assets_tests.reasoning.small_questions import make_question

EVIDENCE = (EvidenceItem("e1", "chunk", "d", "0:9", "Aspirin may treat pain."),)
QUESTION = make_question("What treats pain?", "aspirin", "gold")
EXPLAIN = ExplainOption(QUESTION, "A", EVIDENCE)
CHOOSE = ChooseAnswer(
    QUESTION,
    (Chain("A", (ChainStep("It treats pain.", ("e1",), ("may treat pain",)),)), Chain("B", ())),
    {"A": EVIDENCE, "B": EVIDENCE},
)
PLAIN = [Request("Be brief.", f"What is {term}?", max_tokens=8) for term in ("pain", "fever", "a drug", "pain")]
CHOICES = [Request("", "Choose.", max_tokens=32, choices=("A", "AB", "NOT ENOUGH INFORMATION", "C"))]
LONG = Request("", "pain " * 9000, max_tokens=8)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_causal(tmp_path_factory.mktemp("tiny-causal"))


@pytest.fixture(scope="module")
def local(causal: Path) -> TransformersGenerator:
    return TransformersGenerator(str(causal), device="cpu")


@pytest.fixture(scope="module", autouse=True)
def _short_chains() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompted_solver, "EXPLAIN_TOKENS", 40)
        yield


class GeneratorContract:
    """Tests of every generator; subclasses provide the fixture ``generator``."""

    def test_answers_are_in_order_and_independent_of_the_batch(self, generator: Generator) -> None:
        batch = complete(generator, PLAIN)
        alone = [complete(generator, [request])[0] for request in PLAIN]
        assert [each.text for each in batch] == [each.text for each in alone]
        assert generator.model_id and generator.revision
        assert batch[0].text == batch[3].text and len({each.text for each in batch}) > 1
        assert complete(generator, []) == []

    def test_completions_include_their_cost(self, generator: Generator) -> None:
        for completion in complete(generator, PLAIN):
            assert completion.prompt_tokens > 0 and 0 < completion.completion_tokens <= 8
            assert completion.seconds > 0 and completion.finish_reason in ("stop", "length")

    def test_reply_is_one_of_the_choices(self, generator: Generator) -> None:
        (completion,) = complete(generator, CHOICES)
        assert completion.text in CHOICES[0].choices and completion.finish_reason == "stop"

    def test_rated_choices_have_log_probabilities_and_the_best_is_the_reply(self, generator: Generator) -> None:
        request = Request("", "Choose.", max_tokens=4, choices=("A", "B", "C"), rates_choices=True)
        (completion,) = complete(generator, [request])
        ratings = completion.choice_log_probs
        assert len(ratings) == 3 and max(ratings) <= 0 and len(set(ratings)) > 1
        assert completion.text == request.choices[ratings.index(max(ratings))]

    def test_too_long_a_prompt_is_refused_alone(self, generator: Generator) -> None:
        answer, refusal = complete(generator, [PLAIN[0], LONG])
        assert not answer.is_refused and refusal.is_refused and refusal.text == ""

    def test_typed_tasks_end_in_an_answer_or_a_reason(self, generator: Generator) -> None:
        solver = PromptedSolver(LanguageModel(generator))
        (chain,), (choice,) = solver.explain([EXPLAIN]), solver.choose([CHOOSE])
        assert isinstance(chain, Failure) and "after one repair attempt" in chain.reason, "noise is never a chain"
        assert isinstance(choice, Choice) and choice.status in ("answered", "insufficient")


class TestTransformers(GeneratorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def generator(cls, local: TransformersGenerator) -> Generator:
        return local

    def test_sampling_does_not_change_the_global_random_state(self, local: TransformersGenerator) -> None:
        torch.manual_seed(5)
        expected = torch.rand(1)
        torch.manual_seed(5)
        replies = {complete(local, [replace(PLAIN[0], temperature=t)])[0].text for t in (0.0, 2.0)}
        assert len(replies) == 2 and torch.equal(torch.rand(1), expected)

    def test_a_model_that_cannot_be_loaded_is_an_error_with_a_remedy(
        self, causal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(ModelUnavailable, match="lacks its tokenizer"):
            TransformersGenerator(str(tmp_path))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(ModelUnavailable, match=r"'nobody/no-such-model' cannot be loaded.*give a model folder"):
            TransformersGenerator("nobody/no-such-model")
        with pytest.raises(BadInput, match="the backend extractive has no language model"):
            load_generator(GeneratorSettings(backend="extractive"))


HAS_BITSANDBYTES = all(importlib.util.find_spec(name) for name in ("accelerate", "bitsandbytes"))


@pytest.mark.skipif(not HAS_BITSANDBYTES, reason="needs the extra nf4: accelerate and bitsandbytes")
class TestFourBits(GeneratorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def generator(cls, causal: Path) -> Generator:
        return load_generator(GeneratorSettings(backend="transformers", name=str(causal), quantization="nf4"))

    def test_layers_are_in_4_bits_and_the_completion_cache_knows(
        self, generator: TransformersGenerator, local: TransformersGenerator
    ) -> None:
        weights = generator.network.model.layers[0].self_attn.q_proj.weight
        assert weights.dtype == torch.uint8 and weights.quant_state.quant_type == "nf4"
        assert generator.parameters == {**local.parameters, "quantization": "nf4"}
        assert generator.network.get_memory_footprint() < local.network.get_memory_footprint()


def test_four_bits_without_the_packages_are_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    settings = GeneratorSettings(backend="transformers", name="some/model", quantization="nf4")
    with pytest.raises(ModelUnavailable, match=r"some/model in 4 bits needs accelerate and bitsandbytes: pip install"):
        load_generator(settings)
