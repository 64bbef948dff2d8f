"""Command lines, a module each, and what they share."""
