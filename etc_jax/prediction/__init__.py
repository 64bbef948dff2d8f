"""Trained models on raw records of a data set; used by `evaluate` and `predict`."""
