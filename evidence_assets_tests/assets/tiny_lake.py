"""A miniature of the published setup: small official files for every benchmark, graph and corpus, and rule-based models
with the printed names."""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evidence_assets.benchmarks.declared_benchmarks import benchmarks
from evidence_assets.benchmarks.readers import read_benchmark_questions
from evidence_assets.benchmarks.records import CLAIM_LABELS
from evidence_assets.cli.run_selection import RunSelection, batches, select_assets
from evidence_assets.experiment.variants import Variant
from evidence_assets.lake.store import Lake
from evidence_assets.models.masked import HFMaskedLM
from evidence_assets.models.protocols import Request
from evidence_assets.reproduction.cells import CellSource
from evidence_assets.systems.kbloom.scores import load_references
from evidence_assets_tests.assets.small_worlds import SmallWorld
from evidence_assets_tests.benchmarks.graphs.test_readers import TestDrugbank
from evidence_assets_tests.benchmarks.official import test_choice_readers as choice
from evidence_assets_tests.benchmarks.official import test_open_readers as free
from evidence_assets_tests.benchmarks.official import test_stark as stark
from evidence_assets_tests.benchmarks.official import test_table_readers as table
from evidence_assets_tests.benchmarks.official.contract import json_lines, write_files
from evidence_assets_tests.models.tiny import word_piece

CLAIM_WORDS = {"SUPPORTS": "holds", "REFUTES": "is wrong", "NOT ENOUGH INFORMATION": "is open"}
"""Words in the claims of each class, so that each class is answered at least once."""
EDGES = [
    ("bee", "IsA", "insect"),
    ("ant", "IsA", "insect"),
    ("bee", "CapableOf", "buzz"),
    ("cat", "IsA", "animal"),
    ("insect", "IsA", "animal"),
    ("buzz", "IsA", "sound"),
    ("saw", "UsedFor", "cut"),
    ("bone", "PartOf", "animal"),
    ("drug", "IsA", "aspirin"),
    ("cell", "PartOf", "animal"),
]
FACTS = (
    "France\tcapital\tParis\nJapan\tcurrency\tyen\nParis\tlies on\tSeine\nHamlet\twritten by\tAnn\nAnn\tspeaks\tWelsh\n"
)
BEE = {
    "id": "t1",
    "answerKey": "A",
    "question": {
        "stem": "What is a bee?",
        "question_concept": "bee",
        "choices": [{"label": "A", "text": "insect"}, {"label": "B", "text": "sound"}],
    },
}
VECTORS = "bee 1 0 0 1\nbuzz 1 0 0.5 1\nant 0 1 0 0\ninsect 1 1 0 1\ncat 0 0 1 -1\n"
ARTICLES = (
    ("1", "Bee", "A bee is an insect. It buzzes with its wings."),
    ("2", "Aspirin", "Aspirin is a drug that may treat pain. A saw can cut a bone."),
)


def reply_by_rule(request: Request) -> str:
    """A reply in the requested format: the class that a claim names, else an option by hash; it cites passage 1."""
    if request.choices:
        labels = [label for label, words in CLAIM_WORDS.items() if f" of A {words}." in request.user]
        of_claim = set(request.choices) == set(CLAIM_LABELS) and labels
        return labels[0] if of_claim else request.choices[zlib.crc32(request.user.encode()) % len(request.choices)]
    if request.json_schema:
        schema = json.loads(request.json_schema)
        return json.dumps(_triplet(schema) if "triplets" in schema["properties"] else _shaped(schema))
    if "Answer: X" in request.user or "Explanation:" in request.user:
        return "Answer: A\nExplanation: [Passage 1] leads there."
    return "0.5" if "score between 0 and 1" in request.user else "(bee, is a, insect)"


