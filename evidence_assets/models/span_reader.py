"""Extractive question answering: any ``AutoModelForQuestionAnswering`` selects the answer as a span of a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.inference import load_pretrained, max_input_tokens, require_numbers
from evidence_assets.models.protocols import FloatArray

MAX_SPAN_TOKENS = 30
"""Maximum tokens of an answer."""
WINDOW_OVERLAP = 64
"""Tokens that neighbouring windows of a long text share."""


@dataclass(frozen=True)
class Span:
    """``text[start:end]``, its probability against no answer, and the number of tokens that were read."""

    start: int
    end: int
    probability: float
    tokens: int


class SpanReader:
    """Selects the span of a text that answers a question, or none.

    The score of a span is the sum of the logits of its first and last token; no answer has the score of the special
    first token (SQuAD 2.0). Longer texts are read in overlapping windows, and the best span of all windows wins.
    """

    def __init__(self, name: str, *, revision: str | None = None, device: str = "auto") -> None:
        """Load from a folder or a hub name; reads only safetensors. ``auto`` selects CUDA if available."""
        import torch
        from transformers import AutoModelForQuestionAnswering

        options = {"use_safetensors": True, "dtype": torch.float32}
        loaded = load_pretrained(AutoModelForQuestionAnswering, name, revision=revision, device=device, **options)
        self._model = loaded.model
        self._tokenizer = loaded.tokenizer
        self._device = loaded.device
        self.model_id = loaded.model_id
        self.revision = loaded.revision
        if not self._tokenizer.is_fast:
            raise ModelUnavailable(f"{self.model_id} has no fast tokenizer, which locates tokens in a text")
        self.max_tokens = max_input_tokens(self._model.config, int(self._tokenizer.model_max_length))

    def read(self, question: str, text: str) -> Span | None:
        """The best span of ``text``, or None for no answer; a question without room for a text is a ValueError."""
        if not text.strip():
            return None
        n_question = len(self._tokenizer(question)["input_ids"])
        if n_question > self.max_tokens // 2:
            raise ValueError(f"{self.model_id} reads {self.max_tokens} tokens, and the question alone has {n_question}")
        windows = self._tokenizer(
            question,
            text,
            truncation="only_second",
            max_length=self.max_tokens,
            stride=min(WINDOW_OVERLAP, self.max_tokens // 4),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        best_score = -np.inf
        best_span = (0, 0)
        no_answer = np.inf
        for number, ids in enumerate(windows["input_ids"]):
            starts, ends = self._logits({name: windows[name][number] for name in self._tokenizer.model_input_names})
            first = ids.index(self._tokenizer.cls_token_id)
            no_answer = min(no_answer, float(starts[first] + ends[first]))
            in_text = np.array([sequence == 1 for sequence in windows.sequence_ids(number)])
            scores = np.where(in_text, starts, -np.inf)[:, None] + np.where(in_text, ends, -np.inf)[None, :]
            is_span = np.tril(np.triu(np.ones(scores.shape, bool)), MAX_SPAN_TOKENS - 1)
            scores = np.where(is_span, scores, -np.inf)
            start, end = np.unravel_index(int(scores.argmax()), scores.shape)
            if scores[start, end] > best_score:
                offsets = windows["offset_mapping"][number]
                best_score = float(scores[start, end])
                best_span = (offsets[start][0], offsets[end][1])
        if best_score <= no_answer:
            return None
        probability = float(1 / (1 + np.exp(no_answer - best_score)))
        return Span(*best_span, round(probability, 6), sum(map(len, windows["input_ids"])))

    def _logits(self, features: dict[str, list[int]]) -> tuple[FloatArray, FloatArray]:
        import torch

        inputs = {name: torch.tensor([values], device=self._device) for name, values in features.items()}
        with torch.inference_mode():
            output = self._model(**inputs)
        starts, ends = (logits[0].float().cpu().numpy() for logits in (output.start_logits, output.end_logits))
        require_numbers(np.stack([starts, ends]), self.model_id)
        return starts, ends
