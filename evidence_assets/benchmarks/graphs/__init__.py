"""Readers of knowledge graph files, one file per format, and the vocabulary of relations.

A reader streams `TripleRecord`s, names as the source writes them; a fault is a `BadInput` with file, line and field.
Merging sources, and the one normal form of names, are in `graphs.merge`.
"""
