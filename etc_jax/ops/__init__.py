"""Pure functions on arrays: no parameters, no configs, no flax."""
