"""Extractive question answering: any ``AutoModelForQuestionAnswering`` selects the answer as a span of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evidence_assets.lake.errors import ModelUnavailable
from evidence_assets.models.inference import PretrainedModel, max_input_tokens, require_numbers
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


class SpanReader(PretrainedModel):
    """Selects the span of a text that answers a question, or none.

    The score of a span is the sum of the logits of its first and last token; no answer has the score of the special
    first token (SQuAD 2.0). Longer texts are read in overlapping windows, and the best span of all windows wins.
    """

    def __init__(self, name: str, *, revision: str | None = None, device: str = "auto") -> None:
        """Load from a folder or a hub name; reads only safetensors. ``auto`` selects CUDA if available."""
        import torch
        from transformers import AutoModelForQuestionAnswering

        options: dict[str, Any] = {"revision": revision, "use_safetensors": True, "dtype": torch.float32}
        super().__init__(AutoModelForQuestionAnswering, name, device=device, **options)
        if not self.tokenizer.is_fast:
            raise ModelUnavailable(f"{self.model_id} has no fast tokenizer, which locates tokens in a text")
        self.max_tokens = max_input_tokens(self.network.config, int(self.tokenizer.model_max_length))

    def read(self, question: str, text: str) -> Span | None:
        """The best span of ``text``, or None for no answer; a question without room for a text is a ValueError."""
        if not text.strip():
            return None
        n_question = len(self.tokenizer(question)["input_ids"])
        if n_question > self.max_tokens // 2:
            raise ValueError(f"{self.model_id} reads {self.max_tokens} tokens, and the question alone has {n_question}")
        windows = self.tokenizer(
            question,
            text,
            truncation="only_second",
            max_length=self.max_tokens,
            stride=min(WINDOW_OVERLAP, self.max_tokens // 4),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        readings = [self._read_window(windows, number) for number in range(len(windows["input_ids"]))]
        no_answer = min(reading.no_answer for reading in readings)
        best = max(readings, key=lambda reading: reading.score)  # ties go to the first window
        if best.score <= no_answer:
            return None
        probability = float(1 / (1 + np.exp(no_answer - best.score)))
        return Span(best.start, best.end, round(probability, 6), sum(map(len, windows["input_ids"])))

    def _read_window(self, windows: Any, number: int) -> _WindowReading:
        """The best span of a window."""
        starts, ends = self._logits({name: windows[name][number] for name in self.tokenizer.model_input_names})
        first = windows["input_ids"][number].index(self.tokenizer.cls_token_id)
        in_text = np.array([sequence == 1 for sequence in windows.sequence_ids(number)])
        scores = np.where(in_text, starts, -np.inf)[:, None] + np.where(in_text, ends, -np.inf)[None, :]
        is_span = np.tril(np.triu(np.ones(scores.shape, bool)), MAX_SPAN_TOKENS - 1)
        scores = np.where(is_span, scores, -np.inf)
        start, end = np.unravel_index(int(scores.argmax()), scores.shape)
        offsets = windows["offset_mapping"][number]
        no_answer = float(starts[first] + ends[first])
        return _WindowReading(float(scores[start, end]), offsets[start][0], offsets[end][1], no_answer)

    def _logits(self, features: dict[str, list[int]]) -> tuple[FloatArray, FloatArray]:
        import torch

        inputs = {name: torch.tensor([values], device=self.device) for name, values in features.items()}
        with torch.inference_mode():
            output = self.network(**inputs)
        starts, ends = (logits[0].float().cpu().numpy() for logits in (output.start_logits, output.end_logits))
        require_numbers(np.stack([starts, ends]), self.model_id)
        return starts, ends


class _WindowReading(NamedTuple):
    """Score and characters of the best span of a window, and the score of no answer."""

    score: float
    start: int
    end: int
    no_answer: float
