"""Files that others made, read within bounds of memory.

All that reads records, rows or documents opens its files here. A record, a row or a
line may have `max_record_bytes()` bytes. What a file is packed with is unpacked as it
is read, and a packed file that grows as no text does is refused.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from etc_jax.base.local_paths import STANDARD_INPUT, in_archive

# The option by which a user allows larger records, in millions of bytes.
VARIABLE = "ETC_JAX_MAX_RECORD_MB"
# A page of Wikipedia has 2 MB of source at most, and about three times that of HTML. An
# original record of Natural Questions holds its HTML, and every token of it with some
# 90 bytes of JSON around: below 64 MB for the longest of pages.
DEFAULT_MAX_RECORD_MB = 64
# Text shrinks 3 to 20 times with gzip, logs of equal lines 100 times; zeros, 1,030.
MOST_UNPACKED_PER_PACKED = 200
# So much may come of any packed file.
_ALWAYS_UNPACKED = 1 << 24
_MOST_MESSAGE_CHARS = 2000
_MOST_MEMBERS = 10
CHUNK_BYTES = 1 << 20
# No text in UTF-8 begins with one of these; the second begins UTF-32 too.
_FOREIGN_MARKS = (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF32_BE)


class BadRecordError(ValueError):
    """A record, or the rest of a file, that cannot be used.

    Attributes:
      kind: the reason in a few words, the same for all such records: what is counted.
      message: of this one, cut off where a record would fill the screen.
    """

    def __init__(self, kind: str, message: str):
        if len(message) > _MOST_MESSAGE_CHARS:
            message = f"{message[:_MOST_MESSAGE_CHARS]}..."
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message

    def at(self, where: str) -> BadRecordError:
        """The same problem with the place in front of the message."""
        return type(self)(self.kind, f"{where}: {self.message}")


def max_record_bytes() -> int:
    """The most bytes of a record, a row or a line; also the most characters of one.

    Raises:
      ValueError: if the environment's `ETC_JAX_MAX_RECORD_MB` is no such number.
    """
    text = os.environ.get(VARIABLE) or str(DEFAULT_MAX_RECORD_MB)
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 10**6):
        raise ValueError(
            f"{VARIABLE} is {text!r} in the environment; expected a whole number of "
            f"megabytes, 1 or more (default: {DEFAULT_MAX_RECORD_MB})"
        )
    return int(text) * 1_000_000


def too_large(kind: str, what: str, size: int) -> BadRecordError:
    """The error for something over the bound.

    Args:
      kind: see there.
      what: it is, such as "line 3".
      size: in bytes or characters, as far as it was read.
    """
    most = max_record_bytes()
    return BadRecordError(
        kind,
        f"{what} has {size:,} bytes or more, {most:,} are allowed; if it is right, set "
        f"{VARIABLE} (now {most // 1_000_000}) in the environment",
    )


@contextmanager
def open_input(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked as they are read if it is named `.gz`.

    It may lie in a zip archive, see `open_stored`; of an archive itself its one file is
    read.

    Raises:
      BadRecordError: while reading, if a packed file is damaged, is cut short, or grows
        as no text does. It names no file: the caller knows how far it had read. Also if
        an archive has no such file, or several and none is named.
      OSError: if it cannot be read.
    """
    name = os.fspath(path)
    if name.endswith(".zip") and os.path.isfile(name):
        name = f"{name}/"
    with open_stored(name) as file:
        if not name.endswith(".gz"):
            yield file
            return
        with unpacked(file) as content:
            yield content


