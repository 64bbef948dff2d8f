"""Models made of other models: longer, with more tokens, or lifted into ETC."""
