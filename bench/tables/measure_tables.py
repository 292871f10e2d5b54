"""Measure UCRET and the extractive solver on real tables: kept columns, answers and citations.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.measure_tables [tabmcq sample temperature errors]

Without arguments all parts are printed. MiniLM selects cells; the solver of the assets answers. The weights for
questions were tuned on the first half of TabMCQ. `bench.tables.fit_claim_weights` measures claims of SCITAB and
TabFact.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.minilm import MiniLm
from evidence_assets.benchmarks import user_benchmark
from evidence_assets.benchmarks.readers import read_pairs, read_questions
from evidence_assets.benchmarks.records import QuestionRecord, Table
from evidence_assets.experiment.evidence.selection import Question
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.experiment.variants import variants_of
from evidence_assets.extractive.tables.solver import TableSolver
from evidence_assets.models.vectors import softmax, unit_rows
from evidence_assets.reasoning.tables.cell_text import STOP_WORDS, collect_tokens, collect_words
from evidence_assets.reasoning.tables.views import parse_locator
from evidence_assets.reasoning.tasks import CAPTION, Chain, ChainStep, Choice, ChooseAnswer, EvidenceItem, ExplainOption
from evidence_assets.systems.ucret.columns import UcretSettings, split_column_text
from evidence_assets.systems.ucret.system import TableEvidence, Ucret, collapse_tables
from evidence_assets.transport.divergence import jensen_shannon
from tools.sample_world.render import render

TABMCQ_FLOOR = "on all 9,092 questions plain word overlap reaches 91.3 %"
SOLVER = TableSolver()


@dataclass(frozen=True)
class Result:
    """A question with its evidence, choice and chains."""

    question: QuestionRecord
    evidence: TableEvidence | None
    choice: Choice
    chains: tuple[Chain, ...] = ()

    @property
    def is_right(self) -> bool:
        return self.choice.answer in self.question.gold

    @property
    def cited_cells(self) -> list[tuple[int, int]]:
        """Cells that the chain of the answer cites; the last one is the answer cell."""
        return [parse_locator(cell) for step in self.chain for cell in step.cited]

    @property
    def chain(self) -> tuple[ChainStep, ...]:
        """The chain of the answer."""
        return next((chain.steps for chain in self.chains if chain.hypothesis == self.choice.answer), ())

    @property
    def margin(self) -> float:
        """Difference of the two highest weights."""
        first, second = sorted(self.choice.weights.values(), reverse=True)[:2]
        return first - second


def answer_question(question: QuestionRecord, evidence: TableEvidence, caption: str) -> Result:
    """Answer a question from its cells as the assets do: explain each option, then choose."""
    table_id = evidence.question.table_id
    locators = {f"r{row}c{column}": text for (row, column), text in evidence.cells.items()}
    cells = tuple(EvidenceItem(locator, "cell", table_id, locator, text) for locator, text in locators.items())
    if caption:
        cells += (EvidenceItem(CAPTION, CAPTION, table_id, CAPTION, caption),)
    options = question.options if question.task == "table_qa" else question.labels
    return Result(question, evidence, *choose(question.text, question.task, question.labels, options, cells))


def choose(
    text: str, task: str, labels: Sequence[str], options: Sequence[str], cells: tuple[EvidenceItem, ...]
) -> tuple[Choice, tuple[Chain, ...]]:
    """The choice of the solver, and the chain of each option."""
    pairs = zip(labels, options, strict=True)
    chains = SOLVER.explain([ExplainOption(text, *pair, cells, task) for pair in pairs])
    explanations = tuple(chain for chain in chains if isinstance(chain, Chain))
    label_evidence = dict.fromkeys(labels, cells)
    [choice] = SOLVER.choose([ChooseAnswer(text, tuple(labels), tuple(options), explanations, label_evidence, task)])
    if not isinstance(choice, Choice):
        raise ValueError(f"{text!r} was not answered: {choice.reason}")
    return choice, explanations


def format_percent(count: float, total: float) -> str:
    return f"{100 * count / total:5.1f}" if total else "    –"


def locate_gold_cell(question: QuestionRecord) -> tuple[int, int]:
    return parse_locator(question.gold_evidence[0].locator)


def is_gold_consistent(question: QuestionRecord) -> bool:
    """Whether the gold cell has a word of the gold option; some rows of the file give a wrong cell."""
    option = question.options[question.labels.index(question.gold[0])]
    return bool(collect_words(question.gold_evidence[0].text) & collect_words(option))


Grid = tuple[tuple[frozenset[str], ...], list[list[frozenset[str]]]]


def _content_tokens(texts: Iterable[str]) -> frozenset[str]:
    return collect_tokens(texts) - STOP_WORDS


def tokenize_table(table: Table) -> Grid:
    """Header and rows of a table as sets of tokens, without the solver's parsing."""
    header = tuple(_content_tokens([name]) for name in table.header)
    return header, [[_content_tokens([cell]) for cell in row] for row in table.rows]


