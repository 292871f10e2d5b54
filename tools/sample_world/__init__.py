"""Writes the raw inputs of the embedded default from facts that can be checked; `README.md` beside this says how."""
