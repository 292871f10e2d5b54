"""Dumps of graphs, and STaRK's pickles, in formats that the product reads: ``python -m tools.convert``."""
