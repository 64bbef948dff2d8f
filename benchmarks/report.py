"""Tables on the terminal and JSON files of a run."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shlex
import statistics
import sys
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

from benchmarks import machine
from benchmarks.harness import Timing
from benchmarks.memory import MIB
from etc_jax.training.errors import RunError

BUSY_EXIT_CODE = 3


def header(
    benchmark: str, *, shapes: Mapping[str, Any], dtype: str, quiet: machine.Quiet
) -> dict[str, Any]:
    """What every JSON file starts with."""
    return {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([pathlib.Path(sys.executable).name, *sys.orig_argv[1:]]),
        "machine": machine.describe(),
        "shapes": dict(shapes),
        "dtype": dtype,
        "busy": quiet.busy,
        "quiet": dataclasses.asdict(quiet),
    }


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in columns: the first to the left, the others to the right."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines = []
    for row in [head, ["-" * w for w in widths], *rows]:
        cells = [row[0].ljust(widths[0])]
        cells += [x.rjust(w) for x, w in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def spread(values: Iterable[float], form: str = ".1f") -> str:
    """Mean ± standard deviation of a sample, each in the given form."""
    values = list(values)
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):{form}} ± {deviation:{form}}"


def collect(
    name: str,
    runs: Iterator[Any],
    table_fn: Callable[[Sequence[Any]], str],
    *,
    about: Mapping[str, Any],
    out: str | os.PathLike | None,
) -> int:
    """Takes runs as they end, prints their table and writes them as JSON.

    Args:
      name: of the module, before its errors.
      runs: makes dataclasses; a ValueError, OSError or RunError ends the command.
      table_fn: makes the table of them.
      about: what they have in common.
      out: file to write; None writes nothing.

    Returns:
      The exit code.
    """
    try:
        made = list(runs)
    except (ValueError, OSError, RunError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    print(table_fn(made))
    values = {"machine": machine.describe(), **about}
    write(out, {**values, "runs": [dataclasses.asdict(run) for run in made]})
    return 0


def times_table(timings: Sequence[Timing], reference: str) -> str:
    """Times of sides that were run in turn."""
    head = ["side", "median ms", "min ms", "IQR ms", f"/ {reference}", "95 %", "error"]
    rows = [
        [
            t.name,
            f"{t.median * 1e3:.1f}",
            f"{t.minimum * 1e3:.1f}",
            f"{t.interquartile_range * 1e3:.1f}",
            f"{t.ratio:.2f}",
            f"{t.ratio_interval[0]:.2f}-{t.ratio_interval[1]:.2f}",
            "-" if t.error is None else f"{t.error:.0e}",
        ]
        for t in timings
    ]
    return table(head, rows)


def memory_table(peaks: Mapping[str, Mapping[str, Any]], reference: str) -> str:
    """Peak resident growth of sides, and XLA's own count where there is one."""
    base = peaks[reference]["peak_bytes"]
    rows = []
    for name, metrics in peaks.items():
        peak, temp = metrics["peak_bytes"], metrics.get("xla_temp_bytes")
        rows.append(
            [
                name,
                f"{peak / MIB:.0f}",
                f"{peak / base:.2f}",
                "-" if temp is None else f"{temp / MIB:.0f}",
            ]
        )
    return table(["side", "peak MiB", f"/ {reference}", "XLA temp MiB"], rows)


def timing_rows(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """Timings ready for JSON; times in seconds."""
    return [dataclasses.asdict(t) for t in timings]


def names(allowed: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """An argparse type: names with commas between, each of them allowed."""

    def parse(text: str) -> tuple[str, ...]:
        given = tuple(text.split(","))
        unknown = [name for name in given if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{unknown} is not among {','.join(allowed)}"
            )
        return given

    return parse


def integers(text: str) -> tuple[int, ...]:
    """An argparse type: numbers with commas between."""
    return tuple(int(x) for x in text.split(","))


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Options that every benchmark has."""
    parser.add_argument(
        "--allow_busy",
        action="store_true",
        help="run on a busy machine too; the output then says so",
    )
    parser.add_argument("--out", help="JSON file to write")


def run(
    benchmark: str,
    work: Callable[[], Mapping[str, Any]],
    *,
    shapes: Mapping[str, Any],
    dtype: str,
    args: argparse.Namespace,
) -> int:
    """Does the work on a quiet machine and writes what it gives.

    Returns:
      0, or `BUSY_EXIT_CODE` if the machine was busy before or during the work and
      `args.allow_busy` is not set. A run that became busy is written all the same, and
      says so.
    """
    try:
        quiet = machine.require_quiet(allow_busy=args.allow_busy)
    except machine.BusyMachineError as error:
        print(error, file=sys.stderr)
        return BUSY_EXIT_CODE
    start = machine.cpu_use()
    metrics = work()
    quiet = machine.after(quiet, start, machine.cpu_use())
    write(
        args.out,
        header(benchmark, shapes=shapes, dtype=dtype, quiet=quiet) | dict(metrics),
    )
    if quiet.busy:
        print(f"busy machine: {'; '.join(quiet.reasons)}", file=sys.stderr)
    return BUSY_EXIT_CODE if quiet.busy and not args.allow_busy else 0


def write(path: str | os.PathLike | None, result: Mapping[str, Any]) -> None:
    """Writes a run as JSON, whole or not at all; None writes nothing."""
    if path is None:
        return
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.write_text(json.dumps(result, indent=2) + "\n")
    part.replace(target)
    print(f"wrote {target}")
