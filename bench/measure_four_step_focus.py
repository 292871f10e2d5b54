"""4StepFocus and its baselines on the sample knowledge base; triplets are read from the questions' forms.

Reports both halves of the questions apart (splits ``dev`` and ``test``; nothing is tuned), with paired 95 % bootstrap
intervals of the difference to the corrected, typed form. The questions are read by the forms that they are written in,
which is an upper bound. So each is also asked in other words, made from its triplets and the wordings of the sample's
sentences ("Which drug is meant? People with gout are often given it, and …"): the parser knows none of these.

Run: ``python -m evidence_assets.sample.render FOLDER`` and ``python bench/measure_four_step_focus.py FOLDER RELATIONS``
where RELATIONS is ``evidence_assets/sample/lexicon/relations.yaml``.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from evidence_assets.benchmarks.knowledge_base import read_knowledge_base
from evidence_assets.experiment.metrics import gains_of, hit_at_k, paired_bootstrap, recall_at_k, reciprocal_rank
from evidence_assets.experiment.selection import Asked
from evidence_assets.graphs.knowledge_graph import GraphVectors, KnowledgeGraph
from evidence_assets.graphs.passages import passage_table
from evidence_assets.models.encoders import EMBEDDED, load_encoder
from evidence_assets.models.rerankers import MaxSimReranker
from evidence_assets.systems.four_step_focus.grading import RerankerGrader
from evidence_assets.systems.four_step_focus.node_search import NodeSearch, node_passages
from evidence_assets.systems.four_step_focus.question_forms import FormParser, forms_of
from evidence_assets.systems.four_step_focus.system import PRINTED, FocusSettings, FourStepFocus
from evidence_assets.systems.four_step_focus.triplets import ANY_TYPE, TripletQuery


def in_other_words(query: TripletQuery, lexicon: dict[str, dict[str, Any]]) -> str:
    """The question that the triplets stand for, told by the wordings of their relations."""
    said = []
    for number, triplet in enumerate(query.triplets):
        ends = {
            slot: "it" if end == query.target else "something" if end.is_variable else end.text
            for slot, end in (("{h}", triplet.head), ("{t}", triplet.tail))
        }
        wordings = lexicon[triplet.edge_type]["wordings"]
        text = wordings[(2 + number) % len(wordings)]
        for slot, name in {**ends, "{ah}": ends["{h}"], "{at}": ends["{t}"], "{is}": "is", "{has}": "has", "{do}": "does",
                           "{go}": "goes", "{s}": "s"}.items():  # fmt: skip
            text = text.replace(slot, name)
        said.append(text)
    kind = query.target.node_type if query.target.node_type != ANY_TYPE else "thing"
    return f"Which {kind} is meant? {', and '.join(said)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sample", type=Path)
    parser.add_argument("relations", type=Path)
    arguments = parser.parse_args()
    files = read_knowledge_base(arguments.sample / "skb" / "sample")
    base = KnowledgeGraph.of_rows("sample_skb", files.node_rows("sample_skb"), files.edge_rows("sample_skb", "bench"))
    lexicon = yaml.safe_load(arguments.relations.read_text(encoding="utf-8"))
    symmetric = frozenset(name for name, entry in lexicon.items() if entry.get("symmetric"))
    lines = (arguments.sample / "benchmarks" / "sample_skb.jsonl").read_text(encoding="utf-8").splitlines()
    encoder = load_encoder(EMBEDDED)
    none = pl.DataFrame(schema={"input_hash": pl.String, "vector": pl.List(pl.Float32)})
    passages = pl.DataFrame(passage_table(node_passages(base, encoder), none, encoder, "bench")[0])
    vectors = GraphVectors(encoder.sentences, lambda: encoder.sentences(base.forms.texts), lambda: passages)
    graph = replace(base, stored_vectors=vectors)
    reader = FormParser(forms_of(lexicon), graph.type_names)
    print(f"{len(graph)} nodes, {graph.arrays.n_edges} edges")
    grader = RerankerGrader(MaxSimReranker(encoder), count_tokens=encoder.count_tokens)

    def focus(settings: FocusSettings | None, method: str = "multi_vector", rerank: bool = False) -> FourStepFocus:
        search = NodeSearch(graph, method)  # type: ignore[arg-type]
        return FourStepFocus("focus", graph, search, encoder, reader if settings else None,
                             grader if rerank else None, settings, symmetric)  # fmt: skip

    systems = {
        "corrected, typed": focus(FocusSettings()),
        "corrected, or search": focus(FocusSettings(fallback=True)),
        "corrected, reranked": focus(FocusSettings(), rerank=True),
        "corrected, any edge type": focus(FocusSettings(use_edge_types=False)),
        "corrected, undirected": focus(FocusSettings(use_edge_types=False, use_direction=False)),
        "printed, any edge type": focus(PRINTED),
        "printed, typed": focus(FocusSettings(form="printed")),
        "vector search": focus(None, "vector"),
        "multi-vector search": focus(None),
        "vector search, reranked": focus(None, "vector", rerank=True),
    }
    for split in ("dev", "test"):
        rows = [row for row in map(json.loads, lines) if row["split"] == split]
        for wording in ("own words", "other words"):
            texts = [row["text"] if wording == "own words" else in_other_words(reader.parse(row["text"]), lexicon)
                     for row in rows]  # fmt: skip
            print(f"\n{split} half, {wording}: {len(rows)} questions, such as {texts[0]!r}")
            asked = zip(rows, texts, strict=True)
            report(systems, rows, [Asked(row["question_id"], "sample_skb", "skb_search", text) for row, text in asked])


def report(systems: dict[str, FourStepFocus], rows: list[dict[str, Any]], questions: list[Asked]) -> None:
    """One line a system."""
    table: dict[str, np.ndarray] = {}
    for name, system in systems.items():
        start = time.perf_counter()
        rankings = system.rank(questions)
        taken = time.perf_counter() - start
        values = []
        for row, ranking in zip(rows, rankings, strict=True):
            gains = gains_of([node.node_id.removeprefix("sample_skb:") for node in ranking.nodes], row["gold"])
            values.append([hit_at_k(gains, 1), hit_at_k(gains, 5), recall_at_k(gains, 20, len(row["gold"])),
                           reciprocal_rank(gains)])  # fmt: skip
        table[name] = np.array(values)
        mean = table[name].mean(axis=0)
        failed = sum(ranking.status == "failed" for ranking in rankings)
        sizes = [ranking.candidates for ranking in rankings if ranking.candidates is not None]
        line = (f"{name:26s} hit@1 {mean[0]:.3f} hit@5 {mean[1]:.3f} recall@20 {mean[2]:.3f} MRR {mean[3]:.3f}; failed "
                f"{failed}; median candidates {np.median(sizes) if sizes else 'all'}; {1000 * taken / len(rows):.1f} ms "
                "a question")  # fmt: skip
        if len(table) > 1:
            d = paired_bootstrap(table[name][:, 0], table["corrected, typed"][:, 0])
            line += f"; Δhit@1 {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
        print(line)
        for reason in {ranking.error for ranking in rankings if ranking.status == "failed"}:
            print("   ", reason)


if __name__ == "__main__":
    main()
