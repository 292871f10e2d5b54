"""The simple selectors that every system is compared with."""

VERSION = "6"
"""Changes whenever equal input would give other evidence or answers."""
