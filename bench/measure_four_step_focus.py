"""4StepFocus and its baselines on the sample knowledge base; triplets are read from the questions' forms.

Reports on the second half of the questions (split ``test``), with paired 95 % bootstrap intervals of the difference to
the corrected, typed form.

Run: ``python bench/measure_four_step_focus.py SAMPLE_FOLDER RELATIONS_YAML`` where SAMPLE_FOLDER is a rendered sample.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import yaml

from evidence_assets.datasets.knowledge_base import read_knowledge_base
from evidence_assets.methods.entity_linking import EntityLinker
from evidence_assets.methods.ranking_metrics import gains_of, hit_at_k, paired_bootstrap, recall_at_k, reciprocal_rank
from evidence_assets.models.encoders import EMBEDDED, load_encoder
from evidence_assets.reasoning.question_forms import FormParser, forms_of
from evidence_assets.systems.four_step_focus import PRINTED, FocusSettings, FourStepFocus
from evidence_assets.systems.node_search import NodePassages, NodeSearch
from evidence_assets.systems.selection import Asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sample", type=Path)
    parser.add_argument("relations", type=Path)
    arguments = parser.parse_args()
    base = read_knowledge_base(arguments.sample / "skb" / "sample")
    lexicon = yaml.safe_load(arguments.relations.read_text(encoding="utf-8"))
    symmetric = frozenset(name for name, entry in lexicon.items() if entry.get("symmetric"))
    lines = (arguments.sample / "benchmarks" / "sample_skb.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if row["split"] == "test"]
    questions = [Asked(row["question_id"], "sample_skb", "skb_search", row["text"]) for row in rows]
    encoder = load_encoder(EMBEDDED)
    passages = NodePassages.build(base, encoder)
    linker = EntityLinker.from_nodes(zip(base.names, base.aliases, strict=True))
    reader = FormParser(forms_of(lexicon), base.node_type_names)
    print(f"{len(base)} nodes, {len(base.heads)} edges, {len(questions)} questions")

    def focus(settings: FocusSettings | None, method: str = "multi_vector") -> FourStepFocus:
        search = NodeSearch(passages, method)  # type: ignore[arg-type]
        return FourStepFocus("focus", base, search, linker, encoder, reader if settings else None, None, settings,
                             symmetric)  # fmt: skip

    systems = {
        "corrected, typed": focus(FocusSettings()),
        "corrected, any edge type": focus(FocusSettings(use_edge_types=False)),
        "corrected, undirected": focus(FocusSettings(use_edge_types=False, use_direction=False)),
        "printed, any edge type": focus(PRINTED),
        "printed, typed": focus(FocusSettings(form="printed")),
        "vector search": focus(None, "vector"),
        "multi-vector search": focus(None),
    }
    table = {}
    for name, system in systems.items():
        start = time.perf_counter()
        rankings = system.rank(questions)
        taken = time.perf_counter() - start
        values = []
        for row, ranking in zip(rows, rankings, strict=True):
            gains = gains_of([node.node_id for node in ranking.nodes], row["gold"])
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
        for ranking in rankings:
            if ranking.status == "failed":
                print("   ", ranking.error)


if __name__ == "__main__":
    main()
