"""Results on real tables: what selection keeps, what the extractive solver answers from it, and what it cites.

    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_tables [tabmcq sample temperature errors]

Without a word all parts are printed. Cells are selected with MiniLM and answered by the solver that the assets use.
Weights of questions were set on the first half of TabMCQ; claims of SCITAB and TabFact are in
`bench.fit_claim_weights`.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.minilm import MiniLm
from evidence_assets.benchmarks import user_benchmark
from evidence_assets.benchmarks.official.tables import read_tabmcq_tables
from evidence_assets.benchmarks.readers import read_pairs, read_questions
from evidence_assets.benchmarks.records import QuestionRecord, Table
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.models.vectors import softmax, unit_rows
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_tokens, collect_words
from evidence_assets.reasoning.tables.solver import TableSolver, parse_locator
from evidence_assets.reasoning.tasks import CAPTION, Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems import load_settings
from evidence_assets.systems.ucret.columns import UcretSettings, split_column_text
from evidence_assets.systems.ucret.system import TableEvidence, TableQuestion, collapse_tables, encode_unique
from evidence_assets.transport.divergence import jensen_shannon
from tools.sample_world.render import render

TABMCQ_FLOOR = "on all 9,092 questions plain word overlap reaches 91.3 %"
SOLVER = TableSolver()


@dataclass(frozen=True)
class Answered:
    """One question with its evidence, and the answer and the chains made from it."""

    question: QuestionRecord
    evidence: TableEvidence | None
    answer: Choice
    chains: tuple[Chain, ...] = ()

    @property
    def right(self) -> bool:
        return self.answer.answer in self.question.gold

    @property
    def cited(self) -> list[tuple[int, int]]:
        """Cells cited on the way to the answer; the last one is the answer cell."""
        return [parse_locator(cell) for step in self.chain for cell in step.cited]

    @property
    def chain(self) -> tuple[ChainStep, ...]:
        """The steps to the answer."""
        return next((chain.steps for chain in self.chains if chain.hypothesis == self.answer.answer), ())

    @property
    def margin(self) -> float:
        """How much more strongly the answer is held than the next best."""
        first, second = sorted(self.answer.weights.values(), reverse=True)[:2]
        return first - second


def solved(question: QuestionRecord, evidence: TableEvidence, caption: str) -> Answered:
    """A question answered from its cells as the assets have it answered: explained option by option, then chosen."""
    cells = tuple(EvidenceItem(c.locator, "cell", c.table_id, c.locator, c.text, c.score) for c in evidence.cells)
    if caption:
        cells += (EvidenceItem(CAPTION, CAPTION, evidence.question.table_id, CAPTION, caption),)
    options = question.options if question.task == "table_qa" else question.labels
    pairs = list(zip(question.labels, options, strict=True))
    chains = SOLVER.explain([ExplainOption(question.text, *pair, cells, question.task) for pair in pairs])
    explanations = tuple(chain for chain in chains if isinstance(chain, Chain))
    given = dict.fromkeys(question.labels, cells)
    choice = SOLVER.choose(
        [ChooseAnswer(question.text, question.labels, tuple(options), explanations, given, question.task)]
    )[0]
    if not isinstance(choice, Choice):
        raise ValueError(f"{question.question_id} was not answered: {choice.reason}")
    return Answered(question, evidence, choice, explanations)


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:5.1f}" if whole else "    –"


def gold_cell(question: QuestionRecord) -> tuple[int, int]:
    return parse_locator(question.gold_evidence[0].locator)


def says_gold(question: QuestionRecord) -> bool:
    """Whether the cell named as gold holds a word of the gold option; in some rows of the file it holds another
    cell."""
    option = question.options[question.labels.index(question.gold[0])]
    return bool(collect_words(question.gold_evidence[0].text) & collect_words(option))


Grid = tuple[tuple[frozenset[str], ...], list[list[frozenset[str]]]]


def _content(texts: Iterable[str]) -> frozenset[str]:
    return collect_tokens(texts) - STOP_WORDS


def overlap_grid(table: Table) -> Grid:
    """Header and rows of a table as sets of words, as read: nothing of the reasoner is used."""
    return tuple(_content([name]) for name in table.header), [[_content([cell]) for cell in row] for row in table.rows]


def overlap_answer(grid: Grid, question: QuestionRecord) -> Answered:
    """The floor: Dice of option and cell, plus twice the share of the question in the rest of the row and the header.

    The cell with the highest sum is the answer; the one met first where several have it. Of the ways tried to count
    overlap it is the one that comes nearest to what is stated for all 9,092 questions.
    """
    question_words = _content([question.text])
    options = [_content([option]) for option in question.options]
    best: tuple[float, int, tuple[int, int]] = (0.0, 0, (0, 0))
    header, rows = grid
    for i, words in enumerate(rows, 1):
        for j, cell in enumerate(words):
            rest = frozenset().union(*(w for k, w in enumerate(words) if k != j), *header[j : j + 1])
            around = 2 * len(question_words & rest) / max(1, len(question_words))
            for o, option in enumerate(options):
                match = 2 * len(option & cell) / (len(option) + len(cell)) if option & cell else 0.0
                if match and match + around > best[0]:
                    best = (match + around, o, (i, j))
    if not best[0]:
        return Answered(question, None, Choice(None, (), "insufficient", 0.0))
    label = question.labels[best[1]]
    steps = (ChainStep("", (f"r{best[2][0]}c{best[2][1]}",)),)
    return Answered(question, None, Choice(label, (label,), "answered", 0.0), (Chain(label, steps),))


def mcq_line(name: str, rows: Sequence[Answered]) -> str:
    """The figures that `MCQ_HEAD` names."""
    selected = [(gold_cell(item.question), item.evidence.columns) for item in rows if item.evidence is not None]
    cited = [item for item in rows if item.cited]
    sound = [item for item in cited if says_gold(item.question)]
    share = accuracy([item.right for item in rows])
    ties = [1 / len(item.answer.supported) for item in rows if item.question.gold[0] in item.answer.supported]
    precise, precise_sound = (sum(i.cited[-1] == gold_cell(i.question) for i in part) for part in (cited, sound))
    status = Counter(item.answer.status for item in rows)
    figures = [
        percent(sum(gold[1] in columns.indices for gold, columns in selected), len(selected)),
        percent(sum(len(c.kept_lines) for _, c in selected), sum(c.width for _, c in selected)),
        f"{percent(share.value, 1)} [{100 * share.low:.1f}, {100 * share.high:.1f}] {percent(sum(ties), len(rows))}",
        f"{percent(precise, len(cited))} {percent(precise_sound, len(sound))}",
        f"{status['ambiguous']:3d} {status['insufficient']:3d}",
    ]
    return f"  {name:22s} " + " | ".join(figures)


MCQ_HEAD = (
    "  recall of the gold column | share of columns kept | accuracy [95 %], gold supported with a tie by its share |\n"
    "  citation precision, the same where the gold cell holds a word of the gold option | questions ambiguous, open"
)


Named = Mapping[str, UcretSettings]
NAMED = ("ucret_published", "ucret_js_published", "ucret", "ucret_js", "keep_all", "jaccard_only", "bidirectional")
VARIANTS: dict[str, UcretSettings] = {name: load_settings(f"table/{name}") for name in NAMED}
ERRORS_OF = {name: VARIANTS[name] for name in ("ucret", "keep_all")}


def tabmcq_results(folder: Path, encoder: MiniLm, variants: Named) -> dict[str, list[Answered]]:
    """Answers of each variant, and those of plain word overlap."""
    tables = {table.table_id: table for table in read_tabmcq_tables(folder)}
    questions = list(read_questions("tabmcq", folder, "all"))
    table_questions = [TableQuestion(q.question_id, q.text, q.table_id or "", q.options) for q in questions]
    results: dict[str, list[Answered]] = {}
    for name, variant in variants.items():
        selections = list(collapse_tables(table_questions, tables, variant, encoder))
        results[name] = [
            solved(q, e, tables[e.question.table_id].caption) for q, e in zip(questions, selections, strict=True)
        ]
    grids = {key: overlap_grid(table) for key, table in tables.items()}
    results["plain word overlap"] = [overlap_answer(grids[q.table_id or ""], q) for q in questions]
    return results


def print_tabmcq(results: dict[str, list[Answered]]) -> None:
    questions = results["keep_all"]
    half = len(questions) // 2
    print(f"\nTabMCQ, {len(questions)} questions; {TABMCQ_FLOOR}")
    for title, part in (
        ("first half (tuned on)", slice(0, half)),
        ("second half", slice(half, None)),
        ("all", slice(None)),
    ):
        print(f" {title}\n{MCQ_HEAD}")
        for name, rows in results.items():
            print(mcq_line(name, rows[part]))


def measure_sample(encoder: MiniLm) -> None:
    """The sample's own questions and claims: ``dev`` is what was tuned on, ``test`` holds the same turns of phrase."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        render(folder)
        tables = {
            table.table_id: table for table in user_benchmark.read_tables(folder / "tables" / "tables.jsonl", "sample")
        }
        for benchmark in ("sample_tables", "sample_claims"):
            questions = list(user_benchmark.read_questions(folder / "benchmarks" / f"{benchmark}.jsonl", benchmark))
            print(f"\n{benchmark}: share of columns kept | right, answered, of all, in dev and test")
            table_questions = [
                TableQuestion(q.question_id, q.text, q.table_id or "", q.options if q.task == "table_qa" else ())
                for q in questions
            ]
            for variant in ("ucret_published", "ucret", "keep_all"):
                selections = list(collapse_tables(table_questions, tables, VARIANTS[variant], encoder))
                rows = [
                    solved(q, e, tables[e.question.table_id].caption)
                    for q, e in zip(questions, selections, strict=True)
                ]
                share = percent(sum(len(e.columns.kept_lines) for e in selections), sum(e.columns.width for e in selections))
                halves = []
                for split in ("dev", "test"):
                    part = [row for row in rows if row.question.split == split]
                    answered = sum(row.answer.status != "insufficient" for row in part)
                    halves.append(f"{sum(row.right for row in part):3d} {answered:3d} of {len(part)}")
                print(f"  {variant:22s} {share} | " + " | ".join(halves))


