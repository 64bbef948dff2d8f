"""How records become inputs of a kind of model."""
