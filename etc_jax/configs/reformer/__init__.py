"""Reformer's tables."""
