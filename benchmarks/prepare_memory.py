"""Memory of `tasks.prepare` over a long file: does it grow with the file?

    python -m benchmarks.prepare_memory --megabytes=2000 --workers=2

A HotpotQA file of that size is made up and prepared: some hundred different texts, as
long as the official ones, with ids of their own. The figure is the peak memory of all
processes together by the end of the file, divided by the peak by the first tenth of its
records. What grows is the table of ids that tells a record that is there twice.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import machine, report
from benchmarks.memory import MIB
from benchmarks.prepare import made_up_file, made_up_vocabulary
from tasks import hotpotqa, prepare
from tasks.synthetic import hotpotqa as synthetic

_DIFFERENT_TEXTS = 100
_WORDS = 1000  # of a record: 6 KB, as in the official files
_CLEAR_HIGH_WATER_MARK = "5"


def long_file(path: pathlib.Path, megabytes: float) -> int:
    """Writes a HotpotQA file of about so many MB; returns the number of its records."""
    texts, sizes = [], synthetic.HotpotQaSizes(words=_WORDS)
    for record in synthetic.records(_DIFFERENT_TEXTS, seed=0, sizes=sizes):
        del record["_id"]
        texts.append(json.dumps(record)[1:])
    number, size = 0, 0
    with open(path, "w", encoding="utf-8") as file:
        while size < megabytes * 10**6:
            # Ids have the length of the official ones.
            start = f'{"," if number else "["}\n{{"_id": "{number:024x}", '
            size += file.write(start + texts[number % len(texts)])
            number += 1
        file.write("]\n")
    return number


def peaks() -> dict[str, int]:
    """Peak memory in bytes of this process and of each that it started, by its id."""
    children = pathlib.Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {process: _peak(process) for process in ("self", *children.split())}


def _peak(process: str) -> int:
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/{process}/status has no VmHWM; peak memory needs Linux")


def measure(folder: pathlib.Path, megabytes: float, workers: int) -> dict[str, Any]:
    """Peaks by a tenth of the records and by the end, printed and ready for JSON."""
    file = folder / "long.json"
    records = long_file(file, megabytes)
    vocabulary = made_up_vocabulary(made_up_file("hotpotqa", folder, 60))
    early: dict[str, int] = {}
    late: dict[str, int] = {}

    def note(seen: int, windows: int) -> None:
        if not early and seen >= records / 10:
            early.update(peaks())
        late.update(peaks())

    pathlib.Path("/proc/self/clear_refs").write_text(_CLEAR_HIGH_WATER_MARK)
    start = time.monotonic()
    prepare.prepare(
        hotpotqa.TASK,
        [file],
        vocabulary,
        folder / "cache",
        workers=workers,
        progress_fn=note,
    )
    secs = time.monotonic() - start
    # Helpers of multiprocessing may come later, and are counted with the start.
    before = sum(early.get(process, late[process]) for process in late)
    after = sum(late.values())
    print(
        f"{file.stat().st_size / 10**6:.0f} MB, {records} records, {workers} workers, "
        f"{secs:.0f} s: peak {before / MIB:.0f} MiB by a tenth, {after / MIB:.0f} MiB "
        f"by the end, {after / before - 1:+.1%}"
    )
    return {
        "bytes": file.stat().st_size,
        "records": records,
        "workers": workers,
        "secs": secs,
        "peak_bytes_by_a_tenth": early,
        "peak_bytes": late,
        "growth": after / before - 1,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the measurement; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", help="JSON file to write")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(pathlib.Path(folder), args.megabytes, args.workers)
    found |= {"benchmark": "prepare_memory", "machine": machine.describe()}
    report.write(args.out, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
