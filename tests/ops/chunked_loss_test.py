"""Logits in float32 from bfloat16, and their loss in chunks."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops import chunked_loss
from etc_jax.sharding import DEFAULT_RULES, MeshConfig, logical_rules, make_mesh
from etc_jax.training.preflight import collectives

ROWS, WIDTH, VOCABULARY = 512, 64, 4096


@pytest.fixture(scope="module")
def wide_case():
    """bfloat16 rows and table whose logits are near 0 to 30, and them in float64."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(1, ROWS, WIDTH)), jnp.bfloat16)
    kernel = jnp.asarray(rng.normal(size=(WIDTH, VOCABULARY)), jnp.bfloat16)
    exact = np.asarray(x, np.float64) @ np.asarray(kernel, np.float64)
    return x, kernel, exact


def ties(scores):
    """Share of rows whose highest logit is there twice."""
    top = np.sort(np.asarray(scores, np.float64), axis=-1)[..., -2:]
    return np.mean(top[..., 0] == top[..., 1])


def test_the_highest_logits_of_bfloat16_rows_do_not_tie(wide_case):
    x, kernel, exact = wide_case
    got = chunked_loss.logits(x, kernel)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-4)
    assert ties(exact) == ties(got) == 0
    assert ties(x @ kernel) > 0.01  # what rounding the sums would give


def test_gradients_of_bfloat16_logits_are_near_float64(wide_case):
    x, kernel, _ = wide_case
    grad = np.random.default_rng(1).normal(size=(1, ROWS, VOCABULARY))
    grad = jnp.asarray(grad, jnp.bfloat16).astype(jnp.float32)
    table = kernel.astype(jnp.float32)  # parameters are float32
    got_x, got_kernel = jax.vjp(chunked_loss.logits, x, table)[1](grad)
    assert got_x.dtype == jnp.bfloat16 and got_kernel.dtype == jnp.float32
    grad, x, kernel = (np.asarray(a, np.float64) for a in (grad, x, kernel))
    np.testing.assert_allclose(np.float64(got_x), grad @ kernel.T, rtol=8e-3, atol=0.5)
    # Not rounded to bfloat16, whose step is 4e-3.
    want = np.einsum("bne,bnv->ev", x, grad)
    np.testing.assert_allclose(got_kernel, want, rtol=1e-4, atol=1e-3)


B, N, E, V = 2, 11, 6, 13


def arrays(dtype=np.float64):
    rng = np.random.default_rng(2)
    x, kernel, bias = (rng.normal(size=s) for s in ((B, N, E), (E, V), (V,)))
    targets = rng.integers(0, V, (B, N))
    weights = rng.random((B, N))
    cast = functools.partial(jnp.asarray, dtype=dtype)
    return cast(x), cast(kernel), cast(bias), jnp.asarray(targets), cast(weights)


# (label smoothing, z-loss): neither, each alone, both.
EXTRAS = [(0.0, 0.0), (0.1, 0.0), (0.0, 1e-2), (0.3, 1e-4)]


def total(x, kernel, bias, targets, weights, chunk_length, extra=(0.0, 0.0)):
    losses, hits = chunked_loss.cross_entropy(
        x,
        kernel,
        bias,
        targets,
        chunk_length,
        label_smoothing=extra[0],
        z_loss=extra[1],
    )
    return jnp.sum(losses * weights), (losses, hits)


def plain(x, kernel, bias, targets, weights, extra=(0.0, 0.0)):
    logits = x @ kernel + bias[None, None]
    log_p = jax.nn.log_softmax(logits)
    wanted = jax.nn.one_hot(targets, V) * (1 - extra[0]) + extra[0] / V
    losses = -jnp.sum(wanted * log_p, axis=-1)
    losses += extra[1] * jnp.log(jnp.sum(jnp.exp(logits), axis=-1)) ** 2
    return jnp.sum(losses * weights), (losses, jnp.argmax(logits, axis=-1) == targets)


@pytest.mark.parametrize("chunk_length", [0, 1, 4, 6, 10, 11, 64])
@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.full(but=["*-0", "*-4", "*-10"])
def test_loss_and_gradients_are_those_of_all_logits_at_once(extra, chunk_length):
    with jax.enable_x64(True):
        *inputs, targets, weights = arrays()
        grads = functools.partial(jax.value_and_grad, argnums=(0, 1, 2), has_aux=True)
        want = grads(plain)(*inputs, targets, weights, extra)
        got = grads(total)(*inputs, targets, weights, chunk_length, extra)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12),
            got,
            want,
        )


def test_smoothing_by_hand():
    # Logits log(1), log(2), log(5): p is 1/8, 2/8, 5/8, their normaliser 8.
    kernel = jnp.log(jnp.asarray([[1.0, 2.0, 5.0]]))
    losses, hits = chunked_loss.cross_entropy(
        jnp.ones((1, 2, 1)),
        kernel,
        jnp.zeros(3),
        jnp.asarray([[2, 0]]),
        label_smoothing=0.3,
        z_loss=0.5,
    )
    nats = -np.log([1 / 8, 2 / 8, 5 / 8])
    want = [0.7 * nats[i] + 0.1 * nats.sum() + 0.5 * np.log(8) ** 2 for i in (2, 0)]
    np.testing.assert_allclose(losses[0], want, rtol=1e-6)
    assert hits.tolist() == [[True, False]]


