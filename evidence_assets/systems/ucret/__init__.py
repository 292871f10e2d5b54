"""UCRET and UCRET-JS: claims and questions answered from the columns of a table that bear on them."""

VERSION = "6"
"""Changes whenever equal input would give other evidence or answers."""
