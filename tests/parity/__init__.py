"""Golden cases of reference implementations."""
