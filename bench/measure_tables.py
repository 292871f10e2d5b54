"""Results on real tables: what selection keeps, what the extractive solver answers from it, and what it cites.

    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_tables [tabmcq scitab tabfact sample temperature errors decisions]
    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_tables --others MCQs.tsv

Without a word all parts are printed; each can be had alone. ``--others`` reads another file of questions on the same
tables, as the published one with all 9,092, and reports those that are not in the subset, apart and with it; that takes
a quarter of an hour, the rest two to five minutes on two cores.

Cells are selected with MiniLM and answered by the solver that the assets use. Weights were set on the first half of each
file; the second half stands beside it. One rule, that two differing columns are always kept, was added after a fall of
the second half was seen; how amounts are compared and ties are settled, after errors on 1,866 questions outside the subset.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench.claim_data import Claim, scitab_claims, tabfact_claims
from bench.minilm import MiniLm
from evidence_assets.benchmarks import own
from evidence_assets.benchmarks.official.tables import read_tabmcq_tables
from evidence_assets.benchmarks.readers import read_pairs, read_questions
from evidence_assets.benchmarks.records import Question, Table
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.models.vectors import softmax, unit_rows
from evidence_assets.reasoning.tables.solver import TableSolver, place_of
from evidence_assets.reasoning.tables.text import STOP_WORDS, token_set, word_set
from evidence_assets.reasoning.tasks import CAPTION, Chain, Choice, ChooseAnswer, EvidenceItem, ExplainOption, Step
from evidence_assets.systems import settings_of
from evidence_assets.systems.ucret.columns import column_pieces
from evidence_assets.systems.ucret.settings import UcretSettings
from evidence_assets.systems.ucret.system import TableEvidence, TableQuestion, collapsed_tables, encode_unique
from evidence_assets.transport.divergence import jensen_shannon
from tools.sample_world.render import render

TABMCQ_FLOOR = "on all 9,092 questions plain word overlap reaches 91.3 %"
SOLVER = TableSolver()


@dataclass(frozen=True)
class Answered:
    """One question with its evidence, and the answer and the chains made from it."""

    question: Question
    evidence: TableEvidence | None
    answer: Choice
    chains: tuple[Chain, ...] = ()

    @property
    def right(self) -> bool:
        return self.answer.answer in self.question.gold

    @property
    def cited(self) -> list[tuple[int, int]]:
        """Cells cited on the way to the answer; the last one is the answer cell."""
        return [place_of(cell) for step in self.chain for cell in step.cited]

    @property
    def chain(self) -> tuple[Step, ...]:
        """The steps to the answer."""
        return next((chain.steps for chain in self.chains if chain.hypothesis == self.answer.answer), ())

    @property
    def margin(self) -> float:
        """How much more strongly the answer is held than the next best."""
        first, second = sorted(self.answer.weights.values(), reverse=True)[:2]
        return first - second


def solved(question: Question, evidence: TableEvidence, caption: str) -> Answered:
    """A question answered from its cells as the assets have it answered: explained option by option, then chosen."""
    cells = tuple(EvidenceItem(c.locator, "cell", c.table_id, c.locator, c.text, c.score) for c in evidence.cells)
    if caption:
        cells += (EvidenceItem(CAPTION, CAPTION, evidence.question.table_id, CAPTION, caption),)
    options = question.options if question.task == "table_qa" else question.labels
    pairs = list(zip(question.labels, options, strict=True))
    chains = SOLVER.explain([ExplainOption(question.text, *pair, cells, question.task) for pair in pairs])
    held = tuple(chain for chain in chains if isinstance(chain, Chain))
    given = dict.fromkeys(question.labels, cells)
    choice = SOLVER.choose([ChooseAnswer(question.text, question.labels, tuple(options), held, given, question.task)])[
        0
    ]
    if not isinstance(choice, Choice):
        raise ValueError(f"{question.question_id} was not answered: {choice.reason}")
    return Answered(question, evidence, choice, held)


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:5.1f}" if whole else "    –"


def gold_cell(question: Question) -> tuple[int, int]:
    return place_of(question.gold_evidence[0].locator)


def says_gold(question: Question) -> bool:
    """Whether the cell named as gold holds a word of the gold option; in some rows of the file it holds another cell."""
    option = question.options[question.labels.index(question.gold[0])]
    return bool(word_set(question.gold_evidence[0].text) & word_set(option))


Grid = tuple[tuple[frozenset[str], ...], list[list[frozenset[str]]]]


def _content(texts: Iterable[str]) -> frozenset[str]:
    return token_set(texts) - STOP_WORDS


def overlap_grid(table: Table) -> Grid:
    """Header and rows of a table as sets of words, as read: nothing of the reasoner is used."""
    return tuple(_content([name]) for name in table.header), [[_content([cell]) for cell in row] for row in table.rows]


def overlap_answer(grid: Grid, question: Question) -> Answered:
    """The floor: Dice of option and cell, plus twice the share of the question in the rest of the row and the header.

    The cell with the highest sum is the answer; the one met first where several have it. Of the ways tried to count
    overlap it is the one that comes nearest to what is stated for all 9,092 questions.
    """
    asked = _content([question.text])
    options = [_content([option]) for option in question.options]
    best: tuple[float, int, tuple[int, int]] = (0.0, 0, (0, 0))
    header, rows = grid
    for i, words in enumerate(rows, 1):
        for j, cell in enumerate(words):
            rest = frozenset().union(*(w for k, w in enumerate(words) if k != j), *header[j : j + 1])
            around = 2 * len(asked & rest) / max(1, len(asked))
            for o, option in enumerate(options):
                match = 2 * len(option & cell) / (len(option) + len(cell)) if option & cell else 0.0
                if match and match + around > best[0]:
                    best = (match + around, o, (i, j))
    if not best[0]:
        return Answered(question, None, Choice(None, (), "insufficient", 0.0))
    label = question.labels[best[1]]
    steps = (Step("", (f"r{best[2][0]}c{best[2][1]}",)),)
    return Answered(question, None, Choice(label, (label,), "answered", 0.0), (Chain(label, steps),))


def mcq_line(name: str, rows: Sequence[Answered]) -> str:
    n = len(rows)
    kept = columns = aligned_kept = aligned = column = row = rows_kept = rows_all = 0
    wide_kept = wide_columns = 0
    for item in rows:
        if item.evidence is None:
            continue
        gold, chosen = gold_cell(item.question), item.evidence.columns
        wanted = {int(e.locator[1:]) for e in item.question.gold_evidence if e.kind == "column"}
        column += gold[1] in chosen.indices
        aligned_kept, aligned = aligned_kept + len(wanted & set(chosen.indices)), aligned + len(wanted)
        kept, columns = kept + len(chosen.kept), columns + chosen.width
        if chosen.width > 2:
            wide_kept, wide_columns = wide_kept + len(chosen.kept), wide_columns + chosen.width
        found_rows = item.evidence.rows
        row += found_rows is None or gold[0] - 1 in found_rows.indices
        height = found_rows.width if found_rows else 1
        rows_kept, rows_all = rows_kept + (len(found_rows.kept) if found_rows else 1), rows_all + height
    given = [item for item in rows if item.cited]
    precise = sum(item.cited[-1] == gold_cell(item.question) for item in given)
    sound = [item for item in given if says_gold(item.question)]
    precise_sound = sum(item.cited[-1] == gold_cell(item.question) for item in sound)
    recalled = sum(gold_cell(item.question) in item.cited for item in rows)
    right = sum(item.right for item in rows)
    share = accuracy([item.right for item in rows])
    among = sum(item.question.gold[0] in item.answer.supported for item in rows)
    shared = sum(item.question.gold[0] in item.answer.supported and 1 / len(item.answer.supported) for item in rows)
    status = Counter(item.answer.status for item in rows)
    selected = sum(item.evidence is not None for item in rows)
    explained = len(given) and n
    return " ".join(
        [
            f"  {name:22s}",
            percent(column, selected),
            percent(aligned_kept, aligned),
            percent(row, selected),
            "|",
            percent(kept, columns),
            percent(wide_kept, wide_columns),
            percent(rows_kept, rows_all),
            "|",
            percent(right, n),
            f"[{100 * share.low:.1f}, {100 * share.high:.1f}]",
            percent(shared, n),
            percent(among, explained),
            "|",
            percent(precise, len(given)),
            percent(precise_sound, len(sound)),
            percent(recalled, explained),
            "|",
            f"{status['ambiguous']:3d} {status['insufficient']:3d}",
        ]
    )


MCQ_HEAD = (
    "  recall of gold column, aligned columns, gold row | share kept of columns, of those in tables with more than 2,\n"
    "  of rows | accuracy [95 %], the same with a tie counted by its share, gold among the supported | citation\n"
    "  precision, the same where the gold cell holds a word of the gold option, recall | questions ambiguous, open"
)


Named = Mapping[str, UcretSettings]
NAMED = ("ucret_published", "ucret_js_published", "ucret", "ucret_js", "keep_all", "jaccard_only", "bidirectional")
VARIANTS: dict[str, UcretSettings] = {name: settings_of(f"table/{name}") for name in NAMED}
ERRORS_OF = {name: VARIANTS[name] for name in ("ucret", "keep_all")}
FILTERED = {"ucret, claims filtered": replace(VARIANTS["ucret"], whole_claims=False)}
"""What a claim's columns are worth: as `ucret` was before it kept them all."""


