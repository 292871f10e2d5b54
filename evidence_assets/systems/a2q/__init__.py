"""Attention2Query: selects triples of a graph by neighbourhood attention, and the rankings it is compared with."""

VERSION = "5"
"""Changes whenever equal input would give other evidence or answers."""
