"""How many cores of the machine this process may use."""

import os


def available() -> int:
    """Those that it is bound to; where the system cannot say, all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
