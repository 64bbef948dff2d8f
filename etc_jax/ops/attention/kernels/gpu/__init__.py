"""Attention as kernels for NVIDIA GPUs."""
