"""Optimal transport between texts as measures over their tokens: exact distances, plans and the exact k nearest."""

from __future__ import annotations

from . import costs as costs
from .exact import Pair, strongest_pairs
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
    "ground_cost",
    "ground_costs",
    "strongest_pairs",
    "top_k",
]
