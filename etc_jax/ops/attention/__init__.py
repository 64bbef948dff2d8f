"""Attention variants; every one has a dense oracle and a linear form."""
