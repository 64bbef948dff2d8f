"""Runnable configs, a file each; `get_config(arg="")` in it gives its variants."""
