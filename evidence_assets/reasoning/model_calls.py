"""Calls of a language model: cached completions, token counts, one repair per unusable reply, the registry of tasks."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

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


class Progress(Protocol):
    """Reports the replies of a round of requests."""

    def start_round(self, completed: int = 0) -> None:
        """Start the clock of a round, of which ``completed`` replies took no time."""
        ...

    def __call__(self, completed: int, total: int) -> None: ...


def completion_key(generator: Generator, request: Request) -> str:
    """Cache key of a completion: the model, its revision and parameters, and the request."""
    fields_ = asdict(request)
    for name in ("temperature", "rates_choices"):
        if not fields_[name]:
            del fields_[name]  # keys from before this field existed stay valid
    return content_id(generator.model_id, generator.revision, generator.parameters, fields_)


USAGE_COUNTS = ("model_tasks", "replies", "cached_replies", "repairs", "truncated_replies", "tokens_in", "tokens_out")
"""Counts of a language model's use; tokens include those of cached replies."""


def usage_metadata(usages: Iterable[Counter[str]]) -> dict[str, float]:
    """Totals and means per task, as metadata of an asset; empty without tasks."""
    total = sum(usages, Counter[str]())
    tasks = total["model_tasks"]
    if not tasks:
        return {}
    means = {f"{name}_per_task": round(total[name] / tasks, 1) for name in ("tokens_in", "tokens_out")}
    return {name: total[name] for name in USAGE_COUNTS} | means


class _Refusal(NamedTuple):
    """Why a reply is unusable, and its text."""

    reason: str
    reply: str


class LanguageModel:
    """A generator with a completion cache and one repair attempt per unusable reply.

    ``cache``: Stores usable completions between runs.
    ``on_progress``: Called after each reply of the model with (answered requests, all requests) of its round; repairs
    are a round, too.
    """

    def __init__(
        self,
        generator: Generator,
        cache: CompletionStore | None = None,
        on_progress: Progress | None = None,
        prompts: Prompts = PACKAGED,
    ) -> None:
        self.prompts = prompts
        self._generator = generator
        self._cache = cache
        self.on_progress = on_progress
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
        self.usage = Counter[str]()
        """Its :data:`USAGE_COUNTS`."""
        self._sent_tokens = Counter[str]()
        self._seconds = 0.0

    def describe_speed(self) -> str:
        """Tokens that the model reads and writes in a second, without those of cached replies."""
        if not self._seconds:
            return "all replies are from the cache"
        speeds = {name: count / self._seconds for name, count in self._sent_tokens.items()}
        return f"{speeds['read']:,.0f} prompt tokens and {speeds['written']:,.1f} written tokens per second"

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
        self.usage["model_tasks"] += len(requests)
        replies = self._ask_round(dict(enumerate(requests)), parse, accepts_truncated)
        refusals = {number: result for number, (result, _) in replies.items() if isinstance(result, _Refusal)}
        self.usage["repairs"] += len(refusals)
        repairs = {number: repair_request(requests[number], *refusals[number], self.prompts) for number in refusals}
        for number, (result, cost) in self._ask_round(repairs, parse, accepts_truncated).items():
            replies[number] = (result, replies[number][1].plus(cost))
        return [
            (self._fail(refusals[number], result) if isinstance(result, _Refusal) else result, cost)
            for number, (result, cost) in sorted(replies.items(), key=lambda reply: reply[0])
        ]

    def _ask_round(
        self, requests: Mapping[int, Request], parse: Callable[[int, str], T], accepts_truncated: bool
    ) -> dict[int, tuple[T | Failure | _Refusal, ReplyCost]]:
        """Results and costs of requests by number; equal requests are sent once."""
        numbers_by_key = self._group_equal(requests)
        distinct_requests = {key: requests[numbers[0]] for key, numbers in numbers_by_key.items()}
        replies: dict[int, tuple[T | Failure | _Refusal, ReplyCost]] = {}
        self._report_progress(replies, requests, is_cached=True)
        for key, completion, is_cached in self._complete(distinct_requests):
            cost = self._count_reply(distinct_requests[key], completion, is_cached)
            is_usable = True
            for number in numbers_by_key[key]:
                result = _parse_completion(completion, partial(parse, number), accepts_truncated)
                replies[number] = (result, cost)
                is_usable = is_usable and not isinstance(result, Failure | _Refusal)
            if self._cache is not None and is_usable and not is_cached:
                self._cache.put(key, completion)
            self._report_progress(replies, requests, is_cached=is_cached)
        return replies

    def _report_progress(self, replies: Sized, requests: Sized, *, is_cached: bool) -> None:
        """Report a reply; cached ones take no time, so that the clock starts after them."""
        if self.on_progress is None:
            return
        if is_cached:
            self.on_progress.start_round(len(replies))
        else:
            self.on_progress(len(replies), len(requests))

    def _count_reply(self, request: Request, completion: Completion, is_cached: bool) -> ReplyCost:
        """Add a reply to the usage; returns its cost."""
        tokens_in = completion.prompt_tokens
        tokens_out = completion.completion_tokens
        is_truncated = completion.finish_reason == REACHED_LIMIT
        self.usage.update(replies=1, cached_replies=is_cached, truncated_replies=is_truncated)
        self.usage.update(tokens_in=tokens_in, tokens_out=tokens_out)
        prompt_hash = content_id(request.system, request.user)
        log_probs = completion.choice_log_probs
        return ReplyCost(self.model_id, tokens_in, tokens_out, completion.finish_reason, prompt_hash, log_probs)

    def _group_equal(self, requests: Mapping[int, Request]) -> Mapping[str, list[int]]:
        """Numbers of equal requests by their completion key."""
        numbers = defaultdict[str, list[int]](list)
        for number, request in requests.items():
            numbers[completion_key(self._generator, request)].append(number)
        return numbers

    def _complete(self, requests: Mapping[str, Request]) -> Iterator[tuple[str, Completion, bool]]:
        """Keys of requests, their completions from the cache, else from the model, and whether they were cached."""
        uncached = []
        for key in requests:
            completion = None if self._cache is None else self._cache.get(key)
            if completion is None:
                uncached.append(key)
            else:
                yield key, completion, True
        start = time.monotonic()
        earlier_seconds = self._seconds
        for position, completion in self._generator.generate_each([requests[key] for key in uncached]):
            self._seconds = earlier_seconds + time.monotonic() - start
            self._sent_tokens.update(read=completion.prompt_tokens, written=completion.completion_tokens)
            yield uncached[position], completion, False

    def _fail(self, first: _Refusal, last: _Refusal) -> Failure:
        last_reason = "the same again" if last.reason == first.reason else last.reason
        return Failure(
            f"the reply of {self._generator.model_id} is unusable: {first.reason}; after one repair attempt: "
            f"{last_reason} (it begins {last.reply[:60]!r})"
        )


