"""Functions of tests that compile for absent TPUs: libtpu and its lock stay loaded."""

import os
import subprocess
import sys
from collections.abc import Callable

import limits


def in_a_process(module: str, check: Callable[[], None], **env: str) -> str:
    """Runs a function of a test module in a process of its own; what it has printed."""
    code = f"import {module} as test; test.{check.__name__}()"
    path = os.pathsep.join(filter(None, sys.path))
    got = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )
    assert got.returncode == 0, got.stderr[-2000:]
    return got.stdout
