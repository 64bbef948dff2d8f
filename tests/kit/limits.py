"""How long a test waits for another process or thread before it gives up."""

import time

# No claim about speed: a busy machine may take ten times as long as a quiet one.
SECS = 1200


def until(condition, told=lambda: ""):
    """Waits until `condition()` is true; fails with `told()` if that takes too long."""
    deadline = time.monotonic() + SECS
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.01)
