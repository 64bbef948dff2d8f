"""Text: corpora, files, token caches, and documents packed into rows."""
