"""Optimal transport between texts as measures over tokens: exact distances, plans and k nearest texts."""

from __future__ import annotations

from . import costs as costs
from .exact import TokenPair, find_strongest_pairs
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
    "TokenPair",
    "TokenPool",
    "find_nearest_texts",
    "find_strongest_pairs",
    "get_ground_cost",
    "list_ground_costs",
]
