"""UGAT-MedQA: paths of a medical graph, selected by unsupervised attention, as evidence."""
