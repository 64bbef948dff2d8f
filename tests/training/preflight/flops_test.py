import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.ops.attention import sliding_window
from etc_jax.training.preflight.flops import matmul_flops

A, B = jnp.ones((3, 4)), jnp.ones((4, 5))
ONE = 2 * 3 * 4 * 5  # FLOPs of A @ B


def count(f, *args):
    return matmul_flops(jax.jit(f).trace(*args).jaxpr)


def test_a_product_and_its_batch():
    assert count(lambda a, b: a @ b + 1, A, B) == ONE
    batched = jnp.ones((7, 3, 4)), jnp.ones((7, 4, 5))
    assert count(lambda a, b: jnp.einsum("bij,bjk->bik", a, b), *batched) == 7 * ONE


def test_a_backward_pass_has_two_products_for_each():
    loss = jax.value_and_grad(lambda a, b: jnp.sin(a @ b).sum(), argnums=(0, 1))
    assert count(loss, A, B) == 3 * ONE


def test_a_scan_counts_as_often_as_it_turns():
    def layers(x, weights):
        return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]

    x, weights = jnp.ones((2, 4)), jnp.ones((6, 4, 4))
    assert count(layers, x, weights) == 6 * 2 * 2 * 4 * 4
    # XLA's own count takes the body once; this is why it is not used.
    compiled = jax.jit(layers).lower(x, weights).compile()
    assert compiled.cost_analysis()["flops"] < 2 * 2 * 2 * 4 * 4


def test_what_nothing_reads_does_not_count():
    """Such as losses of a pass over microbatches of which weights alone are wanted."""

    def first_sum(x):
        carry = lambda c, _: ((c[0] + x.sum(), c[1] @ c[1].T), None)  # noqa: E731
        return jax.lax.scan(carry, (0.0, x), length=3)[0][0]

    assert count(first_sum, jnp.ones((4, 4))) == 0


def test_what_is_rematerialised_counts_again():
    def f(a, b):
        return jnp.sin(jnp.sin(a @ b) @ b.T).sum()

    plain, again = (
        count(jax.value_and_grad(g, argnums=(0, 1)), A, B)
        for g in (f, jax.checkpoint(f))
    )
    assert plain == 6 * ONE
    assert again > plain


def test_a_custom_derivative_is_looked_into():
    @jax.custom_vjp
    def f(a, b):
        return a @ b

    f.defvjp(lambda a, b: (f(a, b), (a, b)), lambda r, g: (g @ r[1].T, r[0].T @ g))
    assert count(f, A, B) == ONE
    loss = jax.value_and_grad(lambda a, b: f(a, b).sum(), argnums=(0, 1))
    assert count(loss, A, B) == 3 * ONE


def test_of_branches_the_most_expensive_counts():
    def f(flag, a, b):
        return jax.lax.cond(flag, lambda: (a @ b) @ b.T, lambda: a * 2)

    assert count(f, True, A, B) == 2 * ONE


def test_a_convolution():
    x, kernel = jnp.ones((1, 3, 10)), jnp.ones((5, 3, 4))  # [b, c, n], [out, c, w]

    def f(x, kernel):
        return jax.lax.conv_general_dilated(x, kernel, (1,), "VALID")

    assert f(x, kernel).shape == (1, 5, 7)
    assert count(f, x, kernel) == 2 * 5 * 7 * 3 * 4


@pytest.mark.parametrize("axes", [("x",), ("x", "y")])
def test_a_shard_map_counts_for_each_device(axes):
    mesh = jax.make_mesh(
        (4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2
    )
    a = jnp.ones((8, 4))

    def f(a, b):
        return jax.shard_map(
            lambda a, b: a @ b,
            mesh=mesh,
            in_specs=(jax.P(axes), jax.P()),
            out_specs=jax.P(axes),
            axis_names=set(axes),
        )(a, b)

    assert count(f, a, B) == 2 * 8 * 4 * 5


def test_a_pallas_kernel_counts_for_each_cell_of_its_grid():
    from jax.experimental import pallas as pl

    def kernel(a, b, out):
        out[...] = a[...] @ b[...]

    def f(a, b):
        return pl.pallas_call(
            kernel,
            grid=(6,),
            in_specs=[
                pl.BlockSpec((8, 16), lambda i: (i, 0)),
                pl.BlockSpec((16, 8), lambda i: (0, 0)),
            ],
            out_specs=pl.BlockSpec((8, 8), lambda i: (i, 0)),
            out_shape=jax.ShapeDtypeStruct((48, 8), np.float32),
            interpret=True,
        )(a, b)

    assert count(f, jnp.ones((48, 16)), jnp.ones((16, 8))) == 2 * 48 * 16 * 8


def test_kernels_count_the_tiles_that_they_work_on():
    """Of a window: not one tile, and not all of them."""
    n, h, d, radius, tile = 1024, 2, 16, 100, 64
    rows = jnp.ones((3, n, h, d), jnp.bfloat16)

    def attend(query, implementation="pallas"):
        how = {"radius": radius, "implementation": implementation}
        return sliding_window.attend(query, rows, rows, **how)

    blocks = n // tile
    # 2 tiles and some places to each side, where there are so many.
    tiles = sum(min(i, 2) + 1 + min(blocks - 1 - i, 2) for i in range(blocks))
    product = 2 * 3 * h * tiles * tile**2 * d
    assert count(attend, rows) == 2 * product

    def loss(query):
        return attend(query).astype(jnp.float32).sum()

    # Two products forward; three for the rows; four for the keys. And those of outputs
    # with their gradients.
    assert count(jax.grad(loss), rows) == (2 + 3 + 4) * product + 2 * rows.size
