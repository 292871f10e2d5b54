"""A small reader that is trained in the lake on a benchmark's own training questions. It is no language model."""

VERSION = "2"
"""Raise it when the same input gives other evidence, another reader or other answers."""
READER_ASSET = "models/reader"
"""Asset of the trained readers, one per benchmark."""
