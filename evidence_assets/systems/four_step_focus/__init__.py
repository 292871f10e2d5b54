"""4StepFocus: nodes of a semi-structured knowledge base that answer a question."""

VERSION = "6"
"""Changes whenever equal input would give other evidence or answers."""
