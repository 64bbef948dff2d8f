"""Trained models on raw records of a data set; behind `evaluate` and `predict`."""
