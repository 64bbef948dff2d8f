"""Speed and memory side by side with peers: every figure is a ratio from one run."""
