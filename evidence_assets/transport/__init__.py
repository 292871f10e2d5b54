"""Optimal transport between texts as measures over tokens: exact distances and k nearest texts."""

from __future__ import annotations

from . import costs as costs
from .ground_cost import CostLike, GroundCost, get_ground_cost, list_ground_costs
from .measure import TokenMeasure
from .pool import TextCollection, TokenPool
from .search import NearestTexts, find_nearest_texts

__all__ = [
    "CostLike",
    "GroundCost",
    "NearestTexts",
    "TextCollection",
    "TokenMeasure",
    "TokenPool",
    "find_nearest_texts",
    "get_ground_cost",
    "list_ground_costs",
]
