"""Asking a language model: completions kept, one repair attempt for each unusable reply, and the registry of what is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Completion, Generator, Request
from evidence_assets.reasoning.requests import repair_request
from evidence_assets.reasoning.tasks import Failure
from evidence_assets.reasoning.templates import Template

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
    cache: Cache | None,
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
    cache
        Where completions are kept; None for a generator that keeps them itself, such as :class:`Remembered`.
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
            known = None if cache is None else cache.get(key)
            if known is None:
                missing.append((key, numbers))
            else:
                for number in numbers:
                    take(number, known)
        _tell(on_progress, len(results), len(requests))
        for place, completion in _each(generator, [asked[numbers[0]] for _, numbers in missing]):
            key, numbers = missing[place]
            usable = [take(number, completion) for number in numbers]
            if cache is not None and all(usable):
                cache.put(key, completion)
            _tell(on_progress, len(results), len(requests))

    round_of(dict(enumerate(requests)))
    first, refusals = refusals, {}
    if first:
        round_of({n: repair_request(requests[n], reply, reason) for n, (reason, reply) in first.items()})
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


@dataclass(frozen=True)
class PromptedTask(Generic[Task, T]):
    """One thing that a language model is asked.

    ``templates`` are its words; ``request`` puts a task into them with the shape asked of the reply, or raises a
    ``ValueError`` where the task has none; ``parse`` reads a reply strictly, or raises :class:`UnusableReply`.
    """

    name: str
    templates: tuple[Template, ...]
    request: Callable[[Task], Request]
    parse: Callable[[Completion, Task], T]

    def __post_init__(self) -> None:
        if PROMPTED_TASKS.setdefault(self.name, self) is not self:
            raise ValueError(f"there are two prompted tasks named {self.name!r}: give one another name")

    @property
    def version(self) -> str:
        """Changes with any word of the prompts."""
        return content_id(self.name, [template.hash for template in self.templates])

    def ask(
        self, generator: Generator, cache: Cache | None, tasks: Sequence[Task], on_progress: Progress | None = None
    ) -> list[T | Failure]:
        """One result a task, in order; see :func:`ask`. A task that cannot be put into words fails with the reason."""
        requests: dict[int, Request] = {}
        results: dict[int, T | Failure] = {}
        for number, task in enumerate(tasks):
            try:
                requests[number] = self.request(task)
            except ValueError as error:
                results[number] = Failure(str(error))
        places = list(requests)

        def read(place: int, completion: Completion) -> T:
            return self.parse(completion, tasks[places[place]])

        replies = ask(generator, cache, list(requests.values()), read, on_progress)
        results |= dict(zip(places, replies, strict=True))
        return [results[number] for number in range(len(tasks))]


PROMPTED_TASKS: dict[str, PromptedTask[Any, Any]] = {}
"""Every task that a language model is asked, by name."""
