"""Questions with short answers, and the evidence that ``evidence ask`` finds for them.

From EVIDENCE_DEV_DATA SQuAD's three articles with their unanswerable questions, HotpotQA's 100 questions on its
passages, and questions of one article that are put to the next article, which does not answer them. From
``bench/answers/pages`` six sets of pages as people have them (handbooks, minutes, price lists), each with 160 questions
that they answer, 50 that only look like it, and 30 for yes or no. They were written for this project without looking at
the rules; these were improved on the errors of all sets but the last, whose errors were only counted. The first 17 sets
of ``bench/answers/pages_other_words`` have 20 questions each that three pages answer in other words, and 10 that they
do not answer; twelve sets have 16 more questions for yes or no. Nothing was chosen on the last three of these. Three
more sets are of people who tried the program.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.dev_data import dev_data, hotpotqa_pages, hotpotqa_rows
from evidence_assets import systems
from evidence_assets.benchmarks.corpora import group_files
from evidence_assets.benchmarks.records import ASKED_BENCHMARK, QuestionRecord
from evidence_assets.cli.ask import add_folder, select_variant
from evidence_assets.experiment.ad_hoc_questions import QuestionSource
from evidence_assets.experiment.answers.short_answers import build_short_task
from evidence_assets.experiment.corpus_building import build_corpus
from evidence_assets.experiment.evidence_rows import read_item
from evidence_assets.experiment.question_rows import question_rows
from evidence_assets.experiment.scores.metrics import normalise_answer, token_f1
from evidence_assets.experiment.stage import StageContext
from evidence_assets.experiment.stages import build_stages
from evidence_assets.lake.store import Lake
from evidence_assets.reasoning.questions import Question
from evidence_assets.reasoning.short_answers import ShortTask

OTHERS = 60
"""Questions of the previous article that are put to an article."""


@dataclass(frozen=True)
class AnswerableQuestion:
    """A question to a corpus; without ``golds`` the corpus does not answer it. ``half`` is 1 or 2."""

    text: str
    golds: tuple[str, ...]
    corpus: str
    kind: str
    """``squad``, ``hotpot``, ``page``, ``held-out page``, or ``other`` for a question on another article."""
    half: int
    verdict: str = ""
    """``yes`` or ``no`` if the question asks for it."""
    is_list: bool = False
    """Whether an answer must have all of ``golds``."""


Documents = list[dict[str, str]] | Path
"""Records of documents, or a folder with files."""
PAGES = Path(__file__).with_name("pages")
OTHER_WORDS = Path(__file__).with_name("pages_other_words")
PAGE_SETS = ("first", "second", "third", "fourth", "fifth", "sixth")
DEVELOPMENT_SETS = (
    *PAGE_SETS,
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
)
"""Sets of ``OTHER_WORDS`` that weights are fitted on."""
TRIAL_SETS = ("eighteenth", "nineteenth", "twentieth")
"""Sets of ``OTHER_WORDS`` from trials: each is a folder of a library, a company or a club, as its people keep it.

