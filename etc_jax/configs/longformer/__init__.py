"""Longformer's tables."""
