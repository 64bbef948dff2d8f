"""Peak memory of one call, each side in a process of its own.

The metric is the growth of resident memory that one call needs: the high-water mark
during the second call, less what was resident when everything was built and compiled
but nothing had run. The kernel counts it, so JAX and PyTorch are measured alike.
"""

import argparse
import ctypes
import gc
import importlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks import process_memory

MIB = 2**20
# Peak-memory errors, from the kernel's batched counters, stay well below this.
CALIBRATION_MIB = 256


def _status(field: str) -> int:
    found = process_memory.status("self", field)
    if found is None:
        raise OSError(f"/proc/self/status has no {field}; peak memory needs Linux")
    return found


def _return_free_memory() -> None:
    # Free pages that malloc keeps after compiling would otherwise be reused unseen.
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def peak_of_call(run: Callable[[], Any]) -> int:
    """Bytes that a call of `run` adds to the resident memory of this process."""
    _return_free_memory()
    before = _status("VmRSS")
    run()
    _return_free_memory()
    process_memory.clear_own_peak()
    run()
    return _status("VmHWM") - before


def measure(
    builder: str, arguments: Mapping[str, Any], *, timeout_secs: float | None = None
) -> dict[str, Any]:
    """Peak memory of what a builder makes, in a fresh process.

    Args:
      builder: `module:function`; the function takes `arguments` and returns a callable
        of no arguments, or a pair of it and a dictionary of more metrics.
      arguments: what JSON can hold.
      timeout_secs: when to give up; None waits.

    Returns:
      `{"peak_bytes": ..., **more metrics}`.

    Raises:
      RuntimeError: with the end of its messages, if the process fails.
    """
    command = [sys.executable, "-m", "benchmarks.memory", builder]
    command.append(json.dumps(dict(arguments)))
    root = pathlib.Path(__file__).resolve().parent.parent
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_secs, cwd=root
    )
    if done.returncode:
        raise RuntimeError(
            f"measuring {builder} with {dict(arguments)} failed with exit code "
            f"{done.returncode}:\n{done.stderr[-2000:]}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def touch(mebibytes: int) -> Callable[[], None]:
    """A builder whose call needs a known amount: proves the measurement."""

    def run() -> None:
        np.ones(mebibytes * MIB, np.uint8)

    return run


def calibration_error() -> float:
    """Relative error of the measurement on a known amount."""
    wanted = CALIBRATION_MIB * MIB
    got = measure("benchmarks.memory:touch", {"mebibytes": CALIBRATION_MIB})
    return got["peak_bytes"] / wanted - 1


def _main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("builder", help="module:function")
    parser.add_argument("arguments", type=json.loads, help="JSON object")
    args = parser.parse_args(argv)
    module, function = args.builder.split(":")
    built = getattr(importlib.import_module(module), function)(**args.arguments)
    run, more = built if isinstance(built, tuple) else (built, {})
    print(json.dumps({"peak_bytes": peak_of_call(run), **more}))


if __name__ == "__main__":
    _main(sys.argv[1:])
