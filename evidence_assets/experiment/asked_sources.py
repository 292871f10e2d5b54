"""What one question is put to, source by source: documents, a graph and tables; and the choice among their answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from evidence_assets.benchmarks.declared_benchmarks import benchmarks, declarations_of, user_folders
from evidence_assets.benchmarks.records import Table
from evidence_assets.benchmarks.table_files import read_folder_tables
from evidence_assets.experiment.ad_hoc_questions import (
    QuestionSource,
    list_corpora,
    list_graphs,
    parse_table,
    resolve_source,
    with_content_id,
)
from evidence_assets.experiment.solvers import TABLE_SOLVER
from evidence_assets.experiment.stage import LogFunction
from evidence_assets.experiment.table_joins import (
    JoinCandidate,
    TableJoin,
    can_join,
    counts_once,
    select_join,
    table_name,
)
from evidence_assets.lake.errors import BadInput
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_words, stem, tokenize
from evidence_assets.reasoning.tables.lexicon import find_degree_words, pattern, related_headers
from evidence_assets.text.tokens import Word, is_verb_form, split_tokens
from evidence_assets.text.words import TABLE_WORDS, split_words

MAX_TABLES = 5
"""Tables that a question is put to: those with the most words of it. Each takes about 0.2 s."""
MIN_ROOT = 4
"""Minimum letters that "valuable" shares with the header "value"."""
MIN_AMBIGUOUS_CONFIDENCE = 0.1
"""Minimum confidence of an ambiguous answer that is shown instead of a refusal, if its confidence is known."""
_NAME = re.compile(r"(?<![.?!:] )(?<!^)\b[^\W\d_][\w-]*|(?<=\bin )(?:1\d|20)\d\d\b")
"""A word inside a sentence, whose capital letter or digit says that it is a name; or a year."""
_DIGIT = re.compile(r"\d")
_KIND = re.compile(r"\b(?:which|what) ([^\W\d_]\w*)", re.IGNORECASE)
"""The kind of thing that a question asks for."""
_SHORT_IS = re.compile(r"\b(what|which|who|where|when|how)['’]s\b", re.IGNORECASE)
"""A question word joined with "is"; as one token, "what's" would be a word that tables lack."""
_PERIOD = re.compile(r"\b(?:per|an?|each|every) (hour|day|night|week|month|quarter|season|year)\b", re.IGNORECASE)
_OF_PLACE = re.compile(r"\b(?:based|kept|located|parked|situated|stationed|stored)(?= (?:at|in|on)\b)", re.IGNORECASE)
"""Verbs that say no more than the place after them."""
_OPERATIONS = (
    "difference",
    "ratio",
    "total",
    "mean",
    "counting",
    "amount_question",
    "rising",
    "falling",
    "linking_verbs",
)
"""Entries of the lexicon whose phrases are no words of a table."""
_TIME_OF_EVENT = re.compile(r"(?:when (?:was|were)|in wh(?:at|ich) year (?:was|were|did))\b", re.IGNORECASE)
"""Questions whose verb a table must have: the dates of concerts in a hall do not say when it was built."""
_NO_CELL = re.compile(r"why\b|how come\b", re.IGNORECASE)
"""Questions that no cell answers."""


@dataclass(frozen=True)
class AskedSource:
    """One source of an answer: documents, a graph or both as ``source`` names them, or a table.

    ``joined``: The tables that a joined table was made of.
    """

    source: QuestionSource
    table: Table | None = None
    joined: tuple[Table, ...] = ()

    @property
    def name(self) -> str:
        """What the output calls the source."""
        if self.table is not None:
            return table_name(self.table)
        return f"the documents of {self.source.corpus}" if self.source.corpus else f"the graph {self.source.graph}"

    @property
    def statement_start(self) -> str:
        """The source as the subject of what it says."""
        return f"{self.name} {'say' if self.source.corpus else 'says'}"


def list_sources(source: QuestionSource, *, is_joint: bool) -> list[AskedSource]:
    """Documents and graph as one source if they are read jointly, else as two."""
    parts = [source] if is_joint else [QuestionSource(corpus=source.corpus), QuestionSource(graph=source.graph)]
    return [AskedSource(part) for part in parts if part.corpus or part.graph]


def list_everything(lake: Lake, question: str, options: Sequence[str], report: LogFunction) -> list[AskedSource]:
    """All corpora with the graphs that they are read with, the other graphs, and tables that may answer a question.

    Knowledge bases of searches are left out: their entries are encoded, and their edges are not. The tables are those
    in the folders of the corpora; ``report`` gets the reasons why files cannot be read.
    """
    corpora = [resolve_source(lake, name, "") for name in list_corpora(lake)]
    joined_graphs = {source.graph for source in corpora}
    searched_graphs = {benchmark.graph for benchmark in benchmarks().values() if benchmark.task == "skb_search"}
    graphs = [QuestionSource(graph=name) for name in list_graphs(lake) if name not in joined_graphs | searched_graphs]
    if not (corpora or graphs):
        raise BadInput("the lake has no documents and no graph: add some with `evidence add corpus NAME FOLDER`")
    tables = [table for source in corpora for table in read_corpus_tables(lake, source.corpus, report)]
    return [*map(AskedSource, [*corpora, *graphs]), *select_tables(tables, question, options, report)]


def list_corpus_folders(lake: Lake, name: str) -> Iterator[Path]:
    """The folder of the documents of a corpus that users declared, if it is there."""
    for declared in (d for place in user_folders(lake.root) for d in declarations_of("Corpus", place)):
        fields = declared.attributes
        if fields.get("name") == name and fields.get("documents", "folder") == "folder":
            raw = lake.raw_path(str(fields["folder"]))
            if raw.is_dir():
                yield raw


def read_corpus_tables(lake: Lake, name: str, report: LogFunction) -> list[Table]:
    """The tables of a corpus that users declared."""
    return [table for folder in list_corpus_folders(lake, name) for table in read_tables_below(folder, report)]


def read_tables_below(folder: Path, report: LogFunction) -> list[Table]:
    """The tables of a folder; reports which files cannot be read."""
    tables = read_folder_tables(folder, lambda error: report(f"skipped: {error}"))
    return [with_content_id(table) for table in tables]


def select_tables(
    tables: Sequence[Table], question: str, options: Sequence[str], inform: LogFunction
) -> list[AskedSource]:
    """The tables that may answer a question, those with most words of it first.

    The first may be a join of tables that have more words of the question together than each of them has.
    """
    if not tables:
        return []
    question = _SHORT_IS.sub(r"\1 is", question)
    words = collect_words(question)
    candidates = [JoinCandidate(table, _find_known_words(table, question)) for table in tables]
    shared = {n: words & _all_words(candidate) for n, candidate in enumerate(candidates)}
    selected = [
        n for n in shared if 2 * len(shared[n]) >= max(1, len(words)) and _may_answer(tables[n], question, options)
    ]
    join = select_join(candidates, inform)
    if join is not None:
        selected = [n for n in selected if not _lacks_column(candidates[n], candidates)]
    best = sorted(selected, key=lambda n: -len(shared[n]))[:MAX_TABLES]
    sources = [AskedSource(QuestionSource(table=tables[n].table_id), tables[n]) for n in best]
    if join is not None and _may_answer_jointly(join, question, options):
        sources.insert(0, AskedSource(QuestionSource(table=join.table.table_id), join.table, join.sources))
    return sources


def _all_words(candidate: JoinCandidate) -> frozenset[str]:
    """The words of a table, and those of the question that ask for one of its columns."""
    return candidate.words | _collect_words(candidate.table, candidate.table.rows)


def _lacks_column(candidate: JoinCandidate, others: Sequence[JoinCandidate]) -> bool:
    """Whether a question names a column that only another table with a common key has.

    "How many mites does the hive of the breed Elgon have?" asks for no number of rows with this breed.
    """
    tables = [other for other in others if not other.words & _collect_words(other.table, ()) <= candidate.words]
    return any(can_join(candidate, other) for other in tables)


def _may_answer_jointly(join: TableJoin, question: str, options: Sequence[str]) -> bool:
    """Whether a join has what a question asks for, and an operation on it counts each cell once."""
    if not (_has_all_words(join.table, question) and _may_answer(join.table, question, options)):
        return False
    if join.repeated and TABLE_SOLVER.is_statement(question):
        return False  # rows with the same key may confirm and contradict it
    operation, cells = TABLE_SOLVER.find_operation(parse_table(join.table), question)
    return not operation or counts_once(join, operation, cells, question)


def _may_answer(table: Table, question: str, options: Sequence[str]) -> bool:
    """Whether a table has the names of a question, the kind of thing that it asks for, and texts that may answer it.

    "Which boat is cheapest?" asks for no item of a list of prices, although a "boat hook" is one.
    """
    if _NO_CELL.match(question.strip()):
        return False
    labels = _collect_words(table, ())
    words = _collect_words(table, table.rows)
    names = [name for name in _NAME.findall(question) if name != "I" and (not name[0].islower() or _DIGIT.search(name))]
    kinds = [collect_words(kind) & words for kind in _KIND.findall(question)]
    has_names = all(collect_words(name) <= words for name in names) and all(kind <= labels for kind in kinds)
    is_open = not options and not TABLE_SOLVER.is_statement(question)
    has_words = has_names and (not is_open or _has_all_words(table, question))
    return (
        has_words
        and not _lacks_period(table, question)
        and not _names_another(table, question, words)
        and _has_options(table, question, options)
    )


def _lacks_period(table: Table, question: str) -> bool:
    """Whether a question asks for a price per month, say, and the headers of a table have other periods only."""
    periods = {match.casefold() for header in table.header for match in _PERIOD.findall(header)}
    return any(stem(period) not in _collect_words(table, ()) for period in _PERIOD.findall(question) if periods)


def _names_another(table: Table, question: str, known_words: frozenset[str]) -> bool:
    """Whether a question names another thing of a kind that only names in the cells have.

    "What is the cuckoo clock worth?" is about none of "turret clock" and "water clock".
    """
    names = [split_words(cell.casefold()) for row in table.rows for cell in row]
    kinds = Counter(stem(words[-1]) for words in names if len(words) > 1)
    alone = {stem(words[0]) for words in names if len(words) == 1} | _collect_words(table, ())
    shared_kinds = {kind for kind, count in kinds.items() if count > 1} - alone
    return any(noun.stem in shared_kinds for noun in _qualified_nouns(question, known_words))


def _qualified_nouns(question: str, known_words: frozenset[str]) -> Iterator[Word]:
    """The words after one that a table lacks and that is no number, verb or degree ("most valuable")."""
    degrees = find_degree_words(question)
    for word, noun in pairwise(split_tokens(question)):
        is_known = word.is_number or is_verb_form(word) or stem(word.lower) in known_words
        has_degree = any(degree.start <= word.start <= degree.end + 1 for degree in degrees)
        if word.is_content and not (is_known or has_degree):
            yield noun


def _has_all_words(table: Table, question: str) -> bool:
    """Whether a table has all words of a question but numbers and those that ask for an operation.

    Without that, "How many chickens can I keep on my plot?" would count the plots whose notes have "keeps".
    """
    rest = _OF_PLACE.sub("", question)
    for degree in reversed(find_degree_words(question)):
        rest = f"{rest[: degree.start]} {rest[degree.end :]}"
    for operation in _OPERATIONS:
        rest = " ".join(pattern(operation).sub(" ", rest).split())
    if not _TIME_OF_EVENT.match(question):
        rest = _drop_verb(rest, _find_known_words(table, rest))
    words = {stem(word) for word in tokenize(rest) if word not in STOP_WORDS | TABLE_WORDS and not word[0].isdigit()}
    roots = tuple(label for label in _collect_words(table, ()) if len(label) >= MIN_ROOT)
    unknown = words - _find_known_words(table, rest)
    return all(word.startswith(roots) for word in unknown)


def _drop_verb(question: str, known_words: frozenset[str]) -> str:
    """A question without the verb after its subject, if only one word is not known: "… did the keepers catch?"."""
    usual_words = known_words | TABLE_WORDS
    pairs = pairwise(split_tokens(question))
    unknown = [(a, b) for a, b in pairs if b.is_content and not b.is_number and stem(b.lower) not in usual_words]
    if len(unknown) != 1:
        return question
    subject, verb = unknown[0]
    has_form = is_verb_form(verb) or re.search(r"\b(?:do|does|did)\b", question[: subject.start])
    is_verb = has_form and subject.is_content and not subject.is_number and not verb.is_capital
    return f"{question[: verb.start]}{question[verb.end :]}" if is_verb else question


def _find_known_words(table: Table, text: str) -> frozenset[str]:
    """The stems of a text that a table has, or that ask for one of its columns, as "cost" asks for a price."""
    words = _collect_words(table, table.rows)
    labels = _collect_words(table, ())
    tokens = (token for token in tokenize(text) if token not in STOP_WORDS)
    return frozenset(stem(t) for t in tokens if stem(t) in words or not labels.isdisjoint(related_headers(t)))


def _collect_words(table: Table, rows: Sequence[Sequence[str]]) -> frozenset[str]:
    """The stems of a table's name, caption and header, and of these rows."""
    name = re.sub(r"[\W_]+", " ", table.table_id.rpartition("@")[0])
    texts = [name, table.caption, *table.header, *(cell for row in rows for cell in row)]
    return frozenset(word for text in texts if text.strip() for word in collect_words(text))


def _has_options(table: Table, question: str, options: Sequence[str]) -> bool:
    """Whether a question can be put to a table: a claim, or one with two possible answers."""
    if not table.header or not table.rows:
        return False
    if options or TABLE_SOLVER.is_statement(question):
        return True
    return len(TABLE_SOLVER.list_options(parse_table(table), question)) > 1


def is_answer(status: str) -> bool:
    """Whether a source answers; one that refuses, fails or does not decide does not."""
    return status not in ("insufficient", "failed", "ambiguous")


def rank_answers(answers: Sequence[tuple[str, float | None]]) -> list[int]:
    """Positions of the answers to show, given by status and confidence: those that answer, the most confident first.

    If none answers, it is the first ambiguous one that is not improbable, else the first.
    """
    answered = [position for position, (status, _) in enumerate(answers) if is_answer(status)]
    if answered:
        return sorted(answered, key=lambda position: -(answers[position][1] or 0.0))
    return [
        next(
            (
                position
                for position, (status, confidence) in enumerate(answers)
                if status == "ambiguous" and (confidence or 0.0) >= MIN_AMBIGUOUS_CONFIDENCE
            ),
            0,
        )
    ]
