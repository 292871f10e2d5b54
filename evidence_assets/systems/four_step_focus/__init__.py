"""4StepFocus: nodes of a semi-structured knowledge base that answer a question."""

VERSION = "5"
"""Changes whenever equal input would give other evidence or answers."""
