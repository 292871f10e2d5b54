"""Readers of official formats, one file per benchmark, graph or corpus.

A reader streams records and names file, line and field of whatever it cannot read; it never guesses and never skips.
"""
