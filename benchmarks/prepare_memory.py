"""Memory of `etc_jax.prepare` over a long file: does it grow with the file?

    python -m benchmarks.prepare_memory --megabytes=2000 --workers=2
    python -m benchmarks.prepare_memory --task=natural_questions --megabytes=2000 --gzip

A file of that size is made up (`benchmarks.long_files`) and prepared. The metric is the
peak memory of all processes together by the end of the file, divided by the peak by the
first tenth of its records. What grows is the table of ids that tells a record that is
there twice. Files lie in the system's temporary folder: for 2000 MB it needs 6 GB.
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import long_files, machine, process_memory, report
from benchmarks.memory import MIB
from etc_jax import prepare
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets import task as task_lib


def measure(
    task: str,
    folder: pathlib.Path,
    megabytes: float,
    workers: int,
    *,
    packed: bool = False,
) -> dict[str, Any]:
    """Peaks by a tenth of the records and by the end, printed and ready for JSON."""
    file = long_files.write_apart(task, folder, megabytes, packed=packed)
    found = process_memory.Growth()

    def note(seen: int, windows: int) -> None:
        found.note(seen / file.records, process_memory.peaks())

    process_memory.clear_own_peak()
    start = time.monotonic()
    cache = prepare.prepare(
        task_lib.find_task(task),
        [file.path],
        open_tokenizer(file.tokenizer),
        folder / "cache",
        workers=workers,
        progress_fn=note,
    )
    secs = time.monotonic() - start
    print(
        f"{task}: {file.text_bytes / 10**6:.0f} MB, {file.records} records, "
        f"{cache.num_windows} windows, {workers} workers, {secs:.0f} s: "
        f"{file.records / secs:.1f} records/s, "
        f"{file.text_bytes / secs / 10**6:.1f} MB/s; peak "
        f"{found.by_a_tenth / MIB:.0f} MiB by a tenth, "
        f"{found.by_the_end / MIB:.0f} MiB by the end, {found.growth:+.1%}"
    )
    return {
        "task": task,
        "bytes": os.stat(file.path).st_size,
        "text_bytes": file.text_bytes,
        "records": file.records,
        "windows": cache.num_windows,
        "workers": workers,
        "secs": secs,
        "peak_bytes_by_a_tenth": found.early,
        "peak_bytes": found.late,
        "growth": found.growth,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the measurement; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=long_files.TASKS, default="hotpotqa")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--gzip", action="store_true", help="of a gzipped file")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", help="JSON file to write")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(
            args.task,
            pathlib.Path(folder),
            args.megabytes,
            args.workers,
            packed=args.gzip,
        )
    found |= {"benchmark": "prepare_memory", "machine": machine.describe()}
    report.write(args.out, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
