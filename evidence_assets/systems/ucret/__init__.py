"""UCRET and UCRET-JS: claims and questions answered from the relevant columns of a table."""

VERSION = "12"
"""Bump when equal input gives other evidence or answers."""
