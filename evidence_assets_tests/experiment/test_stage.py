"""Progress of long work: rate, remaining time and detail."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

import pytest

from evidence_assets.experiment import stage
from evidence_assets.experiment.stage import ProgressReporter
from evidence_assets.models.protocols import Completion, Request
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets_tests.systems.small_models import CompletionStore, ScriptedGenerator


def test_slow_progress_is_in_seconds_each_with_its_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 20.0, 21.0, 40.0])
    monkeypatch.setattr(stage, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    messages: list[str] = []
    report = ProgressReporter("requests", messages.append, lambda: "100 prompt tokens")
    for completed in (2, 3, 80):
        report(completed, 82)
    assert messages == [
        "requests: 2 of 82, 10.0 s each, 800 s left; 100 prompt tokens",
        "requests: 80 of 82, 2.0 per second, 1 s left; 100 prompt tokens",
    ]


def test_each_round_of_requests_has_its_own_rate_without_cached_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(stage, "time", SimpleNamespace(monotonic=lambda: now))

    class SlowGenerator(ScriptedGenerator):
        """Takes ten seconds for each reply."""

        def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
            nonlocal now
            for number, completion in super().generate_each(requests):
                now += 10
                yield number, completion

    messages: list[str] = []
    model = LanguageModel(SlowGenerator("A"), CompletionStore(), ProgressReporter("requests", messages.append))
    requests = [Request("", f"question {number}") for number in range(5)]
    model.ask(requests[:2], lambda _, reply: reply)
    now += 1000
    model.ask(requests, lambda _, reply: reply)
    assert messages == [
        "requests: 1 of 2, 10.0 s each, 10 s left",
        "requests: 2 of 2, 10.0 s each",
        "requests: 3 of 5, 10.0 s each, 20 s left",
        "requests: 4 of 5, 10.0 s each, 10 s left",
        "requests: 5 of 5, 10.0 s each",
    ]
