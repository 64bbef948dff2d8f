"""Where arrays live: parameter path -> logical axes -> mesh axes.

Models name no devices. `PARAM_AXES` gives each parameter, found by the end of its
path, the logical axes of its dimensions; `DEFAULT_RULES` maps logical axes to the
four mesh axes. As only the end of a path counts, the moments of an optimizer are
laid out as their parameters are. A path that no row matches is an error.
"""

import contextlib
import contextvars
import dataclasses
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
from jax.experimental import mesh_utils

from etc_jax.base.rules import at_least
from etc_jax.base.types import MeshAxes

AXES = ("data", "fsdp", "tensor", "sequence")
BATCH_AXES = ("data", "fsdp")

Rules = Mapping[str, str | tuple[str, ...] | None]

DEFAULT_RULES: Rules = MappingProxyType(
    {
        # Activations.
        "batch": BATCH_AXES,
        "length": "sequence",
        "activation_embed": None,
        "activation_vocab": "tensor",
        # Activations and parameters.
        "heads": "tensor",
        "head_dim": None,
        "mlp": "tensor",
        # Parameters. The rows of the token table lie over tensor and fsdp: with
        # `embed` over fsdp, as in other weights, the gather's output would have fsdp
        # on its last axis where the batch needs it on the first, and XLA replicates
        # ("Involuntary full rematerialization").
        "vocab": ("tensor", "fsdp"),
        "embed": "fsdp",
        "labels": None,
        "layers": None,
        # Arrays of the optimizer, over more axes than their parameters: "data" makes
        # each copy of the model keep a part of the moments (ZeRO, stage 1).
        "moments": None,
    }
)

REPLICATED = None

# (end of the path, logical axes of the array without its layer axis); first match wins.
_OWN = None  # this dimension is not split
PARAM_AXES: tuple[tuple[str, tuple[str | None, ...] | None], ...] = (
    (r"(decoder_)?token_embedder/embedding", ("vocab", _OWN)),
    (
        r"(segment|position|long_position|global_position)_embedder/embedding",
        REPLICATED,
    ),
    (r"position_embedder/(rows|columns|channels)", REPLICATED),
    (r"(flag|font|parent_font)_embedder/embedding", REPLICATED),
    (r"embedding_projection/kernel", ("embed", _OWN)),
    (r"(long|global)_query/kernel", ("embed", "heads", "head_dim")),
    (
        r"(cross_)?attention(/(flat|blocks|pool))?"
        r"/(query_key|(query|key|value)(_global)?)/kernel",
        ("embed", "heads", "head_dim"),
    ),
    (r"attention/offset/kernel", ("embed", "heads", "head_dim")),
    (r"attention/(key|offset)_bias", ("heads", "head_dim")),
    (r"(l2l|l2g|g2g|g2l)_(key|value)/kernel", ("embed", "heads", "head_dim")),
    (r"(long|global)_out/kernel", ("heads", "head_dim", "embed")),
    (
        r"(cross_)?attention(/(flat|blocks|pool))?/out/kernel",
        ("heads", "head_dim", "embed"),
    ),
    (r"(long|global)_labels/embedding", ("labels", "heads", "head_dim")),
    (r"(long_|global_|answer_)?mlp/wi(_gate)?/kernel", ("embed", "mlp")),
    (r"(long_|global_|answer_)?mlp/wo/kernel", ("mlp", "embed")),
    (r"((mlm|label|paragraph|sentence|type)_dense|pooler)/kernel", ("embed", _OWN)),
    (r"cpc_(prediction|target)/kernel", ("embed", _OWN)),
    (r"logits/kernel", (_OWN, "vocab")),
    # Relative positions of a stack: [buckets, heads].
    (r"(block_)?relpos_bias/rel_embedding", (_OWN, "heads")),
    (r"looks_in/kernel", (_OWN, _OWN)),
    (r"looks_out/kernel", ("embed", _OWN)),
    (r"ngram_\d/kernel", (_OWN, "embed", _OWN)),
    # Heads of a few columns each.
    (r"ngram_\d_logit/kernel", REPLICATED),
    (r"(support|answer_type|answer_span|candidate)/kernel", REPLICATED),
    (r"next_sentence/kernel", REPLICATED),
    (r"((token_)?label|choice|paragraph|sentence|type)_out/kernel", REPLICATED),
    (r"(width|distance)_embedder/embedding", REPLICATED),
    (r"(head_attention|coarse)/kernel", REPLICATED),
    (r"(mention|antecedent)/ffnn/wi/kernel", (_OWN, "mlp")),
    (r"(mention|antecedent)/ffnn/wo/kernel", ("mlp", _OWN)),
    (r"[^/]*norm[^/]*/scale", REPLICATED),
    (r"(bias|mlm_bias|logits_bias)", REPLICATED),
)


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """Devices along each mesh axis; `data=-1` takes all that the others leave.

    Attributes:
      data: copies of the model, each with its own rows of the batch.
      fsdp: rows of the batch too, with the weights split over the devices.
      tensor: heads, MLP columns and vocabulary rows split over the devices.
      sequence: the long sequence split over the devices; they exchange a halo of the
        radius's width and the softmax of the global rows.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1
    sequence: int = 1

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields (field, what is wrong with it)."""
        yield from at_least(1).problems(
            self, *(name for name in AXES if name != "data")
        )
        if self.data < 1 and self.data != -1:
            yield "data", f"is {self.data}; expected 1 or more, or -1: all that is left"


