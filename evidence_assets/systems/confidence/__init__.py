"""The confidence of a lake's own answers, fitted on its graded questions."""

VERSION = "2"
"""Raise it when equal answers give another fit."""
