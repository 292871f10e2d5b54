"""Evidence selection: questions, selectors, selected evidence and its sources."""
