"""Calls of a language model: cached completions, token counts, one repair per unusable reply, the registry of tasks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Completion, CompletionStore, Generator, Request
from evidence_assets.reasoning.tasks import Failure, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED_PROMPTS, PromptSettings, Template, fence

REPAIR = Template.load(__package__, "repair", "system request reason reply")
MAX_EXCERPT_CHARACTERS = 400
"""Characters of an unusable reply that are shown to the model again."""
_BATCH_SIZE = 512
"""Requests handed at once to a generator that gives its completions only together."""
_MAX_REPLY_CHARACTERS = 20_000
"""Characters; the longest reply asked for has about 1,000 tokens."""
_TRUNCATION_REASONS = {
    "length": "it was cut off at the token limit",
    "content_filter": "the server's content filter broke it off",
}

T = TypeVar("T")
Task = TypeVar("Task")

Progress = Callable[[int, int], None]


@runtime_checkable
class _StreamingGenerator(Protocol):
    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]: ...


def completion_key(generator: Generator, request: Request) -> str:
    """What a completion is cached under: the model, its revision and settings, and the request."""
    asked = asdict(request)
    if not request.temperature:
        del asked["temperature"]  # so that what was kept before there was one is found
    return content_id(generator.model_id, generator.revision, generator.parameters, asked)


@dataclass
class Usage:
    """What asking came to. Tokens are those of all replies that were read, kept ones among them."""

    tasks: int = 0
    replies: int = 0
    cached_replies: int = 0
    repairs: int = 0
    truncated_replies: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def calls(self) -> int:
        """Replies that the model was asked for."""
        return self.replies - self.cached_replies

    def read(self, completion: Completion, *, kept: bool) -> None:
        """Count a reply."""
        self.replies += 1
        self.cached_replies += kept
        self.truncated_replies += completion.finish_reason == "length"
        self.tokens_in += completion.prompt_tokens
        self.tokens_out += completion.completion_tokens

    @staticmethod
    def metadata(usages: Iterable[Usage]) -> dict[str, float]:
        """Totals and means a task, as an asset shows them; nothing where nothing was asked."""
        counts = [asdict(usage) for usage in usages]
        total = {field.name: sum(count[field.name] for count in counts) for field in fields(Usage)}
        tasks = total.pop("tasks")
        if not tasks:
            return {}
        means = {f"{name}_a_task": round(total[name] / tasks, 1) for name in ("tokens_in", "tokens_out")}
        return {"model_tasks": tasks, **total, **means}


class LanguageModel:
    """A language model as tasks ask it.

    ``cache``: Where usable completions are kept between runs.
    ``on_progress``: Called with (tasks done, tasks in all).
    """

    def __init__(
        self,
        generator: Generator,
        cache: CompletionStore | None = None,
        on_progress: Progress | None = None,
        prompts: PromptSettings = PACKAGED_PROMPTS,
    ) -> None:
        self.prompts = prompts
        self._generator, self._cache, self._on_progress = generator, cache, on_progress
        self.model_id = f"{generator.model_id}@{generator.revision}"
        self.row = {
            "model_id": self.model_id,
            "name": generator.model_id,
            "revision": generator.revision,
            "task": "language model",
            "input_hash": content_id(generator.parameters),
        }
        """Of the table ``models``."""
        self.version = content_id(generator.model_id, generator.revision, generator.parameters)
        """Everything besides the request that decides a reply."""
        self.usage = Usage()

    def ask(self, requests: Sequence[Request], read: Callable[[int, str], T]) -> list[tuple[T | Failure, ReplyCost]]:
        """Ask, and read the replies, in the order asked; beside each result what it cost.

        ``read`` gets the number of a request and the text of its reply. One that it refuses (:class:`UnusableReply`) is
        asked for once more with the reason; if that is unusable too, the task fails with both reasons. Only usable
        replies are cached, so that a failed row is asked anew; what was replied before a server or calls give out is.
        """
        tasks = _PendingTasks(self.model_id, requests, read)
        self.usage.tasks += len(requests)
        self._ask_round(tasks, dict(enumerate(requests)))
        first, tasks.refusals = tasks.refusals, {}
        if first:
            self.usage.repairs += len(first)
            repairs = {n: repair_request(requests[n], reply, why, self.prompts) for n, (why, reply) in first.items()}
            self._ask_round(tasks, repairs)
        for number, (reason, reply) in tasks.refusals.items():
            before = first[number][0]
            again = "the same again" if reason == before else reason
            tasks.results[number] = Failure(
                f"the reply of {self._generator.model_id} is unusable: {before}; after one repair attempt: {again} "
                f"(it begins {reply[:60]!r})"
            )
        return [(tasks.results[number], tasks.spent[number]) for number in range(len(requests))]

    def _ask_round(self, tasks: _PendingTasks[T], requests: Mapping[int, Request]) -> None:
        """Settle tasks by kept replies, and by new ones where none is kept; the same request is sent once."""
        waiting: dict[str, list[int]] = {}
        for number, request in requests.items():
            waiting.setdefault(completion_key(self._generator, request), []).append(number)
        missing = []
        for key, numbers in waiting.items():
            known = None if self._cache is None else self._cache.get(key)
            if known is None:
                missing.append((key, numbers))
            else:
                self._take(tasks, numbers, known, kept=True)
        for place, completion in _generate_each(self._generator, [requests[numbers[0]] for _, numbers in missing]):
            key, numbers = missing[place]
            usable = self._take(tasks, numbers, completion, kept=False)
            if self._cache is not None and usable:
                self._cache.put(key, completion)

    def _take(self, tasks: _PendingTasks[T], numbers: Sequence[int], completion: Completion, *, kept: bool) -> bool:
        """Settle the tasks of one request by its completion; whether it is usable for all of them."""
        self.usage.read(completion, kept=kept)
        usable = [tasks.take(number, completion) for number in numbers]
        if self._on_progress is not None:
            self._on_progress(len(tasks.results), len(tasks.requests))
        return all(usable)


class _PendingTasks(Generic[T]):
    """The tasks of one call by number: what each came to, its unusable reply with the reason, and what it cost."""

    def __init__(self, model_id: str, requests: Sequence[Request], read: Callable[[int, str], T]) -> None:
        self.model_id, self.requests, self._read = model_id, requests, read
        self.results: dict[int, T | Failure] = {}
        self.refusals: dict[int, tuple[str, str]] = {}
        self.spent: dict[int, ReplyCost] = {}

    def take(self, number: int, completion: Completion) -> bool:
        """Settle a task by a completion, or note why it cannot be settled; whether the completion is usable."""
        asked = self.requests[number]
        tokens = completion.prompt_tokens, completion.completion_tokens
        cost = ReplyCost(self.model_id, *tokens, completion.finish_reason, content_id(asked.system, asked.user))
        self.spent[number] = self.spent[number].plus(cost) if number in self.spent else cost
        if completion.is_refused:
            self.results[number] = Failure(completion.finish_reason)
            return False
        try:
            self.results[number] = self._read(number, _checked_text(completion))
        except UnusableReply as error:
            self.refusals[number] = (str(error), completion.text)
            return False
        return True


class PromptPreviewModel(LanguageModel):
    """Puts what it is asked into a list instead of sending it, and replies with words that only fill the place, so that
    what a model is asked after its own replies is shown as well.
    """

    def __init__(self, shown: list[Request], prompts: PromptSettings = PACKAGED_PROMPTS) -> None:
        super().__init__(_NoGenerator(), prompts=prompts)
        self._shown = shown

    def ask(self, requests: Sequence[Request], read: Callable[[int, str], T]) -> list[tuple[T | Failure, ReplyCost]]:
        self._shown += requests
        nothing = ReplyCost(self.model_id, 0, 0, "shown")
        return [(_parse_placeholder(request, number, read), nothing) for number, request in enumerate(requests)]


class _NoGenerator:
    """No model at all."""

    model_id, revision = "nobody", "0"
    parameters: dict[str, object] = {}  # noqa: RUF012

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        raise NotImplementedError("what is shown is not sent")


def _parse_placeholder(request: Request, number: int, read: Callable[[int, str], T]) -> T | Failure:
    said = f"[reply {number + 1}]"
    steps = json.dumps({"steps": [{"text": said, "evidence": [], "quotes": []}]})
    answer = f"Answer: A\nExplanation: {said}"
    for reply in (steps, said, *request.choices[:1], "Answer: A", answer, f"({said}, {said}, {said})", "0.5"):
        with contextlib.suppress(UnusableReply):
            return read(number, reply)
    return Failure("nothing is replied")


def repair_request(request: Request, reply: str, reason: str, prompts: PromptSettings = PACKAGED_PROMPTS) -> Request:
    """Ask once more, after a reply that could not be used; a long reply is shown by its beginning only."""
    shown = reply[:MAX_EXCERPT_CHARACTERS] + (
        f" [{len(reply) - MAX_EXCERPT_CHARACTERS} more characters]" if len(reply) > MAX_EXCERPT_CHARACTERS else ""
    )
    return prompts.of(REPAIR).request(
        request.max_tokens,
        request.choices,
        request.json_schema,
        system=request.system,
        request=request.user,
        reason=reason,
        reply=fence("reply", shown),
    )


def _checked_text(completion: Completion) -> str:
    """The whole text of a reply; one that is not whole, empty or endless is unusable."""
    text = completion.text.strip()
    if completion.finish_reason in _TRUNCATION_REASONS:
        spent = f"{completion.completion_tokens} tokens after a prompt of {completion.prompt_tokens}"
        raise UnusableReply(
            f"{_TRUNCATION_REASONS[completion.finish_reason]} (finish reason {completion.finish_reason}, {spent})"
        )
    if not text:
        raise UnusableReply("it is empty")
    if len(text) > _MAX_REPLY_CHARACTERS:
        raise UnusableReply(f"it has {len(text)} characters, more than {_MAX_REPLY_CHARACTERS}")
    return text


def _generate_each(generator: Generator, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
    """(number, completion) as soon as the generator gives them."""
    if isinstance(generator, _StreamingGenerator):
        yield from generator.generate_each(requests)
        return
    for start in range(0, len(requests), _BATCH_SIZE):
        yield from enumerate(generator.generate(requests[start : start + _BATCH_SIZE]), start=start)


@dataclass(frozen=True)
class PromptedTask(Generic[Task, T]):
    """One thing that a language model is asked.

    ``build_request`` writes a task as a request with the wording of ``templates`` or the user's prompts; it raises a
    ``ValueError`` if it cannot. ``parse`` reads a reply strictly or raises :class:`UnusableReply`.
    """

    name: str
    templates: tuple[Template, ...]
    build_request: Callable[[Task, PromptSettings], Request]
    parse: Callable[[str, Task], T]

    def __post_init__(self) -> None:
        if PROMPTED_TASKS.setdefault(self.name, self) is not self:
            raise ValueError(f"there are two prompted tasks named {self.name!r}: give one another name")

    def version_with(self, prompts: PromptSettings = PACKAGED_PROMPTS) -> str:
        """Changes with any word of the prompts, and with what these words ask otherwise."""
        asked = (*self.templates, REPAIR)
        packaged = content_id(self.name, [template.hash for template in asked])
        own = [prompts.of(template).hash for template in asked] if prompts.folders else []
        limits = {template.name: prompts.tokens[template.name] for template in asked if template.name in prompts.tokens}
        stated = [part for part in (own, limits, prompts.temperature) if part]
        return content_id(packaged, *stated) if stated else packaged

    def ask(self, model: LanguageModel, tasks: Sequence[Task]) -> list[T | Failure]:
        """One result a task, in order."""
        return [result for result, _ in self.ask_with_cost(model, tasks)]

    def ask_with_cost(self, model: LanguageModel, tasks: Sequence[Task]) -> list[tuple[T | Failure, ReplyCost | None]]:
        """One result a task, with what it cost. A task that cannot be put into words fails with the reason."""
        requests: dict[int, Request] = {}
        results: dict[int, tuple[T | Failure, ReplyCost | None]] = {}
        for number, task in enumerate(tasks):
            try:
                requests[number] = self.build_request(task, model.prompts)
            except ValueError as error:
                results[number] = Failure(str(error)), None
        places = list(requests)
        replies = model.ask(list(requests.values()), lambda place, reply: self.parse(reply, tasks[places[place]]))
        for number, replied in zip(places, replies, strict=True):
            results[number] = replied
        return [results[number] for number in range(len(tasks))]


PROMPTED_TASKS: dict[str, PromptedTask[Any, Any]] = {}
"""Every task that a language model is asked, by name."""
