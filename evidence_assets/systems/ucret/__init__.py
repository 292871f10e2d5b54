"""UCRET and UCRET-JS: claims and questions answered from the relevant columns of a table."""

VERSION = "10"
"""Bump when equal input gives other evidence or answers."""
