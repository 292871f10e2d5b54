"""Replies of a real model to every prompted task, and what the parsers make of them.

    python -m tools.real_replies http://127.0.0.1:8081/v1 FOLDER [--tasks explain judge …] [--questions 30]

The model is what `evidence ask --model` takes, with its short explanations, and each task has thirty inputs from the
sample (``sample_tasks.py``).
FOLDER keeps every reply, so that a later call asks only for what is missing, and gets ``<task>.jsonl``: the number of
an input, its replies, of which a second one is that to a repair, and what became of them. The table counts:

- read: inputs whose reply was read, of those repaired: after a second request;
- failed: inputs without a usable reply;
- insufficient: read replies that say that the evidence does not suffice, or give nothing;
- cut: replies that end at the token limit;
- verified, misquoted, absent: verdicts of the citations of usable replies, where a task asks for some or, as with
  published tables, cells that a reply names are cited for it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.measuring import make_parser
from bench.result_files import TOKENS, print_table, write_results
from evidence_assets.experiment.solvers import load_cached_generator
from evidence_assets.models.completions import CompletionCache
from evidence_assets.models.protocols import Completion, Generator, Request
from evidence_assets.profiles import GeneratorSettings, load
from evidence_assets.profiles.model_source import generator_of
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.model_calls import PROMPTED_TASKS, LanguageModel, completion_key
from evidence_assets.reasoning.tasks import Chain, ChooseAnswer, ExplainOption, Failure
from evidence_assets.reasoning.templates import Prompts
from tools.sample_tasks import TASKS, build_tasks

HEADS = (
    *("task", "n", "read", "of those repaired", "failed", "insufficient", "cut"),
    *("verified", "misquoted", "absent", TOKENS),
)
VERDICTS = HEADS[7:10]


class KeptReplies:
    """A generator that keeps all replies, also unusable ones, and each request's replies of this process."""

    def __init__(self, generator: Generator, folder: Path) -> None:
        self._generator = generator
        self._cache = CompletionCache(folder)
        self.model_id = generator.model_id
        self.revision = generator.revision
        self.parameters = generator.parameters
        self.completions: dict[Request, Completion] = {}

    def generate_each(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        missing = []
        for number, request in enumerate(requests):
            completion = self._cache.get(completion_key(self._generator, request))
            if completion is None:
                missing.append(number)
            else:
                self.completions[request] = completion
                yield number, completion
        for place, completion in self._generator.generate_each([requests[number] for number in missing]):
            request = requests[missing[place]]
            self._cache.put(completion_key(self._generator, request), completion)
            self.completions[request] = completion
            yield missing[place], completion


@dataclass(frozen=True)
class Outcome:
    """What became of one input of a task: its replies in order, and why none of them is usable, if so."""

    number: int
    replies: tuple[str, ...]
    failure: str
    is_insufficient: bool
    verdicts: tuple[str, ...] = ()
    """Those of the citations of the usable reply."""


def citation_verdicts(task: Any, result: Any) -> tuple[str, ...]:
    """Verdicts of the citations of an explanation, on the evidence that its task shows."""
    chain = result[-1] if isinstance(result, tuple) and result else result
    if not isinstance(chain, Chain):
        return ()
    match task:
        case ExplainOption():
            evidence = task.evidence
        case ChooseAnswer():
            evidence = task.facts
        case _:
            return ()
    return tuple(citation.verdict for citation in check_citations(chain, evidence))


def is_insufficient(result: Any) -> bool:
    """Whether a usable reply gives nothing, or says that the evidence does not suffice."""
    if result in ([], (), "unknown"):
        return True
    choice = result[0] if isinstance(result, tuple) else result
    contents = (getattr(result, name, None) for name in ("items", "steps"))
    return getattr(choice, "status", "") == "insufficient" or any(content == () for content in contents)


def user_prompts() -> Prompts:
    """The prompts of the profile `local`, whose limit of an explanation `evidence ask --model` has, too."""
    return Prompts(explanation_tokens=load("local").explanation_tokens)


def ask_task(name: str, generator: KeptReplies, inputs: Sequence[Any]) -> tuple[list[Outcome], Counter[str]]:
    """The outcomes of a task's inputs in order, and the use of the model.

    All are asked at once, and then each alone, from the replies that are kept, to know which are its own.
    """
    task = PROMPTED_TASKS[name]
    model = LanguageModel(generator, prompts=user_prompts())
    task.ask(model, inputs)
    usage = model.usage.copy()
    outcomes = []
    for number, each in enumerate(inputs):
        generator.completions.clear()
        [result] = task.ask(model, [each])
        failure = result.reason if isinstance(result, Failure) else ""
        replies = tuple(completion.text for completion in generator.completions.values())
        verdicts = () if failure else citation_verdicts(each, result)
        outcomes.append(Outcome(number, replies, failure, not failure and is_insufficient(result), verdicts))
    return outcomes, usage


def count_outcomes(name: str, outcomes: Sequence[Outcome], usage: Counter[str]) -> tuple[str, ...]:
    """The row of a task; one repair is asked for each reply that is not usable."""
    failed = sum(bool(outcome.failure) for outcome in outcomes)
    counts = (
        len(outcomes),
        len(outcomes) - failed,
        usage["repairs"] - failed,
        failed,
        sum(outcome.is_insufficient for outcome in outcomes),
        usage["truncated_replies"],
    )
    verdicts = Counter(verdict for outcome in outcomes for verdict in outcome.verdicts)
    citations = [str(verdicts[verdict]) if verdicts else "" for verdict in VERDICTS]
    tokens = f"{usage['tokens_in']:,}, {usage['tokens_out']:,}"
    return (name, *map(str, counts), *citations, tokens)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=sorted(PROMPTED_TASKS), default=list(PROMPTED_TASKS))
    parser.add_argument("--questions", type=int, default=TASKS)
    parser.add_argument("--json", type=Path, help="a file to write the table to")
    options = parser.parse_args()
    settings = GeneratorSettings.model_validate(generator_of(options.model))
    generator = KeptReplies(load_cached_generator(settings), options.folder)
    rows = []
    for name in options.tasks:
        outcomes, usage = ask_task(name, generator, build_tasks(name)[: options.questions])
        rows.append(count_outcomes(name, outcomes, usage))
        lines = [json.dumps(asdict(outcome), ensure_ascii=False) for outcome in outcomes]
        (options.folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(*rows[-1], sep="  ", flush=True)
    print_table(HEADS, rows)
    if options.json:
        write_results(options.json, HEADS, rows, "python -m tools.real_replies MODEL FOLDER")


if __name__ == "__main__":
    main()
