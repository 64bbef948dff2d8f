"""Reformer: hashed attention, reversible layers."""
