"""IMDB's official files (Maas et al. 2011): a review a file, in folders by label.

`aclImdb/train` and `aclImdb/test` have folders `neg` and `pos` with files named
`<number>_<rating>.txt`; `aclImdb/train/unsup` has reviews without a label. Reviews as
JSON lines, with `id`, `text`, `label` and `rating`, are read too.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import stat
from collections.abc import Iterator
from typing import Any, ClassVar

from etc_jax.data.input_files import BadRecordError, read_whole
from etc_jax.datasets.fields import STRING, Fields, anything, shown
from etc_jax.datasets.json_lines import has_objects, read_lines
from etc_jax.datasets.records import Note, reader

LABELS = ("neg", "pos")

_UNLABELLED = "unsup"
_NAME = re.compile(r"([0-9]+)_([0-9]+)\.txt")
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
# Stars of 10. What lies between was left out of the data set.
_RATINGS = {"neg": range(1, 5), "pos": range(7, 11)}


@dataclasses.dataclass(frozen=True)
class Record:
    """A review.

    Attributes:
      id: split, label and file name, as "train/pos/127_7".
      text: with a line break wherever the page had one.
      label: "neg" or "pos"; None without one.
      rating: stars, 1 to 10; None where the file does not say.
      labels: all there are, in the order of their numbers.
      title: none.
      second: none.
    """

    id: str
    text: str
    label: str | None
    rating: int | None

    labels: ClassVar = LABELS
    title: ClassVar = ""
    second: ClassVar = None


def parse(value: Any, note: Note) -> Record:
    """A record from a JSON value.

    Args:
      value: `id` and `text`; `label`, 0 or "neg", 1 or "pos", and `rating`, if there is
        one.
      note: called with (kind, message) for a rating that does not go with the label.

    Raises:
      BadRecordError: if it cannot be used.
    """
    fields = Fields(value)
    name = fields.text("id")
    text = _LINE_BREAK.sub("\n", fields.get("text", STRING)).strip()
    if not text:
        raise BadRecordError("empty review", f"{name!r} is blank, expected text")
    label, rating = _label(name, fields), _rating(name, fields)
    if label is not None and rating is not None and rating not in _RATINGS[label]:
        note("rating against label", f"{name!r} is {label!r} with {rating} stars")
    return Record(name, text, label, rating)


def _label(name: str, fields: Fields) -> str | None:
    label = fields.get("label", anything, None)
    if label is None or label in LABELS:
        return label
    if type(label) is int and label in range(len(LABELS)):
        return LABELS[label]
    raise BadRecordError(
        "unknown label", f"{name!r}: {shown(label)}, expected 0 or 'neg', 1 or 'pos'"
    )


def _rating(name: str, fields: Fields) -> int | None:
    rating = fields.get("rating", anything, None)
    if rating is None or (type(rating) is int and 1 <= rating <= 10):
        return rating
    raise BadRecordError(
        "unknown rating", f"{name!r}: {shown(rating)}, expected a whole number, 1 to 10"
    )


# --- files ----------------------------------------------------------------------------


def _values(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """(number from 1, what `parse` takes) of each review of a folder or a file."""
    if has_objects(path):
        return read_lines(path)
    if stat.S_ISDIR(os.stat(path).st_mode):
        return enumerate(_reviews(path), start=1)
    raise BadRecordError(
        "unknown file",
        f"{os.fspath(path)}: expected a folder such as aclImdb/train, or a file named "
        ".jsonl or .parquet",
    )


# The reviews of folders such as `aclImdb/train`, of one of its folders `neg`, `pos` and
# `unsup`, and of files `.jsonl` and `.jsonl.gz`.
read = reader(parse, _values)


def _reviews(path: str | os.PathLike) -> Iterator[Any]:
    """Each review, or what is wrong with its file in its place."""
    # The names of the folder and of the one above it are part of ids.
    for folder in _folders(pathlib.Path(os.path.abspath(path))):
        for file in sorted(folder.iterdir(), key=_order):
            yield _review(folder, file)


def _folders(path: pathlib.Path) -> list[pathlib.Path]:
    if path.name in (*LABELS, _UNLABELLED):
        return [path]
    folders = [path / label for label in LABELS]
    if lacking := [folder.name for folder in folders if not folder.is_dir()]:
        raise BadRecordError(
            "unknown folder",
            f"{path} has no folder {' and no folder '.join(lacking)}; give one such as "
            "aclImdb/train or aclImdb/test",
        )
    return folders


def _order(file: pathlib.Path) -> tuple[bool, int, str]:
    """Files by their number, and others after them."""
    match = _NAME.fullmatch(file.name)
    return match is None, int(match[1]) if match else 0, file.name


def _review(
    folder: pathlib.Path, file: pathlib.Path
) -> dict[str, Any] | BadRecordError:
    name = f"{folder.parent.name}/{folder.name}/{file.stem}"
    match = _NAME.fullmatch(file.name)
    if match is None:
        return BadRecordError(
            "wrong file name",
            f"{folder.name}/{file.name}, expected number and rating as in 127_7.txt",
        )
    try:
        value = {"id": name, "text": read_whole(file)}
    except BadRecordError as e:
        return e.at(f"{folder.name}/{file.name}")
    # Files without a label have a rating of 0.
    labelled = {"label": folder.name, "rating": int(match[2])}
    return value if folder.name == _UNLABELLED else {**value, **labelled}
