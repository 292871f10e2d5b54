"""Questions that a text answers with yes, no or maybe: what its findings come to.

The statements of the document nearest to the question are read for findings and for findings of nothing ("no significant
difference"); yes, no and maybe are no options to look for in a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from evidence_assets.reasoning.statements import Statement
from evidence_assets.reasoning.tasks import Chain, Choice, ChooseAnswer, ExplainOption, Step

LABELS = ("yes", "no", "maybe")
_FINDING = re.compile(
    r"\d\s*%|\bp\s*[<=>≤≥]|significan|\b(?:show|found|observ|conclu|suggest|indicat|correlat|associat|higher|lower"
    r"|increas|decreas|differen|similar|predict|improv)",
    re.IGNORECASE,
)
_NO_FINDING = re.compile(
    r"\b(?:no|not|nor|neither|without)\b[^.;]{0,60}\b(?:significan|differen|associat|correlat|effect|affect|influenc"
    r"|increas|improv|chang|benefit|relat)"
    r"|\b(?:similar|comparable|unchanged|failed|ns|insignificant|nonsignificant)\b",
    re.IGNORECASE,
)
OTHER = 0.1
"""What a statement that is no finding counts beside one that is."""
# Log odds against yes, fitted on the first half of PubMedQA's development questions; bench/measure_answers.py --fit.
FIRST = {"yes": 0.0, "no": -0.68, "maybe": -1.50}
WITH_NOTHING_FOUND = {"yes": 0.0, "no": 2.06, "maybe": -0.34}
LIKELY = 0.50
"""Share from which on a label counts as supported."""


def is_label(option: str) -> bool:
    """Whether an option is one of the three."""
    return option.strip().casefold() in LABELS


def explain(task: ExplainOption, nearness: Mapping[Statement, float], documents: Mapping[str, str]) -> Chain:
    """The chain for one label: the share that it has, from the document whose statement is nearest to the question.

    ``documents`` maps sources of evidence to documents; a source without one is its own. The share of a label l is the
    softmax of ``a_l + b_l·x`` with x the share of the document's findings that find nothing.
    """
    label = task.option.strip().casefold()
    source = {item.evidence_id: documents.get(item.source_id, item.source_id) for item in task.evidence}
    if not nearness:
        return Chain(task.hypothesis, (Step("There is no evidence to conclude from."),), 0.0)
    nearest = max(nearness, key=lambda statement: nearness[statement])
    read = list({s.quote: s for s in nearness if source[s.evidence_id] == source[nearest.evidence_id]}.values())
    share = {s: 1.0 if _FINDING.search(s.quote) else OTHER for s in read}
    nothing = {s for s in read if _NO_FINDING.search(s.quote)}
    found_nothing = sum(share[s] for s in nothing) / sum(share.values())
    odds = {each: math.exp(FIRST[each] + WITH_NOTHING_FOUND[each] * found_nothing) for each in LABELS}
    support = round(odds[label] / sum(odds.values()), 6)
    telling = [s for s in read if share[s] == 1.0 and label != "maybe" and (s in nothing) == (label == "no")]
    if not telling:
        return Chain(task.hypothesis, (Step(f"No finding of the evidence says “{label}”."),), support)
    best = max(telling, key=lambda statement: nearness[statement])
    told = "is found against it" if label == "no" else "is found"
    return Chain(task.hypothesis, (Step(f"This {told}: {best.quote}", (best.evidence_id,), (best.quote,)),), support)


def choose(task: ChooseAnswer, support: Mapping[str, float]) -> Choice:
    """The label with the greatest share; supported from :data:`LIKELY` on."""
    weights = {label: math.log(max(support[label], 1e-6)) for label in task.labels}
    answer = max(task.labels, key=lambda label: weights[label])
    likely = support[answer] >= LIKELY
    return Choice(answer, (answer,) if likely else (), "answered" if likely else "insufficient", weights=weights)
