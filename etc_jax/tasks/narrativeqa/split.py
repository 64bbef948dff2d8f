"""NarrativeQA's questions by set: one table has those of all.

    python -m etc_jax.tasks.narrativeqa.split --out=narrativeqa narrativeqa/qaps.csv

Writes `qaps_train.csv`, `qaps_valid.csv` and `qaps_test.csv`. Stories and the table of
documents are looked for beside them, so that --out is as a rule the folder of the
release.

Exit codes: 0 done; 2 something given is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import pathlib
import sys
from collections.abc import Sequence

from etc_jax.base.local_paths import ADDED_TO, INPUT
from etc_jax.base.whole_files import check_out, whole_text
from etc_jax.cli import command_line
from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.fields import Fields, wrong_type
from etc_jax.datasets.tables import TableOptions, read_rows
from etc_jax.tasks.narrativeqa.records import SETS

_PROG = "python -m etc_jax.tasks.narrativeqa.split"


def divide(path: str, folder: pathlib.Path, *, overwrite: bool) -> dict[str, int]:
    """Writes the rows of each set into a table of their own.

    Returns:
      How many questions each set has.

    Raises:
      BadRecordError: if a row cannot be read, or is of no set.
      ValueError: if a file is there and not to be replaced.
      OSError: if a file cannot be read or written.
    """
    targets = {name: folder / f"qaps_{name}.csv" for name in SETS}
    for target in targets.values():
        check_out(target, overwrite=overwrite)
    counts = dict.fromkeys(SETS, 0)
    with contextlib.ExitStack() as stack:
        files = {k: stack.enter_context(whole_text(x)) for k, x in targets.items()}
        tables = {k: csv.writer(x, lineterminator="\n") for k, x in files.items()}
        for number, row in read_rows(path, TableOptions()):
            try:
                if isinstance(row, BadRecordError):
                    raise row
                name = Fields(row.values).text("set")
                if name not in SETS:
                    raise wrong_type(name, "set", f"one of {', '.join(SETS)}")
            except BadRecordError as error:
                raise error.at(f"{path}, record {number}") from error
            if not counts[name]:
                tables[name].writerow(row.values)
            counts[name] += 1
            tables[name].writerow(row.values.values())
    return counts


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument("file", type=INPUT, help="qaps.csv of the release")
    parser.add_argument("--out", required=True, type=ADDED_TO, help="folder")
    parser.add_argument("--overwrite", action="store_true", help="if files exist")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    folder = pathlib.Path(args.out)

    def work() -> str:
        counts = divide(args.file, folder, overwrite=args.overwrite)
        told = ", ".join(f"{count} of {name}" for name, count in counts.items())
        return f"wrote questions to {folder}: {told}"

    return command_line.run(_PROG, work)


if __name__ == "__main__":
    sys.exit(main())