def temperature_table(name: str, pairs: Sequence[tuple[str, Table]], encoder: MiniLm) -> None:
    """What the temperature does to the divergences between texts and columns, and to the gate of 0.30."""
    texts, pieces = [], []
    for text, table in pairs:
        width = max([len(table.header), *map(len, table.rows)])
        for j in range(width):
            cells = [row[j] for row in table.rows if j < len(row)]
            texts.append(text)
            pieces.append(split_column_text(table.header[j] if j < len(table.header) else "", cells, 240)[0])
    left, right = unit_rows(encode_unique(encoder, texts)), unit_rows(encode_unique(encoder, pieces))
    print(f"\nJSD gate on {name}: {len(texts)} text–column pairs (first piece of each column), eta = 0.30")
    print("  temperature   median      95th      max | share passing: divergence <= 0.30, root <= 0.30")
    for temperature in (1.0, 0.5, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01):
        divergences = jensen_shannon(softmax(left, temperature), softmax(right, temperature))
        median, high = np.quantile(divergences, (0.5, 0.95))
        direct, root = 100 * (divergences <= 0.3).mean(), 100 * (np.sqrt(divergences) <= 0.3).mean()
        print(
            f"  {temperature:11.2f} {median:8.5f} {high:9.5f} {divergences.max():8.5f} | {direct:5.1f} % {root:5.1f} %"
        )