def tabmcq_results(
    folder: Path, encoder: MiniLm, variants: Named, *, floor: bool, questions: Sequence[Question] = ()
) -> dict[str, list[Answered]]:
    """Answers of each variant, and with ``floor`` those of plain word overlap.

    The questions are those of the folder unless others on its tables are given.
    """
    tables = {table.table_id: table for table in read_tabmcq_tables(folder)}
    questions = questions or list(read_questions("tabmcq", folder, "all"))
    asked = [TableQuestion(q.question_id, q.text, q.table_id or "", q.options) for q in questions]
    results: dict[str, list[Answered]] = {}
    for name, variant in variants.items():
        found = list(collapsed_tables(asked, tables, variant, encoder))
        results[name] = [
            solved(q, e, tables[e.question.table_id].caption) for q, e in zip(questions, found, strict=True)
        ]
    if floor:
        grids = {key: overlap_grid(table) for key, table in tables.items()}
        results["plain word overlap"] = [overlap_answer(grids[q.table_id or ""], q) for q in questions]
    return results


def _asked(question: Question) -> tuple[object, ...]:
    """What makes two questions the same; their ids count the lines of their files."""
    return question.text, question.options, question.gold, question.table_id, gold_cell(question)


def print_others(folder: Path, file: Path, encoder: MiniLm) -> None:
    """Results on questions that are not in the subset, and on all that the file holds."""
    with TemporaryDirectory() as name:
        Path(name, "MCQs.tsv").write_bytes(file.read_bytes())
        Path(name, "Tables").symlink_to((folder / "Tables").resolve())
        questions = list(read_questions("tabmcq", Path(name), "all"))
    known = {_asked(q) for q in read_questions("tabmcq", folder, "all")}
    results = tabmcq_results(folder, encoder, ERRORS_OF, floor=True, questions=questions)
    fresh = [k for k, q in enumerate(questions) if _asked(q) not in known]
    print(f"\nTabMCQ, {file.name}, {len(questions)} questions, {len(fresh)} of them not in the subset; {TABMCQ_FLOOR}")
    for title, part in (("not in the subset", fresh), ("all", range(len(questions)))):
        print(f" {title}, {len(part)} questions\n{MCQ_HEAD}")
        for variant, rows in results.items():
            print(mcq_line(variant, [rows[k] for k in part]))


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


