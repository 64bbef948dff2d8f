"""How long a test waits for another process or thread before it gives up."""

import time

# No claim about speed: a busy machine may take ten times as long as a quiet one.
SECS = 1200


def wait_for(condition, *, pause=0.01):
    """Returns once `condition()` is true."""
    end = time.monotonic() + SECS
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(pause)