@contextmanager
def open_stored(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """The bytes of a file as they are stored; of one in a zip archive, unpacked.

    Such a file is named as if the archive were a folder,
    `qasper.zip/qasper/validation.jsonl`; folders in the archive may be left out.

    Raises:
      BadRecordError, OSError: as for `open_input`.
    """
    if (inside := in_archive(path)) is None:
        with open(path, "rb") as file:
            yield file
        return
    with open(inside[0], "rb") as file:
        with _damage_named("zip"):
            archive = zipfile.ZipFile(file)
        member = _member(archive, *inside)
        check_growth(member.compress_size, member.file_size)
        with _damage_named("zip"):
            content = archive.open(member)
        with io.BufferedReader(_Pieces(content.read1), CHUNK_BYTES) as buffered:
            yield buffered


def _member(archive: zipfile.ZipFile, path: str, name: str) -> zipfile.ZipInfo:
    """The file that a name, or "" for the only one, means in an archive at a path."""
    files = [each for each in archive.infolist() if not each.is_dir()]
    named = [each for each in files if each.filename == name]
    if not named:
        end = f"/{name}" if name else ""
        named = [each for each in files if f"/{each.filename}".endswith(end)]
    if len(named) == 1:
        return named[0]
    names = sorted(each.filename for each in named or files)
    count = f"{len(named)} files {name!r}" if name else f"{len(files)} files"
    listed = ", ".join(f"{path}/{each}" for each in names[:_MOST_MEMBERS])
    raise BadRecordError(
        "unknown file",
        f"{path} holds {count}, expected one; name one of: {listed}",
    )


@contextmanager
def _damage_named(form: str) -> Iterator[None]:
    """What modules raise of a damaged packed file, as a BadRecordError."""
    try:
        yield
    except EOFError as e:
        raise BadRecordError("file cut short", f"{e}; fetch the file again") from e
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as e:
        raise BadRecordError(f"broken {form}", f"{e}; fetch the file again") from e
    # Of a password, or of a way of packing that Python does not know.
    except (RuntimeError, NotImplementedError) as e:
        raise BadRecordError(f"broken {form}", f"{e}; unpack the file") from e


class _Pieces(io.RawIOBase):
    """The content of a file in a zip archive."""

    def __init__(self, read1: Callable[[int], bytes]):
        self._read1 = read1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage_named("zip"):
            data = self._read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def unpacked(file: BinaryIO) -> io.BufferedReader:
    """The content of a gzip file; what it raises while reading, see `open_input`."""
    return io.BufferedReader(_Unpacked(file), CHUNK_BYTES)


@contextmanager
def open_given(name: str) -> Iterator[BinaryIO]:
    """As `open_input`, of a name on a command line: "-" is standard input."""
    if name == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with open_input(name) as file:
        yield file


class _Counted:
    """Counts the bytes that are read; a pipe cannot be asked where it stands."""

    def __init__(self, file: BinaryIO):
        self._file, self.count = file, 0

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.count += len(data)
        return data


class _Unpacked(io.RawIOBase):
    """The content of a gzip file."""

    def __init__(self, file: BinaryIO):
        self._packed = _Counted(file)
        self._gzip = gzip.GzipFile(fileobj=self._packed, mode="rb")
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage_named("gzip"):
            data = self._gzip.read1(len(buffer))
        self._count += len(data)
        packed = self._packed.count
        if not packed:  # Python takes it for an empty text
            raise BadRecordError(
                "file cut short", "no byte in it; fetch the file again"
            )
        check_growth(packed, self._count)
        buffer[: len(data)] = data
        return len(data)


def check_growth(packed: int, unpacked: int) -> None:
    """Raises BadRecordError if so many packed bytes become more than any text does."""
    if unpacked > max(_ALWAYS_UNPACKED, packed * MOST_UNPACKED_PER_PACKED):
        raise BadRecordError(
            "packed too densely",
            f"{packed:,} packed bytes become {unpacked:,}, over "
            f"{MOST_UNPACKED_PER_PACKED} times as many, as no text does; if it is "
            "right, unpack the file and give what comes of it",
        )


def lines(file: BinaryIO) -> Iterator[tuple[int, bytes | BadRecordError]]:
    """(number from 1, line with its end) of each line; an error for one too long.

    A line ends with a line feed. The first line comes without a byte order mark. What
    is left of a line that is too long is read and forgotten.

    Raises:
      BadRecordError: if the file begins with the byte order mark of UTF-16 or UTF-32.
    """
    most, number = max_record_bytes(), 0
    while line := file.readline(most + 1):
        number += 1
        if number == 1:
            line = _without_mark(line)
        if len(line) <= most:
            yield number, line
            continue
        size = len(line)
        # Read on to its end, or the rest would pass for a line.
        while line and not line.endswith(b"\n"):
            line = file.readline(CHUNK_BYTES)
            size += len(line)
        yield number, too_large("line too long", f"line {number}", size)


def _without_mark(start: bytes) -> bytes:
    """The beginning of a file without the byte order mark of UTF-8."""
    if start.startswith(_FOREIGN_MARKS):
        raise BadRecordError(
            "file not in UTF-8",
            "it begins with the byte order mark of UTF-16 or UTF-32; convert it, as by "
            "iconv -f UTF-16 -t UTF-8",
        )
    return start.removeprefix(codecs.BOM_UTF8)


def decoded(line: bytes, number: int) -> str:
    """The text of a line of a file.

    Raises:
      BadRecordError: if it is not UTF-8, or has a NUL byte.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as e:
        raise BadRecordError(
            "not UTF-8", f"line {number}: {e}; convert the file to UTF-8"
        ) from e
    if "\0" in text:
        raise BadRecordError(
            "NUL byte",
            f"line {number}: {text.count(chr(0))} in it, expected text in UTF-8",
        )
    return text


def text_lines(file: BinaryIO) -> Iterator[tuple[int, str | BadRecordError]]:
    """(number from 1, text without its end) of each line of a file of plain text.

    A line that cannot be read is the error that says so.

    Raises:
      BadRecordError: see `lines`; or if there is no line feed in the file, but carriage
        returns: one text or many, as on old Macs.
    """
    for number, line in lines(file):
        try:
            if isinstance(line, BadRecordError):
                raise line
            text = decoded(line, number).rstrip("\r\n")
        except BadRecordError as e:
            yield number, e
            continue
        if number == 1 and "\r" in text and not line.endswith(b"\n"):
            raise BadRecordError(
                "no line feed",
                "carriage returns alone, as of old Macs, end no line; convert it, "
                "as by tr '\\r' '\\n'",
            )
        yield number, text


def text_pieces(file: BinaryIO) -> Iterator[str]:
    """The text of a file in UTF-8, with or without a byte order mark, piece by piece.

    A piece is as much as is there: a terminal or a pipe is not waited for.

    Raises:
      BadRecordError: if it is no UTF-8.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    try:
        while chunk := file.read1(CHUNK_BYTES):
            yield decoder.decode(chunk)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as e:
        raise BadRecordError("broken JSON", f"no UTF-8: {e}") from e


def read_bytes(path: str | os.PathLike) -> bytes:
    """The content of a small file, unpacked if it is named `.gz`.

    Raises:
      BadRecordError: if it is larger than a record may be, or a packed file is damaged.
        It names no file.
      OSError: if it cannot be read.
    """
    most = max_record_bytes()
    with open_input(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise too_large("text too large", "the file", len(data))
    return data


def read_whole(path: str | os.PathLike) -> str:
    """The text of a small file in UTF-8, with or without a byte order mark.

    Raises:
      BadRecordError, OSError: as for `read_bytes`; or if it is no UTF-8.
    """
    try:
        return _without_mark(read_bytes(path)).decode("utf-8")
    except UnicodeDecodeError as e:
        raise BadRecordError("not UTF-8", f"{e}; convert the file to UTF-8") from e