def _parse_completion(
    completion: Completion, parse: Callable[[str], T], accepts_truncated: bool
) -> T | Failure | _Refusal:
    if completion.is_refused:
        return Failure(completion.finish_reason)
    try:
        return parse(_checked_text(completion, accepts_truncated=accepts_truncated))
    except UnusableReply as error:
        is_cut = accepts_truncated and completion.finish_reason == REACHED_LIMIT
        reason = f"{_TRUNCATION_REASONS[REACHED_LIMIT]}: {error}" if is_cut else str(error)
        return _Refusal(reason, completion.text)


def repair_request(request: Request, reason: str, reply: str, prompts: Prompts = PACKAGED) -> Request:
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


class PromptVersion(Protocol):
    """What versions and previews need of a prompted task."""

    @property
    def templates(self) -> tuple[Template, ...]: ...
    def version_with(self, prompts: Prompts = PACKAGED) -> str: ...


@dataclass(frozen=True)
class PromptedTask(Generic[Task, T]):
    """A task for a language model: its templates, how to build a request, and how to parse a reply.

    ``build_request`` writes a task as a request with the wording of ``templates`` or the user's prompts.
    ``parse`` reads a reply strictly or raises :class:`UnusableReply`.
    ``accepts_truncated``: Parse a reply that ends at the token limit as it is, as papers do with explanations.
    ``requests_per_task``: Requests for each task, at most and without repairs.
    """

    name: str
    templates: tuple[Template, ...]
    build_request: Callable[[Task, Prompts], Request]
    parse: Callable[[str, Task], T]
    accepts_truncated: bool = False
    requests_per_task: int = 1

    def __post_init__(self) -> None:
        PROMPTED_TASKS[self.name] = self

    def version_with(self, prompts: Prompts = PACKAGED) -> str:
        """Hash of the packaged prompts and of the settings that change them."""
        templates = (*self.templates, REPAIR)
        hashes = [template.hash for template in templates]
        packaged = content_id(self.name, hashes)
        custom = [prompts.customize(template).hash for template in templates]
        differing = custom if custom != hashes else []
        changes = [part for part in (differing, prompts.temperature, prompts.explanation_tokens) if part]
        return content_id(packaged, *changes) if changes else packaged

    def ask(self, model: LanguageModel, tasks: Sequence[Task]) -> list[T | Failure]:
        """One result per task, in order."""
        return [result for result, _ in self.ask_with_cost(model, tasks)]

    def ask_with_cost(self, model: LanguageModel, tasks: Sequence[Task]) -> list[tuple[T | Failure, ReplyCost | None]]:
        """One result per task with its cost, in order."""
        requests = [self.build_request(task, model.prompts) for task in tasks]
        return [
            *model.ask(
                requests,
                lambda number, reply: self.parse(reply, tasks[number]),
                accepts_truncated=self.accepts_truncated,
            )
        ]


PROMPTED_TASKS: dict[str, PromptedTask[Any, Any]] = {}
"""All tasks for language models, by name."""