def answer_by_overlap(grid: Grid, question: QuestionRecord) -> Result:
    """Baseline: Dice of option and cell, plus twice the share of the question's tokens in the row and header.

    The first cell with the highest sum is the answer. Of several overlap measures this one is nearest to the
    accuracy on all 9,092 questions.
    """
    question_words = _content_tokens([question.text])
    options = [_content_tokens([option]) for option in question.options]
    best: tuple[float, int, tuple[int, int]] = (0.0, 0, (0, 0))
    header, rows = grid
    for i, words in enumerate(rows, 1):
        for j, cell in enumerate(words):
            other_words = frozenset().union(*(w for k, w in enumerate(words) if k != j), *header[j : j + 1])
            context = 2 * len(question_words & other_words) / max(1, len(question_words))
            for o, option in enumerate(options):
                match = 2 * len(option & cell) / (len(option) + len(cell)) if option & cell else 0.0
                if match and match + context > best[0]:
                    best = (match + context, o, (i, j))
    if not best[0]:
        return Result(question, None, Choice(None, (), "insufficient"))
    label = question.labels[best[1]]
    steps = (ChainStep("", (f"r{best[2][0]}c{best[2][1]}",)),)
    return Result(question, None, Choice(label, (label,), "answered"), (Chain(label, steps),))


def format_mcq_line(name: str, results: Sequence[Result]) -> str:
    """The figures of `MCQ_HEADER`."""
    selections = [(locate_gold_cell(r.question), r.evidence.columns) for r in results if r.evidence is not None]
    cited_results = [r for r in results if r.cited_cells]
    consistent_results = [r for r in cited_results if is_gold_consistent(r.question)]
    share = accuracy([r.is_right for r in results])
    ties = [1 / len(r.choice.supported) for r in results if r.question.gold[0] in r.choice.supported]
    n_precise, n_precise_consistent = (
        sum(r.cited_cells[-1] == locate_gold_cell(r.question) for r in rows)
        for rows in (cited_results, consistent_results)
    )
    status = Counter(r.choice.status for r in results)
    figures = [
        format_percent(sum(gold[1] in columns.indices for gold, columns in selections), len(selections)),
        format_percent(sum(len(c.kept_lines) for _, c in selections), sum(c.width for _, c in selections)),
        f"{format_percent(share.value, 1)} [{100 * share.low:.1f}, {100 * share.high:.1f}] "
        f"{format_percent(sum(ties), len(results))}",
        f"{format_percent(n_precise, len(cited_results))} "
        f"{format_percent(n_precise_consistent, len(consistent_results))}",
        f"{status['ambiguous']:3d} {status['insufficient']:3d}",
    ]
    return f"  {name:22s} " + " | ".join(figures)


MCQ_HEADER = (
    "  recall of the gold column | share of columns kept | accuracy [95 %], share of gold among supported options |\n"
    "  citation precision, the same for gold cells with a word of the gold option | questions ambiguous, insufficient"
)


VARIANTS: dict[str, UcretSettings] = {
    variant.name: Ucret(variant).settings
    for variant in variants_of("ucret")
    if variant.explain and not variant.method and not any("grids" in preset for preset in variant.printed.presets)
}
ERROR_VARIANTS = {name: VARIANTS[name] for name in ("ucret", "keep_all")}


def to_question(record: QuestionRecord) -> Question:
    return Question(
        record.question_id, record.benchmark, record.task, record.text, record.options, record.table_id or ""
    )


def measure_tabmcq(folder: Path, encoder: MiniLm, variants: Mapping[str, UcretSettings]) -> dict[str, list[Result]]:
    """Results of each variant and of the word overlap baseline."""
    tables = {table.table_id: table for _, table in read_pairs("tabmcq", folder, "all")}
    questions = list(read_questions("tabmcq", folder, "all"))
    table_questions = [to_question(q) for q in questions]
    results: dict[str, list[Result]] = {}
    for name, variant in variants.items():
        selections = list(collapse_tables(table_questions, tables, variant, encoder))
        results[name] = [
            answer_question(q, e, tables[e.question.table_id].caption)
            for q, e in zip(questions, selections, strict=True)
        ]
    grids = {key: tokenize_table(table) for key, table in tables.items()}
    results["plain word overlap"] = [answer_by_overlap(grids[q.table_id or ""], q) for q in questions]
    return results


def print_tabmcq(results: dict[str, list[Result]]) -> None:
    questions = results["keep_all"]
    half = len(questions) // 2
    print(f"\nTabMCQ, {len(questions)} questions; {TABMCQ_FLOOR}")
    for title, half_slice in (
        ("first half (tuned on)", slice(0, half)),
        ("second half", slice(half, None)),
        ("all", slice(None)),
    ):
        print(f" {title}\n{MCQ_HEADER}")
        for name, rows in results.items():
            print(format_mcq_line(name, rows[half_slice]))


