"""The table of printed figures with our scores: what fills each cell, or why nothing can."""
