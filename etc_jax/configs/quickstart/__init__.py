"""Small runs that show all parts in minutes."""
