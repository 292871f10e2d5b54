"""Calls of a language model: cached completions, token counts, one repair per unusable reply, the registry of tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, TypeVar

from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.models.protocols import Completion, CompletionStore, Generator, Request
from evidence_assets.reasoning.tasks import Failure, Omission, ReplyCost
from evidence_assets.reasoning.templates import PACKAGED, Prompts, Template, fence

REPAIR = Template.load(__package__, "repair", "system request reason reply")
MAX_EXCERPT_CHARACTERS = 400
"""Characters of an unusable reply that a repair prompt quotes."""
_MAX_REPLY_CHARACTERS = 20_000
"""Longer replies are unusable; the longest expected reply has about 1,000 tokens."""
REACHED_LIMIT = "length"
"""Finish reason of a reply that ends at the token limit."""
_TRUNCATION_REASONS = {
    REACHED_LIMIT: "it was cut off at the token limit",
    "content_filter": "the server's content filter broke it off",
}

T = TypeVar("T")
Task = TypeVar("Task")

Progress = Callable[[int, int], None]


def completion_key(generator: Generator, request: Request) -> str:
    """Cache key of a completion: the model, its revision and parameters, and the request."""
    fields_ = asdict(request)
    if not request.temperature:
        del fields_["temperature"]  # keys from before this field existed stay valid
    return content_id(generator.model_id, generator.revision, generator.parameters, fields_)


@dataclass
class Usage:
    """Counts of tasks, replies and tokens; tokens include cached replies."""

    tasks: int = 0
    replies: int = 0
    cached_replies: int = 0
    repairs: int = 0
    truncated_replies: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def calls(self) -> int:
        """Replies that came from the model instead of the cache."""
        return self.replies - self.cached_replies

    def count(self, completion: Completion, *, is_cached: bool) -> None:
        """Count a reply."""
        self.replies += 1
        self.cached_replies += is_cached
        self.truncated_replies += completion.finish_reason == REACHED_LIMIT
        self.tokens_in += completion.prompt_tokens
        self.tokens_out += completion.completion_tokens

    @staticmethod
    def metadata(usages: Iterable[Usage]) -> dict[str, float]:
        """Totals and means per task, as metadata of an asset; empty without tasks."""
        counts = [asdict(usage) for usage in usages]
        total = {field.name: sum(count[field.name] for count in counts) for field in fields(Usage)}
        tasks = total.pop("tasks")
        if not tasks:
            return {}
        means = {f"{name}_per_task": round(total[name] / tasks, 1) for name in ("tokens_in", "tokens_out")}
        return {"model_tasks": tasks, **total, **means}


class LanguageModel:
    """A generator with a completion cache and one repair attempt per unusable reply.

    ``cache``: Stores usable completions between runs.
    ``on_progress``: Called with (finished tasks, all tasks).
    """

    def __init__(
        self,
        generator: Generator,
        cache: CompletionStore | None = None,
        on_progress: Progress | None = None,
        prompts: Prompts = PACKAGED,
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
        """Its row in the table ``models``."""
        self.version = content_id(generator.model_id, generator.revision, generator.parameters)
        """Hash of everything that determines a reply, except the request."""
        self.usage = Usage()

    def ask(
        self, requests: Sequence[Request], parse: Callable[[int, str], T], *, accepts_truncated: bool = False
    ) -> list[tuple[T | Failure, ReplyCost]]:
        """Send requests and parse the replies; returns results with their costs in the order of the requests.

        ``accepts_truncated``: Also parse replies that end at the token limit; otherwise they are unusable.
        ``parse`` gets the number of a request and the text of its reply. If it raises :class:`UnusableReply`, the
        request is repeated once with the reason. If the second reply is unusable, too, the task fails with both
        reasons. Only usable replies are cached, so that a rerun repeats failed tasks. Replies are cached one by one, so
        that they survive a server failure.
        """
        tasks = _PendingTasks(self.model_id, requests, parse, accepts_truncated=accepts_truncated)
        self.usage.tasks += len(requests)
        self._ask_round(tasks, dict(enumerate(requests)))
        refusals, tasks.refusals = tasks.refusals, {}
        if refusals:
            self.usage.repairs += len(refusals)
            repairs = {
                n: repair_request(requests[n], reply, reason, self.prompts) for n, (reason, reply) in refusals.items()
            }
            self._ask_round(tasks, repairs)
        for number, (reason, reply) in tasks.refusals.items():
            first_reason = refusals[number][0]
            last_reason = "the same again" if reason == first_reason else reason
            tasks.results[number] = Failure(
                f"the reply of {self._generator.model_id} is unusable: {first_reason}; after one repair attempt: "
                f"{last_reason} (it begins {reply[:60]!r})"
            )
        return [(tasks.results[number], tasks.spent[number]) for number in range(len(requests))]

    def _ask_round(self, tasks: _PendingTasks[T], requests: Mapping[int, Request]) -> None:
        """Answer requests from the cache, else from the model; equal requests are sent once."""
        waiting: dict[str, list[int]] = {}
        for number, request in requests.items():
            waiting.setdefault(completion_key(self._generator, request), []).append(number)
        uncached = []
        for key, numbers in waiting.items():
            cached_completion = None if self._cache is None else self._cache.get(key)
            if cached_completion is None:
                uncached.append((key, numbers))
            else:
                self._take(tasks, numbers, cached_completion, is_cached=True)
        for position, completion in self._generator.generate_each([requests[numbers[0]] for _, numbers in uncached]):
            key, numbers = uncached[position]
            usable = self._take(tasks, numbers, completion, is_cached=False)
            if self._cache is not None and usable:
                self._cache.put(key, completion)

    def _take(self, tasks: _PendingTasks[T], numbers: Sequence[int], result: Completion, *, is_cached: bool) -> bool:
        """Record a completion for all tasks of its request; returns whether it is usable for all of them."""
        self.usage.count(result, is_cached=is_cached)
        usable = [tasks.take(number, result) for number in numbers]
        if self._on_progress is not None:
            self._on_progress(len(tasks.results), len(tasks.requests))
        return all(usable)


class _PendingTasks(Generic[T]):
    """The tasks of a call by number, with their results, refusals (reason and reply) and costs."""

    def __init__(
        self, model_id: str, requests: Sequence[Request], parse: Callable[[int, str], T], *, accepts_truncated: bool
    ) -> None:
        self.model_id, self.requests, self._parse = model_id, requests, parse
        self._accepts_truncated = accepts_truncated
        self.results: dict[int, T | Failure] = {}
        self.refusals: dict[int, tuple[str, str]] = {}
        self.spent: dict[int, ReplyCost] = {}

    def take(self, number: int, completion: Completion) -> bool:
        """Parse a completion into a result, or record why it is unusable; returns whether the completion is usable."""
        request = self.requests[number]
        tokens = completion.prompt_tokens, completion.completion_tokens
        cost = ReplyCost(self.model_id, *tokens, completion.finish_reason, content_id(request.system, request.user))
        self.spent[number] = self.spent[number].plus(cost) if number in self.spent else cost
        if completion.is_refused:
            self.results[number] = Failure(completion.finish_reason)
            return False
        try:
            text = _checked_text(completion, accepts_truncated=self._accepts_truncated)
            self.results[number] = self._parse(number, text)
        except UnusableReply as error:
            self.refusals[number] = (str(error), completion.text)
            return False
        return True


def repair_request(request: Request, reply: str, reason: str, prompts: Prompts = PACKAGED) -> Request:
    """Request a repair of an unusable reply; a long reply is quoted by its beginning only."""
    excerpt = reply[:MAX_EXCERPT_CHARACTERS] + (
        f" [{len(reply) - MAX_EXCERPT_CHARACTERS} more characters]" if len(reply) > MAX_EXCERPT_CHARACTERS else ""
    )
    return prompts.customize(REPAIR).request(
        request.max_tokens,
        request.choices,
        request.json_schema,
        system=request.system,
        request=request.user,
        reason=reason,
        reply=fence("reply", excerpt),
    )


def _checked_text(completion: Completion, *, accepts_truncated: bool) -> str:
    """The text of a reply; raises UnusableReply if it is truncated, empty or too long."""
    text = completion.text.strip()
    is_accepted = accepts_truncated and completion.finish_reason == REACHED_LIMIT and bool(text)
    if completion.finish_reason in _TRUNCATION_REASONS and not is_accepted:
        usage = f"{completion.completion_tokens} tokens after a prompt of {completion.prompt_tokens}"
        raise UnusableReply(
            f"{_TRUNCATION_REASONS[completion.finish_reason]} (finish reason {completion.finish_reason}, {usage})"
        )
    if not text:
        raise UnusableReply("it is empty")
    if len(text) > _MAX_REPLY_CHARACTERS:
        raise UnusableReply(f"it has {len(text)} characters, more than {_MAX_REPLY_CHARACTERS}")
    return text


def find_cut(reply: ReplyCost | None, part: str) -> tuple[Omission, ...]:
    """The omission of a reply's end, named ``part``, if the reply ends at the token limit."""
    if reply is None or reply.finish_reason != REACHED_LIMIT:
        return ()
    return (Omission("cut", part, f"the reply ends after {reply.tokens_out} tokens"),)