def measure_sample(encoder: MiniLm) -> None:
    """Measure the sample's questions and claims; ``dev`` was tuned on, ``test`` has the same phrases."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        render(folder)
        tables = {
            table.table_id: table for table in user_benchmark.read_tables(folder / "tables" / "tables.jsonl", "sample")
        }
        for benchmark in ("sample_tables", "sample_claims"):
            questions = list(user_benchmark.read_questions(folder / "benchmarks" / f"{benchmark}.jsonl", benchmark))
            print(f"\n{benchmark}: share of columns kept | right, answered, of all, in dev and test")
            table_questions = [to_question(q) for q in questions]
            for variant in ("ucret_published", "ucret", "keep_all"):
                selections = list(collapse_tables(table_questions, tables, VARIANTS[variant], encoder))
                rows = [
                    answer_question(q, e, tables[e.question.table_id].caption)
                    for q, e in zip(questions, selections, strict=True)
                ]
                n_columns = sum(e.columns.width for e in selections)
                share = format_percent(sum(len(e.columns.kept_lines) for e in selections), n_columns)
                halves = []
                for split in ("dev", "test"):
                    split_rows = [row for row in rows if row.question.split == split]
                    n_answered = sum(row.choice.status != "insufficient" for row in split_rows)
                    halves.append(f"{sum(row.is_right for row in split_rows):3d} {n_answered:3d} of {len(split_rows)}")
                print(f"  {variant:22s} {share} | " + " | ".join(halves))


def print_temperature_table(name: str, pairs: Sequence[tuple[str, Table]], encoder: MiniLm) -> None:
    """Print the divergences of texts and columns by temperature, and the share that passes the bound of 0.30."""
    texts, pieces = [], []
    for text, table in pairs:
        width = max([len(table.header), *map(len, table.rows)])
        for j in range(width):
            cells = [row[j] for row in table.rows if j < len(row)]
            texts.append(text)
            pieces.append(split_column_text(table.header[j] if j < len(table.header) else "", cells, 240)[0])
    text_vectors = unit_rows(encoder.encode_sentences(texts).astype(np.float64))
    column_vectors = unit_rows(encoder.encode_sentences(pieces).astype(np.float64))
    print(f"\nJSD gate on {name}: {len(texts)} text–column pairs (first piece of each column), eta = 0.30")
    print("  temperature   median      95th      max | share passing: divergence <= 0.30, root <= 0.30")
    for temperature in (1.0, 0.5, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01):
        divergences = jensen_shannon(softmax(text_vectors, temperature), softmax(column_vectors, temperature))
        median, high = np.quantile(divergences, (0.5, 0.95))
        direct, root = 100 * (divergences <= 0.3).mean(), 100 * (np.sqrt(divergences) <= 0.3).mean()
        print(
            f"  {temperature:11.2f} {median:8.5f} {high:9.5f} {divergences.max():8.5f} | {direct:5.1f} % {root:5.1f} %"
        )


def classify_error(result: Result) -> str:
    row, column = locate_gold_cell(result.question)
    if result.choice.status == "insufficient":
        return "insufficient: no option's cell is related to the question"
    if result.question.gold[0] in result.choice.supported:
        return "tie: the table supports the gold option and others equally"
    if result.evidence is not None and column not in result.evidence.columns.indices:
        return "selection: the answer column was dropped"
    if not result.cited_cells:
        return "insufficient: no cell"
    answer_cell = result.cited_cells[-1]
    if answer_cell == (row, column):
        return "match: right cell, wrong option"
    if answer_cell[0] == row:
        return "column: right row, wrong cell"
    return "row: another row matches the question better" if answer_cell[1] == column else "row and column: both wrong"


def print_errors(title: str, results: Sequence[Result]) -> None:
    errors = Counter(classify_error(result) for result in results if not result.is_right)
    print(f"\nErrors, {title}: {sum(errors.values())} of {len(results)}")
    for reason, count in errors.most_common():
        print(f"  {count:3d}  {reason}")


PARTS = ("tabmcq", "sample", "temperature", "errors")


def print_temperatures(folder: Path, encoder: MiniLm) -> None:
    tables = {table.table_id: table for _, table in read_pairs("tabmcq", folder / "tabmcq", "all")}
    texts_and_tables = [(q.text, tables[q.table_id or ""]) for q in read_questions("tabmcq", folder / "tabmcq", "all")]
    print_temperature_table(
        "SCITAB", [(q.text, t) for q, t in read_pairs("scitab", folder / "scitab", "test")], encoder
    )
    print_temperature_table("TabMCQ", texts_and_tables, encoder)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure UCRET and the extractive solver on real tables.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to print; all by default")
    parts = set(parser.parse_args().parts) or set(PARTS)
    folder, encoder = Path(os.environ["EVIDENCE_DEV_DATA"]), MiniLm()
    if parts & {"tabmcq", "errors"}:
        results = measure_tabmcq(folder / "tabmcq", encoder, VARIANTS if "tabmcq" in parts else ERROR_VARIANTS)
    if "tabmcq" in parts:
        print_tabmcq(results)
    if "sample" in parts:
        measure_sample(encoder)
    if "temperature" in parts:
        print_temperatures(folder, encoder)
    if "errors" in parts:
        for name in ERROR_VARIANTS:
            print_errors(f"TabMCQ, {name}", results[name])


if __name__ == "__main__":
    main()
