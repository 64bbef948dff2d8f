"""Command lines of benchmarks, tables on the terminal, JSON files of a run."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shlex
import sys
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any

from benchmarks.kit import harness, machine
from benchmarks.kit.harness import Floor, Side, Timing
from benchmarks.kit.memory import MIB
from etc_jax.base.whole_files import write_whole
from etc_jax.training.errors import RunError, UserError

BELOW_EXIT_CODE, BUSY_EXIT_CODE = 1, 3


def header(benchmark: str) -> dict[str, Any]:
    """What every JSON file starts with."""
    return {
        "benchmark": benchmark,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([pathlib.Path(sys.executable).name, *sys.orig_argv[1:]]),
        "machine": machine.describe(),
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


def compared(
    title: str, sides: Sequence[Side], *, reference: str, **options: Any
) -> list[Timing]:
    """As `harness.compare`, printed."""
    timings = harness.compare(sides, reference=reference, **options)
    print(f"\n{title}")
    print(times_table(timings, reference), flush=True)
    return timings


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


def floors_table(floors: Sequence[Floor]) -> str:
    """Metrics, limits and verdicts."""
    rows = [
        [
            f.name,
            f"{f.got:.3f}",
            f"{'at most' if f.at_most else 'at least'} {f.limit:g}",
            "holds" if f.holds else "FAILS",
        ]
        for f in floors
    ]
    return table(["floor", "got", "limit", ""], rows)


def floor_rows(floors: Sequence[Floor]) -> list[dict[str, Any]]:
    """Floors ready for JSON."""
    return [dataclasses.asdict(f) | {"holds": f.holds} for f in floors]


def timing_rows(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """Timings ready for JSON; times in seconds."""
    return [dataclasses.asdict(t) for t in timings]


# --- command lines --------------------------------------------------------------------


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


def parser(module: str, text: str) -> argparse.ArgumentParser:
    """A command line with `--out`.

    Args:
      module: of `benchmarks`.
      text: its docstring, which is the help.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks {module}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--out", type=pathlib.Path, help="JSON file to write")
    return made


def timing_parser(module: str, text: str, *, rounds: int) -> argparse.ArgumentParser:
    """As `parser`, for benchmarks that time sides on a quiet machine."""
    made = parser(module, text)
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument(
        "--allow_busy",
        action="store_true",
        help="run on a busy machine too; the output then says so",
    )
    return made


def add_numbers(
    options: argparse.ArgumentParser, defaults: Mapping[str, int | None]
) -> None:
    """A flag that takes a whole number for each name."""
    for name, default in defaults.items():
        options.add_argument(f"--{name}", type=int, default=default)


def defaults_of(sizes: type) -> dict[str, int]:
    """{name: default} of the fields of a dataclass that have a whole number as one."""
    fields = dataclasses.fields(sizes)
    return {f.name: f.default for f in fields if isinstance(f.default, int)}


def chosen(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """The values of some flags, those left out that have none."""
    found = {name: getattr(args, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def arguments(args: argparse.Namespace) -> dict[str, Any]:
    """All flags ready for JSON."""
    given = vars(args).items()
    return {k: str(x) if isinstance(x, pathlib.Path) else x for k, x in given}


# --- runs -----------------------------------------------------------------------------


def run(
    options: argparse.ArgumentParser,
    args: argparse.Namespace,
    work_fn: Callable[[], tuple[Mapping[str, Any], int]],
) -> int:
    """Does the work and writes what it gives, after the `header`.

    Args:
      options: the command line, made by `parser`.
      args: its arguments.
      work_fn: gives (what is written, exit code); a ValueError, OSError or RunError
        ends the command.

    Returns:
      The exit code.
    """
    try:
        values, code = work_fn()
    except (ValueError, OSError, RunError) as error:
        print(f"benchmarks {_name(options)}: {error}", file=sys.stderr)
        return getattr(error, "exit_code", UserError.exit_code)
    write(args.out, header(_name(options)) | dict(values))
    return code


def run_quiet(
    options: argparse.ArgumentParser,
    args: argparse.Namespace,
    work_fn: Callable[[], tuple[Mapping[str, Any], Sequence[Floor]]],
    *,
    shapes: Mapping[str, Any] | None = None,
    dtype: str = "float32",
) -> int:
    """Does the work on a quiet machine and writes what it gives.

    Args:
      options: the command line, made by `timing_parser`.
      args: its arguments.
      work_fn: gives (what is written, limits that are written and printed too).
      shapes: of what is timed, for the file; None: all arguments.
      dtype: of the arrays, for the file.

    Returns:
      0; `BELOW_EXIT_CODE` if a limit does not hold; `BUSY_EXIT_CODE` if the machine was
      busy before or during the work and `args.allow_busy` is not set. A run that became
      busy is written all the same, and says so.
    """
    try:
        quiet = machine.require_quiet(allow_busy=args.allow_busy)
    except machine.BusyMachineError as error:
        print(error, file=sys.stderr)
        return BUSY_EXIT_CODE
    start = machine.cpu_use()
    metrics, floors = work_fn()
    if floors:
        print("\n" + floors_table(floors), flush=True)
        metrics = {**metrics, "floors": floor_rows(floors)}
    quiet = machine.after(quiet, start, machine.cpu_use())
    how = {
        "shapes": dict(arguments(args) if shapes is None else shapes),
        "dtype": dtype,
        "busy": quiet.busy,
    }
    how["quiet"] = dataclasses.asdict(quiet)
    write(args.out, header(_name(options)) | how | dict(metrics))
    if quiet.busy:
        print(f"busy machine: {'; '.join(quiet.reasons)}", file=sys.stderr)
        if not args.allow_busy:
            return BUSY_EXIT_CODE
    return 0 if all(floor.holds for floor in floors) else BELOW_EXIT_CODE


def gathered(
    found: Iterable[tuple[Mapping[str, Any], Sequence[Floor]]], **more: Any
) -> tuple[dict[str, Any], list[Floor]]:
    """What several measurements gave, as one: ({"results": ..., **more}, floors)."""
    metrics, floors = zip(*found, strict=True)
    return {**more, "results": list(metrics)}, [x for every in floors for x in every]


def _name(options: argparse.ArgumentParser) -> str:
    return options.prog.removeprefix("python -m benchmarks ")


def write(path: str | os.PathLike | None, result: Mapping[str, Any]) -> None:
    """Writes a run as JSON, whole or not at all; None writes nothing."""
    if path is None:
        return
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, json.dumps(result, indent=2) + "\n")
    print(f"wrote {target}")
