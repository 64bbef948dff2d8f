"""One table of names and config fields for each family of foreign models."""
