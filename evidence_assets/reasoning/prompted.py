"""The solver that puts the typed tasks to a language model and reads its replies.

Belongs here: asking through the cache, one repair attempt, and what a usable reply means. The wording is in
``prompts``, the strict reading in ``parsing`` and ``answers``; tasks on tables have their own in ``table_prompts``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Protocol, TypeVar, runtime_checkable

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Completion, Generator, Request
from evidence_assets.reasoning import answers, parsing, prompts, table_prompts, table_tasks
from evidence_assets.reasoning.citations import check
from evidence_assets.reasoning.table_prompts import is_table_task
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Failure

NOT_ENOUGH = "NOT ENOUGH INFORMATION"
BATCH = 512
"""Requests handed at once to a generator that gives its completions only together."""

T = TypeVar("T")
Task = TypeVar("Task")
Progress = Callable[[int, int], None]


class Cache(Protocol):
    """Completions by key; a crash or a backfill never pays twice."""

    def get(self, key: str) -> Completion | None: ...
    def put(self, key: str, completion: Completion) -> None: ...


@runtime_checkable
class _GivesEach(Protocol):
    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]: ...


def completion_key(generator: Generator, request: Request) -> str:
    """What a completion is cached under: the model, its revision and settings, and the request."""
    return content_id(generator.model_id, generator.revision, generator.parameters, asdict(request))


def ask(
    generator: Generator,
    cache: Cache,
    requests: Sequence[Request],
    read: Callable[[int, Completion], T],
    on_progress: Progress | None = None,
) -> list[T | Failure]:
    """Ask a model and read its replies, in the order asked.

    A reply that ``read`` refuses (:class:`UnusableReply`) is asked for once more with the reason; if that is unusable
    too, the task fails with both reasons. Only usable replies are cached, so that a failed row is asked anew. The same
    request is asked once. A server that gives out raises :class:`ModelUnavailable` after what it did reply is cached.

    Parameters
    ----------
    read
        Gets the number of the request and its completion.
    on_progress
        Called with (tasks done, tasks in all).
    """
    results: dict[int, T | Failure] = {}
    refusals: dict[int, tuple[str, str]] = {}

    def take(number: int, completion: Completion) -> bool:
        """Settle a task by a completion, or note why it cannot be settled; whether the completion is usable."""
        if completion.refused:
            results[number] = Failure(completion.finish_reason)
            return False
        try:
            results[number] = read(number, completion)
        except UnusableReply as error:
            refusals[number] = (str(error), completion.text)
            return False
        return True

    def round_of(asked: dict[int, Request]) -> None:
        waiting: dict[str, list[int]] = {}
        for number, request in asked.items():
            waiting.setdefault(completion_key(generator, request), []).append(number)
        missing = []
        for key, numbers in waiting.items():
            known = cache.get(key)
            if known is None:
                missing.append((key, numbers))
            else:
                for number in numbers:
                    take(number, known)
        _tell(on_progress, len(results), len(requests))
        for place, completion in _each(generator, [asked[numbers[0]] for _, numbers in missing]):
            key, numbers = missing[place]
            usable = [take(number, completion) for number in numbers]
            if all(usable):
                cache.put(key, completion)
            _tell(on_progress, len(results), len(requests))

    round_of(dict(enumerate(requests)))
    first, refusals = refusals, {}
    if first:
        round_of({n: prompts.repair_request(requests[n], reply, reason) for n, (reason, reply) in first.items()})
    for number, (reason, reply) in refusals.items():
        before = first[number][0]
        again = "the same again" if reason == before else reason
        results[number] = Failure(
            f"the reply of {generator.model_id} is unusable: {before}; after one repair attempt: {again} "
            f"(it begins {reply[:60]!r})"
        )
    if refusals:
        _tell(on_progress, len(results), len(requests))
    return [results[number] for number in range(len(requests))]


def _tell(on_progress: Progress | None, done: int, total: int) -> None:
    if on_progress is not None:
        on_progress(done, total)


def _each(generator: Generator, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
    """(number, completion) as soon as the generator gives them."""
    if isinstance(generator, _GivesEach):
        yield from generator.generate_each(requests)
        return
    for start in range(0, len(requests), BATCH):
        yield from enumerate(generator.generate(requests[start : start + BATCH]), start=start)


class Remembered:
    """A generator whose completions are kept: what was replied once is not asked for again.

    For tasks that repair and parse replies by themselves. Refusals and replies that were cut off are not kept.
    """

    def __init__(self, generator: Generator, cache: Cache, on_progress: Progress | None = None) -> None:
        self._generator, self._cache, self._on_progress = generator, cache, on_progress
        self.model_id, self.revision, self.parameters = generator.model_id, generator.revision, generator.parameters

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """One completion a request, in the order asked; the same request is asked once."""
        keys = [completion_key(self._generator, request) for request in requests]
        found = {key: known for key in dict.fromkeys(keys) if (known := self._cache.get(key)) is not None}
        missing = {key: request for key, request in zip(keys, requests, strict=True) if key not in found}
        names = list(missing)
        for place, completion in _each(self._generator, list(missing.values())):
            found[names[place]] = completion
            if not completion.refused and completion.finish_reason != "length":
                self._cache.put(names[place], completion)
            _tell(self._on_progress, len(found), len(set(keys)))
        return [found[key] for key in keys]


class PromptedSolver:
    """Answers the typed tasks by asking a language model.

    The label is the model's; which options count as supported is not: those whose chain has a citation that verifies.
    Where evidence was given and no chain cites it rightly, the status is ``insufficient`` whatever the model says.
    Confidence is the share of the chosen chain's citations that verify, 0 without a chain.

    Parameters
    ----------
    generator
        The model.
    cache
        Where completions are kept between runs.
    on_progress
        Called with (tasks done, tasks in all).
    """

    name = "prompted"

    def __init__(self, generator: Generator, cache: Cache, on_progress: Progress | None = None) -> None:
        self.generator, self.cache, self.on_progress = generator, cache, on_progress
        self.model_id = generator.model_id
        versions = [prompts.VERSION, parsing.VERSION, answers.VERSION, table_prompts.VERSION, table_tasks.VERSION]
        self.version = f"{generator.revision}-{content_id(generator.parameters, versions)[:12]}"

    def task_version(self, task: ExplainOption) -> str:
        """The version: nothing else bears on a task."""
        return self.version

    def explain(self, tasks: Sequence[ExplainOption]) -> list[Chain | Failure]:
        """One chain an option."""

        def build(task: ExplainOption) -> Request:
            return table_prompts.explain_request(task) if is_table_task(task) else prompts.explain_request(task)

        def read(task: ExplainOption, request: Request, completion: Completion) -> Chain:
            parse = table_prompts.parse_steps if is_table_task(task) else parsing.parse_steps
            return Chain(task.hypothesis, parse(completion, task), None, content_id(request.system, request.user))

        return self._put(tasks, build, read)

    def choose(self, tasks: Sequence[ChooseAnswer]) -> list[Choice | Failure]:
        """One label a question."""

        def build(task: ChooseAnswer) -> Request:
            return table_prompts.choose_request(task) if is_table_task(task) else prompts.choose_request(task)

        def read(task: ChooseAnswer, request: Request, completion: Completion) -> Choice:
            parse = table_prompts.parse_choice if is_table_task(task) else parsing.parse_choice
            return _judged(task, parse(completion, task))

        return self._put(tasks, build, read)

    def _put(
        self, tasks: Sequence[Task], build: Callable[[Task], Request], read: Callable[[Task, Request, Completion], T]
    ) -> list[T | Failure]:
        """Ask one request a task; a task that cannot be put into words fails with the reason."""
        requests: dict[int, Request] = {}
        results: dict[int, T | Failure] = {}
        for number, task in enumerate(tasks):
            try:
                requests[number] = build(task)
            except ValueError as error:
                results[number] = Failure(str(error))
        asked = list(requests)

        def read_one(place: int, completion: Completion) -> T:
            return read(tasks[asked[place]], requests[asked[place]], completion)

        replies = ask(self.generator, self.cache, list(requests.values()), read_one, self.on_progress)
        results |= dict(zip(asked, replies, strict=True))
        return [results[number] for number in range(len(tasks))]


def _judged(task: ChooseAnswer, answer: str | None) -> Choice:
    """A model's label with what the citations say to it."""
    shares = {}
    for chain in task.chains:
        verdicts = [citation.verdict for citation in check(chain, _evidence_of(task, chain))]
        shares[chain.hypothesis] = verdicts.count("verified") / len(verdicts) if verdicts else 0.0
    supported = tuple(label for label in task.labels if shares.get(label, 0) > 0)
    if answer == NOT_ENOUGH and task.task == "verification":
        # That nothing settles a claim is an answer, for which no cell need speak.
        return Choice(answer, (answer,), "insufficient", round(shares.get(answer, 0.0), 6))
    unfounded = bool(task.chains) and any(task.evidence.values()) and not supported
    if answer is None or unfounded:
        return Choice(None, supported, "insufficient", 0.0)
    return Choice(answer, supported, "answered", round(shares.get(answer, 0.0), 6))


def _evidence_of(task: ChooseAnswer, chain: Chain) -> tuple[EvidenceItem, ...]:
    return task.evidence.get(chain.hypothesis, ())