def claim_line(name: str, rows: Sequence[Answered], labels: Sequence[str]) -> str:
    right = accuracy([item.right for item in rows])
    scores = []
    for label in labels:
        both = sum(item.right and item.answer.answer == label for item in rows)
        given = sum(item.answer.answer == label for item in rows)
        gold = sum(item.question.gold[0] == label for item in rows)
        scores.append(2 * both / (given + gold) if given + gold else 0.0)
    kept = [item.evidence.columns for item in rows if item.evidence]
    share = percent(sum(len(c.kept) for c in kept), sum(c.width for c in kept))
    f1 = " ".join(f"{100 * score:5.1f}" for score in scores)
    told = f"{100 * right.value:5.1f} [{100 * right.low:.1f}, {100 * right.high:.1f}]"
    return f"  {name:22s} {share} | {told} | {f1} | {100 * np.mean(scores):.1f}"


def claim_results(claims: Sequence[Claim], encoder: MiniLm, variants: Named) -> dict[str, list[Answered]]:
    tables = {claim.table.table_id: claim.table for claim in claims}
    asked = [TableQuestion(c.question.question_id, c.question.text, c.table.table_id) for c in claims]
    results = {}
    for name, variant in variants.items():
        found = list(collapsed_tables(asked, tables, variant, encoder))
        results[name] = [solved(c.question, e, c.table.caption) for c, e in zip(claims, found, strict=True)]
    return results


