"""Raw records as people have them at hand: one, a list, or one a line.

They are read as a stream: of a long file nothing but a record and some text is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from etc_jax.base.local_paths import STANDARD_INPUT
from etc_jax.data.arrow_files import is_arrow, read_rows
from etc_jax.data.input_files import BadRecordError, open_given, text_pieces
from etc_jax.data.json_stream import BROKEN, CUT_SHORT, BadJsonError, JsonStream


class Raw(NamedTuple):
    """A value of some input, or what is wrong in its place.

    Attributes:
      where: the input, and number or line of the record.
      value: of the JSON; None if there is a fault.
      fault: why it cannot be read; None if it can.
    """

    where: str
    value: Any
    fault: str | None = None


# From a file of a release to its records; see `etc_jax.datasets.task.Task.release`.
ReleaseFn = Callable[[str], Iterator[tuple[int, Any]] | None]


def read_inputs(
    names: Sequence[str], release: ReleaseFn | None = None
) -> Iterator[Raw]:
    """The records of some files; "-" is standard input, `.gz` is unpacked.

    Args:
      names: of the files.
      release: of a data set whose official files are no lists of records. Rows of
        Parquet and Arrow files are records without it.
    """
    for name in names:
        shown = "standard input" if name == STANDARD_INPUT else name
        try:
            official = None
            if release is not None and name != STANDARD_INPUT:
                official = release(name)
            if official is None and is_arrow(name):
                official = read_rows(name)
            if official is not None:
                yield from _of_release(official, shown)
                continue
            with open_given(name) as file:
                yield from raw_records(text_pieces(file), shown)
        except (OSError, BadRecordError) as error:
            yield Raw(shown, None, f"cannot be read: {error}")


def _of_release(values: Iterator[tuple[int, Any]], name: str) -> Iterator[Raw]:
    for number, value in values:
        where = f"{name}, record {number}"
        if isinstance(value, BadRecordError):
            yield Raw(where, None, f"cannot be used: {value}")
        else:
            yield Raw(where, value)


def raw_records(pieces: Iterable[str], name: str) -> Iterator[Raw]:
    """The records of a text: a JSON array of them, or objects one after another.

    An object may take any number of lines. After a fault reading goes on at the next
    line that begins with a brace.

    Args:
      pieces: the text, in pieces of any length.
      name: where it is from.

    Raises:
      BadRecordError: where the pieces raise one.
    """
    stream, count = JsonStream(pieces), 0
    if not stream.peek():
        yield Raw(name, None, "is empty; expected records as JSON")
    while stream.peek():
        try:
            # The elements of an array are counted on, over all of the input.
            is_array = stream.peek() == "["
            for value in stream.elements() if is_array else (stream.value(),):
                count += 1
                yield Raw(f"{name}, record {count}", value)
        except BadJsonError as error:
            not_json = error.kind in (BROKEN, CUT_SHORT)
            fault = f"is not JSON: {error.message}" if not_json else str(error)
            yield Raw(f"{name}, line {stream.line}", None, fault)
            stream.skip_to_line_with_brace()
