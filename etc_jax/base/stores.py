"""Object stores: what they have in place of a file system's folders, locks and names.

An object appears whole, under its name, when it is written; there is nothing to rename,
to append to or to lock. Each write gives it another generation, and a write can be
refused unless the object is of a certain one: that is what an owner of a run builds on.

Names with a scheme, such as gs://bucket/run, are addresses. Those of Google Cloud
Storage can be used, with the extra `gcs`.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import dataclasses
import functools
import importlib.util
import os
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

from etils import epath

# One slash: `pathlib` leaves no more. One letter alone is a drive of Windows.
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):/")
_SCHEME = "gs"
_CHUNK_BYTES = 1 << 24
# Of a large object that is read.
SLICE_BYTES = 1 << 25
STREAMS = 8
_PATIENCE_SECS = 120.0  # of a store that does not answer
_PACKAGES = ("gcsfs", "google.cloud.storage")


class Changed(OSError):
    """An object is not of the generation that a write was for."""


def errors() -> tuple[type[Exception], ...]:
    """What a storage raises: OSError, and what packages of a store have besides it."""
    others = ("gcsfs.retry", "HttpError"), ("aiohttp", "ClientError")
    loaded = [(module, name) for module, name in others if module in sys.modules]
    return OSError, *(getattr(sys.modules[module], name) for module, name in loaded)


def is_address(path: str | os.PathLike) -> bool:
    """Whether a path has a scheme, whatever it is."""
    return _ADDRESS.match(os.fspath(path)) is not None


def problem(path: str | os.PathLike) -> str | None:
    """Why an address cannot be used, as the end of a sentence; None if it can be.

    Nothing is asked of the store.

    Args:
      path: any path; those without a scheme are fine.
    """
    text = os.fspath(path)
    if (match := _ADDRESS.match(text)) is None:
        return None
    if match[1] != _SCHEME:
        return (
            f"is {text!r}; expected a path of a file system here, or {_SCHEME}://: "
            "other stores and addresses cannot be used. Mount it, or copy what is "
            "needed"
        )
    bucket = text.removeprefix(f"{_SCHEME}://").split("/")[0]
    if not bucket or bucket.startswith(f"{_SCHEME}:"):
        return f"is {text!r}; expected {_SCHEME}://BUCKET/NAME"
    if missing := [name for name in _PACKAGES if not _is_there(name)]:
        return (
            f"is {text!r}, but {missing[0]} is not installed, which reads and writes "
            "there; install the extra: pip install 'etc_jax[gcs]'"
        )
    return None


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package above
        return False


# With TensorFlow installed epath takes its file system, which takes seconds to import
# and knows no other end point. Whoever has set it has a reason.
if _is_there(_PACKAGES[0]):
    os.environ.setdefault("EPATH_USE_TF", "0")


def absolute(path: str | os.PathLike) -> epath.Path:
    """The path itself if it is an address, the absolute one of a local path.

    Orbax takes no others, and says so late, from a thread.
    """
    if is_address(path):
        _see_writes_of_others()
        return epath.Path(path)
    # Not for addresses, of which it would make a local path.
    return epath.Path(path).expanduser().resolve()


@functools.cache
def _see_writes_of_others() -> None:
    """Has listings read anew: those of gcsfs lack what tensorstore has written."""
    import fsspec

    fsspec.config.conf.setdefault(_SCHEME, {})["use_listings_cache"] = False


@functools.cache
def _client() -> Any:
    from google.cloud import storage

    return storage.Client()


def _blob(path: str | os.PathLike) -> Any:
    text = os.fspath(path).removeprefix(f"{_SCHEME}://")
    bucket, _, name = text.partition("/")
    return _client().bucket(bucket).blob(name)


@contextlib.contextmanager
def _told(path: str | os.PathLike) -> Iterator[None]:
    """Gives the errors of the client as those of a file system."""
    from google.api_core import exceptions
    from google.auth import exceptions as auth

    text = os.fspath(path)
    try:
        yield
    except exceptions.NotFound:
        raise FileNotFoundError(2, "no such bucket or object", text) from None
    except exceptions.PreconditionFailed:
        raise Changed(f"{text} was changed by another process") from None
    except (exceptions.GoogleAPIError, auth.GoogleAuthError) as error:
        raise OSError(f"{text}: {error}") from error


def _retry_for(secs: float) -> Any:
    from google.cloud.storage import retry

    return retry.DEFAULT_RETRY.with_timeout(secs)


def write(
    path: str | os.PathLike,
    content: bytes,
    *,
    generation: int | None = None,
    patience_secs: float = _PATIENCE_SECS,
) -> int:
    """Writes an object, which is the old or the whole new one at any time.

    Args:
      path: its address.
      content: all of it.
      generation: that it has to be of now; 0: it must not exist. None: of any.
      patience_secs: how long a store that does not answer is asked again.

    Returns:
      The new generation.

    Raises:
      Changed: if it is of another generation.
      OSError: if the store refuses.
    """
    with _told(path):
        blob = _blob(path)
        blob.upload_from_string(
            content,
            if_generation_match=generation,
            retry=_retry_for(patience_secs),
        )
        return blob.generation


def upload(source: pathlib.Path, path: str | os.PathLike) -> None:
    """Writes an object that is a file here, of any size.

    Args:
      source: the file.
      path: the object's address.

    Raises:
      OSError: if the store or the disk refuses.
    """
    with _told(path):
        # The whole of it is compared in the store, which keeps nothing that differs.
        _blob(path).upload_from_filename(
            os.fspath(source), checksum="crc32c", retry=_retry_for(_PATIENCE_SECS)
        )


def read(path: str | os.PathLike) -> tuple[bytes, int] | None:
    """An object and its generation; None if there is none.

    Raises:
      OSError: if the store refuses.
    """
    try:
        with _told(path):
            blob = _blob(path)
            return blob.download_as_bytes(), blob.generation
    except FileNotFoundError:
        return None


def delete(
    path: str | os.PathLike,
    *,
    generation: int | None = None,
    patience_secs: float = _PATIENCE_SECS,
) -> None:
    """Deletes an object, of a generation or of any; see `write`.

    Raises:
      Changed, OSError: as of `write`.
    """
    with _told(path):
        _blob(path).delete(
            if_generation_match=generation,
            retry=_retry_for(patience_secs),
        )


def _listed(prefix: str, **options: Any) -> list[Any]:
    """The client's objects whose addresses begin with a text, by name."""
    with _told(prefix):
        blob = _blob(prefix)
        listed = blob.client.list_blobs(blob.bucket, prefix=blob.name, **options)
        return list(listed)


