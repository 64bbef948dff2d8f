"""Losses on arrays, and their metrics."""
