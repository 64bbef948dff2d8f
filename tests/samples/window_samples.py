"""Windows of random tokens, and what a batch of them is, stacked by hand."""

import dataclasses
import pathlib
import types

import numpy as np

from etc_jax.base import stores
from etc_jax.base.types import Rows
from etc_jax.data.schema import Placed
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.data.windows.writing import WindowSource
from etc_jax.formats.structured import StructuredWindow
from etc_jax.structure import Structure

PIECES = ["[PAD]", "[UNK]", *(f"w{i}" for i in range(98))]
SIZES = {"long_length": 40, "global_length": 12}
SOURCE = WindowSource("toy", "structured", SIZES, {"odd": False}, {"files": ["a"]})
OPTIONAL = ("long_segment_ids", "exempt_l2g", "exempt_g2l", "order_ids", "parent")
FILLS = {"links": -1, "parent": -1}
# What `make_rich_window` adds.
AXES = {
    "long_words": Placed("long", -1),
    "visual": Placed("global"),
    "page": Placed(padding=7),
    "start": Placed(padding=-1),
    "occurrences": Placed("long"),
}


def make_tokenizer(*more):
    return WordPieceTokenizer([*PIECES, *more])


def contents(folder):
    """{path in the folder: bytes} of a folder here or in an object store."""
    if stores.is_address(folder):
        names = [one.name for one in stores.below(folder)]
    else:
        folder = pathlib.Path(folder)
        files = (path for path in folder.rglob("*") if path.is_file())
        names = [path.relative_to(folder).as_posix() for path in files]
    return {name: (folder / name).read_bytes() for name in names}


def padded(values, length, fill=0):
    values = np.asarray(values)
    whole = np.full((length, *values.shape[1:]), fill, values.dtype)
    whole[: len(values)] = values
    return whole


@dataclasses.dataclass
class ToyWindow:
    """A window that tests may spoil."""

    record: object
    tokens: Rows
    types: Rows
    structure: Structure
    labels: dict
    unusable: str | None
    extra: dict = dataclasses.field(default_factory=dict)
    axes: dict = dataclasses.field(default_factory=dict)
    schema = StructuredWindow.schema
    arrays = StructuredWindow.arrays


def make_window(seed, *, n=40, g=12, links=2, optional=OPTIONAL):
    """A window of random tokens in random runs, padded to n and g."""
    rng = np.random.default_rng(seed)
    real, globals_ = int(rng.integers(1, n + 1)), int(rng.integers(1, g + 1))

    def long(low, high, dtype=np.int32):
        values = rng.integers(low, high, real)
        starts = rng.random(real) < 0.2
        starts[0] = True
        runs = values[np.flatnonzero(starts)][np.cumsum(starts) - 1]
        return runs.astype(dtype)

    def glob(low, high, dtype=np.int32):
        return rng.integers(low, high, globals_).astype(dtype)

    columns = [long(-1, globals_, np.int16) for _ in range(links)]
    no_links = np.zeros((real, 0), np.int16)
    of_long = {
        "long_example_ids": long(1, 3),
        "links": np.stack(columns, axis=-1) if columns else no_links,
        "long_segment_ids": long(1, 300),
        "exempt_l2g": long(0, 2, bool),
    }
    of_globals = {
        "global_example_ids": glob(1, 3),
        "exempt_g2l": glob(0, 2, bool),
        "order_ids": glob(1, 300),
        "parent": glob(-1, globals_),
    }
    vectors = {k: padded(x, n, FILLS.get(k, 0)) for k, x in of_long.items()}
    vectors |= {k: padded(x, g, FILLS.get(k, 0)) for k, x in of_globals.items()}
    for name in set(OPTIONAL) - set(optional):
        del vectors[name]
    return ToyWindow(
        record=types.SimpleNamespace(id=f"record {seed} \u00e9\ud800"),
        tokens=Rows(padded(rng.integers(0, 100, real), n), padded(glob(0, 100), g)),
        types=Rows(padded(long(0, 8), n), padded(glob(0, 256), g)),
        structure=Structure(**vectors),
        labels={
            "support": padded(glob(0, 2), g),
            "weight": padded(rng.random(globals_).astype(np.float32), g),
            "answer": np.array(rng.integers(-1, 99), np.int32),
        },
        unusable=None,
    )


