"""Foreign checkpoints in and out: one table engine, one table a family."""
