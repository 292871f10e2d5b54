"""Replies of a model to the sample's tasks: kept, counted, and asked for once."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evidence_assets.models.protocols import Completion, Request
from evidence_assets.profiles import SHORT_WORK
from evidence_assets.reasoning.model_calls import PROMPTED_TASKS
from evidence_assets.reasoning.tasks import Chain, ChainStep
from evidence_assets.reasoning.templates import PACKAGED
from tools.real_replies import KeptReplies, ask_task, citation_verdicts, count_outcomes, is_insufficient
from tools.sample_tasks import TASKS, build_tasks


class Scripted:
    """A generator that replies "perhaps" to some requests, and "wrong" to others; repairs quote the first reply."""

    model_id, revision = "scripted", "1"
    parameters: dict[str, object] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.n_requests = 0
        self.token_limits = set[int]()

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        for number, request in enumerate(requests):
            self.n_requests += 1
            self.token_limits.add(request.max_tokens)
            is_unusable = "asbestos" in request.user or "lens" in request.user
            is_repaired = "perhaps" in request.user and "asbestos" in request.user
            yield number, Completion("perhaps" if is_unusable and not is_repaired else "wrong", 10, 1, 0.1, "stop")


@pytest.mark.parametrize("name", sorted(PROMPTED_TASKS))
def test_each_task_has_thirty_different_requests(name: str) -> None:
    requests = [PROMPTED_TASKS[name].build_request(task, PACKAGED) for task in build_tasks(name)]
    assert len({request.user for request in requests}) == len(requests) == TASKS


def test_replies_are_counted_and_asked_for_once(tmp_path: Path) -> None:
    inputs = build_tasks("judge")
    generator = Scripted()
    outcomes, usage = ask_task("judge", KeptReplies(generator, tmp_path), inputs)
    n_repaired = sum("asbestos" in text for text in inputs)
    n_failed = sum("lens" in text for text in inputs)
    assert n_repaired and n_failed and n_repaired + n_failed < len(inputs)
    row = count_outcomes("judge", outcomes, usage)
    assert row[:6] == ("judge", *map(str, (len(inputs), len(inputs) - n_failed, n_repaired, n_failed, 0)))
    for text, outcome in zip(inputs, outcomes, strict=True):
        expected = ("perhaps", "wrong") if "asbestos" in text else ("perhaps",) * 2 if "lens" in text else ("wrong",)
        assert outcome.replies == expected and bool(outcome.failure) == ("lens" in text)
    n_requests = generator.n_requests
    again = ask_task("judge", KeptReplies(generator, tmp_path), inputs)
    assert again == (outcomes, usage) and generator.n_requests == n_requests


def test_explanations_are_as_short_as_those_of_users(tmp_path: Path) -> None:
    generator = Scripted()
    ask_task("explain", KeptReplies(generator, tmp_path), build_tasks("explain")[:3])
    assert generator.token_limits == {SHORT_WORK["explanation_tokens"]}


@pytest.mark.parametrize(
    ("name", "reply", "expected"),
    [
        ("written", "N/A", True),
        ("written", "Gout is a disease [1].", False),
        ("written", "Gout is a disease [1]. It hurts [2].", False),
        ("yes_no", "C", True),
        ("yes_no", "A", False),
        ("published_answer", "Answer: insufficient", True),
        ("published_answer", "Answer: A", False),
        ("recall_names", "None.", True),
        ("recall_names", "Bern", False),
    ],
)
def test_a_reply_that_gives_nothing_is_insufficient(name: str, reply: str, expected: bool) -> None:
    task = build_tasks(name)[0]
    result = PROMPTED_TASKS[name].parse(reply, task)
    assert is_insufficient(result) is expected
    citation_verdicts(task, result)


def test_citations_are_checked_on_what_the_task_shows() -> None:
    explain = build_tasks("explain")[0]
    item = explain.evidence[0]
    steps = (ChainStep("", (item.evidence_id,)), ChainStep("", ("evidence 9",)), ChainStep("", (), ("no such words",)))
    verdicts = ("verified", "absent", "absent")
    assert citation_verdicts(explain, Chain("A", steps)) == verdicts
    choice = build_tasks("published_answer")[0]
    item = next(iter(choice.evidence.values()))[0]
    quoted = Chain("", (ChainStep("", (item.evidence_id,), ("no such words",)),))
    assert citation_verdicts(choice, (None, quoted)) == ("misquoted",)
    assert citation_verdicts("a statement", True) == ()