@dataclass(frozen=True)
class PromptedTask(Generic[Task, T]):
    """A task for a language model: its templates, how to build a request, and how to parse a reply.

    ``build_request`` writes a task as a request with the wording of ``templates`` or the user's prompts; it raises a
    ``ValueError`` if it cannot. ``parse`` reads a reply strictly or raises :class:`UnusableReply`.
    ``accepts_truncated``: Parse a reply that ends at the token limit as it is, as papers do with explanations.
    """

    name: str
    templates: tuple[Template, ...]
    build_request: Callable[[Task, Prompts], Request]
    parse: Callable[[str, Task], T]
    accepts_truncated: bool = False

    def __post_init__(self) -> None:
        if PROMPTED_TASKS.setdefault(self.name, self) is not self:
            raise ValueError(f"two prompted tasks have the name {self.name!r}: rename one")

    def version_with(self, prompts: Prompts = PACKAGED) -> str:
        """Hash of the packaged prompts and of the settings that change them."""
        templates = (*self.templates, REPAIR)
        packaged = content_id(self.name, [t.hash for t in templates])
        custom = [prompts.customize(t).hash for t in templates] if prompts.folders else []
        changes = [part for part in (custom, prompts.temperature) if part]
        return content_id(packaged, *changes) if changes else packaged

    def ask(self, model: LanguageModel, tasks: Sequence[Task]) -> list[T | Failure]:
        """One result per task, in order."""
        return [result for result, _ in self.ask_with_cost(model, tasks)]

    def ask_with_cost(self, model: LanguageModel, tasks: Sequence[Task]) -> list[tuple[T | Failure, ReplyCost | None]]:
        """One result per task with its cost; a task for which no request can be built fails with the reason."""
        requests: dict[int, Request] = {}
        results: dict[int, tuple[T | Failure, ReplyCost | None]] = {}
        for number, task in enumerate(tasks):
            try:
                requests[number] = self.build_request(task, model.prompts)
            except ValueError as error:
                results[number] = Failure(str(error)), None
        numbers = list(requests)
        replies = model.ask(
            list(requests.values()),
            lambda i, reply: self.parse(reply, tasks[numbers[i]]),
            accepts_truncated=self.accepts_truncated,
        )
        for number, result in zip(numbers, replies, strict=True):
            results[number] = result
        return [results[number] for number in range(len(tasks))]


PROMPTED_TASKS: dict[str, PromptedTask[Any, Any]] = {}
"""All tasks for language models, by name."""
