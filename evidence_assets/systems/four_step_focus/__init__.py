"""4StepFocus: nodes of a semi-structured knowledge base that answer a question."""
