"""What is said beside a printed figure: where the run of ours differs, and where the data of either are obtained."""

from __future__ import annotations

from typing import Any

from evidence_assets.benchmarks.declarations import instances
from evidence_assets.benchmarks.declared import Benchmark, RawFiles, every_raw_files
from evidence_assets.benchmarks.info import datasets
from evidence_assets.benchmarks.subsets import SEEDED
from evidence_assets.experiment.derived_figures import Ours, sum_of
from evidence_assets.experiment.scores.published import Figure
from evidence_assets.experiment.scores.published_figures import part_of
from evidence_assets.experiment.variants import Variant


def differences(figure: Figure, ours: Ours, benchmark: Benchmark | None) -> list[str]:
    """Where a score of ours was made otherwise than the figure beside it, as far as declarations and notes tell."""
    said = []
    own = ours.model_id.partition("@")[0]
    if (
        own.lower().rpartition("/")[2] != figure.model
    ):  # another form of the printed model, such as a quantized one, is told
        said.append(f"model {own or 'none'}, printed {figure.model or 'without a model'}")
    whole = benchmark.expected.questions if benchmark else 0
    if figure.metric in ("precision", "noisy_percent") and ours.reasoner:
        said.append(f"judged by {ours.reasoner.partition('@')[0]}, printed for Gemini")
    said += [ours.differs] if ours.differs else []
    part, total = part_of(ours.benchmark), sum_of(figure)
    if total is not None and total.kind == "mean":
        return said
    if total is not None and total.printed is not None:
        said.append("less the best baseline as printed")
    if figure.metric.startswith("f1") and figure.system in ("kaping", "kaping_background"):
        said.append("F1 by the gold answers among the ends of the triples; print does not say how it counts")
    if part != figure.part:
        said.append(f"answered {part or 'whole'}, printed for {figure.part or 'the whole'}")
    elif (seed := ours.benchmark.partition(SEEDED)[2]) and benchmark:
        said.append(f"drawn with seed {seed}; which questions are printed for is not stated")
    if whole and ours.n != whole:
        said.append(f"{ours.n:,} of {whole:,} questions")
    for source in (benchmark.corpus, benchmark.graph, benchmark.background_graph) if benchmark else ():
        if source:
            other = next((str(d["differs"]) for d in _declarations(source) if d.get("differs")), "")
            said.append(f"answered from our {source}" + (f" ({other})" if other else ""))
    return said


def obtained(benchmark: Benchmark) -> dict[str, str]:
    """What a benchmark's answers need, each with what its files hold and where they are obtained."""
    own = datasets()[benchmark.reader].wanted(benchmark.split) if benchmark.reader in datasets() else benchmark.holds
    needed = {benchmark.name: benchmark.holds or own}
    for name in (benchmark.corpus, benchmark.graph, benchmark.background_graph, benchmark.taxonomy):
        for stated in _declarations(name) if name else ():
            needed[name] = str(stated.get("holds", ""))
    return needed


def vectors_of(variant: Variant) -> list[RawFiles]:
    """The files of vectors that a variant reads beside what its benchmark needs."""
    name = f"embeddings/{variant.parameters.get('embedding', '')}"
    return [files for files in every_raw_files() if files.name == name]


def _declarations(name: str) -> list[dict[str, Any]]:
    """What is stated of the corpus, graph or knowledge base of this name."""
    makers = (made for component in ("Corpus", "Graph", "KnowledgeBase") for made in instances(component))
    return [made.attributes for made in makers if made.attributes.get("name") == name]
