"""Long-document transformers in JAX: ETC first, its relatives beside it."""
