"""What every family of models promises, checked for a small model of it.

A case says what its model is; what it can is asked of `models.abilities`. One program
gives outputs, loss and gradients of a batch, and most checks are runs of it.
"""

import contextlib
import dataclasses
import functools
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from random_params import assert_equal, drawn

from etc_jax import sharding
from etc_jax.conversion.formats import native
from etc_jax.generation import decoding, loop as generation
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.layers.stack import unstack_layers
from etc_jax.models import abilities, family as families, useful_flops
from etc_jax.structure import Structure
from etc_jax.training.preflight.flops import matmul_flops

ROWS, INPUT, TARGET, GLOBALS = 4, 24, 8, 6
VOCABULARY = 24
# Tokens of the packed examples of the first row, in each of its sequences.
PACKED = {INPUT: (8, 8), TARGET: (3, 3), GLOBALS: (2, 2)}
SPLIT = {"data": 2, "fsdp": 2, "tensor": 2}
# Largest difference of outputs in float32, of a model as a whole.
CLOSE = 2e-5
# Largest root mean square of what bfloat16 changes, in spreads of the outputs.
BFLOAT16 = 0.02


class Batch(NamedTuple):
    """Arguments of a model.

    Attributes:
      tokens: int `[b, n]` each: of a sequence; of encoder and decoder; long, global.
      ids: their examples, 0 is padding.
      index: int `[b, g]`, where global tokens stand; None: the model has none.
    """

    tokens: tuple[np.ndarray, ...]
    ids: tuple[np.ndarray, ...]
    index: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class FamilyCase:
    """A small model of a family, all of whose widths differ.

    Attributes:
      family: its name.
      config: of four layers, in runs of two where layers may differ.
      model: class of the module that has all parameters; None: by the record.
      alone: changes under which a row has what it has alone, whatever stands after it:
        no chunks that lie otherwise.
      whole: changes under which tokens see all of their example.
      one_head: changes that go with one head.
      without_gradient: regular expression of the ends of the paths of parameters that
        move no output: what is added to all keys of a query, in one softmax.
      spread: standard deviation of parameters: what tells tokens apart, and does not
        make errors of rounding large.
      mesh: over which the model equals one device.
    """

    family: str
    config: Any
    model: type | None = None
    alone: dict[str, Any] = dataclasses.field(default_factory=dict)
    whole: dict[str, Any] = dataclasses.field(default_factory=dict)
    one_head: dict[str, Any] = dataclasses.field(default_factory=dict)
    without_gradient: str = "key(_global)?/bias"
    spread: float = 0.3
    mesh: dict[str, int] = dataclasses.field(default_factory=lambda: SPLIT)

    def can(self, ability: str) -> bool:
        """Of this config."""
        return abilities.ask(self.family, ability, self.config).can

    def changed(self, **changes: Any) -> "FamilyCase":
        """The same with another config."""
        return dataclasses.replace(
            self, config=dataclasses.replace(self.config, **changes)
        )

    @property
    def record(self) -> families.Family:
        return families.find(self.family)

    @property
    def is_pair(self) -> bool:
        """Encoder and decoder."""
        return self.record.seq2seq is not None

    @property
    def packs(self) -> bool:
        """Packed examples have the rows that they have alone, or in one chunk."""
        # A Reformer's language model has positions of a row.
        return self.can("packed") or (self.is_pair and bool(self.alone))

    @property
    def is_masked(self) -> bool:
        """It predicts masked tokens."""
        return not self.is_pair and not getattr(self.config, "causal", False)

    @property
    def module(self) -> Any:
        record = self.record
        lm = record.masked_lm if self.is_masked else record.causal_lm
        return (self.model or record.seq2seq or lm)(self.config)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Of the sequences."""
        if self.is_pair:
            return INPUT, TARGET
        return (INPUT, GLOBALS) if self.model else (INPUT,)

    def __hash__(self) -> int:
        return hash((self.family, self.config))


def batch_of(case: FamilyCase, *, padding: int = 0) -> Batch:
    """One example a row, of the first row two where they can be packed.

    Args:
      case: of the model.
      padding: seed of what stands in padding.
    """
    real, other = np.random.default_rng(0), np.random.default_rng(1 + padding)
    tokens, ids = [], []
    for n in case.lengths:
        marks = np.ones((ROWS, n), np.int32)
        if case.packs:
            marks[0] = np.repeat([1, 2, 0], (*PACKED[n], n - sum(PACKED[n])))
        marks[1, _shorter(case, n) :] = 0
        rows = (rng.integers(3, VOCABULARY, (ROWS, n)) for rng in (real, other))
        tokens.append(np.where(marks > 0, *rows).astype(np.int32))
        ids.append(marks)
    index = None
    if case.config.has_globals and (case.is_pair or case.is_masked):
        index = np.array([[0, 9, -1], [5, -1, -1], [2, 19, 10], [-1, -1, -1]], np.int32)
    return Batch(tuple(tokens), tuple(ids), index)


def _shorter(case: FamilyCase, n: int) -> int:
    """The real tokens of a padded row: as few as change no other one."""
    limits = [pattern.padding_limit for pattern in case.config.patterns]
    return next(
        x for x in range(3 * n // 4, n) if all((of(x) or n) >= n for of in limits)
    )


def structure_of(batch: Batch) -> Structure:
    """Of an ETC: by turns tokens are of the first two sentences of their example."""
    long, other = batch.ids
    # [b, n, g] -> [b, n]
    first = jnp.argmax(other[:, None] == long[..., None], axis=-1)
    links = jnp.where(long > 0, first + jnp.arange(long.shape[1])[None] // 2 % 2, -1)
    links = links.astype(jnp.int16)
    return Structure(long, other, links[..., None])


def _arguments(case: FamilyCase, batch: Batch) -> tuple[tuple, dict[str, Any]]:
    named = {} if batch.index is None else {"global_index": batch.index}
    if case.is_pair:
        return (*batch.tokens, *batch.ids), named
    if case.model:
        # The logits of all places.
        rows, n = batch.ids[0].shape
        every = np.broadcast_to(np.arange(n, dtype=np.int32), (rows, n))
        return (*batch.tokens, structure_of(batch), every), {}
    return (*batch.tokens, *batch.ids), named


@functools.cache
def shapes_of(case: FamilyCase) -> Any:
    """Of the parameters."""
    args, named = _arguments(case, batch_of(case))
    key = jax.random.key(0)
    return jax.eval_shape(lambda: case.module.init(key, *args, **named))["params"]


@functools.cache
def params_of(case: FamilyCase) -> Any:
    """Numbers that are large enough to tell tokens apart."""
    return drawn(shapes_of(case), spread=case.spread)


def outputs(case: FamilyCase, params: Any, batch: Batch) -> tuple[jax.Array, ...]:
    """What the model says of each token: `[b, n, ...]` of one or more sequences."""
    args, named = _arguments(case, batch)
    with jax.default_matmul_precision("highest"):
        out = case.module.apply({"params": params}, *args, **named)
    if case.model:
        return out[1], out[0].global_
    return (out,)


def output_ids(case: FamilyCase, batch: Batch) -> tuple[np.ndarray, ...]:
    """Examples of the tokens of `outputs`."""
    return batch.ids[-1:] if case.is_pair else batch.ids


def loss_and_outputs(case: FamilyCase, params: Any, batch: Batch):
    """(a loss that each real output enters with its own weight, outputs)."""
    out, total = outputs(case, params, batch), 0.0
    for x, ids in zip(out, output_ids(case, batch), strict=True):
        weight = jnp.cos(jnp.arange(x.size, dtype=jnp.float32)).reshape(x.shape)
        total += jnp.sum(jnp.where(ids[..., None] > 0, x * weight, 0))
    return total, out


class Results(NamedTuple):
    """Of one run."""

    loss: Any
    outputs: tuple[Any, ...]
    gradient: Any


@functools.cache
def _compiled(case: FamilyCase, devices: int):
    del devices  # what a mesh makes of a program is another program
    loss = functools.partial(loss_and_outputs, case)
    return jax.jit(jax.value_and_grad(loss, has_aux=True))


def run(
    case: FamilyCase, batch: Batch, params: Any = None, devices: int = 1
) -> Results:
    """Loss, outputs and gradients, by the one program of a case."""
    params = params_of(case) if params is None else params
    (loss, out), gradient = _compiled(case, devices)(params, batch)
    return jax.device_get(Results(loss, out, gradient))


@functools.cache
def expected(case: FamilyCase) -> Results:
    """Of `batch_of` on one device."""
    return run(case, batch_of(case))


def _run_outputs(case: FamilyCase, params: Any, batch: Batch) -> tuple[np.ndarray, ...]:
    """By a smaller program."""
    program = jax.jit(functools.partial(outputs, case))
    return jax.device_get(program(params, batch))


# --- checks ---------------------------------------------------------------------------


def check_gradients(case: FamilyCase) -> None:
    """All are finite, and each parameter has one but those that move nothing."""
    for path, x in jax.tree_util.tree_leaves_with_path(expected(case).gradient):
        name = sharding.path_of(path)
        assert np.isfinite(x).all(), name
        # Of each of stacked layers.
        layers = len(x) if "/layers/" in name else 1
        largest = np.abs(x).reshape(layers, -1).max(axis=1)
        moves = not re.search(rf"{case.without_gradient}$", name)
        assert np.all((largest > 1e-4) == moves), (name, largest)


def check_padding(case: FamilyCase) -> None:
    """What stands in padding is not read, by outputs or by gradients."""
    case = case.changed(**case.alone)
    first, other = (run(case, batch_of(case, padding=i)) for i in (0, 1))
    marks = output_ids(case, batch_of(case))
    np.testing.assert_array_equal(first.loss, other.loss)
    for a, b, ids in zip(first.outputs, other.outputs, marks, strict=True):
        np.testing.assert_array_equal(a[ids > 0], b[ids > 0])
    for a, b in zip(
        *map(jax.tree.leaves, (first.gradient, other.gradient)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-6 * max(1, np.abs(b).max()))


def check_alone(case: FamilyCase) -> None:
    """Rows are those of an array that ends with them, and of packed examples."""
    case = case.changed(**case.alone)
    batch, found = batch_of(case), expected(case).outputs
    row, numbers = (0, (1, 2)) if case.packs else (1, (1,))
    # [examples, tokens] of each sequence.
    places = [
        np.stack([np.flatnonzero(ids[row] == number) for number in numbers])
        for ids in batch.ids
    ]
    tokens = tuple(x[row, at] for x, at in zip(batch.tokens, places, strict=True))
    index = batch.index
    if index is not None:
        # Global tokens of each example, counted from its start.
        index = index[row] - places[0][:, :1]
        index = np.where((index >= 0) & (index < places[0].shape[1]), index, -1)
    alone = Batch(tokens, tuple(np.ones_like(x) for x in tokens), index)
    want = _run_outputs(case, params_of(case), alone)
    own = places[-1:] if case.is_pair else places
    for got, x, at in zip(found, want, own, strict=True):
        np.testing.assert_allclose(got[row, at], x, atol=CLOSE)


def check_bfloat16(case: FamilyCase) -> None:
    """Nearer to float32 than float32 with parameters of four bits is."""
    case = case.changed(**case.alone)
    batch, want = batch_of(case), expected(case).outputs

    def coarse(x):
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.round(mantissa * 2**4) / 2**4, exponent).astype(x.dtype)

    narrow = _run_outputs(case.changed(dtype="bfloat16"), params_of(case), batch)
    other = run(case, batch, jax.tree.map(coarse, params_of(case))).outputs
    for near, far, x, ids in zip(
        narrow, other, want, output_ids(case, batch), strict=True
    ):
        spread = np.std(x[ids > 0])
        errors = [
            np.sqrt(np.mean((np.float32(y) - x)[ids > 0] ** 2)) / spread
            for y in (near, far)
        ]
        assert 1e-4 < errors[0] < BFLOAT16 < errors[1], errors


def check_a_mesh(case: FamilyCase) -> None:
    """Outputs, loss and gradients over 8 devices are those of one."""
    params, batch = params_of(case), batch_of(case)
    with on_mesh(case.mesh) as mesh:
        placed = jax.device_put(params, sharding.tree_shardings(params, mesh))
        got = run(case, batch, placed, devices=8)
    for a, b in zip(*map(jax.tree.leaves, (got, expected(case))), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=CLOSE * max(1, np.abs(b).max()))


@contextlib.contextmanager
def on_mesh(axes: dict[str, int]):
    """The mesh of some axes, entered with the rules."""
    mesh = sharding.make_mesh(sharding.MeshConfig(**{"data": 1} | axes))
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        yield mesh


def check_refusals(case: FamilyCase) -> None:
    """What the table says of a split sequence and of kernels is what models say."""

    def refusal(**changes):
        changed = case.changed(**changes)
        try:
            jax.eval_shape(
                functools.partial(outputs, changed), params_of(case), batch_of(case)
            )
        except ValueError as error:
            return str(error)

    with on_mesh({"sequence": 8}):
        assert_answer(case, "sequence axis", refusal())
    if not case.can("kernels"):
        assert_answer(case, "kernels", refusal(attention="pallas"))


def assert_answer(case: FamilyCase, ability: str, refusal: str | None) -> None:
    answer = abilities.ask(case.family, ability, case.config)
    assert answer.can == (refusal is None), refusal
    assert answer.words in (refusal or "")


def check_steps(case: FamilyCase) -> None:
    """Token by token from a cache as all at once."""
    case = case.changed(**case.alone)
    batch, params = batch_of(case), params_of(case)
    # Two rows of one example without padding.
    rows, (want,) = slice(2, 4), expected(case).outputs
    decoder, memory = decoding.decoder_of(case.family, case.config), None
    tokens, n = batch.tokens[-1][rows], case.lengths[-1]
    with jax.default_matmul_precision("highest"):
        if case.is_pair:
            index = None if batch.index is None else batch.index[rows]
            of_input = batch.tokens[0][rows], batch.ids[0][rows], index
            memory = jax.jit(functools.partial(generation.encode, decoder))(
                params, *of_input
            )
        start = n // 2
        logits, cache = decoding.prefill(
            decoder, params, tokens[:, :start], n, None, memory
        )
        for i in range(start, n):
            np.testing.assert_allclose(logits, want[rows, i - 1], atol=CLOSE)
            logits, cache = decoding.step(decoder, params, cache, tokens[:, i])
    np.testing.assert_allclose(logits, want[rows, -1], atol=CLOSE)


def check_layers(case: FamilyCase) -> None:
    """Scanned layers are those compiled one by one, with the dense oracle."""

    def one_by_one(tree):
        made = {}
        for name, x in tree.items():
            is_tree = isinstance(x, dict)
            change = unstack_layers if name.endswith("stack") else one_by_one
            made[name] = change(x) if is_tree else x
        return made

    batch, params, dense = batch_of(case), params_of(case), {"attention": "dense"}
    got = _run_outputs(case, params, batch)
    # A reversible stack is scanned always.
    if any(field.name == "scan_layers" for field in dataclasses.fields(case.config)):
        params, dense = one_by_one(params), dense | {"scan_layers": False}
    want = _run_outputs(case.changed(**dense), params, batch)
    for a, b, ids in zip(got, want, output_ids(case, batch), strict=True):
        np.testing.assert_allclose(a[ids > 0], b[ids > 0], atol=CLOSE)


def check_flops(case: FamilyCase) -> None:
    """Useful FLOPs are those of the dense program: tokens see all of their example."""
    case = case.changed(attention="dense")
    made = batch_of(case)
    batch = Batch(made.tokens, tuple(np.ones_like(x) for x in made.ids))
    predicted = {
        ("masked" if case.is_masked else "causal") + "_logits": made.ids[-1].size
    }
    if case.model:
        predicted = {"masked_logits": made.ids[0].size}
    useful = functools.partial(
        useful_flops.of_step, case.config, case.family, **predicted
    )
    loss = lambda params: loss_and_outputs(case, params, batch)[0]  # noqa: E731
    step = jax.make_jaxpr(jax.value_and_grad(loss))(params_of(case))
    computed = matmul_flops(step.jaxpr)
    c, later = case.config, 0
    if not case.is_masked:
        # The dense form multiplies pairs of later tokens too, to mask them.
        n, layers, heads = INPUT, c.num_layers, c.num_heads
        if case.is_pair:
            n, layers, heads = TARGET, c.num_decoder_layers, c.decoder_side.num_heads
        pairs = layers * ROWS * n * (n - 1) / 2
        later = useful_flops.PASSES * 4 * pairs * heads * c.head_dim
    np.testing.assert_allclose(
        useful(flops_inputs(case, batch)) + later, computed, rtol=0.02
    )
    longer = Batch(
        tuple(np.pad(x, ((0, 1), (0, 5))) for x in batch.tokens),
        tuple(np.pad(x, ((0, 1), (0, 5))) for x in batch.ids),
    )
    assert useful(flops_inputs(case, longer)) == useful(flops_inputs(case, batch))


def flops_inputs(case: FamilyCase, batch: Batch) -> Any:
    """See `useful_flops.Flops`."""
    if case.model:
        return [structure_of(batch)]
    inputs = tuple(map(SequenceInputs, batch.ids))
    return inputs if case.is_pair else inputs[0]


def check_saved(case: FamilyCase, folder: Any) -> None:
    """Config and parameters come back from a folder, bit by bit."""
    native.save(folder, params_of(case), case.config, {})
    params, config = native.load(folder)
    assert config == case.config
    assert_equal(params, params_of(case))
