"""Attention2Query: selects triples of a graph by neighbourhood attention."""

VERSION = "7"
"""Changes whenever equal input would give other evidence or answers."""
