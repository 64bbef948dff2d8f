"""Optimizers and learning rates, by name."""
