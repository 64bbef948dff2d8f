"""Files of weights and configs."""
