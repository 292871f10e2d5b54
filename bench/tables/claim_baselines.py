"""Accuracy on SCITAB's claims without their tables, and of ours without the words that give labels away.

    EVIDENCE_DEV_DATA=<folder> python -m bench.tables.claim_baselines

Claim only: a bag-of-words logistic regression over the claims, by five-fold cross-validation with disjoint tables,
repeated ten times; the cue words are those with the largest weights on all claims. True against false: the claims that
are supported or refuted, as the weights of ``bench.tables.fit_claim_weights`` judge them in the same cross-validation,
once as they are and once without the cue words and the negation in the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline

from bench.tables.claim_data import Claim, read_scitab
from bench.tables.fit_claim_weights import N_FOLDS, N_REPEATS, Sample, build_samples, fit
from evidence_assets.experiment.scores.metrics import accuracy
from evidence_assets.extractive.tables.claims import label_probabilities

N_CUES = 20
Judge = Callable[[Sequence[Sample], Sequence[Sample]], list[bool]]
"""Whether the answers to some claims are right, given others to learn from."""


def cross_validate(samples: Sequence[Sample], judge: Judge) -> float:
    """Mean accuracy over repeated cross-validation with disjoint tables."""
    tables = sorted({sample.claim.table.table_id for sample in samples})
    right: list[bool] = []
    for seed in range(N_REPEATS):
        order = np.random.default_rng(seed).permutation(len(tables))
        for fold in range(N_FOLDS):
            names = {tables[k] for k in order[fold::N_FOLDS]}
            test = [sample for sample in samples if sample.claim.table.table_id in names]
            right += judge([sample for sample in samples if sample.claim.table.table_id not in names], test)
    return sum(right) / len(right)


def bag_of_words() -> Pipeline:
    return make_pipeline(CountVectorizer(binary=True, ngram_range=(1, 2)), LogisticRegression(C=1.0, max_iter=1000))


def judge_by_words(train: Sequence[Sample], test: Sequence[Sample]) -> list[bool]:
    texts, labels = [s.claim.question.text for s in train], [s.gold for s in train]
    model = bag_of_words().fit(texts, labels)
    return (model.predict([s.claim.question.text for s in test]) == np.array([s.gold for s in test])).tolist()


def judge_by_table(train: Sequence[Sample], test: Sequence[Sample]) -> list[bool]:
    """Ours: the more probable of true and false, for the claims that are one of both."""
    weights, test = fit(train), [sample for sample in test if sample.gold < 2]
    chances = [label_probabilities(sample.features, weights) for sample in test]
    return [(p[0] > p[1]) == (sample.gold == 0) for p, sample in zip(chances, test, strict=True)]


def find_cues(samples: Sequence[Sample]) -> list[str]:
    """The words that tell true from false best without a table."""
    vectors = CountVectorizer(binary=True)
    counts = vectors.fit_transform([s.claim.question.text for s in samples])
    model = LogisticRegression(max_iter=1000).fit(counts, [s.gold for s in samples])
    words = vectors.get_feature_names_out()
    return [str(words[i]) for i in np.argsort(-np.abs(model.coef_[0]), kind="stable")[:N_CUES]]


def without(claim: Claim, words: Sequence[str]) -> Claim:
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))}|not|no|never|n['’]t)\b\s*", re.IGNORECASE)
    return replace(claim, question=replace(claim.question, text=pattern.sub("", claim.question.text)))


def main() -> None:
    claims = read_scitab(Path(os.environ["EVIDENCE_DEV_DATA"]))
    samples = build_samples(claims)
    print(f"three labels, claims alone: {100 * cross_validate(samples, judge_by_words):.1f} of {len(samples)} claims")
    decided = [sample for sample in samples if sample.gold < 2]
    print(f"true or false, claims alone: {100 * cross_validate(decided, judge_by_words):.1f} of {len(decided)} claims")
    cues = find_cues(decided)
    print(f"cue words: {', '.join(sorted(cues))}")
    for name, group in (
        ("as they are", samples),
        ("without cue words", build_samples([without(claim, cues) for claim in claims])),
    ):
        share = cross_validate(group, judge_by_table)
        interval = accuracy([n < round(share * len(decided)) for n in range(len(decided))])
        print(f"true or false, ours, {name}: {100 * share:.1f} ({100 * interval.low:.1f}–{100 * interval.high:.1f})")


if __name__ == "__main__":
    main()
