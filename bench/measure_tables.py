"""Results on real tables: what selection keeps, what the extractive reasoner answers, and what it cites.

    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_tables [tabmcq scitab tabfact sample temperature errors decisions]
    EVIDENCE_DEV_DATA=<folder> python -m bench.measure_tables others <MCQs.tsv>

Without a word all parts are printed; each can be had alone. ``others`` reads another file of questions on the same
tables, as the published one with all 9,092, and reports those that are not in the subset, apart and with it.

Reads the TabMCQ and SCITAB subsets and the tables of the sample, and encodes with MiniLM. Weights were set on the first
half of each file; the second half stands beside it. One rule, that two differing columns are always kept, was added
after a fall of the second half was seen; how amounts are compared and ties are settled, after errors on 1,866 questions
outside the subset. Takes two to five minutes on two cores, ``others`` about a quarter of an hour.
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
from bench.table_finder import TableFinder
from evidence_assets.benchmarks import own
from evidence_assets.benchmarks.official import scitab, tabfact, tabmcq
from evidence_assets.benchmarks.records import CLAIM_LABELS, Question, Table
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.models.vectors import softmax, unit_rows
from evidence_assets.reasoning.tables import TableAnswer, TableChain, TableStep, TableView, verify_claim
from evidence_assets.reasoning.tables.solver import place_of
from evidence_assets.reasoning.tables.text import STOP_WORDS, token_set, word_set
from evidence_assets.systems import settings_of
from evidence_assets.systems.ucret.columns import column_pieces
from evidence_assets.systems.ucret.settings import UcretSettings
from evidence_assets.systems.ucret.system import TableEvidence, TableQuestion, answer, encode_unique, select_evidence
from evidence_assets.transport.divergence import jensen_shannon
from tools.sample_world.render import render

FOUND = "table found among all"
TABMCQ_FLOOR = "on all 9,092 questions plain word overlap reaches 91.3 % (gold table) and 90.6 % (among all)"


@dataclass(frozen=True)
class Answered:
    """One question with its evidence and the answer made from it."""

    question: Question
    evidence: TableEvidence | None
    answer: TableAnswer

    @property
    def right(self) -> bool:
        return self.answer.answer in self.question.gold

    @property
    def cited(self) -> list[tuple[int, int]]:
        """Cells cited on the way to the answer; the last one is the answer cell."""
        chain = self.answer.chain(self.answer.answer or "")
        return [place for step in chain.steps for place in step.cells] if chain else []


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


def overlap_answer(grids: dict[str, Grid], question: Question) -> TableAnswer:
    """The floor: Dice of option and cell, plus twice the share of the question in the rest of the row and the header.

    The cell with the highest sum, in whichever of the tables, is the answer; the one met first where several have it. Of
    the ways tried to count overlap it is the one that comes nearest to what is stated for all 9,092 questions.
    """
    asked = _content([question.text])
    options = [_content([option]) for option in question.options]
    best: tuple[float, int, tuple[int, int], str] = (0.0, 0, (0, 0), "")
    for name, (header, rows) in grids.items():
        for i, words in enumerate(rows, 1):
            for j, cell in enumerate(words):
                matches = [
                    (2 * len(option & cell) / (len(option) + len(cell)), o)
                    for o, option in enumerate(options)
                    if option & cell
                ]
                if not matches:
                    continue
                rest = frozenset().union(*(w for k, w in enumerate(words) if k != j), *header[j : j + 1])
                around = 2 * len(asked & rest) / max(1, len(asked))
                for match, o in matches:
                    if match + around > best[0]:
                        best = (match + around, o, (i, j), name)
    if not best[0]:
        return TableAnswer(None, (), "insufficient", 0.0, ())
    label = question.labels[best[1]]
    chain = TableChain(label, (TableStep("look_up", "", (best[2],), ("",)),), best[0])
    return TableAnswer(label, (label,), "answered", 0.0, (chain,), best[3])


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
    home = [item.answer.table_id in ("", item.question.table_id) for item in rows]
    precise = sum(
        item.cited[-1] == gold_cell(item.question) for item, own in zip(rows, home, strict=True) if own and item.cited
    )
    sound = [says_gold(item.question) for item in rows]
    precise_sound = sum(
        item.cited[-1] == gold_cell(item.question)
        for item, own, said in zip(rows, home, sound, strict=True)
        if own and said and item.cited
    )
    given_sound = sum(said and bool(item.cited) for item, said in zip(rows, sound, strict=True))
    recalled = sum(gold_cell(item.question) in item.cited for item, own in zip(rows, home, strict=True) if own)
    right = sum(item.right for item in rows)
    share = accuracy([item.right for item in rows])
    among = sum(item.question.gold[0] in item.answer.supported for item in rows)
    shared = sum(item.question.gold[0] in item.answer.supported and 1 / len(item.answer.supported) for item in rows)
    status = Counter(item.answer.status for item in rows)
    selected = sum(item.evidence is not None for item in rows)
    explained = len(given) and n
    return " ".join(
        [
            f"  {name:22s}", percent(column, selected), percent(aligned_kept, aligned), percent(row, selected), "|",
            percent(kept, columns), percent(wide_kept, wide_columns), percent(rows_kept, rows_all), "|",
            percent(right, n), f"[{100 * share.low:.1f}, {100 * share.high:.1f}]", percent(shared, n), percent(among, explained), "|",
            percent(precise, len(given)), percent(precise_sound, given_sound), percent(recalled, explained), "|",
            f"{status['ambiguous']:3d} {status['insufficient']:3d}",
        ]
    )  # fmt: skip


MCQ_HEAD = (
    "  recall of gold column, aligned columns, gold row | share kept of columns, of those in tables with more than 2,\n"
    "  of rows | accuracy [95 %], the same with a tie counted by its share, gold among the supported | citation\n"
    "  precision, the same where the gold cell holds a word of the gold option, recall | questions ambiguous, open"
)


Named = Mapping[str, UcretSettings]
NAMED = ("ucret_published", "ucret_js_published", "ucret", "ucret_js", "keep_all", "jaccard_only", "bidirectional")
VARIANTS: dict[str, UcretSettings] = {name: settings_of(f"table/{name}") for name in NAMED}
ERRORS_OF = {name: VARIANTS[name] for name in ("ucret", "keep_all")}


def tabmcq_results(
    folder: Path, encoder: MiniLm, variants: Named, *, whole: bool, questions: Sequence[Question] = ()
) -> dict[str, list[Answered]]:
    """Answers of each variant; with ``whole`` those with the table to be found, and the floor, too.

    The questions are those of the folder unless others on its tables are given.
    """
    tables = {table.table_id: table for table in tabmcq.read_tables(folder)}
    questions = questions or list(tabmcq.read_questions(folder))
    views = {key: TableView.of(key, t.caption, t.header, t.rows) for key, t in tables.items()}
    asked = [TableQuestion(q.question_id, q.text, q.table_id or "", q.options) for q in questions]
    results: dict[str, list[Answered]] = {}
    for name, variant in variants.items():
        found = select_evidence(asked, tables, variant, encoder)
        results[name] = [Answered(q, e, answer(e, q.labels)) for q, e in zip(questions, found, strict=True)]
    if not whole:
        return results
    finder = TableFinder(list(views.values()))
    results[FOUND] = [Answered(q, None, finder.answer(q.text, q.labels, q.options)) for q in questions]
    grids = {key: overlap_grid(table) for key, table in tables.items()}
    results["floor, gold table"] = [
        Answered(q, None, overlap_answer({q.table_id or "": grids[q.table_id or ""]}, q)) for q in questions
    ]
    results["floor, among all"] = [Answered(q, None, overlap_answer(grids, q)) for q in questions]
    return results


def _asked(question: Question) -> tuple[object, ...]:
    """What makes two questions the same; their ids count the lines of their files."""
    return question.text, question.options, question.gold, question.table_id, gold_cell(question)


def print_others(folder: Path, file: Path, encoder: MiniLm) -> None:
    """Results on questions that are not in the subset, and on all that the file holds."""
    with TemporaryDirectory() as name:
        Path(name, "MCQs.tsv").write_bytes(file.read_bytes())
        Path(name, "Tables").symlink_to((folder / "Tables").resolve())
        questions = list(tabmcq.read_questions(Path(name)))
    known = {_asked(q) for q in tabmcq.read_questions(folder)}
    results = tabmcq_results(folder, encoder, ERRORS_OF, whole=True, questions=questions)
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
    for name in (FOUND, "floor, among all"):
        right_table = sum(item.answer.table_id == item.question.table_id for item in results[name])
        print(f"  gold table found, {name}: {percent(right_table, len(questions))} %")


def claim_line(name: str, rows: Sequence[Answered]) -> str:
    right = accuracy([item.right for item in rows])
    scores = []
    for label in CLAIM_LABELS:
        both = sum(item.right and item.answer.answer == label for item in rows)
        given = sum(item.answer.answer == label for item in rows)
        gold = sum(item.question.gold[0] == label for item in rows)
        scores.append(2 * both / (given + gold) if given + gold else 0.0)
    kept = [item.evidence.columns for item in rows if item.evidence]
    share = percent(sum(len(c.kept) for c in kept), sum(c.width for c in kept))
    f1 = " ".join(f"{100 * score:5.1f}" for score in scores)
    told = f"{100 * right.value:5.1f} [{100 * right.low:.1f}, {100 * right.high:.1f}]"
    return f"  {name:22s} {share} | {told} | {f1} | {100 * np.mean(scores):.1f}"


def scitab_results(path: Path, encoder: MiniLm, variants: Named) -> dict[str, list[Answered]]:
    pairs = list(scitab.read(path))
    tables = {table.table_id: table for _, table in pairs}
    asked = [TableQuestion(q.question_id, q.text, t.table_id) for q, t in pairs]
    results = {}
    for name, variant in variants.items():
        found = select_evidence(asked, tables, variant, encoder)
        results[name] = [Answered(q, e, answer(e, ())) for (q, _), e in zip(pairs, found, strict=True)]
    return results


def print_scitab(results: dict[str, list[Answered]]) -> None:
    claims = [item.question for item in results["keep_all"]]
    half = len(claims) // 2
    majority = Counter(claim.gold[0] for claim in claims).most_common(1)[0]
    print(f"\nSCITAB, {len(claims)} claims; majority class {majority[0]}: {percent(majority[1], len(claims))} %")
    for title, part in (
        ("first half (tuned on)", slice(0, half)),
        ("second half", slice(half, None)),
        ("all", slice(None)),
    ):
        print(f" {title}\n  share of columns kept | accuracy [95 %] | F1 of {', '.join(CLAIM_LABELS)} | macro F1")
        for name, rows in results.items():
            print(claim_line(name, rows[part]))


def print_tabfact(folder: Path) -> None:
    """Statements with the whole table: how many are decided, and how many of those and of all are right."""
    pairs = list(tabfact.read(folder / "tokenized_data" / "test_examples.json", tabfact.tables_in(folder), "test"))
    views = {t.table_id: TableView.of(t.table_id, t.caption, t.header, t.rows) for _, t in pairs}
    answers = [(q.gold, verify_claim(views[t.table_id], q.text)) for q, t in pairs]
    hits = [answer.answer in gold for gold, answer in answers if answer.status == "answered"]
    right, decided, share = sum(hits), len(hits), accuracy(hits)
    print(
        f"\nTabFact, {len(pairs)} statements: {percent(decided, len(pairs))} % decided, of these {percent(right, decided)} "
        f"[{100 * share.low:.1f}, {100 * share.high:.1f}] % right, {percent(right, len(pairs))} % of all"
    )


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
                found = select_evidence(asked, tables, VARIANTS[variant], encoder)
                rows = [Answered(q, e, answer(e, q.labels)) for q, e in zip(questions, found, strict=True)]
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
    if item.answer.answer is None:
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
    operations = {step.operation for chain in item.answer.chains for step in chain.steps}
    if item.answer.answer == "NOT ENOUGH INFORMATION":
        if "coverage" in operations:
            return "left open: the claim's words are hardly the table's"
        return "left open: " + ("findings balance" if "balance" in operations else "no number or comparison to check")
    if item.question.gold[0] == "NOT ENOUGH INFORMATION":
        return "decided though the table does not settle it"
    decisive = operations & {"look_up", "difference", "ratio", "comparison", "superlative", "count", "trend"}
    return "wrong way round: " + "+".join(sorted(decisive))


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
    chain = item.answer.chain(item.answer.answer or "")
    for step in chain.steps if chain else ():
        places = ", ".join(f"r{i}c{j}" for i, j in step.cells[:6]) + (" …" if len(step.cells) > 6 else "")
        print(f"    {step.operation}: {step.text} [{places}]")


PARTS = ("tabmcq", "scitab", "tabfact", "sample", "temperature", "errors", "decisions")


def print_temperatures(folder: Path, encoder: MiniLm) -> None:
    tables = {table.table_id: table for table in tabmcq.read_tables(folder / "tabmcq")}
    asked = [(q.text, tables[q.table_id or ""]) for q in tabmcq.read_questions(folder / "tabmcq")]
    temperature_table("SCITAB", [(q.text, t) for q, t in scitab.read(folder / "scitab" / "sci_tab.json")], encoder)
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
    parts = reader.parse_args().parts
    other = Path(parts[1]) if parts[:1] == ["others"] and len(parts) == 2 else None
    wanted = set(parts) or set(PARTS)
    if other is None and (unknown := sorted(wanted - set(PARTS))):
        raise SystemExit(f"there is no part {unknown[0]!r}; known: {', '.join(PARTS)}, and others <MCQs.tsv>")
    name = os.environ.get("EVIDENCE_DEV_DATA", "")
    if not Path(name, "tabmcq").is_dir():
        raise SystemExit("set EVIDENCE_DEV_DATA to the folder that holds tabmcq/ and scitab/")
    folder, encoder = Path(name), MiniLm()
    if other is not None:
        print_others(folder / "tabmcq", other, encoder)
        return
    answered = wanted & {"errors", "decisions"}
    if wanted & {"tabmcq"} or answered:
        whole = "tabmcq" in wanted
        questions = tabmcq_results(folder / "tabmcq", encoder, VARIANTS if whole else ERRORS_OF, whole=whole)
    if wanted & {"scitab"} or answered:
        claims = scitab_results(
            folder / "scitab" / "sci_tab.json", encoder, VARIANTS if "scitab" in wanted else ERRORS_OF
        )
    if "tabmcq" in wanted:
        print_tabmcq(questions)
    if "scitab" in wanted:
        print_scitab(claims)
    if "tabfact" in wanted:
        print_tabfact(folder / "tabfact")
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
