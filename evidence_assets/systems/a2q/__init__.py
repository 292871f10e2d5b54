"""Attention2Query: triples of a graph by attention over neighbourhoods, and rankings beside it."""

VERSION = "5"
"""Changes whenever equal input would give other evidence or answers."""
