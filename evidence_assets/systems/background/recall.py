"""Recalls background knowledge with a language model: entities, relations, then triples of both.

Recalled triples are the model's knowledge or guesses, not evidence from a source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

import polars as pl

from evidence_assets.experiment.answers.chains import ChainSlot, add_chain, omissions_of
from evidence_assets.experiment.rows import RowWriter
from evidence_assets.experiment.stage import PreviousOutput, StageOutput
from evidence_assets.experiment.stored_rows import ChainRow, typed_rows
from evidence_assets.lake.errors import UnusableReply
from evidence_assets.lake.ids import content_id
from evidence_assets.lake.lineage import DERIVED, edge
from evidence_assets.reasoning.model_calls import LanguageModel, PromptedTask, find_cut
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.tasks import Chain, ChainStep, Failure, Omission, ReplyCost
from evidence_assets.reasoning.templates import Template
from evidence_assets.systems.background import VERSION

Triple = tuple[str, str, str]
"""Head, relation and tail as text."""
Item = TypeVar("Item")
RECALLED = "background knowledge"
"""What a question lacks whose recall failed."""
MAX_WORDS = 12
"""Maximum words of a name in a list; longer lines are prose."""
MAX_CHARACTERS = 200
"""Maximum characters of a head, relation or tail; longer ones are prose."""
_MAX_WORDS_WITH_FULL_STOP = 5
"""A name of up to five words may end in a full stop: Martin Luther King Jr."""
_HALF_WIDTH = str.maketrans("（），；：｜", "(),;:|")
"""Punctuation of Chinese and Japanese texts."""
_EMPTY_LISTS = ("none", "n/a")
_TITLE = ("subject", "object")
"""Head and tail of the title row of a table of triples."""
_LIST_MARK = re.compile(r"^(?:[-*•+–]|\d{1,3}[.)])\s+")
_LAYOUT = re.compile(r"```.*|#{1,6}\s.*|.*[:：]|[-=_*|:\s]+")
"""Lines without content: fences, headings, announcements and rules."""
_BOLD_NAME = re.compile(r"\*\*([^*]+?)(?::\*\*|\*\*:|\*\*\s+[–—-])\s+\S.*")
"""A name in bold before its explanation."""
_GROUP = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)")
"""Text in round brackets, which may contain names with brackets."""
_ENCLOSED = re.compile(r"\[(.*)\]|<(.*)>")
_QUOTED = re.compile(r"""(?:^|,)\s*["'“‘](.+?)["'”’]\s*(?=,|$)""")
_SEPARATOR = re.compile(r"\s*\|\s*|\s+(?:[-=]+>|[→⟶])\s+|\s*[\t;]\s*")
NameKind = Literal["entities", "relations"]
_KINDS: tuple[NameKind, ...] = ("entities", "relations")
_NAMES = {name: Template.load(__package__, name, "question") for name in _KINDS}
_TRIPLES = Template.load(__package__, "triples", "question entities relations")


@dataclass(frozen=True)
class ParsedLines(Generic[Item]):
    """The distinct items of a reply, and why its other lines were rejected."""

    items: tuple[Item, ...]
    rejected: tuple[str, ...] = ()


def _quote(text: str | tuple[str, ...]) -> str:
    return json.dumps(text, ensure_ascii=False)


def parse_list(reply: str) -> ParsedLines[str]:
    """Parse names, one per line, or all in one line with commas; ``none`` is the empty list.

    List marks, bold, fences and headings are removed. A line is rejected as prose if it has more than twelve words, or
    more than five with a full stop, ! or ? at the end. Raises UnusableReply if no line is a name.
    """
    lines = _content_lines(reply)
    if len(lines) == 1 and lines[0][1].count(", ") >= 2:
        number, line = lines[0]
        lines = [(number, name) for name in line.rstrip(".").split(", ")]
    names: dict[str, None] = {}
    rejected: list[str] = []
    for number, line in lines:
        words = len(line.split())
        if words > MAX_WORDS or (words > _MAX_WORDS_WITH_FULL_STOP and line.endswith((".", "!", "?"))):
            rejected.append(f"line {number} is no name but a sentence: {line[:60]!r}")
        elif line:
            names[line] = None
    return _check_lines(names, rejected)


def parse_triples(reply: str, known_names: Iterable[str] = ()) -> ParsedLines[Triple]:
    """Parse facts, as ``(subject, relation, object)`` or with bars or arrows; ``none`` is the empty list.

    List marks, bold, fences and headings are removed. With more than two commas, the relation is the first part after
    the subject that begins with a small letter, else the second part. A line without brackets, bars or arrows is a fact
    only if a part is one of ``known_names``, because prose has commas, too. Raises UnusableReply if no line is a fact.

    >>> parse_triples("1. (Bern, capital of, Switzerland)").items
    (('Bern', 'capital of', 'Switzerland'),)
    >>> parse_triples("**(Barack Obama, born in, Honolulu, Hawaii)**").items
    (('Barack Obama', 'born in', 'Honolulu, Hawaii'),)
    """
    known_keys = {name.casefold() for name in known_names}
    triples: dict[Triple, None] = {}
    rejected: list[str] = []
    for number, line in _content_lines(reply):
        for parts in _split_facts(line, known_keys):
            if max(map(len, parts)) > MAX_CHARACTERS:
                rejected.append(f"line {number} is no fact but a text: {line[:60]!r}")
            elif len(parts) != 3 or not all(parts):
                rejected.append(f"line {number} is not of the form (subject, relation, object): {line[:60]!r}")
            elif (parts[0].casefold(), parts[2].casefold()) != _TITLE:
                triples[parts[0], parts[1], parts[2]] = None
    return _check_lines(triples, rejected)


def _check_lines(items: Iterable[Item], rejected: Sequence[str]) -> ParsedLines[Item]:
    parsed = ParsedLines(tuple(items), tuple(rejected))
    if rejected and not parsed.items:
        raise UnusableReply(rejected[0])
    return parsed


def _content_lines(reply: str) -> list[tuple[int, str]]:
    """Lines with content and their numbers, without markup; none for an empty list."""
    if not reply.strip():
        raise UnusableReply("the reply is empty")
    reply = reply.translate(_HALF_WIDTH)
    lines = ((number, line.strip().lstrip("> ")) for number, line in enumerate(reply.splitlines(), 1))
    contents = [(n, text) for n, line in lines if not _LAYOUT.fullmatch(line.strip("*")) and (text := _plain(line))]
    if not contents:
        raise UnusableReply("the reply has no line with content")
    is_empty_list = len(contents) == 1 and contents[0][1].casefold().strip("(). ") in _EMPTY_LISTS
    return [] if is_empty_list else contents


def _plain(line: str) -> str:
    """A line without its list mark and bold; only the name of a line with a name in bold and its explanation."""
    line = _LIST_MARK.sub("", line)
    if match := _BOLD_NAME.fullmatch(line):
        line = match[1]
    return _LIST_MARK.sub("", line.replace("**", "").replace("`", "").strip()).strip("* ")


def _split_facts(line: str, known_keys: set[str]) -> list[list[str]]:
    """The parts of each fact of a line; if it has none, one list of another length than three."""
    content = line.rstrip(".,; ")
    if match := _GROUP.fullmatch(content) or _ENCLOSED.fullmatch(content):
        return [_split_parts(next(filter(None, match.groups()), ""))]
    groups = [_split_parts(group) for group in _GROUP.findall(content)]
    if any(len(parts) == 3 for parts in groups):
        return [parts for parts in groups if len(parts) > 1]  # a bracket of one part is a remark
    if len(parts := _split_by_marks(content)) > 1:
        return [parts]
    parts = [] if content.startswith("(") else _split_parts(content)
    return [parts if known_keys & {part.casefold() for part in parts} else [line]]


def _split_by_marks(text: str) -> list[str]:
    """Parts between bars, arrows, tabs or semicolons; a row of a table also begins and ends with a bar."""
    return [part.strip() for part in _SEPARATOR.split(text.strip().removeprefix("|").removesuffix("|"))]


def _split_parts(content: str) -> list[str]:
    """Subject, relation and object of a fact; another number of parts if it is none."""
    if match := _GROUP.fullmatch(content.strip()):
        content = match[1]
    if len(quoted := _QUOTED.findall(content)) == 3:
        return [text.strip() for text in quoted]
    if len(parts := _split_by_marks(content)) > 1:
        return parts
    parts = [part.strip() for part in re.split(r",\s+", content)]
    if len(parts) < 3:
        parts = [part.strip() for part in content.split(",")]
    if len(parts) <= 3:
        return parts
    relation = next((i for i in range(1, len(parts) - 1) if parts[i][:1].islower()), 1)
    return [", ".join(parts[:relation]), parts[relation], ", ".join(parts[relation + 1 :])]


@dataclass(frozen=True)
class NamesTask:
    """A question for which a model lists the entities or the relations."""

    question: str
    kind: NameKind


@dataclass(frozen=True)
class TriplesTask:
    """A question with the entities and relations that a model listed."""

    question: str
    entities: tuple[str, ...]
    relations: tuple[str, ...]


RECALL_NAMES: PromptedTask[NamesTask, ParsedLines[str]] = PromptedTask(
    "recall_names",
    tuple(_NAMES.values()),
    lambda task, prompts: prompts.customize(_NAMES[task.kind]).request(256, question=_quote(task.question)),
    lambda reply, _: parse_list(reply),
    accepts_truncated=True,
)
RECALL_TRIPLES: PromptedTask[TriplesTask, ParsedLines[Triple]] = PromptedTask(
    "recall_triples",
    (_TRIPLES,),
    lambda task, prompts: prompts.customize(_TRIPLES).request(
        768, question=_quote(task.question), entities=_quote(task.entities), relations=_quote(task.relations)
    ),
    lambda reply, task: parse_triples(reply, (*task.entities, *task.relations)),
    accepts_truncated=True,
)


NamesReply = tuple[ParsedLines[str] | Failure, ReplyCost | None]
TriplesReply = tuple[ParsedLines[Triple] | Failure, ReplyCost | None]


# Recall and storage --------------------------------------------------------------------------------------------------


ORIGIN = "background"
"""Origin of a recalled triple in the table ``triples``."""


@dataclass(frozen=True)
class RecalledTriple:
    """A recalled triple with the id of its row in ``triples``."""

    words: Triple
    triple_id: str


@dataclass(frozen=True)
class StoredBackground:
    """Recalled triples by question, the errors of questions without any, and what the recalls lack."""

    triples: dict[str, Sequence[RecalledTriple]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    omissions: dict[str, tuple[Omission, ...]] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return content_id(
            "background",
            sorted((question, [triple.triple_id for triple in triples]) for question, triples in self.triples.items()),
            sorted(self.errors.items()),
        )


class PromptedBackground:
    """Recalls triples with a language model: entities, relations, then triples from both."""

    name = "prompted"

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.model_id = model.model_id
        tasks = [task.version_with(model.prompts) for task in (RECALL_NAMES, RECALL_TRIPLES)]
        self.version = content_id("prompted_background", VERSION, tasks, model.version)

    def recall(self, questions: Sequence[str]) -> list[Chain | Failure]:
        """Recall triples for each question; the failure of one question does not affect the others.

        The first two steps of a chain are the entities and the relations; each other step is a triple ``head | relation
        | tail``. Without entities or relations, the triples are requested without them. Without triples, the recall
        fails.
        """
        name_tasks = [NamesTask(question, kind) for question in questions for kind in _KINDS]
        name_replies = RECALL_NAMES.ask_with_cost(self._model, name_tasks)
        entities = name_replies[::2]
        relations = name_replies[1::2]
        tasks = [
            TriplesTask(question, *(() if isinstance(names, Failure) else names.items for names, _ in replies))
            for question, *replies in zip(questions, entities, relations, strict=True)
        ]
        triples = RECALL_TRIPLES.ask_with_cost(self._model, tasks)
        return [_build_chain(*replies) for replies in zip(tasks, entities, relations, triples, strict=True)]


def _build_chain(
    task: TriplesTask, entities: NamesReply, relations: NamesReply, triples: TriplesReply
) -> Chain | Failure:
    result, cost = triples
    total_cost = ReplyCost.total([entities[1], relations[1], cost])
    if isinstance(result, Failure):
        return replace(result, reply=total_cost)
    texts = [f"things: {'; '.join(task.entities)}", f"relations: {'; '.join(task.relations)}"]
    texts += map(" | ".join, result.items)
    omissions = [
        *_find_omissions("entities", *entities),
        *_find_omissions("relations", *relations),
        *_find_omissions("triples", *triples),
    ]
    prompt_hash = cost.prompt_hash if cost else ""
    return Chain("", tuple(map(ChainStep, texts)), None, prompt_hash, total_cost, tuple(omissions))


def _find_omissions(
    part: str, result: ParsedLines[str] | ParsedLines[Triple] | Failure, reply: ReplyCost | None
) -> Iterator[Omission]:
    """What a reply lacks: all of it, its end, or rejected lines."""
    if isinstance(result, Failure):
        yield Omission("missing", part, result.reason)
        return
    yield from find_cut(reply, part)
    yield from (Omission("rejected", part, reason) for reason in result.rejected)


def build_recall_rows(
    source: PromptedBackground, name: str, questions: Sequence[Question], previous: PreviousOutput | None = None
) -> StageOutput:
    """Rows of ``chains``: the recalled knowledge of each question, or its error."""
    slots = {slot.chain_id: slot for slot in (ChainSlot(question, name, source) for question in questions)}
    inputs = {c: content_id(slot.question.question_id, slot.question.text, source.version) for c, slot in slots.items()}
    writer = RowWriter("chains", previous, inputs, "chain_id")
    todo = [slots[chain_id] for chain_id in writer.todo]
    for slot, chain in zip(todo, source.recall([slot.question.text for slot in todo]) if todo else [], strict=True):
        texts = [] if isinstance(chain, Failure) else [step.text for step in chain.steps]
        add_chain(writer, slot, chain, content=[texts])
    return writer.finish()


def _read_triples(chain: ChainRow) -> list[RecalledTriple]:
    """The triples of a chain; their ids differ from those of the same facts in a source."""
    triples = []
    for step in chain["steps"][2:]:
        head, relation, tail = step["text"].split(" | ")
        triple_id = content_id("background triple", chain["model_id"], head, relation, tail)
        triples.append(RecalledTriple((head, relation, tail), triple_id))
    return triples


def build_triple_rows(recalled: pl.DataFrame) -> StageOutput:
    """Rows of ``triples`` with the origin ``background``, from the rows of ``build_recall_rows``."""
    rows: list[dict[str, object]] = []
    lineage: list[dict[str, object]] = []
    for chain in typed_rows(recalled.sort("chain_id"), ChainRow):
        for line, triple in enumerate(_read_triples(chain), 1):
            parent = ("chain", chain["chain_id"], chain["content_hash"])
            lineage.append(edge("triple", triple.triple_id, DERIVED, *parent, line))
            rows.append(
                {
                    **dict(zip(("head", "relation", "tail"), triple.words, strict=True)),
                    "triple_id": triple.triple_id,
                    "origin": ORIGIN,
                    "flags": [],
                    "model_id": chain["model_id"],
                    "source": f"question {chain['question_id']}, prompt {chain['prompt_hash']}, triple {line}",
                    "licence": "",
                }
            )
    return StageOutput(rows, lineage, {"triples": len(rows)})


def read_background(recalled: pl.DataFrame) -> StoredBackground:
    """Background knowledge for the selector, from the rows of ``build_recall_rows``."""
    background = StoredBackground()
    for chain in typed_rows(recalled.sort("chain_id"), ChainRow):
        question_id = chain["question_id"]
        if chain["status"] == "failed":
            background.errors[question_id] = f"no background knowledge: {chain['error']}"
        if omissions := omissions_of(chain, RECALLED):
            background.omissions[question_id] = tuple(omissions)
        if triples := _read_triples(chain):
            background.triples[question_id] = triples
    return background
