"""Memory of `etc-jax prepare` over a long file: does it grow with the file?

    python -m benchmarks prepare_memory --megabytes=2000 --workers=2
    python -m benchmarks prepare_memory --task=natural_questions --megabytes=2000 --gzip

See `file_memory`. What grows is the table of ids that tells a record that is
there twice. For 2000 MB the temporary folder needs 6 GB.
"""

import pathlib
import time
from collections.abc import Sequence

from benchmarks.data.long_files import LongFile
from benchmarks.kit import memory
from benchmarks.kit.memory import Growth, Watched
from benchmarks.memory import file_memory
from etc_jax.cli import prepare
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets import task as task_lib


def measure(
    task: str, file: LongFile, folder: pathlib.Path, workers: int
) -> tuple[Watched, int]:
    """(what was seen while the file was prepared, its windows)."""
    found = Growth()

    def note(seen: int, windows: int) -> None:
        found.note(seen / file.records, memory.peaks())

    memory.clear_own_peak()
    start = time.monotonic()
    cache = prepare.prepare(
        task_lib.find_task(task),
        [file.path],
        open_tokenizer(file.tokenizer),
        folder / "cache",
        workers=workers,
        progress_fn=note,
    )
    return Watched(found, time.monotonic() - start, 1.0), cache.num_windows


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the measurement; returns the exit code."""
    options = file_memory.parser("prepare_memory", __doc__, task="hotpotqa")
    options.add_argument("--gzip", action="store_true", help="of a gzipped file")
    options.add_argument("--workers", type=int, default=1)
    args = options.parse_args(argv)
    return file_memory.run(
        options,
        args,
        lambda file, folder: measure(args.task, file, folder, args.workers),
        packed=args.gzip,
        workers=args.workers,
    )
