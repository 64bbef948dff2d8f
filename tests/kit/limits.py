"""How long a test waits for another process or thread before it gives up."""

# No claim about speed: a busy machine may take ten times as long as a quiet one.
SECS = 1200
