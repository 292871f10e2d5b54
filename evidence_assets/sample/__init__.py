"""The raw inputs of the embedded default, written by this project."""