def risk_coverage(rows: Sequence[Answered], shares: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 1.0)) -> str:
    """Accuracy of the surest part of some answers, surest by how much more strongly the answer is held than the next."""
    ranked = sorted(rows, key=lambda item: -item.margin)
    parts = [ranked[: max(1, round(share * len(ranked)))] for share in shares]
    return " ".join(f"{100 * sum(item.right for item in part) / len(part):5.1f}" for part in parts)


def print_claims(title: str, claims: Sequence[Claim], results: dict[str, list[Answered]]) -> None:
    """Forced choice, what is decided, and the accuracy of the surest answers, by half."""
    majority = Counter(claim.question.gold[0] for claim in claims).most_common(1)[0]
    labels = claims[0].question.labels
    print(f"\n{title}, {len(claims)} claims; majority class {majority[0]}: {percent(majority[1], len(claims))} %")
    for half, halves in (("first half (fitted on)", (True,)), ("second half", (False,)), ("all", (True, False))):
        print(
            f" {half}\n  share of columns kept | accuracy [95 %] | F1 of {', '.join(labels)} | macro F1 | share decided, right "
            f"of these | surest 10, 25, 50, 75, 100 %"
        )
        for name, answered in results.items():
            rows = [item for item, claim in zip(answered, claims, strict=True) if claim.first_half in halves]
            decided = [item.right for item in rows if item.answer.status == "answered"]
            told = f"{percent(len(decided), len(rows))} {percent(sum(decided), len(decided))}"
            print(f"{claim_line(name, rows, labels)} | {told} | {risk_coverage(rows)}")


