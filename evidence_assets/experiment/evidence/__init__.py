"""Evidence: questions as selectors see them, what is selected, and what it is selected from."""