The last is newer than the packaged weights."""
KEPT_SETS = ("fifteenth", "sixteenth", "seventeenth")
"""Sets of ``OTHER_WORDS`` that are only measured."""


def read_squad(file: Path) -> tuple[dict[str, Documents], list[AnswerableQuestion]]:
    """Paragraphs by article, and all questions; the first two articles are half 1."""
    corpora: dict[str, Documents] = {}
    questions: list[AnswerableQuestion] = []
    for number, article in enumerate(json.loads(file.read_text(encoding="utf-8"))["data"]):
        name = re.sub(r"[^a-z0-9]+", "_", article["title"].casefold()).strip("_")
        title = article["title"].replace("_", " ")
        corpora[name] = [
            {"doc_id": f"{name}-{i}", "title": title, "text": paragraph["context"]}
            for i, paragraph in enumerate(article["paragraphs"])
        ]
        for row in (row for paragraph in article["paragraphs"] for row in paragraph["qas"]):
            golds = tuple(dict.fromkeys(answer["text"] for answer in row["answers"]))
            questions.append(AnswerableQuestion(row["question"], golds, name, "squad", 1 if number < 2 else 2))
    return corpora, list({(q.corpus, " ".join(q.text.split())): q for q in questions}.values())


def read_pages() -> tuple[dict[str, Documents], list[AnswerableQuestion]]:
    """The sets of pages; a question for yes or no counts as one without an answer."""
    questions = []
    for name in PAGE_SETS:
        kind = "held-out page" if name == PAGE_SETS[-1] else "page"
        questions += list(_read_set(PAGES / f"{name}.jsonl", f"pages_{name}", kind))
    return {f"pages_{name}": PAGES / name for name in PAGE_SETS}, questions


def read_other_words(
    sets: Sequence[str], *, with_yes_no: bool = False
) -> tuple[dict[str, Documents], list[AnswerableQuestion]]:
    """Sets of pages with questions in other words; ``with_yes_no``: also more for yes or no, which some sets have."""
    corpora: dict[str, Documents] = {f"other_words_{name}": OTHER_WORDS / name for name in sets}
    files = [(OTHER_WORDS / f"{name}.jsonl", f"other_words_{name}") for name in sets]
    if with_yes_no:
        more = [(OTHER_WORDS / f"{name}_yes_no.jsonl", f"other_words_{name}") for name in sets]
        files += [(file, corpus) for file, corpus in more if file.exists()]
    return corpora, [question for file, corpus in files for question in _read_set(file, corpus, "other words")]


def _read_set(file: Path, corpus: str, kind: str) -> Iterator[AnswerableQuestion]:
    for line in file.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        verdict = case["answers"][0] if case["answers"] in (["yes"], ["no"]) else ""
        golds = () if verdict else tuple(case["answers"])
        yield AnswerableQuestion(case["question"], golds, corpus, kind, 1, verdict, case.get("kind") == "list")


def read_unanswerable() -> list[AnswerableQuestion]:
    """Questions that no page of a set answers, by corpus: with another name, another attribute, or a false premise.

    The module ``bench.answers.derive_unanswerable`` of revision 456af6b2 derived them from the pages.
    """
    lines = (PAGES.parent / "unanswerable.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [AnswerableQuestion(record["question"], (), record["corpus"], record["kind"], 1) for record in records]


def read_development_sets() -> tuple[dict[str, Documents], list[AnswerableQuestion]]:
    """Documents by corpus, and all questions. SQuAD's first two articles are half 1, the third is half 2."""
    corpora, questions = read_squad(dev_data() / "squad_small/dev_3_articles.json")
    names = list(corpora)
    for number, name in enumerate(names):
        half, previous = (2 if number == 2 else 1), names[number - 1]
        answerable = [question for question in questions if question.corpus == previous and question.golds]
        for question in answerable[:: len(answerable) // OTHERS][:OTHERS]:
            questions.append(AnswerableQuestion(question.text, (), name, "other", half))
    corpora["hotpot"] = [{"doc_id": t, "title": t, "text": "".join(s)} for t, s in hotpotqa_pages().items()]
    for number, row in enumerate(hotpotqa_rows()):
        golds, half = (row["answer"],), 1 + (number >= 50)
        questions.append(AnswerableQuestion(row["question"], golds, "hotpot", "hotpot", half))
    pages, page_questions = read_pages()
    corpora, questions = corpora | pages, questions + page_questions
    return corpora, list({(q.corpus, " ".join(q.text.split())): q for q in questions}.values())


def build_lake(root: Path, corpora: dict[str, Documents]) -> Lake:
    """A lake with each corpus; one that exists is reused."""
    lake = Lake.create(root, question_shards=1, corpus_shards=1)
    for name, documents in corpora.items():
        if isinstance(documents, Path):
            add_folder(lake, documents, name)
            continue
        with tempfile.TemporaryDirectory() as folder:
            lines = (json.dumps(document, ensure_ascii=False) + "\n" for document in documents)
            Path(folder, "documents.jsonl").write_text("".join(lines), encoding="utf-8")
            build_corpus(lake, name, group_files(Path(folder)), lambda text: None)
    return lake


def run_stages(
    lake: Lake, questions: Sequence[AnswerableQuestion], table: str
) -> Iterator[tuple[AnswerableQuestion, list[Any]]]:
    """Run the stages of ``evidence ask`` up to a table for all questions; yields each with its rows of the table."""
    for corpus in dict.fromkeys(question.corpus for question in questions):
        of_corpus = [question for question in questions if question.corpus == corpus]
        texts = [question.text for question in of_corpus]
        yield from zip(of_corpus, ask_source(lake, QuestionSource(corpus=corpus), corpus, texts, table), strict=True)


def ask_source(lake: Lake, source: QuestionSource, name: str, texts: Sequence[str], table: str) -> list[list[Any]]:
    """The rows of a table for each question about a source, by the stages of ``evidence ask`` up to this table."""
    partition = f"{ASKED_BENCHMARK}|{name}"
    records = [
        QuestionRecord(ASKED_BENCHMARK, str(source), "test", "kgqa", " ".join(text.split()), ()) for text in texts
    ]
    lake.write("questions/graph", partition, {"questions": question_rows(records, "test", 0, 1)})
    variant = select_variant("graph", source, "", "")
    rows_of: dict[str, list[dict[str, Any]]] = {}
    for stage in build_stages(systems.open_method(variant)):
        if stage.table not in ("evidence", table):
            continue
        context = StageContext(
            lake, stage.table, stage.key, partition, print, print, ad_hoc_benchmark=source.benchmark("kgqa")
        )
        output = stage.run(context)
        rows = {stage.table: output.rows, **output.other_tables}
        lineage = {} if output.lineage is None else {"lineage_edges": output.lineage}
        lake.write(stage.key, partition, rows | lineage)
        if stage.table == table:
            for row in lake.read(table, stage.key, partition).iter_rows(named=True):
                rows_of.setdefault(row["question_id"], []).append(row)
    return [rows_of.get(record.question_id, []) for record in records]


def select_evidence(
    lake: Lake, questions: Sequence[AnswerableQuestion]
) -> Iterator[tuple[AnswerableQuestion, ShortTask]]:
    """Each question with the evidence that ``evidence ask`` selects, by rank."""
    for question, rows in run_stages(lake, questions, "evidence"):
        items = [read_item(row) for row in sorted(rows, key=lambda row: row["rank"])]
        yield question, build_short_task(Question("", "", "kgqa", question.text), items)


class Outcome(NamedTuple):
    """A question with the best answer and its confidence."""

    question: AnswerableQuestion
    answer: str | None
    confidence: float


def print_outcomes(title: str, outcomes: Sequence[Outcome], thresholds: Sequence[float]) -> dict[str, str]:
    """Print share answered, exact match and F1 of the answered, and false answers; returns those of the last one."""
    scores = {}
    headers = "| set | answerable + unanswerable | threshold | answered | exact match | F1 | false answers |"
    print(f"\n{title}\n{headers}\n|---|---|---|---|---|---|---|")
    sets = {
        "SQuAD": (("squad", True), ("squad", False)),
        "another article": ((), ("other", False)),
        "HotpotQA": (("hotpot", True), ()),
        "pages": (("page", True), ("page", False)),
        "held-out pages": (("held-out page", True), ("held-out page", False)),
    }
    for name, (answerable, unanswerable) in sets.items():
        kinds = [(outcome, (outcome.question.kind, bool(outcome.question.golds))) for outcome in outcomes]
        right = [outcome for outcome, kind in kinds if kind == answerable]
        wrong = [outcome for outcome, kind in kinds if kind == unanswerable]
        for threshold in thresholds if right or wrong else ():
            answered = [o for o in right if o.answer and o.confidence >= threshold]
            false = [float(bool(o.answer) and o.confidence >= threshold) for o in wrong]
            f1 = [token_f1(o.answer or "", o.question.golds) for o in answered]
            exact = [
                float(normalise_answer(o.answer or "") in map(normalise_answer, o.question.golds)) for o in answered
            ]
            cells = (
                _percent(len(answered), len(right)),
                _percent(sum(exact), len(exact)),
                _percent(sum(f1), len(f1)),
                _percent(sum(false), len(false)),
            )
            print(f"| {name} | {len(right)} + {len(wrong)} | {threshold:.2f} | {' | '.join(cells)} |")
            scores[name] = "{} % answered, exact match {}, F1 {}, {} % false answers".format(*(c or "–" for c in cells))
    return scores


def _percent(count: float, n: int) -> str:
    """A share in per cent."""
    if not n:
        return ""
    return f"{100 * count / n:.1f}"
