"""Inputs of data sets: windows, and the caches that hold them."""
