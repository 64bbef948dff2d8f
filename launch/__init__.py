"""Starting runs and watching over them."""
