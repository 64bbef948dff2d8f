"""Memory of a command over a long file: does it grow with the file?

What `prepare_memory` and `predict_memory` share. A file of some size is made up
(`long_files`) in the system's temporary folder. The metric is the peak memory of all
processes together by the end of the work, divided by the peak by its first tenth.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

from benchmarks.data import long_files
from benchmarks.data.long_files import LongFile
from benchmarks.kit import report
from benchmarks.kit.memory import MIB, Watched


def parser(module: str, text: str, *, task: str) -> argparse.ArgumentParser:
    """As `report.parser`, with the options of a long file of some task by default."""
    made = report.parser(module, text)
    made.add_argument("--task", choices=long_files.TASKS, default=task)
    made.add_argument("--megabytes", type=float, default=100)
    return made


def run(
    options: argparse.ArgumentParser,
    args: argparse.Namespace,
    work_fn: Callable[[LongFile, pathlib.Path], tuple[Watched, int]],
    *,
    packed: bool = False,
    **about: Any,
) -> int:
    """Does the work on a long file, prints and writes what was seen.

    Args:
      options: the command line, made by `parser`.
      args: its arguments.
      work_fn: from the file and a folder to (what was seen, windows of the file).
      packed: whether the file is gzipped.
      **about: how the work is done, for the file of results.

    Returns:
      The exit code.
    """

    def work() -> tuple[dict[str, Any], int]:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            file = long_files.write_apart(
                args.task, folder, args.megabytes, packed=packed
            )
            seen, windows = work_fn(file, folder)
            num_bytes = os.stat(file.path).st_size
        found, megabytes = seen.growth, file.text_bytes / 10**6
        amounts = {"records": file.records, "windows": windows, "MB": megabytes}
        rates = [
            f"{amount * seen.share / seen.secs:.1f} {unit}/s"
            for unit, amount in amounts.items()
        ]
        shown = ", ".join([args.task, *(f"{k} {x}" for k, x in about.items())])
        print(
            f"{shown}: {megabytes:.0f} MB, {file.records} records, {windows} windows: "
            f"{', '.join(rates)}; peak {found.by_a_tenth / MIB:.0f} MiB by a tenth, "
            f"{found.by_the_end / MIB:.0f} MiB by the end, {found.growth:+.1%}"
        )
        return {
            "task": args.task,
            **about,
            "bytes": num_bytes,
            "text_bytes": file.text_bytes,
            "records": file.records,
            "windows": windows,
            "secs": seen.secs,
            "share": seen.share,
            "peak_bytes_by_a_tenth": found.early,
            "peak_bytes": found.late,
            "growth": found.growth,
        }, 0

    return report.run(options, args, work)
