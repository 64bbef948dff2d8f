"""Several inputs in one pass over the layers of ETC."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_params import random_params

from etc_jax import sharding
from etc_jax.models.etc.body import Etc
from etc_jax.models.etc.config import EtcConfig
from etc_jax.structure import Structure
from etc_jax.training.preflight import collectives

SMALL = {
    "vocab_size": 16,
    "embed_dim": 8,
    "num_layers": 4,
    "num_heads": 2,
    "mlp_dim": 16,
    "radius": 2,
    "max_distance": 2,
    "num_labels": 8,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "lsh_chunk_length": 4,
}


def one_input(rows, n, g, seed):
    rng = np.random.default_rng(seed)
    ids, global_ids = np.ones((rows, n), np.int32), np.ones((rows, g), np.int32)
    ids[:, n // 2 :], global_ids[:, 1:] = 2, 2
    ids[0, -2:] = 0
    links = np.where(ids == 2, 1, 0)[..., None].astype(np.int16)
    tokens = [rng.integers(1, 16, (rows, x), np.int32) for x in (n, g)]
    return *tokens, Structure(ids, global_ids, links)


def both_inputs(rows=2):
    return one_input(rows, 21, 3, seed=0), one_input(rows, 9, 2, seed=1)


def made(deterministic=True, **changes):
    """(model, random parameters)."""
    config = EtcConfig(**SMALL | changes)
    main, _ = both_inputs()
    params = random_params(Etc(config).init, *main, seed=1)
    return Etc(config, deterministic), params


def outputs(model, params, inputs, *, together, rngs=None):
    apply = functools.partial(model.apply, {"params": params}, rngs=rngs)
    if together:
        return apply(*inputs, method="together")
    return tuple(apply(*one) for one in inputs)


def close(got, want):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), got, want
    )


def test_each_output_and_gradient_is_that_of_its_input_alone():
    inputs = both_inputs()

    def run(together, **changes):
        model, params = made(**changes)

        def loss(params):
            out = outputs(model, params, inputs, together=together)
            return sum(jnp.sum(jnp.sin(x)) for x in jax.tree.leaves(out)), out

        return jax.jit(jax.value_and_grad(loss, has_aux=True))(params)

    close(run(True, remat_policy="attention"), run(False))


@pytest.mark.parametrize(
    "changes",
    [
        {"scan_layers": False, "pattern": ("global_local", "lsh"), "num_layers": 2},
        {"reversible": True, "pre_norm": True, "num_layers": 2},
    ],
    ids=["pattern", "reversible"],
)
@pytest.mark.full
def test_so_it_is_with_other_stacks(changes):
    model, params = made(**changes)
    inputs = both_inputs()
    run = jax.jit(
        lambda p, flag: outputs(model, p, inputs, together=flag), static_argnums=1
    )
    close(run(params, True), run(params, False))


@pytest.mark.full
def test_dropout_is_drawn_apart():
    model, params = made(deterministic=False, dropout_rate=0.5)
    main, _ = both_inputs()
    rngs = {"dropout": jax.random.key(0)}
    first, second = outputs(model, params, (main, main), together=True, rngs=rngs)
    assert np.abs(first.long - second.long).max() > 0.1


def gathers(model, params, inputs):
    """Runs of all-gathers when the weights lie over 8 devices."""
    mesh = sharding.make_mesh(sharding.MeshConfig(data=1, fsdp=8))
    layout = sharding.tree_shardings(params, mesh)
    rows = jax.NamedSharding(mesh, jax.P(sharding.BATCH_AXES))
    run = jax.jit(
        lambda params, inputs: outputs(model, params, inputs, together=True),
        in_shardings=(layout, rows),
        out_shardings=rows,
    )
    with jax.set_mesh(mesh), sharding.logical_rules(sharding.DEFAULT_RULES):
        text = run.lower(params, inputs).compile().as_text()
    return collectives.count(text)["all-gather"].runs


@pytest.mark.full
def test_a_split_weight_is_collected_once_for_both():
    model, params = made()
    main, lone = both_inputs(rows=8)
    alone = gathers(model, params, (main,))
    # Four projections of queries, keys and values, of outputs and feed-forward each.
    assert alone >= 4 * 8
    assert gathers(model, params, (main, lone)) <= alone + 2  # the table's rows
