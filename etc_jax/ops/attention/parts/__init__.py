"""What the public attention functions are made of."""
