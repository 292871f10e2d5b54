"""What the answers of materialized variants are worth against simple baselines, and the weights they rest on.

    python -m bench.answers.measure_answers LAKE:obqa_book:uscrake_chunks LAKE:arc_book:uscrake_chunks [--fit] [--write]

Questions are halved by their ids. Printed are, for the second half of each benchmark, the accuracy of the stored
predictions, of those that the evidence supports and of the surest quarter and half, beside baselines: the longest
option, the option nearest to the question, the one whose nearest statement is nearest, and the most frequent label;
with the paired difference to the best of them. ``--fit`` fits the weights of ``extractive/options.py`` by
conditional logistic regression on the first halves, and those of its labels where the options are yes, no and maybe.
``--write`` writes them to ``extractive/options.yaml``, with the values of this file that were chosen by hand; a weight
that no lake decides stays as it was.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from scipy.optimize import minimize

from bench.answers.fitted_values import write_values
from bench.measuring import make_parser
from bench.result_files import print_table, write_results
from evidence_assets.experiment.scores.metrics import accuracy, calibration_error, order_by_confidence, paired_bootstrap
from evidence_assets.extractive import options as extractive
from evidence_assets.extractive.options import length_feature
from evidence_assets.lake.store import Lake
from evidence_assets.models.encoders import EMBEDDED_ENCODER, load_encoder
from evidence_assets.reasoning import statements
from evidence_assets.reasoning.statements import TEXT_KINDS

FEATURES = ("statement_weight", "fact_weight", "association_weight", "length_weight")
PENALTY = 0.0005
CHOSEN = {
    "fact_weight": 6.0,
    "mention_weight": 0.1,
    "log_support_weight": 1.6,
    "log_support_offset": 0.01,
    "min_cited_cosine": 0.35,
    "min_support_cosine": 0.60,
    "min_mention_support": 0.15,
    "min_lead": 0.06,
    "min_label_share": 0.50,
}
"""Chosen by hand: those of names and numbers on two articles of SQuAD with names of their paragraphs as options, and on
the first half of HotpotQA-100; the weight of facts on the sample's graph, because on CommonsenseQA with ConceptNet none
beats 0 (docs/measured.md)."""


def questions_of(lake: Lake, benchmark: str, variant: str) -> list[dict[str, Any]]:
    """Each question with its prediction and the features of its options."""
    questions = lake.read("questions", "questions/mcqa").filter(pl.col("benchmark") == benchmark).sort("question_id")
    of_question = {
        table: {
            key[0]: rows
            for key, rows in lake.read(table, f"{asset}/mcqa/{variant}")
            .partition_by("question_id", as_dict=True)
            .items()
        }
        for table, asset in (("chains", "chains"), ("predictions", "predictions"), ("evidence", "evidence"))
    }
    texts = sorted({text for row in questions.iter_rows(named=True) for text in (row["text"], *row["options"])})
    encoder = load_encoder(EMBEDDED_ENCODER)
    passages = [" ".join(text.split()[-120:]) for text in texts]
    vectors = dict(zip(texts, encoder.encode_sentences(passages), strict=True))
    parsed_questions = []
    for row in questions.filter(pl.col("gold").list.len() > 0).iter_rows(named=True):
        chains = {
            c["hypothesis"]: c["support"] for c in of_question["chains"][row["question_id"]].iter_rows(named=True)
        }
        labels = sorted(chains)
        kinds = (
            set(of_question["evidence"][row["question_id"]]["kind"])
            if row["question_id"] in of_question["evidence"]
            else set()
        )
        support = np.array([chains[label] for label in labels])
        from_texts = bool(kinds & set(TEXT_KINDS)) and bool(support.any())
        cosines = np.array([float(vectors[row["text"]] @ vectors[option]) for option in row["options"]])
        size = np.array([length_feature(option) for option in row["options"]])
        columns = [
            support * from_texts,
            support * (not from_texts) * (support == 0).mean(),
            cosines * (not from_texts),
            size * from_texts,
        ]
        (prediction,) = of_question["predictions"][row["question_id"]].to_dicts()
        parsed_questions.append(
            {
                "row": row,
                "gold": labels.index(row["gold"][0]),
                "labels": labels,
                "features": np.stack(columns, 1),
                "support": support,
                "near": cosines,
                "length": np.array([len(option) for option in row["options"]]),
                "prediction": prediction,
                "negated": row["negated"],
            }
        )
    return parsed_questions


def fitted(questions: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """Weights of the features: conditional logistic regression with a small penalty."""
    plain_questions = [q for q in questions if not q["negated"]]

    def loss(weights: np.ndarray[Any, Any]) -> float:
        total = 0.0
        for q in plain_questions:
            z = q["features"] @ weights
            total += float(np.logaddexp.reduce(z) - z[q["gold"]])
        return total / len(plain_questions) + PENALTY / 2 * float(weights @ weights)

    return np.asarray(minimize(loss, np.zeros(len(FEATURES))).x)


def fitted_findings(questions: list[dict[str, Any]]) -> np.ndarray[Any, Any]:
    """First odds of yes, no and maybe, and what a share of findings of nothing adds to each; yes is 0.

    The share is read back from what each chain was given: the odds of no against yes are linear in it.
    """
    place = {label: number for number, label in enumerate(statements.YES_NO_MAYBE)}
    shares, gold = [], []
    for q in questions:
        support = dict(zip((option.casefold() for option in q["row"]["options"]), q["support"], strict=True))
        if not all(support.values()):  # no evidence, or no report of a study
            continue
        odds = np.log(support["no"] / support["yes"])
        shares.append((odds - extractive.WEIGHTS.label_offsets["no"]) / extractive.WEIGHTS.label_slopes["no"])
        gold.append(place[q["row"]["options"][q["gold"]].casefold()])
    x = np.stack([np.ones(len(shares)), np.array(shares)], 1)

    def loss(flat: np.ndarray[Any, Any]) -> float:
        z = x @ np.hstack([np.zeros((2, 1)), flat.reshape(2, 2)])
        return float(np.mean(np.logaddexp.reduce(z, axis=1) - z[np.arange(len(z)), gold])) + PENALTY * float(
            flat @ flat
        )

    return np.asarray(minimize(loss, np.zeros(4)).x.reshape(2, 2))


def format_row(name: str, questions: list[dict[str, Any]]) -> list[str]:
    """A row of the table: the second half, served, beside its baselines."""
    first, half = questions[: len(questions) // 2], questions[len(questions) // 2 :]
    common = max({q["gold"] for q in first}, key=[q["gold"] for q in first].count)
    right = [q["prediction"]["answer"] == q["labels"][q["gold"]] for q in half]
    sure = [q["prediction"]["confidence"] or 0.0 for q in half]
    ordered = order_by_confidence(sure, right)
    supported = [r for q, r in zip(half, right, strict=True) if q["prediction"]["status"] == "answered"]
    baselines = {
        "longest": [int(np.argmax(q["length"])) == q["gold"] for q in half],
        "association": [int(np.argmax(q["near"])) == q["gold"] for q in half],
        "nearest": [int(np.argmax(q["support"])) == q["gold"] for q in half],
        "most frequent": [common == q["gold"] for q in half],
    }
    best = max(baselines, key=lambda each: sum(baselines[each]))
    difference = paired_bootstrap(np.array(right, float), np.array(baselines[best], float))
    estimate = accuracy(right)
    supported_accuracy = accuracy(supported)
    return [
        name,
        str(len(half)),
        f"{estimate.value:.1%} ({estimate.low:.1%}–{estimate.high:.1%})",
        f"{supported_accuracy.value:.1%} of {len(supported)}" if supported else "none",
        *(f"{np.mean(ordered[: max(1, len(half) * s // 100)]):.1%}" for s in (25, 50)),
        f"{calibration_error(sure, right):.3f}",
        *(f"{np.mean(hits):.1%}" for hits in baselines.values()),
        f"{best}: {difference.value:+.1%} ({difference.low:+.1%} to {difference.high:+.1%})",
    ]


def write_options(values: dict[str, Any], rows: list[list[str]]) -> None:
    """Write the packaged file, with the accuracies of the rows on the second halves."""
    packaged = yaml.safe_load(extractive.WEIGHTS_FILE.read_text(encoding="utf-8"))["values"]
    score = {name: f"accuracy {accuracy_cell} of {n}" for name, n, accuracy_cell, *_ in rows}
    write_values(
        extractive.WEIGHTS_FILE,
        packaged | values | CHOSEN,
        command="python -m bench.answers.measure_answers LAKE:BENCHMARK:VARIANT … --write",
        data="Development questions: OpenBookQA (Apache 2.0) and ARC-Challenge (CC BY-SA 4.0) with the facts of the "
        "book, CommonsenseQA (MIT) with ConceptNet, PubMedQA (MIT) for yes, no and maybe",
        halves="weights fitted on the first half of each benchmark by question id, score on the second half",
        score=score,
    )


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("measured", nargs="+", metavar="LAKE:BENCHMARK:VARIANT")
    parser.add_argument("--fit", action="store_true", help="fit the weights on the first halves")
    parser.add_argument("--write", action="store_true", help="fit them and write the packaged file")
    parser.add_argument("--json", type=Path, help="a file to write the results to")
    options = parser.parse_args()
    heads = [
        "benchmark:variant",
        "n",
        "served",
        "supported",
        "surest 25 %",
        "surest 50 %",
        "calibration error",
        "longest",
        "association",
        "nearest",
        "most frequent",
        "against the best of these",
    ]
    rows, firsts = [], []
    values: dict[str, Any] = {}
    must_fit = options.fit or options.write
    for spec in options.measured:
        place, benchmark, variant = re.fullmatch(r"(.+):([^:]+):([^:]+)", spec).groups()  # type: ignore[union-attr]
        questions = questions_of(Lake(Path(place)), benchmark, variant)
        rows.append(format_row(f"{benchmark}:{variant}", questions))
        first = questions[: len(questions) // 2]
        if all(statements.is_yes_no_maybe(option) for q in first for option in q["row"]["options"]):
            if must_fit:
                for name, column in zip(("label_offsets", "label_slopes"), fitted_findings(first).T, strict=True):
                    values[name] = dict(zip(statements.YES_NO_MAYBE, (0.0, *column.round(2).tolist()), strict=True))
        else:
            firsts += first
    if must_fit and firsts:
        features = np.concatenate([question["features"] for question in firsts])
        is_fitted = [bool(column.any()) for column in features.T]
        weights = zip(FEATURES, fitted(firsts), is_fitted, strict=True)
        values |= {name: round(float(weight), 1) for name, weight, has_data in weights if has_data}
    if must_fit:
        print(values)
    if options.write:
        write_options(values, rows)
    print_table(heads, rows)
    if options.json:
        write_results(options.json, heads, rows)


if __name__ == "__main__":
    main()
