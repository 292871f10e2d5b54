"""Optimal transport between texts as measures over tokens: exact distances and k nearest texts."""

from __future__ import annotations

from . import costs as costs
from .ground_cost import GroundCost, get_ground_cost
from .measure import TokenMeasure
from .on_device import DevicePool
from .pool import TextCollection, TokenPool
from .search import find_nearest_texts

__all__ = [
    "DevicePool",
    "GroundCost",
    "TextCollection",
    "TokenMeasure",
    "TokenPool",
    "find_nearest_texts",
    "get_ground_cost",
]