@pytest.mark.parametrize("chunk_length", [0, 4])
@pytest.mark.parametrize("extra", EXTRAS[1:])
@pytest.mark.full(but=["extra0-4", "extra1-0", "extra2-4"])
def test_in_bfloat16_both_are_near_float64(extra, chunk_length):
    *inputs, targets, weights = arrays(jnp.float32)
    x, kernel, bias = (a.astype(jnp.bfloat16) for a in inputs)
    # As in a model: rows in bfloat16, parameters in float32.
    args = x, *(a.astype(jnp.float32) for a in (kernel, bias))
    grads = functools.partial(jax.value_and_grad, argnums=(0, 1, 2), has_aux=True)
    got = grads(total)(*args, targets, weights, chunk_length, extra)
    assert got[0][1][0].dtype == jnp.float32 and got[1][0].dtype == jnp.bfloat16
    with jax.enable_x64(True):
        exact = [jnp.asarray(np.asarray(a, np.float64)) for a in (*args, weights)]
        want = grads(plain)(*exact[:3], targets, exact[3], extra)
    np.testing.assert_allclose(got[0][1][0], want[0][1][0], rtol=1e-5, atol=1e-5)
    for a, b in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(np.float64(a), b, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    "name, value", [("label_smoothing", 1.5), ("label_smoothing", -0.1), ("z_loss", -1)]
)
def test_what_is_out_of_range_is_refused(name, value):
    *inputs, targets, _ = arrays(np.float32)
    with pytest.raises(ValueError, match=f"{name} is {value}, expected 0"):
        chunked_loss.cross_entropy(*inputs, targets, **{name: value})


def test_what_is_0_is_not_computed():
    *inputs, targets, weights = arrays(np.float32)

    def operations(extra):
        step = jax.grad(lambda *args: total(*args, 4, extra)[0], argnums=(0, 1, 2))
        return str(jax.make_jaxpr(step)(*inputs, targets, weights)).count("=")

    counts = [operations(extra) for extra in EXTRAS]
    assert counts[0] < min(counts[1:3]) <= max(counts[1:3]) < counts[3]


def test_no_array_has_the_logits_of_all_tokens():
    n, v = 1024, 512
    shapes = [((2, n, 8), "f4"), ((8, v), "f4"), ((v,), "f4"), ((2, n), "i4")]
    shapes = [jax.ShapeDtypeStruct(s, jnp.dtype(d)) for s, d in shapes]
    weights = jax.ShapeDtypeStruct((2, n), jnp.float32)

    def temporaries(chunk_length):
        step = jax.grad(
            lambda *args: total(*args, chunk_length, EXTRAS[-1])[0], argnums=(0, 1, 2)
        )
        compiled = jax.jit(step).lower(*shapes, weights).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    everything = 2 * n * v * 4
    assert temporaries(0) > everything
    assert temporaries(64) < everything / 4


def mesh_case(extra):
    """Inputs of `total` for 8 devices, and what it gives for them without chunks."""
    b, n, v = 8, 64, 48
    rng = np.random.default_rng(3)
    inputs = [rng.normal(size=s).astype("f4") for s in ((b, n, E), (E, v), (v,))]
    inputs += [rng.integers(0, v, (b, n)), rng.random((b, n)).astype("f4")]
    loss = functools.partial(total, extra=extra)
    step = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)
    return inputs, step, jax.jit(step, static_argnums=5)(*inputs, 0)


@pytest.mark.parametrize(
    "axes, extra",
    [
        ((2, 4, 1, 1), EXTRAS[0]),
        ((2, 4, 1, 1), EXTRAS[3]),
        ((2, 2, 2, 1), EXTRAS[3]),
        ((2, 1, 1, 4), EXTRAS[0]),
    ],
)
def test_on_a_mesh_chunks_share_one_collection_and_one_reduction(axes, extra):
    mesh = make_mesh(MeshConfig(*axes))
    inputs, step, want = mesh_case(extra)
    rows = jax.NamedSharding(mesh, jax.P(("data", "fsdp"), "sequence"))
    table = jax.NamedSharding(mesh, jax.P(None, ("tensor", "fsdp")))
    whole = jax.NamedSharding(mesh, jax.P())
    with jax.set_mesh(mesh), logical_rules(DEFAULT_RULES):
        run = jax.jit(
            step,
            static_argnums=5,
            in_shardings=(rows, table, whole, rows, rows),
            out_shardings=((whole, (rows, rows)), (rows, table, whole)),
        )
        compiled = run.lower(*inputs, 8).compile()
    for got, expected in zip(
        jax.tree.leaves(compiled(*inputs)), jax.tree.leaves(want), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
    if axes[1] == 4:
        traffic = collectives.count(compiled.as_text())
        assert traffic["all-gather"].runs <= 2  # forward and backward pass
        # Loss, bias and kernel; eight chunks would make it sixteen and more.
        assert sum(traffic[k].runs for k in traffic if "reduce" in k) <= 4


@pytest.mark.torch
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_smoothing_is_that_of_transformers(smoothing):
    torch = pytest.importorskip("torch")
    peer = pytest.importorskip("transformers.trainer_pt_utils").LabelSmoother(smoothing)
    x, kernel, bias, targets, _ = arrays(np.float32)
    losses, _ = chunked_loss.cross_entropy(
        x, kernel, bias, targets, 4, label_smoothing=smoothing
    )
    scores = torch.tensor(np.asarray(x @ kernel + bias[None, None]))
    wanted = torch.tensor(np.asarray(targets)).long()
    want = peer({"logits": scores}, wanted).item()
    np.testing.assert_allclose(losses.mean(), want, rtol=1e-5)