def make_mesh(
    config: MeshConfig, devices: Sequence[jax.Device] | None = None
) -> jax.sharding.Mesh:
    """The mesh over all `devices` (default: all there are), with Auto axes.

    Slices of TPUs, between which the network is slow, have rows of `data` of their own:
    gradients alone go from one to another, once a step.

    Raises:
      ValueError: if the axes do not multiply to the number of devices, or slices do not
        divide `data`.
    """
    devices = list(jax.devices() if devices is None else devices)
    shape = {name: getattr(config, name) for name in AXES}
    if wrong := [f"mesh.{field} {message}" for field, message in config.problems()]:
        raise ValueError("; ".join(wrong))
    others = math.prod(size for name, size in shape.items() if name != "data")
    if shape["data"] == -1:
        shape["data"] = max(1, len(devices) // others)
    needed = shape["data"] * others
    if needed != len(devices):
        sizes = " x ".join(f"{name}={size}" for name, size in shape.items())
        raise ValueError(
            f"mesh {sizes} needs {needed} devices, but there are {len(devices)}; "
            "choose axes whose product is the number of devices (mesh.data=-1 takes "
            f"what is left; fsdp x tensor x sequence = {others} must divide it)"
        )
    # Explicit axes, the default, make a gather on a sharded table an error.
    auto = (jax.sharding.AxisType.Auto,) * len(AXES)
    sizes = tuple(shape.values())
    slices = len({getattr(device, "slice_index", 0) for device in devices})
    if slices == 1:
        return jax.make_mesh(sizes, AXES, axis_types=auto, devices=tuple(devices))
    if devices[0].platform != "tpu":
        # Hosts with GPUs count as slices too, which jax.make_mesh refuses.
        grid = mesh_utils.create_device_mesh(sizes, devices)
        return jax.sharding.Mesh(grid, AXES, axis_types=auto)
    if shape["data"] % slices:
        raise ValueError(
            f"mesh.data is {shape['data']}; expected a multiple of the {slices} "
            "slices, each of which has a copy of the model: fsdp x tensor x sequence = "
            f"{others} must divide the {len(devices) // slices} devices of a slice"
        )
    within = {**shape, "data": shape["data"] // slices}
    grid = mesh_utils.create_hybrid_device_mesh(
        tuple(within.values()),
        (slices, *(1 for _ in AXES[1:])),
        devices,
        allow_split_physical_axes=True,
    )
    return jax.sharding.Mesh(grid, AXES, axis_types=auto)


def path_of(key_path: Any) -> str:
    """The path of a leaf as `a/b/c`."""
    return jax.tree_util.keystr(key_path, simple=True, separator="/")


def axes_for(path: str, ndim: int) -> tuple[str | None, ...]:
    """The logical axis of each dimension of the array at `path`.

    The means of squares that Adafactor keeps of a matrix, "v_row" and "v_col", have the
    axes of its rows, or of its columns, alone.

    Raises:
      ValueError: if no row of `PARAM_AXES` matches, or the array is too small for it.
    """
    if ndim == 0:
        return ()
    pattern, axes = _row_for(path, ndim)
    if axes is REPLICATED:
        return (None,) * ndim
    if (factor := _FACTOR.search(path)) and (matrix := _rows_and_columns(axes)):
        axes = tuple(axes[dim] for dim in matrix[factor[2] == "v_col"])
    if ndim < len(axes):
        raise ValueError(
            f"parameter {path!r} has {ndim} dimensions, but its row "
            f"{pattern!r} of PARAM_AXES names {len(axes)}: {axes}"
        )
    return ("layers",) * (ndim - len(axes)) + axes


_FACTOR = re.compile("(^|/)(v_row|v_col)/")


def _row_for(path: str, ndim: int) -> tuple[str, tuple[str | None, ...] | None]:
    for pattern, axes in PARAM_AXES:
        if re.search(f"(^|/){pattern}$", path):
            return pattern, axes
    raise ValueError(
        f"no sharding rule matches parameter {path!r} ({ndim} dimensions); "
        "add a row to PARAM_AXES in etc_jax/sharding/__init__.py"
    )


def _rows_and_columns(axes: Sequence[str | None]) -> list[list[int]] | None:
    """Dimensions of (rows, columns); a head and its size are one. None: no matrix."""
    groups: list[list[int]] = []
    for dim, axis in enumerate(axes):
        if axis == "head_dim" and dim and axes[dim - 1] == "heads":
            groups[-1].append(dim)
        else:
            groups.append([dim])
    return groups if len(groups) == 2 else None


def matrix_dims(path: str, ndim: int) -> tuple[tuple[int, ...], ...] | None:
    """Which dimensions of a parameter are the rows and the columns of its matrix.

    Layers are neither. Heads and their size go together, as in the matrix product.

    Returns:
      (dimensions of the rows, of the columns); None for what is no matrix and for
      tables that `PARAM_AXES` keeps whole.

    Raises:
      ValueError: see `axes_for`.
    """
    if ndim == 0 or (axes := _row_for(path, ndim)[1]) is REPLICATED:
        return None
    layers = len(axes_for(path, ndim)) - len(axes)
    matrix = _rows_and_columns(axes)
    return matrix and tuple(tuple(layers + dim for dim in dims) for dims in matrix)


def spec_for(path: str, ndim: int, rules: Rules = DEFAULT_RULES) -> jax.P:
    """The partition of the array at `path`; see `axes_for` for errors."""
    return jax.P(*(_mesh_axes(axis, rules) for axis in axes_for(path, ndim)))


def _mesh_axes(axis: str | None, rules: Rules) -> str | tuple[str, ...] | None:
    if axis is None:
        return None
    if axis not in rules:
        raise ValueError(f"no rule for logical axis {axis!r}; there are {list(rules)}")
    return rules[axis]


def indivisible(
    path: str, shape: Sequence[int], spec: jax.P, sizes: Mapping[str, int]
) -> Iterator[str]:
    for dim, (size, axes) in enumerate(zip(shape, spec, strict=False)):
        names = (axes,) if isinstance(axes, str) else axes or ()
        ways = math.prod(sizes[name] for name in names)
        if size % ways:
            over = " x ".join(f"{name}={sizes[name]}" for name in names)
            yield (
                f"{path}: dimension {dim} of {tuple(shape)} is {size}, not divisible "
                f"by {ways} (mesh axes {over}); {nearest_multiples(size, ways)}, "
                "or make the mesh axis smaller"
            )


def nearest_multiples(size: int, ways: int) -> str:
    """Says which sizes near `size` divide into `ways`."""
    down, up = size // ways * ways, -(-size // ways) * ways
    return f"nearest valid: {up}" if down == 0 else f"nearest valid: {down} or {up}"


def _spread(
    spec: jax.P, shape: Sequence[int], more: Any, sizes: Mapping[str, int]
) -> jax.P:
    """The partition, with the dimension of the largest parts cut over `more` axes too.

    What divides in no dimension stays as it is.
    """
    more = (more,) if isinstance(more, str) else tuple(more or ())
    held = [(axes,) if isinstance(axes, str) else tuple(axes or ()) for axes in spec]
    further = math.prod(sizes[name] for name in more)
    parts = {}
    for dim, (size, axes) in enumerate(zip(shape, held, strict=True)):
        ways = math.prod(sizes[name] for name in axes)
        if size and size % (ways * further) == 0:
            parts[dim] = size // ways
    if further == 1 or not parts:
        return spec
    largest = max(parts, key=parts.get)
    return jax.P(
        *(held[dim] + more if dim == largest else axes for dim, axes in enumerate(spec))
    )


def tree_shardings(
    tree: Any, mesh: jax.sharding.Mesh, rules: Rules = DEFAULT_RULES
) -> Any:
    """The `NamedSharding` of every leaf of a tree of parameters or a train state.

    Where the rule of "moments" names axes, what is below "opt_state" is split over
    those too, in a dimension that divides.

    Args:
      tree: leaves with `shape`; abstract ones do.
      mesh: from `make_mesh`.
      rules: logical axis -> mesh axes.

    Raises:
      ValueError: naming every leaf that has no rule or does not divide.
    """
    wrong: list[str] = []

    def one(key_path, leaf):
        path = path_of(key_path)
        try:
            spec = spec_for(path, len(leaf.shape), rules)
        except ValueError as error:
            wrong.append(str(error))
            return None
        wrong.extend(indivisible(path, leaf.shape, spec, mesh.shape))
        if path.startswith("opt_state/"):
            spec = _spread(spec, leaf.shape, rules.get("moments"), mesh.shape)
        return jax.NamedSharding(mesh, spec)

    shardings = jax.tree_util.tree_map_with_path(one, tree)
    if wrong:
        raise ValueError(f"{len(wrong)} sharding problems:\n  " + "\n  ".join(wrong))
    return shardings


_RULES: contextvars.ContextVar[Rules | None] = contextvars.ContextVar(
    "logical_rules", default=None
)


@contextlib.contextmanager
def logical_rules(rules: Rules) -> Iterator[None]:
    """Makes `constrain` act; must be active while a function is traced."""
    token = _RULES.set(rules)
    try:
        yield
    finally:
        _RULES.reset(token)


@contextlib.contextmanager
def whole_sequences() -> Iterator[None]:
    """Inside it, while a function is traced, sequences are whole on every device."""
    rules = _RULES.get()
    if rules is None:
        yield
        return
    with logical_rules({**rules, "length": None}):
        yield


@contextlib.contextmanager
def sequences_as_rows() -> Iterator[None]:
    """Inside it the devices of a split sequence have rows of the batch of their own."""
    rules = _RULES.get()
    if rules is None or rules["length"] is None:
        yield
        return
    rows = (*rules["batch"], rules["length"])
    with logical_rules({**rules, "batch": rows, "length": None}):
        yield


def active_rules() -> Rules | None:
    """The rules that `constrain` follows here; None where there are none."""
    return _RULES.get()


def ways(*logical_axes: str) -> int:
    """Into how many pieces an array with these axes is split, here.

    Like `constrain` it speaks of the rules and the mesh that are set while a function
    is traced; 1 without.
    """
    sizes = jax.sharding.get_abstract_mesh().shape
    return math.prod(sizes[name] for axis in logical_axes for name in _splits(axis))


def mesh_axes() -> MeshAxes:
    """The mesh axes that batch and heads are split over, here: see `ways`."""
    return MeshAxes(_splits("batch"), _splits("heads"))


def _splits(logical_axis: str) -> tuple[str, ...]:
    rules, sizes = _RULES.get(), jax.sharding.get_abstract_mesh().shape
    if rules is None:
        return ()
    axes = _mesh_axes(logical_axis, rules)
    axes = (axes,) if isinstance(axes, str) else axes or ()
    return tuple(name for name in axes if sizes.get(name, 1) > 1)


def sequence_axis() -> str | None:
    """The mesh axis that the long sequence is split over here; None if it is whole."""
    return _RULES.get()["length"] if ways("length") > 1 else None


def constrain(x: jax.Array, *logical_axes: str | None) -> jax.Array:
    """Pins the layout of `x`, of any shape; `x` itself when no rules are set.

    Raises:
      ValueError: unless there is one known logical axis for each dimension.
    """
    rules = _RULES.get()
    if rules is None:
        return x
    if len(logical_axes) != x.ndim:
        raise ValueError(
            f"{len(logical_axes)} logical axes {logical_axes} for an array of "
            f"{x.ndim} dimensions {x.shape}; expected one for each"
        )
    spec = jax.P(*(_mesh_axes(axis, rules) for axis in logical_axes))
    return jax.lax.with_sharding_constraint(x, spec)
