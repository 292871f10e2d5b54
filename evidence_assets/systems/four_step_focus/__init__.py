"""4StepFocus: ranks the nodes of a semi-structured knowledge base as answers to a question."""

VERSION = "7"
"""Changes whenever equal input would give other evidence or answers."""
