"""Attention as kernels: which are taken, and what those of all devices share."""
