"""Rows of Parquet and Arrow files, and of folders with them, as JSON has them.

Folders are those of `datasets.Dataset.save_to_disk`, and any others with Parquet files
of one split. A number that the file declares a class label becomes the name of the
class, dates and decimals their texts, bytes stay bytes. Needs pyarrow (extra parquet).
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from etc_jax.base import extras, strict_json
from etc_jax.data.input_files import (
    CHUNK_BYTES,
    BadRecordError,
    check_growth,
    max_record_bytes,
    too_large,
)

PARQUET, ARROW = ".parquet", ".arrow"
_SAVED, _SAVED_SPLITS = "state.json", "dataset_dict.json"
# As the Hub names the files of a split: train-00000-of-00002.parquet.
_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}.*")
_FILE_FORMAT = b"ARROW1"  # with an index at its end; others are streams
_ROWS_AT_ONCE = 64

Row = dict[str, Any]
# From a value as pyarrow gives it to that of JSON.
ConvertFn = Callable[[Any], Any]


def is_arrow(path: str | os.PathLike) -> bool:
    """Whether a path is that of a Parquet or Arrow file, or of a folder of them."""
    if os.fspath(path).endswith((PARQUET, ARROW)):
        return True
    folder = pathlib.Path(path)
    return folder.is_dir() and (
        any((folder / name).exists() for name in (_SAVED, _SAVED_SPLITS))
        or next(folder.glob(f"**/*{PARQUET}"), None) is not None
    )


def files_of(path: str | os.PathLike) -> list[pathlib.Path]:
    """The files of a folder in order, or the one file.

    Raises:
      BadRecordError: if the folder has several splits, or does not say which files it
        has.
    """
    folder = pathlib.Path(path)
    if not folder.is_dir():
        return [folder]
    if (folder / _SAVED_SPLITS).exists():
        splits = sorted(x.parent.name for x in folder.glob(f"*/{_SAVED}"))
        raise _several_splits(folder, splits, f"{folder}/{splits[0] if splits else ''}")
    if (folder / _SAVED).exists():
        return _saved_files(folder)
    files = sorted(folder.glob(f"**/*{PARQUET}"))
    splits = sorted({_split_of(file.relative_to(folder)) for file in files})
    if len(splits) > 1:
        raise _several_splits(folder, splits, f"{folder}/{splits[0]}*{PARQUET}")
    return files


def _several_splits(
    folder: pathlib.Path, splits: list[str], one: str
) -> BadRecordError:
    listed = ", ".join(splits) or "none that is whole"
    return BadRecordError(
        "several splits", f"{folder} has the splits {listed}; name one, as {one}"
    )


def _split_of(file: pathlib.Path) -> str:
    """What files of one split share: their folder and the beginning of their names."""
    shard = _SHARD.fullmatch(file.stem)
    name = shard[1] if shard else re.match("[A-Za-z_]*", file.stem)[0]
    return file.with_name(name).as_posix() if name else f"{file.parent.as_posix()}/"


def _saved_files(folder: pathlib.Path) -> list[pathlib.Path]:
    try:
        state = strict_json.loads((folder / _SAVED).read_text(encoding="utf-8"))
        names = [file["filename"] for file in state["_data_files"]]
    except (ValueError, KeyError, TypeError) as e:
        raise BadRecordError(
            "broken JSON", f"{folder / _SAVED}: {e!r}; expected the names of the files"
        ) from e
    if foreign := [name for name in names if pathlib.PurePath(name).name != name]:
        raise BadRecordError(
            "unknown file",
            f"{folder / _SAVED} names {foreign[0]!r}, which lies outside",
        )
    return [folder / name for name in names]


def read_rows(
    path: str | os.PathLike,
) -> Iterator[tuple[int, Row | BadRecordError]]:
    """(number from 1, row) of a file or folder, of which some rows are in memory.

    A row that is too large or cannot be read is the error that says so.

    Raises:
      BadRecordError: if a file is damaged, after the rows before the damage; see also
        `files_of`.
      OSError: if a file cannot be read.
      extras.MissingExtraError: if pyarrow is not installed.
    """
    arrow = extras.needed("pyarrow", extra="parquet", to="read Parquet and Arrow files")
    number = 0
    for file in files_of(path):
        try:
            for batch in _batches(arrow, file):
                converters = _converters(arrow.types, batch.schema)
                for row in _rows(batch, converters):
                    number += 1
                    yield number, row
        except BadRecordError as e:
            raise e.at(f"{file}, after row {number}") from e


def _batches(arrow: ModuleType, file: pathlib.Path) -> Iterator[Any]:
    """Record batches of a few rows."""
    kind = "Parquet" if file.suffix == PARQUET else "Arrow"
    read = _parquet_batches if file.suffix == PARQUET else _arrow_batches
    with open(file, "rb") as opened:
        try:
            yield from read(opened)
        except (arrow.ArrowException, OSError) as e:
            raise BadRecordError(
                f"broken {kind}", f"{e}; fetch or write the file again"
            ) from e


def _parquet_batches(opened: Any) -> Iterator[Any]:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(opened, buffer_size=CHUNK_BYTES)
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        columns = map(group.column, range(group.num_columns))
        packed = sum(column.total_compressed_size for column in columns)
        # Before a row is unpacked: sizes are in the metadata.
        check_growth(packed, group.total_byte_size)
    yield from file.iter_batches(batch_size=_ROWS_AT_ONCE)


def _arrow_batches(opened: Any) -> Iterator[Any]:
    import pyarrow

    is_file = opened.read(len(_FILE_FORMAT)) == _FILE_FORMAT
    with pyarrow.memory_map(opened.name) as mapped:
        if is_file:
            file = pyarrow.ipc.open_file(mapped)
            batches = map(file.get_batch, range(file.num_record_batches))
        else:
            batches = pyarrow.ipc.open_stream(mapped)
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                yield batch.slice(start, _ROWS_AT_ONCE)


def _rows(
    batch: Any, converters: dict[str, ConvertFn]
) -> Iterator[Row | BadRecordError]:
    if batch.num_rows > 1 and batch.nbytes > max_record_bytes():
        yield from _one_by_one(batch, converters)
        return
    if batch.nbytes > max_record_bytes():
        yield too_large("row too large", "it", batch.nbytes)
        return
    try:
        rows = batch.to_pylist()
    except ValueError as e:  # a text that is no UTF-8, a time that Python has not
        if batch.num_rows > 1:
            yield from _one_by_one(batch, converters)
        else:
            yield BadRecordError("broken row", str(e))
        return
    for row in rows:
        yield row | {name: fn(row[name]) for name, fn in converters.items()}


def _one_by_one(
    batch: Any, converters: dict[str, ConvertFn]
) -> Iterator[Row | BadRecordError]:
    for number in range(batch.num_rows):
        yield from _rows(batch.slice(number, 1), converters)


# --- values ---------------------------------------------------------------------------


def _converters(types: ModuleType, schema: Any) -> dict[str, ConvertFn]:
    """What makes the values of some columns those of JSON; others are such already."""
    if len({*schema.names}) < len(schema.names):
        raise BadRecordError(
            "broken header", f"columns of one name: {', '.join(schema.names)}"
        )
    about = (schema.metadata or {}).get(b"huggingface", b"{}")
    try:
        features = strict_json.loads(about).get("info", {}).get("features") or {}
    except (ValueError, AttributeError) as e:
        raise BadRecordError(
            "broken header", f"what `datasets` wrote of the columns: {e}; save it again"
        ) from e
    by_name = {
        field.name: _converter(types, field.type, features.get(field.name))
        for field in schema
    }
    return {name: fn for name, fn in by_name.items() if fn is not None}


def _converter(types: ModuleType, kind: Any, feature: Any) -> ConvertFn | None:
    """What makes a value of a type that of JSON; None if it is one already.

    Args:
      types: pyarrow's module of that name.
      kind: the type.
      feature: what `datasets` says of it; None if nothing.
    """
    # A way of storage: values come out as those of the type within.
    if types.is_dictionary(kind):
        kind = kind.value_type
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
        names = feature.get("names") or ()
        return _unless_none(lambda n: names[n] if 0 <= n < len(names) else None)
    if types.is_struct(kind):
        inner = {
            field.name: _converter(types, field.type, _of_field(feature, field.name))
            for field in kind
        }
        inner = {name: fn for name, fn in inner.items() if fn is not None}
        if not inner:
            return None
        return _unless_none(
            lambda row: row | {name: fn(row[name]) for name, fn in inner.items()}
        )
    if types.is_map(kind):
        return _unless_none(dict)
    if hasattr(kind, "value_type"):  # lists of any kind
        each = _converter(types, kind.value_type, _of_elements(feature))
        return each and _unless_none(lambda values: [each(x) for x in values])
    if types.is_temporal(kind):
        return _unless_none(lambda x: x.isoformat() if hasattr(x, "isoformat") else x)
    return _unless_none(str) if types.is_decimal(kind) else None


def _unless_none(fn: ConvertFn) -> ConvertFn:
    return lambda value: None if value is None else fn(value)


def _of_field(feature: Any, name: str) -> Any:
    if not isinstance(feature, dict):
        return None
    if isinstance(feature.get("feature"), dict) and "_type" in feature:
        # A list of structs is kept as a struct of lists.
        return {"feature": feature["feature"].get(name)}
    return feature.get(name)


def _of_elements(feature: Any) -> Any:
    if isinstance(feature, list):
        return feature[0] if feature else None
    return feature.get("feature") if isinstance(feature, dict) else None
