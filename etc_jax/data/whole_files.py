"""Files that appear whole or not at all; what is no plain file is written through."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import pathlib
import shutil
import stat
import uuid
from collections.abc import Iterator
from typing import TextIO

from etc_jax.local_paths import naming


@contextlib.contextmanager
def whole(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Where to write a file or folder that gets its name when the block has ended.

    A link stays one: what it points to is written. A device, a pipe or a socket is not
    replaced: it is what is to be written to, and what was written stays written. If the
    block raises, what was written elsewhere is removed; see `naming`.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        yield pathlib.Path(path)
        return
    target = pathlib.Path(os.path.realpath(path))
    # Of its own for each writer: several processes may write the same file.
    part = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        with naming(path):
            yield part
            os.replace(part, target)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_text(path: str | os.PathLike) -> Iterator[TextIO]:
    """A file of UTF-8 to write to, as of `whole`; gzipped if it is named `.gz`.

    The same text gives the same bytes. Halves of characters are written as JSON spells
    them, see `write_whole`.
    """
    with contextlib.ExitStack() as stack:
        binary = stack.enter_context(open(stack.enter_context(whole(path)), "wb"))
        if os.fspath(path).endswith(".gz"):
            # Without a name and a time, which differ from run to run.
            packed = gzip.GzipFile("", "wb", fileobj=binary, mtime=0)
            binary = stack.enter_context(packed)
        text = io.TextIOWrapper(binary, "utf-8", "backslashreplace", newline="\n")
        yield stack.enter_context(text)


def check_out(path: str | os.PathLike, *, overwrite: bool) -> None:
    """Refuses an `--out` that cannot be written, or that another file has.

    Raises:
      ValueError: if it is no file in a folder that exists, or exists itself and
        `overwrite` is not set.
    """
    path = pathlib.Path(path)
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"--out must be a file in a folder that exists, got {path}")
    if path.exists() and not overwrite:
        raise ValueError(f"{path} exists; give another --out or --overwrite")


def write_whole(path: str | os.PathLike, text: str) -> None:
    """Writes a file of text that is there whole or not at all, after a power cut too.

    Halves of characters, which JSON can spell and UTF-8 cannot, are written as JSON
    spells them: text of others must not keep finished work from being written.

    Raises:
      OSError: if the storage refuses.
    """
    with whole(path) as part, open(part, "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
        file.flush()
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fsync(file.fileno())  # or a power cut could leave the name alone
