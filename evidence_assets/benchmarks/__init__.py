"""Readers of benchmarks, graphs and corpora: official formats and the user's own files.

A reader streams records. Its errors name file, line and field; it never guesses and never skips a row.
"""
