"""ETC: two kinds of tokens, structure between them."""
