"""Attention2Query: triples of a graph by attention over neighbourhoods, and rankings beside it."""
