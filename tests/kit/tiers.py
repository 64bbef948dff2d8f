"""Which tests run where, and in which order.

Rows that `make test` leaves to `make test-all`:

    @pytest.mark.full                             # the whole test
    @pytest.mark.full(but=("bert", "reformer*"))  # all rows, but those of these ids
    pytest.param(x, marks=pytest.mark.full)       # one row

Names in `but` are ids of rows, or patterns as those of a shell.
"""

import fnmatch
import functools
import pathlib
import zlib
from collections.abc import Sequence

import pytest

NAME = "full"
# Test files that take long, the longest first.
_LONGEST = pathlib.Path(__file__).with_name("longest_files.txt")


def sort(rows: Sequence[pytest.Function]) -> None:
    """Takes the marker from the rows that `but` names.

    Args:
      rows: all rows of one test function.

    Raises:
      pytest.UsageError: if a name is that of no row, or the names those of all rows.
    """
    marks = [x for x in rows[0].own_markers if x.name == NAME and "but" in x.kwargs]
    for mark in marks:
        stay = {
            name: [row for row in rows if fnmatch.fnmatchcase(_row_id(row), name)]
            for name in mark.kwargs["but"]
        }
        test, ids = rows[0].nodeid.partition("[")[0], [_row_id(row) for row in rows]
        for name, named in stay.items():
            if not named:
                raise pytest.UsageError(f"{test} has no row {name!r}; there are {ids}")
        staying = [row for row in rows if any(row in named for named in stay.values())]
        if len(staying) == len(rows):
            raise pytest.UsageError(f"{test}: {sorted(stay)} are all rows; unmark it")
        for row in staying:
            row.own_markers.remove(mark)


def quarter(file: str) -> int:
    """0 to 3: in which of four runs a test file is; the same everywhere."""
    return zlib.crc32(file.encode()) % 4


def place(file: str) -> tuple[int, str]:
    """Sorts test files: those that take longest begin first, the others follow."""
    return _places().get(file, len(_places())), file


@functools.cache
def _places() -> dict[str, int]:
    return {name: i for i, name in enumerate(_LONGEST.read_text().split())}


def _row_id(row: pytest.Function) -> str:
    return row.callspec.id if hasattr(row, "callspec") else ""
