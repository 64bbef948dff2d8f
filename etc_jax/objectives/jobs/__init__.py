"""Objectives as jobs for the training loop, with the readers of their batches."""
