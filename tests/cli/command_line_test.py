"""What all commands share: how they print, and how they end."""

import logging
import subprocess
import sys

import limits
import processes
import pytest

from etc_jax.cli import command_line

# 1 MB, more than a pipe holds; in pieces, as answers to records are.
MANY = """
import sys
from etc_jax.cli import command_line
from etc_jax.base.terminal import say
def work():
    for number in range(10_000):
        say(f"{number:100}")
sys.exit(command_line.run("etc-jax many", work))
"""
# What a command loses is the pipe of a worker, while its own reader is there.
WORKER = """
import os, sys
from etc_jax.cli import command_line
def work():
    reader, writer = os.pipe()
    os.close(reader)
    os.write(writer, b"x")
sys.exit(command_line.run("etc-jax worker", work))
"""


def piped(*program, reader):
    """(exit code, standard error) of a program that prints into another one."""
    got = subprocess.run(
        ["bash", "-c", f'"$@" | {reader}; exit "${{PIPESTATUS[0]}}"', "", *program],
        env=processes.clean_environment(),
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )
    return got.returncode, got.stderr


def test_a_command_whose_reader_has_left_ends_quietly():
    assert piped(sys.executable, "-c", MANY, reader="head -n 1") == (141, "")
    assert piped(sys.executable, "-c", MANY, reader="cat") == (0, "")


def test_so_does_help():
    words = (sys.executable, "-m", "etc_jax", "--help")
    assert piped(*words, reader="true") == (141, "")


def test_another_pipe_that_breaks_is_an_error():
    code, said = piped(sys.executable, "-c", WORKER, reader="cat")
    assert code == 2 and said == "etc-jax worker: [Errno 32] Broken pipe\n"


@pytest.mark.parametrize("call, buffer", [("say", False), ("print", True)])
def test_a_full_disk_behind_standard_output_is_one_line(call, buffer):
    text = MANY.replace("10_000", "10").replace("say(f", f"{call}(f")
    more = {"TMPDIR": "/tmp", "PYTHONUNBUFFERED": "" if buffer else "1"}
    with open("/dev/full", "w") as full:
        got = subprocess.run(
            [sys.executable, "-c", text],
            env=processes.clean_environment() | more,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=limits.SECS,
        )
    told = "[Errno 28] No space left on device"
    if buffer:
        told = f"standard output cannot be written: {told}\n"
    else:
        told = f"etc-jax many: {told}: 'standard output or /tmp'\n"
    assert (got.returncode, got.stderr) == (2, told)


LOGS = """
import logging, sys, warnings
logging.basicConfig()  # as a package does where it is imported
from etc_jax.cli import command_line
log = logging.getLogger("etc_jax.part")
def work():
    log.info("loss \\x1b[2J")
    logging.getLogger("other").info("not to be seen")
    logging.getLogger("other").warning("to be seen")
for _ in range(2):
    command_line.run("etc-jax log", work)
"""


def test_what_is_logged_is_a_line_with_the_time_once_and_without_controls():
    code, said = piped(sys.executable, "-c", LOGS, reader="cat")
    assert code == 0
    lines = said.splitlines()
    times, words = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert words == ("loss \\u001b[2J", "to be seen") * 2
    assert all(len(time) == 8 and time[2] == time[5] == ":" for time in times)


def test_a_program_that_shows_logs_itself_goes_on_to():
    before = list(logging.getLogger().handlers)  # pytest's own
    command_line.show_log()
    assert logging.getLogger().handlers == before
