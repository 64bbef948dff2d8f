"""Checkpoints: saved, verified, restored, and what they were made of."""