def beginning_with(path: str | os.PathLike) -> list[epath.Path]:
    """The objects whose address is, or begins with, this one, by name.

    Raises:
      OSError: if the store refuses.
    """
    listed = _listed(os.fspath(path))
    return [epath.Path(f"{_SCHEME}://{one.bucket.name}/{one.name}") for one in listed]


@dataclasses.dataclass(frozen=True)
class Object:
    """An object below an address.

    Attributes:
      name: relative to that.
      size: in bytes.
      crc32c: of its bytes, in base 64.
      blob: of the client.
    """

    name: str
    size: int
    crc32c: str
    blob: Any = dataclasses.field(repr=False)

    def is_copied_to(self, path: pathlib.Path) -> bool:
        """Whether a file here has the same bytes."""
        import google_crc32c

        try:
            if path.stat().st_size != self.size:
                return False
            with path.open("rb") as file:
                checksum = google_crc32c.Checksum()
                for _ in checksum.consume(file, _CHUNK_BYTES):
                    pass
        except FileNotFoundError:
            return False
        return base64.b64encode(checksum.digest()).decode() == self.crc32c

    @property
    def is_large(self) -> bool:
        """Whether it comes in several slices."""
        return self.size > SLICE_BYTES

    def copy_to(self, path: pathlib.Path) -> None:
        """Writes its bytes to a file, several slices at a time.

        One stream of a store is slower than a machine's network.

        Raises:
          OSError: if the store or the disk refuses, or the object is changed meanwhile.
        """
        with path.open("wb") as file, _told(self.name):

            def write_slice(start: int) -> None:
                content = self.blob.download_as_bytes(
                    start=start,
                    end=min(start + SLICE_BYTES, self.size) - 1,
                    if_generation_match=self.blob.generation,
                    checksum=None,  # there is none of a slice
                )
                os.pwrite(file.fileno(), content, start)

            with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
                list(pool.map(write_slice, range(0, self.size, SLICE_BYTES)))
        if not self.is_copied_to(path):
            raise OSError(f"{path} differs from the checksum of {self.name}; try again")


def find(path: str | os.PathLike) -> Object | None:
    """The object of an address; None if there is none.

    Raises:
      OSError: if the store refuses.
    """
    with _told(path):
        blob = _blob(path)
        if not blob.name or (stored := blob.bucket.get_blob(blob.name)) is None:
            return None
    return Object(stored.name.rpartition("/")[2], stored.size, stored.crc32c, stored)


def below(path: str | os.PathLike, *, deep: bool = True) -> list[Object]:
    """The objects in a folder, and those below it, by name.

    Args:
      path: address of the folder.
      deep: whether those below are listed.

    Raises:
      OSError: if the store refuses.
    """
    prefix = f"{os.fspath(path).rstrip('/')}/"
    start = len(_blob(prefix).name)
    return [
        Object(one.name[start:], one.size, one.crc32c, one)
        for one in _listed(prefix, delimiter=None if deep else "/")
        if not one.name.endswith("/")  # a mark of a folder
    ]


def move(path: epath.Path, target: epath.Path) -> None:
    """Gives a file or folder another name, in a folder that is made if need be.

    Objects move one after the other: a kill in the middle leaves some under each name.

    Raises:
      OSError: if the storage refuses.
    """
    if not is_address(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        return
    import fsspec

    fsspec.filesystem(_SCHEME).mv(os.fspath(path), os.fspath(target), recursive=True)
