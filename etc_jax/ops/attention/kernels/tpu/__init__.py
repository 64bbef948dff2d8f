"""Attention as kernels for TPUs."""
