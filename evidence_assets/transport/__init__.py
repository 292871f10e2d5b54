"""Optimal transport between texts as measures over their tokens: exact distances, plans and the exact k nearest.

What belongs here: measures, pools, ground costs, exact solving and pruned search. How tokens get their weights is in
:mod:`evidence_assets.retrieval.bm25`. A ground cost is one class in a file of :mod:`.costs` and nothing else.
"""

from __future__ import annotations

from . import costs as costs
from .exact import Pair, distance, strongest_pairs
from .ground_cost import Cost, GroundCost, ground_cost, ground_costs
from .measure import TokenMeasure
from .pool import Texts, TokenPool
from .search import TopK, top_k

__all__ = [
    "Cost",
    "GroundCost",
    "Pair",
    "Texts",
    "TokenMeasure",
    "TokenPool",
    "TopK",
    "distance",
    "ground_cost",
    "ground_costs",
    "strongest_pairs",
    "top_k",
]
