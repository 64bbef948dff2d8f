"""A data set in a package of its own; see examples/README.md."""
