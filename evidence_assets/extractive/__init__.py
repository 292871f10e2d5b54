"""Solvers without a language model: options, tables, and spans of text.

Only ``experiment.solvers`` imports this package, so that no selector is tuned to the solver that judges it.
"""
