"""A file of lines that grows, and never has half of what was added last.

In an object store, where nothing can be added to an object, it is several ones: NAME,
NAME.000001 and so on. The last is written anew until it is `MOST_BYTES` long.
"""

from __future__ import annotations

import os

from etils import epath

from etc_jax.base import stores
from etc_jax.base.whole_files import write_whole

MOST_BYTES = 1 << 16
# Who adds lines waits for them, and can try again with the next ones.
_PATIENCE_SECS = 5.0


class LineFile:
    """The lines of a path.

    Args:
      path: of the file, or address of the first object.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = stores.absolute(path)
        self._is_address = stores.is_address(path)
        self._last: tuple[epath.Path, bytes] | None = None

    def parts(self) -> list[epath.Path]:
        """What there is of it, in order.

        Raises:
          OSError: if the storage refuses.
        """
        if not self._is_address:
            return [self.path] if self.path.exists() else []
        objects = stores.beginning_with(self.path)
        numbers = {path: path.name.removeprefix(self.path.name) for path in objects}
        return [
            path
            for path, number in sorted(numbers.items())
            if not number or (number[0] == "." and number[1:].isdecimal())
        ]

    def read(self) -> bytes:
        """All of it; nothing if there is none.

        Raises:
          OSError: if the storage refuses.
        """
        return b"".join(path.read_bytes() for path in self.parts())

    def append(self, content: bytes) -> None:
        """Adds all of `content`, in lines of its own, or nothing of it.

        Raises:
          OSError: if the storage refuses.
        """
        if self._is_address:
            self._append_to_object(content)
        else:
            _append_to_file(self.path, content)

    def _append_to_object(self, content: bytes) -> None:
        if self._last is None:
            parts = self.parts() or [self.path]
            last = stores.read(parts[-1])
            self._last = parts[-1], b"" if last is None else last[0]
        path, before = self._last
        if len(before) >= MOST_BYTES:
            number = int(path.suffix[1:]) + 1 if path != self.path else 1
            path, before = self.path.with_name(f"{self.path.name}.{number:06}"), b""
        whole = before + _on_its_own(before[-1:], content)
        stores.write(path, whole, patience_secs=_PATIENCE_SECS)
        self._last = path, whole

    def replace(self, part: epath.Path, old: bytes, new: bytes) -> None:
        """Writes one of the parts anew.

        Args:
          part: which.
          old: what it holds.
          new: what it is to hold.

        Raises:
          OSError: if the storage refuses; nothing is lost then.
        """
        self._last = None
        if not self._is_address and old.startswith(new):
            os.truncate(part, len(new))  # needs no space
        elif old != new:
            write_whole(part, new)


def _on_its_own(last: bytes, content: bytes) -> bytes:
    """With the end of the half line, if there is one, that comes before it."""
    return b"\n" + content if last not in (b"", b"\n") else content


def _append_to_file(path: epath.Path, content: bytes) -> None:
    with open(path, "ab+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 1, 0))
        content = _on_its_own(file.read(1), content)
        try:
            file.write(content)
            file.flush()
        except OSError:
            os.truncate(path, size)
            raise
