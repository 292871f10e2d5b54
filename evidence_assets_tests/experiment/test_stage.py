"""Progress of long work: rate, remaining time and detail."""

from types import SimpleNamespace

import pytest

from evidence_assets.experiment import stage
from evidence_assets.experiment.stage import report_progress


def test_slow_progress_is_in_seconds_each_with_its_detail(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, 20.0, 21.0, 40.0])
    monkeypatch.setattr(stage, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    messages: list[str] = []
    report = report_progress("requests", messages.append, lambda: "100 prompt tokens")
    for completed in (2, 3, 80):
        report(completed, 82)
    assert messages == [
        "requests: 2 of 82, 10.0 s each, 800 s left; 100 prompt tokens",
        "requests: 80 of 82, 2.0 per second, 1 s left; 100 prompt tokens",
    ]
