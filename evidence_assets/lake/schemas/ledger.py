"""Tables of what was made from what, and when: lineage and history."""

from __future__ import annotations

from evidence_assets.lake.schemas.columns import INT, NULL, REAL, TEXT, declared

TABLES = [
    declared(
        "lineage_edges",
        "What each row was made from; relations are the PROV words, and what becomes of evidence.",
        [
            ("child_kind", TEXT, "Kind of the row made."),
            ("child_id", TEXT, "Its id."),
            (
                "relation",
                TEXT,
                "used, was_derived_from, was_generated_by; of evidence was_shown where nothing is made of it, cited where that holds.",
            ),
            ("parent_kind", TEXT, "Kind of the row it was made from."),
            ("parent_id", TEXT, "Its id."),
            ("parent_version", TEXT, "The parent's content hash when it was used."),
            ("rank", INT, "Order among the parents, from 1.", NULL),
            ("score", REAL, "Weight of the parent, where it has one.", NULL),
        ],
        key="child_id parent_kind parent_id relation",
        row_id="child_id",
        version="parent_version",
        kind="lineage_edge",
    ),
    declared(
        "history",
        "One line a row and run, appended and never rewritten: what diff compares.",
        [
            ("run_id", TEXT, "The run."),
            ("asset", TEXT, "The asset."),
            ("partition", TEXT, "Its partition; empty when unpartitioned."),
            ("row_id", TEXT, "The row."),
            ("content_hash", TEXT, "Its content hash."),
            ("answer", TEXT, "The answer, for predictions.", NULL),
            ("status", TEXT, "The status, for predictions and chains.", NULL),
        ],
        key="asset partition row_id",
        row_id="row_id",
        version="content_hash",
        kind="history",
    ),
]
