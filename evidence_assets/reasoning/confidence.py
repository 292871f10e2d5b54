"""Confidence: the probability that an answer is correct, by logistic regression on signals of its prediction.

Each family of questions and each model has its own fit, because signals of another model have another scale. A
prediction without a fit keeps the raw share. ``confidence.yaml`` has the packaged fits, which
``bench/answers/fit_confidence.py`` made; ``evidence train confidence`` fits the answers of a lake.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources

import yaml

from evidence_assets.lake.ids import content_id
from evidence_assets.lake.store import Lake
from evidence_assets.models.vectors import softmax
from evidence_assets.reasoning.citations import check_citations
from evidence_assets.reasoning.statements import is_yes_no_maybe
from evidence_assets.reasoning.tasks import Choice, ChooseAnswer

Signals = Mapping[str, float]
FAMILIES = ("options", "yes_no", "claims", "table_questions", "short_answers")
ASKED_TABLES = "asked_tables"
"""Family of the questions that are asked one by one about a table, with a packaged fit only."""
PACKAGED_FILE = "confidence.yaml"
RAW_SHARE = "raw share"
FITTED = (("share", "answered"), ("verified", "answered"))
"""Signals of a fit: the first of these that an answer has. More signals do not lower the loss (docs/measured.md)."""
_FILE_HASH = re.compile(r"[0-9a-f]{12}")
"""Revision of a local model file; a server's ``--alias`` changes its name, not its weights."""
MAX_LOGIT = 10.0
PENALTY = 1.0
"""L2 penalty: half of it times the squared weights is added to the loss, the sum over the answers."""


def confidence_family(task: str, options: Sequence[str]) -> str:
    """The family of a question; empty for searches, whose answers have no confidence."""
    if task == "mcqa":
        return "yes_no" if all(map(is_yes_no_maybe, options)) else "options"
    families = {"verification": "claims", "table_qa": "table_questions", "kgqa": "short_answers"}
    return families.get(task, "")


def logit(share: float) -> float:
    """``log(p / (1 − p))``, clipped to ±:data:`MAX_LOGIT`."""
    limit = 1 / (1 + math.exp(MAX_LOGIT))
    clipped = min(max(share, limit), 1 - limit)
    return math.log(clipped / (1 - clipped))


def probabilities(weights: Mapping[str, float]) -> dict[str, float]:
    """``softmax(w)``, most probable label first; ties keep their order.

    >>> probabilities({"A": 0.0, "B": 0.0})
    {'A': 0.5, 'B': 0.5}
    """
    shares = dict(zip(weights, softmax(list(weights.values())).tolist(), strict=True))
    return dict(sorted(shares.items(), key=lambda entry: -entry[1]))


def choice_signals(task: ChooseAnswer, choice: Choice, shares: Mapping[str, float]) -> dict[str, float]:
    """Signals of the selected option; ``shares`` is the softmax of the solver's weights.

    ``share``: Log odds of its share, if the solver has weights.
    ``verified``: Share of verified citations in its chain.
    ``answered``: 1 if the solver's status is answered.
    """
    items = [item for group in task.evidence.values() for item in group]
    chains = (chain for chain in task.chains if chain.hypothesis == choice.answer)
    verdicts = [citation.verdict for chain in chains for citation in check_citations(chain, items)]
    verified = verdicts.count("verified") / len(verdicts) if verdicts else 0.0
    signals = {"answered": float(choice.status == "answered"), "verified": round(verified, 6)}
    return signals | ({"share": round(logit(shares[choice.answer]), 6)} if choice.answer and shares else {})


@dataclass(frozen=True)
class Fit:
    """Weights of the signals in the log odds of a correct answer, with the number of answers of each set."""

    weights: Signals
    sets: Mapping[str, int]

    @cached_property
    def fit_id(self) -> str:
        return content_id("confidence", sorted(self.weights.items()), sorted(self.sets.items()))[:12]

    @property
    def basis(self) -> str:
        """What the confidence of a prediction is based on."""
        return f"calibrated on {sum(self.sets.values()):,} answers ({', '.join(sorted(self.sets))}), fit {self.fit_id}"

    def applies_to(self, signals: Signals) -> bool:
        """Whether an answer has the signals of the fit."""
        return self.weights.keys() - signals.keys() <= {"intercept"}

    def probability(self, signals: Signals) -> float:
        """``σ(w₀ + Σ w_i x_i)``."""
        values = {"intercept": 1.0, **signals}
        odds = math.fsum(weight * values[name] for name, weight in self.weights.items())
        return round(1 / (1 + math.exp(-max(-30.0, min(30.0, odds)))), 6)


Fits = Mapping[tuple[str, str], Fit]
"""Fits by family and ``model_id``."""


@lru_cache
def packaged_fits() -> Fits:
    """The fits of the package, by family and ``model_id``."""
    text = resources.files(__package__).joinpath(PACKAGED_FILE).read_text(encoding="utf-8")
    return {
        (family, model): Fit(fields["weights"], fields["sets"])
        for family, by_model in yaml.safe_load(text).items()
        for model, fields in by_model.items()
    }


def find_fit(fits: Fits, family: str, model_id: str) -> Fit | None:
    """The fit of a model, else the last one of the same model file under another name."""
    exact = fits.get((family, model_id))
    _, _, revision = model_id.rpartition("@")
    if exact or not _FILE_HASH.fullmatch(revision):
        return exact
    of_file = [fit for (kind, model), fit in fits.items() if kind == family and model.endswith(f"@{revision}")]
    return of_file[-1] if of_file else None


def packaged_version() -> str:
    """Hash of the packaged fits."""
    return content_id("packaged confidence", sorted((*key, fit.fit_id) for key, fit in packaged_fits().items()))[:12]


def read_fits(lake: Lake) -> Fits:
    """The fits of the lake, and the packaged ones of other families and models."""
    rows = lake.read("confidence_fits").iter_rows(named=True)
    stored = {
        (row["family"], row["model_id"]): Fit(
            {each["name"]: each["value"] for each in row["weights"]}, {each["name"]: each["n"] for each in row["sets"]}
        )
        for row in rows
    }
    return {**packaged_fits(), **stored}


def fitted_signals(signals: Signals) -> tuple[str, ...]:
    """The signals that an answer is fitted by; empty if it has none of :data:`FITTED`."""
    return next((names for names in FITTED if signals.keys() >= {*names}), ())


def fit_weights(
    rows: Sequence[Sequence[float]], correct: Sequence[bool], sample_weights: Sequence[float]
) -> list[float]:
    """Intercept and weights of a regularised logistic regression, in the order of the columns.

    Weights below 0 are set to 0 and the others fitted again: more of a signal never lowers the probability.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    matrix = np.array(rows)
    mean = float(np.average(correct, weights=sample_weights))
    columns = list(range(matrix.shape[1]))
    weights = [logit(mean), *[0.0] * matrix.shape[1]]
    while columns and 0 < mean < 1:
        model = LogisticRegression(C=1 / PENALTY).fit(matrix[:, columns], correct, sample_weights)
        slopes = dict(zip(columns, model.coef_[0].tolist(), strict=True))
        if min(slopes.values()) >= 0:
            return [
                round(w, 4) for w in (float(model.intercept_[0]), *(slopes.get(c, 0.0) for c in range(len(rows[0]))))
            ]
        columns.remove(min(slopes, key=lambda column: slopes[column]))
    return [round(weight, 4) for weight in weights]
