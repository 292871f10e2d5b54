"""Verification claims and multiple-choice questions over the sample tables."""

from __future__ import annotations

from tools.sample_world.facts import order_key
from tools.sample_world.questions import Question, finish, new_question
from tools.sample_world.tables import FINDERS, LABELS, REFUTES, SUPPORTS, UNKNOWN, Finding, Table, column_name

SHARES = {SUPPORTS: 0.4, REFUTES: 0.4, UNKNOWN: 0.2}
"""Share of each label among the claims."""


def _findings(tables: list[Table], use: str, count: int) -> list[tuple[Table, Finding]]:
    """Find so many things to ask about, going round the operations and using every table about equally often."""
    findings: list[tuple[Table, Finding]] = []
    uses: dict[str, int] = dict.fromkeys((table.table_id for table in tables), 0)
    seen_texts: set[str] = set()
    for turn in range(50 * len(FINDERS)):
        if len(findings) == count:
            break
        finder = FINDERS[turn % len(FINDERS)]
        for table in sorted(tables, key=lambda table: (uses[table.table_id], order_key(use, turn, table.table_id))):
            finding = finder(table, f"{use}{turn}{table.table_id}")
            if finding and finding.question not in seen_texts:
                seen_texts.add(finding.question)
                uses[table.table_id] += 1
                findings.append((table, finding))
                break
    if len(findings) < count:
        raise ValueError(f"the tables yield only {len(findings)} of {count} findings for {use}")
    return findings


def make_table_questions(tables: list[Table], count: int) -> list[Question]:
    """Make multiple-choice questions: look-up, comparison, superlative, difference, ratio, count, trend."""
    questions = []
    for table, finding in _findings(tables, "table question", count):
        options = sorted(
            [finding.answer, *finding.wrong], key=lambda option: order_key("option", finding.question, option)
        )
        questions.append(
            new_question(
                "sample_tables-000",
                "table_qa",
                finding.question,
                table_id=table.table_id,
                options=options,
                gold=[options.index(finding.answer)],
                gold_evidence=table.evidence(list(finding.cells)),
            )
        )
    return finish(questions)


def _unknown_claim(table: Table, tables: list[Table], key: str) -> str:
    """Claim something near the table that it does not say: of a row that another table has, or of another matter."""
    row_names = {row[0] for row in table.rows}
    missing = sorted({row[0] for other in tables if other.item == table.item for row in other.rows} - row_names)
    if missing and int(order_key(key), 16) % 3 == 0:
        name = sorted(missing, key=lambda name: order_key(key, name))[0]
        column = sorted(range(1, len(table.header)), key=lambda column: order_key(key, column))[0]
        value = table.rows[int(order_key(key, "row"), 16) % len(table.rows)][column]
        return f"For {name}, the entry on {column_name(table, column)} reads {value}."
    return table.beyond


def make_claims(tables: list[Table], count: int) -> list[Question]:
    """Make verification claims, with the cells that decide them; nothing decides the unknown ones."""
    unknown = round(SHARES[UNKNOWN] * count)
    claims = []
    for number, (table, finding) in enumerate(_findings(tables, "claim", count - unknown)):
        # every operation comes round with both labels
        label = SUPPORTS if (number + number // len(FINDERS)) % 2 == 0 else REFUTES
        text = finding.statement if label == SUPPORTS else finding.false_statement
        claims.append(
            new_question(
                "sample_claims-000",
                "verification",
                text,
                table_id=table.table_id,
                options=LABELS,
                gold=[LABELS.index(label)],
                gold_evidence=table.evidence(list(finding.cells)),
            )
        )
    open_tables = sorted(
        (table for table in tables if table.beyond), key=lambda table: order_key("unknown", table.table_id)
    )
    for table in open_tables[:unknown]:
        text = _unknown_claim(table, tables, f"unknown {table.table_id}")
        fields = {"options": LABELS, "gold": [LABELS.index(UNKNOWN)], "answerable": False}
        claims.append(new_question("sample_claims-000", "verification", text, table_id=table.table_id, **fields))
    return finish(claims)
