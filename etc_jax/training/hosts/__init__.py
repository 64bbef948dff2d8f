"""Processes that train together, and signals that stop them."""
