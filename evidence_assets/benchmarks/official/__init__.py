"""Official formats: ``datasets.yaml`` states what each dataset is, the modules read what ``choices`` does not."""
