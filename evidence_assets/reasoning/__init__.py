"""Typed tasks, the prompted solver, parsing of replies, and the citation check."""
