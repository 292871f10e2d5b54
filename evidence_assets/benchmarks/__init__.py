"""Benchmarks, graphs and corpora as they come: readers of official formats, one file each, and of a user's own data.

A reader streams records and names file, line and field of whatever it cannot read; it never guesses and never skips.
"""
