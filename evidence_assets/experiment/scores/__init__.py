"""What answers and evidence are worth: metrics, score rows, printed figures beside them, comparisons, pictures."""
