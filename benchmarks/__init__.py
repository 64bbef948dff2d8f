"""Speed and memory side by side with peers: every number is a ratio from one run."""
