"""Optimal transport between texts as measures over their tokens: exact distances, plans and the exact k nearest.

What belongs here: measures, pools, ground costs, exact solving and pruned search. How tokens get their weights is in
:mod:`evidence_assets.retrieval.bm25`, how a measure is built from contextual vectors in
:mod:`evidence_assets.transport.measures`.
"""

from __future__ import annotations

from .costs import Cost, CostName, cost_matrix
from .exact import Pair, distance, plan, strongest_pairs
from .measure import TokenMeasure
from .pool import TokenPool
from .search import TopK, top_k

__all__ = [
    "Cost",
    "CostName",
    "Pair",
    "TokenMeasure",
    "TokenPool",
    "TopK",
    "cost_matrix",
    "distance",
    "plan",
    "strongest_pairs",
    "top_k",
]
