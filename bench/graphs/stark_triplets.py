"""How many of STaRK's queries a language model turns into usable triplets (4StepFocus, step 1).

    python -m bench.graphs.stark_triplets http://127.0.0.1:8081/v1 [--queries 50] [--show 5]

The first queries of each base in EVIDENCE_DEV_DATA are put to the model with the types of the base. Usable is a reply
that has the form that the prompt asks for, after at most one repair; named: the query has every constant, without
regard to case. Whether a usable reply says what the query says is for a reader: ``--show`` prints some.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import polars as pl

from bench.dev_data import dev_data
from bench.measuring import make_parser
from bench.result_files import TOKENS, print_table, write_results
from evidence_assets.benchmarks.official.stark import MAG_TYPES
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.experiment.solvers import load_cached_generator
from evidence_assets.models.completions import CompletionCache
from evidence_assets.profiles import GeneratorSettings
from evidence_assets.profiles.model_source import generator_of
from evidence_assets.reasoning.model_calls import LanguageModel
from evidence_assets.systems.four_step_focus.triplets import PromptedTriplets, Schema, TripletQuery

SCHEMAS = {
    "primekg": Schema(
        (
            *("disease", "gene/protein", "molecular_function", "drug", "pathway", "anatomy", "effect/phenotype"),
            *("biological_process", "cellular_component", "exposure"),
        ),
        (
            *("ppi", "carrier", "enzyme", "target", "transporter", "contraindication", "indication", "off-label use"),
            *("synergistic interaction", "associated with", "parent-child", "phenotype absent", "phenotype present"),
            *("side effect", "interacts with", "linked to", "expression present", "expression absent"),
        ),
    ),
    "mag": Schema(MAG_TYPES["node_type_dict"], MAG_TYPES["edge_type_dict"]),
    "amazon": Schema(
        ("product", "brand", "category", "color"), ("also_buy", "also_view", "has_brand", "has_category", "has_color")
    ),
}
"""Types of nodes and edges as STaRK publishes them."""
HEADS = ("base", "n", "usable", "after a repair", "all constants named", TOKENS)


def is_named(query: TripletQuery, text: str) -> bool:
    """Whether a text has all constants of the triplets."""
    terms = [term for triplet in query.triplets for term in (triplet.head, triplet.tail)]
    return all(term.text.casefold() in text.casefold() for term in terms if not term.is_variable)


def write_share(hits: list[bool]) -> str:
    """A share with its 95 % interval."""
    estimate = accuracy(hits)
    return f"{estimate.value:.2f} ({estimate.low:.2f}–{estimate.high:.2f})"


def measure_base(base: str, count: int, model: LanguageModel, n_printed: int) -> tuple[str, ...]:
    """The row of a base."""
    queries = pl.read_csv(dev_data() / "stark" / base / "stark_qa.csv")["query"].to_list()[:count]
    before: Counter[str] = model.usage.copy()
    replies = [reply for reply, _ in PromptedTriplets(model, SCHEMAS[base]).read_triplets(queries)]
    used = model.usage - before
    usable = [isinstance(reply, TripletQuery) for reply in replies]
    named = [
        isinstance(reply, TripletQuery) and is_named(reply, query)
        for reply, query in zip(replies, queries, strict=True)
    ]
    for query, reply in list(zip(queries, replies, strict=True))[:n_printed]:
        print(query, reply, sep="\n", end="\n\n")
    repaired = used["repairs"] - usable.count(False)
    return (
        base,
        str(len(queries)),
        write_share(usable),
        str(repaired),
        write_share(named),
        f"{used['tokens_in']:,}, {used['tokens_out']:,}",
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("model")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="a folder that keeps replies between calls")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    settings = GeneratorSettings.model_validate(generator_of(options.model))
    with tempfile.TemporaryDirectory() as folder:
        cache = CompletionCache(options.folder or Path(folder))
        model = LanguageModel(load_cached_generator(settings), cache)
        rows = [measure_base(base, options.queries, model, options.show) for base in SCHEMAS]
    print_table(HEADS, rows, f"{model.model_id}: {model.describe_speed()}")
    if options.json:
        write_results(options.json, HEADS, rows, "python -m bench.graphs.stark_triplets MODEL")


if __name__ == "__main__":
    main()
