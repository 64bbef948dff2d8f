"""Linen modules over `etc_jax.ops`: they own parameters, nothing else."""
