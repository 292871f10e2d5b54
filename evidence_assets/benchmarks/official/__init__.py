"""Official formats: ``datasets.yaml`` describes the datasets, modules read those that ``choices`` cannot."""
