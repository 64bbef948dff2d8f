"""What encoders of one sequence share: body, heads, names of weights."""
