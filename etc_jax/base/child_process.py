"""Becomes another program that is killed when the process that started it dies.

    python child_process.py PID PROGRAM [ARGUMENT ...]

PID is of the starting process. Linux alone can do that; elsewhere the program is only
started. It is run as a file, and imports nothing of this project.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>; kept by exec


def tied(program: Sequence[str]) -> list[str]:
    """The command that starts a program which dies with this process.

    Args:
      program: its path and arguments.
    """
    # Isolated (-I) and without packages (-S): it starts in an instant.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *program]


def main(argv: list[str]) -> None:
    """Runs the program in place of this one."""
    parent, *command = argv
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
        if os.getppid() != int(parent):  # it died just before
            sys.exit(128 + signal.SIGKILL)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