def make_rich_window(seed, *, n=40, g=12, **kwargs):
    """One with further inputs, of which some are in a dict, and labels of all axes."""
    window = make_window(seed, n=n, g=g, **kwargs)
    rng = np.random.default_rng([seed, 1])
    used = np.count_nonzero(window.structure.long_example_ids)
    globals_ = np.count_nonzero(window.structure.global_example_ids)
    words = np.sort(rng.integers(0, used, used)).astype(np.int32)
    boxes = rng.normal(size=(globals_, 2, 3)).astype(np.float32)
    window.axes = AXES
    window.extra = {
        "long_words": padded(words, n, -1),
        "visual": {
            "font": padded(rng.integers(0, 256, globals_).astype(np.uint8), g),
            "boxes": padded(boxes, g),
        },
        "page": rng.normal(size=(2, 2)).astype(np.float32),
    }
    window.labels |= {
        "start": rng.integers(-1, n, 3).astype(np.int32),
        # Reaches beyond the tokens, up to the last place.
        "occurrences": rng.integers(0, 8, n).astype(np.uint8),
    }
    return window


def make_windows(count, start=0, make_fn=make_window, **kwargs):
    return [make_fn(seed, **kwargs) for seed in range(start, start + count)]


def stacked(windows, n, g, rows=None):
    """The batch of some windows at other lengths, with rows of padding after."""
    rows = rows or len(windows)

    def stack(arrays, length=None, fill=0):
        arrays = [np.asarray(x) for x in arrays]
        if length is not None:
            arrays = [padded(x[:length], length, fill) for x in arrays]
        return padded(np.stack(arrays), rows, fill)

    fields = {}
    for field in dataclasses.fields(Structure):
        name, vectors = field.name, [getattr(w.structure, field.name) for w in windows]
        if vectors[0] is not None:
            is_global = name not in (
                *("long_example_ids", "links"),
                *("long_segment_ids", "exempt_l2g"),
            )
            fields[name] = stack(vectors, g if is_global else n, FILLS.get(name, 0))
    int32 = np.int32

    def field(name, arrays):
        if name not in AXES:
            return stack(arrays, g if arrays[0].ndim else None)
        length = {"long": n, "global": g, None: None}[AXES[name].axis]
        return stack(arrays, length, AXES[name].padding)

    extra = {}
    for name, value in windows[0].extra.items():
        arrays = [w.extra[name] for w in windows]
        if isinstance(value, dict):
            extra[name] = {k: field(name, [x[k] for x in arrays]) for k in value}
        else:
            extra[name] = field(name, arrays)
    return {
        **extra,
        "long_tokens": stack([w.tokens.long for w in windows], n).astype(int32),
        "global_tokens": stack([w.tokens.global_ for w in windows], g).astype(int32),
        "long_types": stack([w.types.long for w in windows], n).astype(int32),
        "global_types": stack([w.types.global_ for w in windows], g).astype(int32),
        "structure": Structure(**fields),
        "labels": {
            name: field(name, [w.labels[name] for w in windows])
            for name in windows[0].labels
        },
        "weights": padded(np.ones(len(windows), np.float32), rows),
    }


def assert_same(got, want):
    """Equal batches, types of arrays and absent fields included."""
    assert got.keys() == want.keys()
    for key, value in want.items():
        other = got[key]
        if isinstance(value, Structure):
            names = [f.name for f in dataclasses.fields(Structure)]
            assert_same(
                {n: getattr(other, n) for n in names},
                {n: getattr(value, n) for n in names},
            )
        elif isinstance(value, dict):
            assert_same(other, value)
        elif value is None:
            assert other is None, key
        else:
            assert other.dtype == value.dtype, key
            np.testing.assert_array_equal(other, value, err_msg=key)
