"""The machinery of a run: state, step, loop, optimizer, checkpoints, metrics."""
