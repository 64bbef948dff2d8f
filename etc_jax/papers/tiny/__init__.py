"""Tiny forms of tables: small models on invented records, for a CPU."""
