"""Models by one name: loaded from where they are, and used on texts."""
