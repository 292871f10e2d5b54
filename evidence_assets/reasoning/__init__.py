"""Typed tasks, the prompted and the extractive solver, parsing of replies, and the citation check."""