def measure_sample(encoder: MiniLm) -> None:
    """The sample's own questions and claims: ``dev`` is what was tuned on, ``test`` holds the same turns of phrase."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        render(folder)
        tables = {table.table_id: table for table in own.read_tables(folder / "tables" / "tables.jsonl", "sample")}
        for benchmark in ("sample_tables", "sample_claims"):
            questions = list(own.read_questions(folder / "benchmarks" / f"{benchmark}.jsonl", benchmark))
            print(f"\n{benchmark}: share of columns kept | right, answered, of all, in dev and test")
            asked = [
                TableQuestion(q.question_id, q.text, q.table_id or "", q.options if q.task == "table_qa" else ())
                for q in questions
            ]
            for variant in ("ucret_published", "ucret", "keep_all"):
                found = list(collapsed_tables(asked, tables, VARIANTS[variant], encoder))
                rows = [
                    solved(q, e, tables[e.question.table_id].caption) for q, e in zip(questions, found, strict=True)
                ]
                share = percent(sum(len(e.columns.kept) for e in found), sum(e.columns.width for e in found))
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
            pieces.append(column_pieces(table.header[j] if j < len(table.header) else "", cells, 240)[0])
    left, right = unit_rows(encode_unique(encoder, texts)), unit_rows(encode_unique(encoder, pieces))
    print(f"\nJSD gate on {name}: {len(texts)} text–column pairs (first piece of each column), eta = 0.30")
    print("  temperature   median      95th      max | share passing: divergence <= 0.30, root <= 0.30")
    for temperature in (1.0, 0.5, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01):
        found = jensen_shannon(softmax(left, temperature), softmax(right, temperature))
        median, high = np.quantile(found, (0.5, 0.95))
        direct, root = 100 * (found <= 0.3).mean(), 100 * (np.sqrt(found) <= 0.3).mean()
        print(f"  {temperature:11.2f} {median:8.5f} {high:9.5f} {found.max():8.5f} | {direct:5.1f} % {root:5.1f} %")


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


def claim_error(item: Answered) -> str:
    if item.answer.answer == "NOT ENOUGH INFORMATION":
        return "left open"
    if item.question.gold[0] == "NOT ENOUGH INFORMATION":
        return "decided though the table does not settle it"
    return "wrong way round"


def print_errors(title: str, rows: Sequence[Answered], name: Callable[[Answered], str]) -> None:
    wrong = Counter(name(item) for item in rows if not item.right)
    print(f"\nWhat goes wrong, {title}: {sum(wrong.values())} of {len(rows)}")
    for reason, count in wrong.most_common():
        print(f"  {count:3d}  {reason}")


def explain(item: Answered) -> None:
    """One decision with its cells and the rules that kept their columns."""
    question = item.question
    print(f"\n  {question.text[:200]}")
    if question.task == "table_qa":
        print(
            "  "
            + "  ".join(f"{label}) {option}" for label, option in zip(question.labels, question.options, strict=True))
        )
    print(
        f"  answer {item.answer.answer} ({item.answer.status}, {item.answer.confidence:.2f}); gold {question.gold[0]}"
    )
    if item.evidence:
        print("  columns: " + ", ".join(f"c{k.line} ({k.rule} {k.score:.2f})" for k in item.evidence.columns.kept))
    for step in item.chain:
        places = ", ".join(step.cited[:6]) + (" …" if len(step.cited) > 6 else "")
        print(f"    {step.text} [{places}]")


PARTS = ("tabmcq", "scitab", "tabfact", "sample", "temperature", "errors", "decisions")


def print_temperatures(folder: Path, encoder: MiniLm) -> None:
    tables = {table.table_id: table for table in read_tabmcq_tables(folder / "tabmcq")}
    asked = [(q.text, tables[q.table_id or ""]) for q in read_questions("tabmcq", folder / "tabmcq", "all")]
    temperature_table(
        "SCITAB", [(q.text, t) for q, t in read_pairs("scitab", [folder / "scitab" / "sci_tab.json"], "all")], encoder
    )
    temperature_table("TabMCQ", asked, encoder)


def print_decisions(questions: Sequence[Answered], claims: Sequence[Answered]) -> None:
    print("\nFive decisions (ucret on TabMCQ, keep_all on SCITAB)")
    decided = [item for item in claims if item.answer.status == "answered"]
    picks = [next(i for i in questions if i.right), next(i for i in questions if i.answer.status == "ambiguous")]
    picks += [next(i for i in decided if i.right and i.answer.answer == label) for label in ("SUPPORTS", "REFUTES")]
    picks.append(next(i for i in decided if not i.right))
    for item in picks:
        explain(item)


def main() -> None:
    reader = argparse.ArgumentParser(description="Results on real tables.")
    reader.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all without any")
    reader.add_argument(
        "--others", type=Path, metavar="MCQs.tsv", help="questions on the same tables, apart from the subset"
    )
    given = reader.parse_args()
    wanted = set(given.parts) or set(PARTS)
    if unknown := sorted(wanted - set(PARTS)):
        raise SystemExit(f"there is no part {unknown[0]!r}; known: {', '.join(PARTS)}")
    folder, encoder = Path(os.environ["EVIDENCE_DEV_DATA"]), MiniLm()
    if given.others is not None:
        print_others(folder / "tabmcq", given.others, encoder)
        return
    answered = bool(wanted & {"errors", "decisions"})
    if "tabmcq" in wanted or answered:
        whole = "tabmcq" in wanted
        questions = tabmcq_results(folder / "tabmcq", encoder, VARIANTS if whole else ERRORS_OF, floor=whole)
    if "scitab" in wanted or answered:
        scitab_ = scitab_claims(folder)
        claims = claim_results(scitab_, encoder, VARIANTS | FILTERED if "scitab" in wanted else ERRORS_OF)
    if "tabmcq" in wanted:
        print_tabmcq(questions)
    if "scitab" in wanted:
        print_claims("SCITAB", scitab_, claims)
    if "tabfact" in wanted:
        statements = tabfact_claims(folder)
        print_claims("TabFact", statements, claim_results(statements, encoder, ERRORS_OF | FILTERED))
    if "sample" in wanted:
        measure_sample(encoder)
    if "temperature" in wanted:
        print_temperatures(folder, encoder)
    if "errors" in wanted:
        print_errors("TabMCQ, ucret", questions["ucret"], mcq_error)
        print_errors("TabMCQ, keep_all", questions["keep_all"], mcq_error)
        print_errors("SCITAB, keep_all", claims["keep_all"], claim_error)
    if "decisions" in wanted:
        print_decisions(questions["ucret"], claims["keep_all"])


if __name__ == "__main__":
    main()
