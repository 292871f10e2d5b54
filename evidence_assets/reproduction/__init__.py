"""The printed figures as a table with ours beside them: what each cell needs, and why others cannot be filled."""
