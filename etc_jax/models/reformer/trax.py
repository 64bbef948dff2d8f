"""Weights of trax's ReformerLM: a nest of lists and tuples, as its trainer pickles it.

    weights[1]              tokens [v, e]
    weights[3][0], [1]      axial positions, of two axes [1, a, 1, da], [1, 1, b, db]
    weights[5][4 * l]       attention of layer l
        [0][0]              its norm: scale, bias [e]
        [1]                 query_key, value [h, e, d] and output [h, d, e] of LSH;
                            query, key, value and output of local attention
    weights[5][4 * l + 2]   feed-forward
        [0][1][2]           norm, wi, nothing, nothing, wo; under one more [2] where it
                            is computed in chunks
    weights[7]              norm of both streams: scale, bias [2 e]
    weights[9]              logits: kernel [2 e, v], bias [v]

The other places are empty: layers of trax without weights. This is how the converter
that transformers had for these files takes them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.conversion.engine import (
    IDENTITY,
    ConversionError,
    Report,
    Row,
    Transform,
    import_params,
)
from etc_jax.conversion.formats.trax_pickle import Unread, leaves, read_pickle
from etc_jax.models.reformer import weights as reformer
from etc_jax.models.reformer.config import AXIAL_TABLES, ReformerConfig

WeightLocation = tuple[Any, ...]

_POSITIONS, _LAYERS = 3, 5
_PARTS_OF_A_LAYER = 4
_MLP = (2, 0, 1, 2)
_PROJECTIONS = {
    "lsh": ("query_key", "value", "out"),
    "local": ("query", "key", "value", "out"),
}
_HEADS_SECOND = Transform(lambda x: x.swapaxes(0, 1), lambda x: x.swapaxes(0, 1))


class _Array(NamedTuple):
    """One array of the nest.

    Attributes:
      target: path of our parameter.
      shape: that it has in the nest.
      transform: to ours.
      layer: whose it is; None: of none.
      repeat: of the pattern, that the layer is in.
    """

    target: str
    shape: tuple[int, ...]
    transform: Transform = IDENTITY
    layer: int | None = None
    repeat: int | None = None

    @property
    def name(self) -> str:
        """For the table."""
        return self.target if self.repeat is None else f"{self.repeat}:{self.target}"

    @property
    def row(self) -> Row:
        source = self.target if self.repeat is None else f"{{layer}}:{self.target}"
        return Row(source, self.target, self.transform)

    @property
    def label(self) -> str:
        """For an error."""
        owner = "" if self.layer is None else f"layer {self.layer}: "
        return f"{owner}{self.target}"


def read_weights(path: str | os.PathLike) -> Sequence[Any]:
    """The nest of a file of trax, `model.pkl` or `model.pkl.gz`; see `trax_pickle`.

    Raises:
      ValueError: if it is damaged, or holds something else.
      OSError: if it cannot be read.
    """
    saved = read_pickle(path)
    if isinstance(saved, Mapping):
        if "weights" not in saved:
            entries = ", ".join(map(str, saved)) or "nothing"
            raise ValueError(f"{path} has no entry 'weights'; it has {entries}")
        saved = saved["weights"]
    if not isinstance(saved, list | tuple):
        raise ValueError(
            f"the weights in {path} are {_described(saved)}; expected nested lists or "
            "tuples of arrays"
        )
    return saved


def import_trax(
    source: Sequence[Any], config: ReformerConfig
) -> tuple[dict[str, Any], Report]:
    """Weights of trax's ReformerLM -> parameters of `ReformerLm`.

    Args:
      source: the nest, of `read_weights`.
      config: of the model, with axial positions.

    Returns:
      (nested dict of numpy arrays, report with places of the nest).

    Raises:
      ConversionError: naming everything that does not fit, with its layer.
      ValueError: if the nest is another one altogether.
    """
    if config.axial_shape is None:
        raise ValueError(
            "model.axial_shape is None, but weights of trax are read with axial "
            "positions alone; set it to their shape"
        )
    _check_layers(source, config)
    expected, arrays = _expected(config), leaves(source)
    locations = {_usual(location): location for location in arrays}
    # Another kind of attention shifts all of a layer's arrays: it is reported alone.
    problems = list(_kinds(arrays, config)) or [
        *_strange(expected, arrays, locations),
        *_misfits(expected, arrays, locations),
    ]
    if problems:
        raise ConversionError(problems)
    weights = {
        array.name: arrays[locations[usual]] for usual, array in expected.items()
    }
    rows = {array.row for array in expected.values()}
    abstract = reformer.shapes(config)
    params, report = import_params(tuple(rows), weights, abstract)
    origins = {array.name: _written(locations[u]) for u, array in expected.items()}
    loaded = {
        path: tuple(origins[name] for name in names)
        for path, names in report.loaded.items()
    }
    return params, Report(loaded, report.missing, report.unused)


def _written(location: WeightLocation) -> str:
    return "weights" + "".join(f"[{key!r}]" for key in location)


def _described(value: Any) -> str:
    if isinstance(value, Unread):
        return f"an object of {value.origin}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return f"{type(value).__name__} {value!r:.40}"


def _usual(location: WeightLocation) -> WeightLocation:
    """Where an array stands without chunks, and with axial positions as one array."""
    if location[:1] == (_POSITIONS,) and location[2:] == (0,):
        return location[:2]
    if len(location) > 7 and location[0] == _LAYERS:
        inner = (location[1] % _PARTS_OF_A_LAYER, *location[2:])
        if inner[:5] == (*_MLP, 2):
            return (*location[:5], *location[6:])
    return location


def _check_layers(source: Sequence[Any], config: ReformerConfig) -> None:
    """Refuses what is no such nest, or has another number of layers."""
    whole = isinstance(source, list | tuple) and len(source) > _LAYERS
    layers = source[_LAYERS] if whole else None
    if not isinstance(layers, list | tuple):
        raise ValueError(
            f"weights[{_LAYERS}] is no list or tuple of layers; expected the nest of "
            "trax's ReformerLM, not a flat list of its arrays or another model"
        )
    count, rest = divmod(len(layers), _PARTS_OF_A_LAYER)
    if rest or count != config.num_layers:
        raise ValueError(
            f"weights[{_LAYERS}] has {len(layers)} parts, {_PARTS_OF_A_LAYER} a layer, "
            f"but model.num_layers is {config.num_layers}; set it to the checkpoint's"
        )


def _kinds(
    arrays: Mapping[WeightLocation, Any], config: ReformerConfig
) -> Iterator[str]:
    """A message for each layer of another kind of attention."""
    by_count = {len(names): kind for kind, names in _PROJECTIONS.items()}
    for layer, kind in enumerate(_kinds_of(config)):
        start = (_LAYERS, _PARTS_OF_A_LAYER * layer, 1)
        count = sum(location[:3] == start for location in arrays)
        if by_count.get(count, kind) != kind:
            yield (
                f"layer {layer}: {_written(start)} has the {count} arrays of "
                f"{by_count[count]} attention, but model.pattern makes it {kind}"
            )


def _kinds_of(config: ReformerConfig) -> tuple[str, ...]:
    return config.run * (config.num_layers // len(config.run))


def _strange(
    expected: Mapping[WeightLocation, _Array],
    arrays: Mapping[WeightLocation, Any],
    locations: Mapping[WeightLocation, WeightLocation],
) -> Iterator[str]:
    """A message for each leaf of the nest that is no weight, or a second time one."""
    for location, value in arrays.items():
        usual, name = _usual(location), _written(location)
        if not isinstance(value, np.ndarray):
            yield f"{name} is {_described(value)}; expected numpy arrays alone"
        elif usual not in expected:
            yield f"{name}, {_described(value)}, is nothing that ReformerLM has there"
        elif locations[usual] != location:
            yield f"{name} and {_written(locations[usual])} are the same weight"


def _misfits(
    expected: Mapping[WeightLocation, _Array],
    arrays: Mapping[WeightLocation, Any],
    locations: Mapping[WeightLocation, WeightLocation],
) -> Iterator[str]:
    """A message for each weight that is missing or has another shape."""
    for usual, array in expected.items():
        if usual not in locations:
            yield f"{array.label}: missing; expected at {_written(usual)}"
            continue
        value, shapes = arrays[locations[usual]], [array.shape]
        if usual[0] == _POSITIONS:
            shapes.append(array.shape[1:])
        if isinstance(value, np.ndarray) and value.shape not in shapes:
            yield (
                f"{array.label}: {_written(locations[usual])} has the shape "
                f"{value.shape}; expected {array.shape} by the config"
            )


def _expected(config: ReformerConfig) -> dict[WeightLocation, _Array]:
    """What a model has, by its usual place."""
    expected = _outer(config)
    for layer, kind in enumerate(_kinds_of(config)):
        repeat, i = divmod(layer, len(config.run))
        start = _PARTS_OF_A_LAYER * layer
        for (part, *inner), array in _inner(config, kind).items():
            target = f"encoder/stack/layers/{kind}_{i}/{array.target}"
            expected[_LAYERS, start + part, *inner] = array._replace(
                target=target, layer=layer, repeat=repeat
            )
    return expected


def _pair(location: WeightLocation, target: str, shapes: Sequence[tuple[int, ...]]):
    """A norm, or a linear map: two arrays."""
    names = ("scale", "bias") if len(shapes[0]) == 1 else ("kernel", "bias")
    return {
        (*location, k): _Array(f"{target}/{names[k]}", shapes[k])
        for k in range(len(shapes))
    }


def _outer(c: ReformerConfig) -> dict[WeightLocation, _Array]:
    wide, embeddings = 2 * c.embed_dim, "encoder/embeddings"

    def table(axis: int) -> _Array:
        ours = (c.axial_shape[axis], c.axial_widths[axis])
        sizes = [1] * len(c.axial_shape)
        sizes[axis] = ours[0]
        shape = (1, *sizes, ours[1])
        change = Transform(lambda x: x.reshape(ours), lambda x: x.reshape(shape))
        name = AXIAL_TABLES[axis]
        return _Array(f"{embeddings}/position_embedder/{name}", shape, change)

    return {
        (1,): _Array(
            f"{embeddings}/token_embedder/embedding", (c.vocab_size, c.embed_dim)
        ),
        **{(_POSITIONS, i): table(i) for i in range(len(c.axial_shape))},
        **_pair((7,), "encoder/final_norm", [(wide,), (wide,)]),
        **_pair((9,), "logits", [(wide, c.vocab_size), (c.vocab_size,)]),
    }


def _inner(c: ReformerConfig, kind: str) -> dict[WeightLocation, _Array]:
    """Of one layer; targets from its name on."""
    e, m, h, d = c.embed_dim, c.mlp_dim, c.num_heads, c.attention_head_dim
    expected = _pair((0, 0, 0), "f/attention_norm", [(e,), (e,)])
    for k, name in enumerate(_PROJECTIONS[kind]):
        shape, change = (
            ((h, d, e), IDENTITY) if name == "out" else ((h, e, d), _HEADS_SECOND)
        )
        expected[0, 1, k] = _Array(f"f/attention/{name}/kernel", shape, change)
    return {
        **expected,
        **_pair((*_MLP, 0), "g/mlp_norm", [(e,), (e,)]),
        **_pair((*_MLP, 1), "g/mlp/wi", [(e, m), (m,)]),
        **_pair((*_MLP, 4), "g/mlp/wo", [(m, e), (e,)]),
    }
