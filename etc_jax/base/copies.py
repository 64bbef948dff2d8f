"""Copies here of what lies in an object store.

Readers and writers know files alone: what a command reads is copied before, and what it
makes is put in its place after. Copies are kept in the user's cache, so that the next
command fetches what has changed alone: size and CRC-32C are those of the object.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import glob
import itertools
import logging
import os
import pathlib
import re
import shutil
from collections.abc import Collection, Iterator, Mapping

from etc_jax.base import stores, user_cache
from etc_jax.base.local_paths import ARCHIVE
from etc_jax.base.stores import Object
from etc_jax.base.whole_files import unfinished_target, whole

_LOG = logging.getLogger(__name__)

_THREADS = 8


def place(address: str | os.PathLike, kind: str = user_cache.FILES) -> pathlib.Path:
    """Where a copy is of what lies at an address.

    Args:
      address: see there.
      kind: of copies, a folder in the user's cache.

    Raises:
      ValueError: if it leads out of there.
    """
    return _inside(user_cache.root() / kind, os.fspath(address).partition("://")[2])


def _inside(folder: pathlib.Path, name: str) -> pathlib.Path:
    """A path below a folder; objects, which others may have named, have any names."""
    path = folder / name
    if folder not in path.parents or ".." in path.parts:
        raise ValueError(
            f"{name!r} is the name of an object, and leads out of {folder}, where its "
            "copy would be; give the object another name"
        )
    return path


def fetch(wanted: Mapping[str, Object], folder: pathlib.Path) -> None:
    """Copies objects into a folder, but for those that are there already.

    Args:
      wanted: {path in the folder: object}.
      folder: to copy into.

    Raises:
      ValueError: if a name leads out of it.
      OSError: if the store or the disk here refuses.
    """
    paths = {name: _inside(folder, name) for name in wanted}
    changed = {n: o for n, o in wanted.items() if not o.is_copied_to(paths[n])}
    if size := sum(one.size for one in changed.values()):
        _LOG.info("fetching %.3g MB to %s", size / 1e6, folder)
    # Of a large one several slices come at a time.
    for name in [name for name, one in changed.items() if one.is_large]:
        _copy(changed.pop(name), paths[name])
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(lambda name: _copy(changed[name], paths[name]), changed))


def _copy(source: Object, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        source.copy_to(part)


def leave_only(
    folder: pathlib.Path, wanted: Collection[str], pattern: str = ".*"
) -> None:
    """Deletes copies of what has gone, such as of an older checkpoint.

    Args:
      folder: of the copies.
      wanted: their paths in it.
      pattern: regular expression of the paths that are looked at.
    """
    for path in folder.rglob("*"):
        if unfinished_target(path.name):  # of a process that fetches it as well
            continue
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in wanted and re.fullmatch(pattern, name):
            path.unlink(missing_ok=True)


def here(address: str | os.PathLike, *, with_siblings: bool = False) -> str:
    """Where a copy is of a file or folder in a store; of a pattern, the pattern there.

    Args:
      address: also of a file in a zip archive, see `local_paths.in_archive`.
      with_siblings: a file is read with those that lie beside it.

    Raises:
      ValueError: if there is nothing.
      OSError: if the store or the disk here refuses.
    """
    path = os.fspath(stores.absolute(address))
    for match in ARCHIVE.finditer(path):
        if (archive := stores.find(path[: match.end() - 1])) is not None:
            return f"{_file(path[: match.end() - 1], archive)}/{path[match.end() :]}"
    if (stored := stores.find(path)) is not None:
        if with_siblings:
            parent = path.rpartition("/")[0]
            fetch({x.name: x for x in stores.below(parent, deep=False)}, place(parent))
        return str(_file(path, stored))
    if glob.has_magic(path):
        return _pattern(path)
    objects = {x.name: x for x in stores.below(path)}
    if not objects:
        raise _nothing(path)
    leave_only(place(path), objects)
    fetch(objects, place(path))
    return str(place(path))


def local(path: str | os.PathLike, **options: bool) -> str | os.PathLike:
    """A path of this machine: itself, or that of a copy; see `here`."""
    return here(path, **options) if stores.is_address(path) else path


def _nothing(path: str) -> ValueError:
    return ValueError(f"there is nothing at {path}; expected a file or a folder")


def _file(path: str, stored: Object) -> pathlib.Path:
    target = place(path)
    fetch({target.name: stored}, target.parent)
    return target


def _pattern(path: str) -> str:
    from fsspec import utils

    parts = path.split("/")
    fixed = "/".join(itertools.takewhile(lambda x: not glob.has_magic(x), parts))
    rest = path.removeprefix(f"{fixed}/")
    regex = utils.glob_translate(rest)
    below = stores.below(fixed)
    objects = {x.name: x for x in below if re.fullmatch(regex, x.name)}
    if not objects:
        raise _nothing(path)
    leave_only(place(fixed), objects, regex)
    fetch(objects, place(fixed))
    return os.path.join(glob.escape(str(place(fixed))), rest)


class Output:
    """A file or folder in a store that is made, or changed, here.

    What a command leaves that fails stays for the next one to go on from.

    Attributes:
      path: where it is made: what is in the store is there, and what a command left.

    Args:
      address: in the store.

    Raises:
      ValueError: if that is a bucket.
      OSError: if the store or the disk here refuses.
    """

    def __init__(self, address: str | os.PathLike):
        self._address = os.fspath(stores.absolute(address)).rstrip("/")
        if "/" not in self._address.partition("://")[2]:
            raise ValueError(
                f"{address} is a bucket; expected gs://BUCKET/NAME to write"
            )
        self.path = place(self._address, user_cache.OUTPUTS)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if (stored := stores.find(self._address)) is not None:
            fetch({self.path.name: stored}, self.path.parent)
            names = [""]
        else:
            objects = {x.name: x for x in stores.below(self._address)}
            fetch(objects, self.path)
            names = list(objects)
        # When each was written here.
        self._before = {name: _time(self.path / name) for name in names}

    def put_back(self) -> None:
        """Puts in the store what has changed here; what was deleted is deleted there.

        Files go there in the order in which they were written, so that a header, the
        mark of a whole folder, comes last.

        Raises:
          OSError: if the store refuses; what was made stays here.
        """
        files = [self.path] if self.path.is_file() else self.path.rglob("*")
        left = {self._name(path): path for path in files if path.is_file()}
        for name, path in sorted(left.items(), key=lambda entry: _time(entry[1])):
            if self._before.get(name) != _time(path):
                stores.upload(path, self._address_of(name))
        for name in self._before.keys() - left.keys():
            stores.delete(self._address_of(name))

    def _name(self, path: pathlib.Path) -> str:
        return "" if path == self.path else path.relative_to(self.path).as_posix()

    def _address_of(self, name: str) -> str:
        return f"{self._address}/{name}" if name else self._address

    def forget(self) -> None:
        """Deletes what is here."""
        if self.path.is_file():
            self.path.unlink()
        else:
            shutil.rmtree(self.path, ignore_errors=True)


def _time(path: pathlib.Path) -> int:
    return path.stat().st_mtime_ns


@contextlib.contextmanager
def kept(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Where to make a folder of a store, or one here; the copy stays, to be used.

    Args:
      path: of the folder, or its address.

    Raises:
      OSError: if the store or the disk here refuses.
    """
    if not stores.is_address(path):
        yield pathlib.Path(path)
        return
    output = Output(path)
    yield output.path
    output.put_back()