def _triplet(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A triplet that asks what is connected with a bee, with the first types of a knowledge base."""
    lists = schema["properties"]
    node_type = lists["variables"]["items"]["properties"]["type"]["enum"][0]
    edge = lists["triplets"]["items"]["properties"]["edge"]["enum"][0]
    triplet = {"head": "?x", "edge": edge, "tail": "bee"}
    return {"target": "?x", "variables": [{"name": "?x", "type": node_type}], "triplets": [triplet]}


def _shaped(schema: Mapping[str, Any]) -> Any:
    """A value that matches a JSON schema."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: _shaped(field) for name, field in schema["properties"].items()}
        case "array":
            return [_shaped(schema["items"])]
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return "bee"


def webqsp_text() -> str:
    """Two questions in WebQSP's format."""
    answers = {"what is the capital of france?": "Paris", "what is the currency of japan?": "yen"}
    questions = [
        {
            "QuestionId": f"WebQTest-{i}",
            "RawQuestion": question,
            "Parses": [{"TopicEntityMid": "m.1", "Answers": [{"AnswerArgument": f"m.{i}9", "EntityName": answer}]}],
        }
        for i, (question, answer) in enumerate(answers.items())
    ]
    return json.dumps({"Version": "1.0", "Questions": questions})


def official_files(raw: Path) -> None:
    """Write two to four questions of each benchmark, and their sources, in the official formats."""
    ai2_questions = [choice.AI2 | {"id": f"q{i}"} for i in range(3)]
    claims = [
        (f"{label[:3]}{i}", f"Value {i} of A {words}.", label) for i in (1, 2) for label, words in CLAIM_WORDS.items()
    ]
    scitab = [table.TestScitab.ROW | {"id": i, "claim": c, "label": LABELS[label]} for i, c, label in claims]
    health = [table.TestPubhealthtab.ROW | {"_id": i, "claim": c, "label": label} for i, c, label in claims]
    medical = [choice.TestMedqa.ROW | {"question": f"Which drug is number {i}?"} for i in range(2)]
    medmcqa = [choice.TestMedmcqa.ROW | {"id": f"m{i}"} for i in range(2)]
    mcqs = [table.TABMCQ_ROW, table.TABMCQ_ROW.replace("a\tfox", "the fox")]
    mmlu = (
        "anatomy",
        "clinical_knowledge",
        "college_biology",
        "college_medicine",
        "medical_genetics",
        "professional_medicine",
    )
    write_files(
        raw,
        {
            "obqa/Data/Main/test.jsonl": json_lines(*ai2_questions),
            "csqa/train_rand_split.jsonl": json_lines(BEE),
            "graphs/drugbank/interactions.tsv": TestDrugbank.files[0],
            "graphs/drugbank/vocabulary.csv": TestDrugbank.files[1],
            "csqa/dev_rand_split.jsonl": json_lines(
                *(q | choice.with_question(question_concept="buzz") for q in ai2_questions)
            ),
            "arc/ARC-Challenge/ARC-Challenge-Test.jsonl": json_lines(*ai2_questions),
            "riddle/rs_dev.jsonl": json_lines(*ai2_questions),
            "piqa/valid.jsonl": json_lines(*[choice.TestPiqa.ROW] * 2),
            "piqa/valid-labels.lst": "0\n1\n",
            "medmcqa/data/dev.json": json_lines(*medmcqa),
            "medqa/questions/US/4_options/phrases_no_exclude_test.jsonl": json_lines(*medical),
            "pubmedqa/data/test_set.json": json.dumps({str(i): choice.TestPubmedqa.ROW for i in range(2)}),
            "headqa/HEAD_EN/test_HEAD_EN.json": choice.TestHeadqa.TEXT,
            "scitab/dataset/sci_tab.json": json.dumps(scitab),
            "pubhealthtab/data/pubhealthtab_testset.jsonl": json_lines(*health),
            "tabmcq/MCQs.tsv": table.TABMCQ_HEAD + "".join(mcqs),
            **{f"tabmcq/{name}": text for name, text in table.TestTabmcq.TABLE.items()},
            "webqsp/data/WebQSP.test.json": webqsp_text(),
            "mintaka/data/mintaka_test.json": json.dumps([free.TestMintaka.ROW | {"question": "Who wrote Hamlet?"}]),
            "simplequestions/annotated_fb_data_test.txt": free.TestSimpleQuestions.ROW,
            "simplequestions/freebase-subsets/freebase-FB2M.txt": free.TestSimpleQuestions.ROW.rpartition("\t")[0]
            + "\n",
            **{f"mmlu/test/{subject}_test.csv": choice.TestMmlu.ROW * 2 for subject in mmlu},
            "graphs/freebase/triples.tsv": FACTS,
            "graphs/freebase/names.tsv": "m.01x\tArthur Writer\n",
            "embeddings/glove.840B.300d.txt": VECTORS,
            "graphs/wikidata/triples.tsv": FACTS,
            "graphs/wikidata/names.tsv": "Q1\tArthur Writer\n",
            "graphs/disease_database/ddb_names.json": json.dumps(
                {"aspirin": ["1", "1"], "pain": ["2", "1"], "drug": ["3", "1"]}
            ),
            "graphs/disease_database/ddb_relas.json": json.dumps({"1": ["1", "2", "233"], "2": ["1", "3", "0"]}),
        },
    )
    write_files(raw, seed_files({"UsedFor": "conceptnet", "P47": "lama"}))
    reference_rows = "UsedFor\triver\tsea\t1\nUsedFor\tcopper\triver\t1\nUsedFor\tsea\ttown\t0\n"
    references = [reference for reference in load_references().values() if reference.collection == "conceptnet"]
    write_files(raw, {path: reference_rows for reference in references for path in reference.paths})
    write_files(
        raw, {"lama/TREx/P47.jsonl": json_lines(NEIGHBOURS), "references/umls/train.txt": "river\tadjacent_to\tsea\n"}
    )
    assertions = "".join(f"/a/x\t/r/{r}\t/c/en/{h}\t/c/en/{t}\t{{}}\n" for h, r, t in EDGES)
    packed = {"graphs/conceptnet/conceptnet-assertions-5.7.0.csv.gz": assertions}
    packed |= {"embeddings/numberbatch-en-19.08.txt.gz": VECTORS}
    write_files(raw, {name: gzip.compress(text.encode()) for name, text in packed.items()})
    numbers = (" ".join(line.split()[:1]) + " " for line in VECTORS.splitlines())
    binary = b"".join(word.encode() + np.arange(1, 5, dtype="<f4").tobytes() for word in numbers)
    (raw / "embeddings/GoogleNews-vectors-negative300.bin.gz").write_bytes(gzip.compress(b"5 4\n" + binary))
    (raw / "wikipedia").mkdir()
    columns = dict(zip(("id", "title", "text"), map(list, zip(*ARTICLES, strict=True)), strict=True))
    pq.write_table(pa.table(columns), raw / "wikipedia" / "train-00000-of-00001.parquet")
    bases = {
        "prime/processed": stark.write_stark_files,
        "mag/processed": stark.mag,
        "amazon/processed/cache/brand-category-color": _amazon,
    }
    for base_folder, write in bases.items():
        (raw / "stark" / base_folder).mkdir(parents=True)
        write(raw / "stark" / base_folder)
    answers = {"prime": 1, "mag": 4, "amazon": 0}
    for base, answer in answers.items():
        rows = "".join(f"{i},Which {i} is it?,[{answer}]\n" for i in range(2))
        index = {f"stark/{base}/split/{split}.index": "0\n1\n" for split in ("test", "test-0.1")}
        csv = dict.fromkeys(("stark_qa.csv", "stark_qa_human_generated_eval.csv"), free.TestStark.HEAD + rows)
        write_files(raw, index | {f"stark/{base}/stark_qa/{name}": text for name, text in csv.items()})


def _amazon(folder: Path) -> Path:
    """STaRK's product base in its processed format."""
    product = {
        "review": [{"reviewerID": "A1", "summary": "Fine", "reviewText": "Holds air.", "vote": None}],
        "qa": [],
        "color": ["red"],
        "asin": "B01",
        "title": "Bicycle pump",
        "global_category": "Sports",
        "category": ["pumps"],
        "price": "",
        "brand": "Zephyr",
        "feature": ["Steel", "Light"],
        "rank": "5",
        "details": {},
        "description": ["A pump."],
    }
    nodes = [product, product | {"asin": "B02", "title": ""}, {"brand_name": "Zephyr"}]
    nodes += [{"category_name": "pumps"}, {"color_name": "red"}]
    return stark.as_official(
        folder,
        {str(number): node for number, node in enumerate(nodes)},
        {"node_types": [0, 0, 1, 2, 3], "edge_index": [[0, 0, 0, 0], [1, 2, 3, 4]], "edge_types": [0, 2, 3, 4]},
        node_type_dict={"0": "product", "1": "brand", "2": "category", "3": "color"},
        edge_type_dict={"0": "also_buy", "1": "also_view", "2": "has_brand", "3": "has_category", "4": "has_color"},
    )


def recorded_files(lake: Lake, sources: Iterable[CellSource]) -> None:
    """Write recorded answers of other systems to each question."""
    for source in sources:
        (figure_name,), benchmark = source.names, benchmarks()[source.benchmark]
        name = "+".join(filter(None, (figure_name.system, figure_name.variant))) + (
            f"@{figure_name.model}" if figure_name.model else ""
        )
        rows = [
            {"id": q.source_id, "answer": q.gold[0], "ranked": q.gold, "triples": [["bee", "is a", "insect"]]}
            for q in read_benchmark_questions(lake, benchmark)
            if q.split == benchmark.split
        ]
        write_files(lake.root / "raw", {f"recorded/{benchmark.base_name}/{name}.jsonl": json_lines(*rows)})


NEIGHBOURS = {"sub_uri": "Q1", "sub_label": "town", "predicate_id": "P47", "obj_uri": "Q2", "obj_label": "sea"}
LABELS = {"SUPPORTS": "supports", "REFUTES": "refutes", "NOT ENOUGH INFORMATION": "not enough info"}


HARVEST = ("knowledge/kbloom", "knowledge/seeds", "raw/seeds", "models/masked_lm", "corpus/sample")
"""The sample's harvest, which this miniature does not need."""


def make(world: SmallWorld, runs: Mapping[str, Iterable[Variant]]) -> None:
    """Materialize the scores of these variants on each benchmark, with their upstream assets, once."""
    keys_by_benchmark = {
        name: select_assets(world.graph, benchmarks()[name], list(selected_variants)).keys or frozenset()
        for name, selected_variants in runs.items()
    }
    every = frozenset(k for k in set().union(*keys_by_benchmark.values()) if not "/".join(k.path).startswith(HARVEST))
    for keys in batches(world.graph, RunSelection(every)):
        partitions = world.graph.get(keys[0]).partitions_def
        names = [None] if partitions is None else partitions.get_partition_keys()
        for name in names:
            benchmark = (name or "").partition("|")[0]
            selected = [
                key for key in keys if benchmark not in benchmarks() or key in keys_by_benchmark.get(benchmark, ())
            ]
            if selected:
                world.make(*("/".join(key.path) for key in selected), partition=name, run_checks=False)


def make_harvests(world: SmallWorld, harvests: Sequence[Variant]) -> None:
    """Materialize all scores of these harvests."""
    scores = tuple(f"scores/{variant.key}" for variant in harvests)
    keys_by_name = {"/".join(key.path): key for key in world.graph.materializable_asset_keys}
    targets = [
        key
        for name, key in keys_by_name.items()
        if name.removesuffix("_judged") in scores or name.startswith(tuple(f"{s}_on_" for s in scores))
    ]
    selected = dg.AssetSelection.assets(*targets).upstream().resolve(world.graph)
    for keys in batches(world.graph, RunSelection(frozenset(selected))):
        partitions = world.graph.get(keys[0]).partitions_def
        names = [None] if partitions is None else partitions.get_partition_keys(dynamic_partitions_store=world.instance)
        for name in names:
            world.make(*("/".join(key.path) for key in keys), partition=name, run_checks=False)


def seed_files(collections: Mapping[str, str]) -> dict[str, str]:
    """Seed files of these relations, with their collections, in words that ``masked`` models know."""
    seed = "id: {0}\ncollection: {1}\nprompt: the <HEAD> is near the <TAIL>\npairs: [[river, sea], [iron, town]]\n"
    return {f"seeds/{name}.yaml": seed.format(name, collection) for name, collection in collections.items()}


@cache
def masked(name: str) -> HFMaskedLM:
    """A masked model of a dozen words under a printed name."""
    return word_piece(len(name), model_id=name)


def variants_by_benchmark(pairs: Iterable[tuple[Variant, str]]) -> dict[str, list[Variant]]:
    """The variants that run on each benchmark."""
    grouped: dict[str, dict[str, Variant]] = {}
    for variant, benchmark in pairs:
        grouped.setdefault(benchmark, {})[variant.key] = variant
    return {benchmark: list(variants.values()) for benchmark, variants in sorted(grouped.items())}