def mcq_error(item: Answered) -> str:
    row, column = gold_cell(item.question)
    if item.answer.status == "insufficient":
        return "open: nothing ties an option's cell to the question"
    if item.question.gold[0] in item.answer.supported:
        return "tie: the table supports the gold option and others alike"
    if item.evidence is not None and column not in item.evidence.columns.indices:
        return "selection: the answer column was dropped"
    if not item.cited:
        return "open: no cell"
    reached = item.cited[-1]
    if reached == (row, column):
        return "match: right cell, wrong option"
    if reached[0] == row:
        return "column: right row, wrong cell"
    return "row: another row fits the question's words better" if reached[1] == column else "row and column both wrong"


def print_errors(title: str, rows: Sequence[Answered], name: Callable[[Answered], str]) -> None:
    wrong = Counter(name(item) for item in rows if not item.right)
    print(f"\nWhat goes wrong, {title}: {sum(wrong.values())} of {len(rows)}")
    for reason, count in wrong.most_common():
        print(f"  {count:3d}  {reason}")


PARTS = ("tabmcq", "sample", "temperature", "errors")


def print_temperatures(folder: Path, encoder: MiniLm) -> None:
    tables = {table.table_id: table for table in read_tabmcq_tables(folder / "tabmcq")}
    texts_and_tables = [(q.text, tables[q.table_id or ""]) for q in read_questions("tabmcq", folder / "tabmcq", "all")]
    temperature_table(
        "SCITAB", [(q.text, t) for q, t in read_pairs("scitab", [folder / "scitab" / "sci_tab.json"], "all")], encoder
    )
    temperature_table("TabMCQ", texts_and_tables, encoder)


def main() -> None:
    reader = argparse.ArgumentParser(description="Results on real tables.")
    reader.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all without any")
    parts = set(reader.parse_args().parts) or set(PARTS)
    folder, encoder = Path(os.environ["EVIDENCE_DEV_DATA"]), MiniLm()
    if parts & {"tabmcq", "errors"}:
        results = tabmcq_results(folder / "tabmcq", encoder, VARIANTS if "tabmcq" in parts else ERRORS_OF)
    if "tabmcq" in parts:
        print_tabmcq(results)
    if "sample" in parts:
        measure_sample(encoder)
    if "temperature" in parts:
        print_temperatures(folder, encoder)
    if "errors" in parts:
        for name in ERRORS_OF:
            print_errors(f"TabMCQ, {name}", results[name], mcq_error)


if __name__ == "__main__":
    main()
