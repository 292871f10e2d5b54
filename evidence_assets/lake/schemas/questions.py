"""Tables of what is asked: questions, what they name in a graph, and the tables they are about."""

from __future__ import annotations

import pyarrow as pa

from evidence_assets.lake.schemas.columns import FLAG, INT, NULL, REAL, TEXT, TEXTS, declared

GOLD = pa.struct([pa.field(name, TEXT) for name in ("kind", "source", "locator", "text", "group")])
CELL = pa.struct([pa.field("row", INT), pa.field("column", INT), pa.field("text", TEXT)])
LINK = pa.struct(
    [
        pa.field("option", TEXT),
        pa.field("phrase", TEXT),
        pa.field("rule", TEXT),
        pa.field("score", REAL),
        pa.field("node_ids", TEXTS),
    ]
)
PLACED_NODE = pa.struct([pa.field("node_id", TEXT), pa.field("hop", INT)])
DROPPED_NODE = pa.struct([pa.field("hub_id", TEXT), pa.field("node_id", TEXT)])
TABLES = [
    declared(
        "questions",
        "Questions and claims of the benchmarks.",
        [
            ("question_id", TEXT, "Content hash of benchmark, source id, text and options."),
            ("benchmark", TEXT, "The benchmark."),
            ("source_id", TEXT, "The benchmark's own id."),
            ("split", TEXT, "Split of the benchmark."),
            ("task", TEXT, "mcqa, verification, table_qa, kgqa or skb_search."),
            ("text", TEXT, "The question or claim."),
            ("options", TEXTS, "Option texts; the i-th is labelled with the i-th letter."),
            ("gold", TEXTS, "Right labels, answer strings or node ids; empty where none is right."),
            ("gold_aliases", pa.list_(TEXTS), "Other accepted forms of each gold answer."),
            ("gold_evidence", pa.list_(GOLD), "What the benchmark itself names as the ground of the answer."),
            ("table_id", TEXT, "The table that it is asked of.", NULL),
            ("topic_entities", TEXTS, "Entities that the benchmark names as the question's topic."),
            ("negated", FLAG, "Whether the question asks which option does not hold."),
        ],
        key="question_id",
        row_id="question_id",
        kind="question",
    ),
    declared(
        "subgraphs",
        "What each question names in a graph, and the part of the graph around it.",
        [
            ("subgraph_id", TEXT, "Hash of question and graph."),
            ("question_id", TEXT, "The question."),
            ("benchmark", TEXT, "Its benchmark."),
            ("graph", TEXT, "The graph."),
            ("concepts", pa.list_(LINK), "Phrases of the question, the nodes that they name, and by which rule."),
            ("targets", pa.list_(LINK), "The same for each option; options are reached for, never expanded from."),
            ("nodes", pa.list_(PLACED_NODE), "Nodes around the concepts, with their distance to the nearest."),
            ("edges", TEXTS, "Every edge among these nodes."),
            ("dropped", pa.list_(DROPPED_NODE), "Nodes left out at a hub, or (without a hub) for want of room."),
            ("note", TEXT, "Why nothing is there.", NULL),
            ("content_hash", TEXT, "Hash of all of the above."),
            ("input_hash", TEXT, "Hash of question, graph, linking rules and limits."),
        ],
        key="question_id",
        row_id="subgraph_id",
        version="content_hash",
        kind="subgraph",
    ),
    declared(
        "tables",
        "Tables that claims and questions are about.",
        [
            ("table_id", TEXT, "The benchmark's own id, unique within it."),
            ("benchmark", TEXT, "The benchmark."),
            ("caption", TEXT, "Caption."),
            ("header", TEXTS, "Header cells as written; may be empty or repeated."),
            ("n_rows", INT, "Rows below the header."),
            ("cells", pa.list_(CELL), "Every cell with its row and column, from 0."),
            ("content_hash", TEXT, "Content hash of the whole table."),
        ],
        key="table_id",
        row_id="table_id",
        version="content_hash",
        kind="table",
    ),
]
