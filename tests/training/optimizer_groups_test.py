"""Learning rates by parameter and frozen parameters, beside optimizers of parts."""

import jax
import numpy as np
import pytest
import toy_job
from optimizer_updates import NAMES, RATE, flat_params, like, make, run
from training_runs import check_stops
from trees import assert_close

from etc_jax import config as config_lib
from etc_jax.training import run as run_lib
from etc_jax.training.errors import UserError
from etc_jax.training.optimizers.optimizer import learning_rate_of
from etc_jax.training.run import train_and_evaluate

FROZEN = (("mlp/.*", 0),)


def random_trees(count):
    return like(flat_params(), 0, count)


def last(tx, params, gradients):
    """(parameters, state) after all updates."""
    return run(tx, params, gradients)[-1]


def test_one_update_of_adamw_by_hand():
    params, gradient = random_trees(2)
    decay, factor, clip = 0.3, 0.25, 0.5
    tx = make(
        "adamw",
        groups=(("(wi|wo)/.*", factor), ("scale", 0)),
        weight_decay=decay,
        clip_norm=clip,
    )
    got, state = last(tx, params, [gradient])
    learnt = [gradient["mlp"]["wi"]["kernel"], gradient["mlp"]["wi"]["bias"]]
    learnt.append(gradient["token_embedder"]["embedding"])
    norm = np.sqrt(sum(np.sum(np.float64(g) ** 2) for g in learnt))
    assert norm > clip

    def moved(p, g, rate, decay):
        g = np.float64(g) * clip / norm
        return p - rate * (g / (np.abs(g) + 1e-6) + decay * p)

    wi, gradients = params["mlp"]["wi"], gradient["mlp"]["wi"]
    slow = RATE * factor
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(
        got["mlp"]["wi"]["kernel"],
        moved(wi["kernel"], gradients["kernel"], slow, decay),
        **close,
    )
    np.testing.assert_allclose(
        got["mlp"]["wi"]["bias"], moved(wi["bias"], gradients["bias"], slow, 0), **close
    )
    table = params["token_embedder"]["embedding"]
    np.testing.assert_allclose(
        got["token_embedder"]["embedding"],
        moved(table, gradient["token_embedder"]["embedding"], RATE, decay),
        **close,
    )
    np.testing.assert_array_equal(
        got["final_norm"]["scale"], params["final_norm"]["scale"]
    )
    assert float(learning_rate_of(state)) == pytest.approx(RATE)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_frozen_is_as_if_it_were_not_there(name):
    params, *gradients = random_trees(4)
    got, state = last(make(name, groups=FROZEN), params, gradients)
    without = [{k: v for k, v in t.items() if k != "mlp"} for t in (params, *gradients)]
    want, state_without = last(make(name), without[0], without[1:])
    jax.tree.map(np.testing.assert_array_equal, got.pop("mlp"), params["mlp"])
    assert_close(got, want, rtol=1e-6, atol=1e-7)
    # No moments of it, in memory or in a checkpoint.
    shapes = [jax.tree.map(np.shape, s) for s in (state, state_without)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_learnt_as_an_array_of_their_own(name):
    params, *gradients = random_trees(4)
    groups = (("token_embedder/embedding[2:5]", 1), ("embedding", 0))
    got, state = last(make(name, groups=groups), params, gradients)

    def cut(tree):
        return {**tree, "token_embedder": {"embedding": _table(tree)[2:5]}}

    want, state_of_rows = last(make(name), cut(params), [cut(g) for g in gradients])
    assert_close(cut(got), want, rtol=1e-6, atol=1e-7)
    others = np.array([0, 1, 5])
    np.testing.assert_array_equal(_table(got)[others], _table(params)[others])
    shapes = [jax.tree.map(np.shape, s) for s in (state, state_of_rows)]
    assert shapes[0] == shapes[1]


def _table(tree):
    return tree["token_embedder"]["embedding"]


def test_the_first_row_of_the_table_that_matches_counts():
    params, gradient = random_trees(2)
    plain, _ = last(make("adamw"), params, [gradient])
    groups = (("embedding[:2]", 0.5), ("embedding", 2.0), (".*", 1.0))
    got, _ = last(make("adamw", groups=groups), params, [gradient])
    factors = np.array([0.5, 0.5, 2, 2, 2, 2])[:, None]
    want = _table(params) + factors * (_table(plain) - _table(params))
    np.testing.assert_allclose(_table(got), want, rtol=1e-5, atol=1e-6)
    assert_close(got["mlp"], plain["mlp"], rtol=1e-6, atol=1e-7)


def test_the_rows_of_scanned_layers_are_layers():
    layers = {"layers": {"wi": {"kernel": np.ones((3, 2, 2), np.float32)}}}
    gradient = jax.tree.map(lambda x: 0 * x + 0.1, layers)
    tx = make("lamb", groups=(("layers/.*[:2]", 0),))
    got, _ = last(tx, layers, [gradient])
    moved = np.any(got["layers"]["wi"]["kernel"] != 1, axis=(1, 2))
    assert moved.tolist() == [False, False, True]


@pytest.mark.parametrize(
    "groups, message",
    [
        ((("encoders/.*", 0.1),), "'encoders/.*' matches the end of no parameter's"),
        ((("mlp/wi", 0.1),), "matches the end of no parameter's path; there are.*mlp/"),
        (((".*", 0),), "factor 0 for every parameter: nothing would be learnt"),
        (((".*", 0.5), ("mlp/.*", 0.1)), "an earlier row of the table has taken them"),
        ((("embedding[6:]", 0.1),), "has no such rows"),
        ((("embedding[1:3]", 0),), "freezes rows of token_embedder/embedding between"),
    ],
)
def test_a_table_that_does_not_fit_is_an_error(groups, message):
    with pytest.raises(UserError, match=message):
        make("adamw", groups=groups).init(random_trees(1)[0])


@pytest.mark.parametrize(
    "groups, message",
    [
        ((("encoder/(", 0.1),), "'encoder/\\(', no regular expression"),
        ((("encoder/.*", -1.0),), "gives 'encoder/.*' -1.0; expected 0 or more"),
        ((("encoder/.*",),), "expected a tuple of 2 values"),
    ],
)
def test_a_table_that_is_none_is_told_with_the_config(groups, message):
    with pytest.raises(config_lib.ConfigError, match=message):
        toy_job.config(optimizer__groups=groups)


def toy():
    groups = (("long_query/kernel", 0), ("embedding[8:]", 0.5), ("embedding", 0))
    return toy_job.config(
        optimizer__groups=groups,
        train__num_steps=8,
        train__check_batches=2,
        mesh__fsdp=2,
    )


@pytest.mark.full
def test_a_run_with_frozen_parameters_is_resumed_bit_by_bit(tmp_path):
    whole = check_stops(toy(), tmp_path, [5])
    first = toy_job.init_params(toy().model, run_lib._rngs(toy())[0])
    params = whole.state.params
    for name in ("long_query", "token_embedder"):
        old, new = (jax.tree.leaves(t[name])[0] for t in (first, params))
        rows = slice(None) if name == "long_query" else slice(8)
        np.testing.assert_allclose(new[rows], old[rows], rtol=1e-6)
    moved = np.asarray(_table(params))[8:] != np.asarray(_table(first))[8:]
    assert moved.any(axis=1).all()
    moments = jax.tree.leaves(whole.state.opt_state)
    assert not [x for x in moments if x.shape == params["long_query"]["kernel"].shape]


def test_an_unmatched_pattern_ends_a_run_before_it_compiles(tmp_path, caplog):
    config = toy_job.config(optimizer__groups=(("encoder/.*", 0.1),))
    with pytest.raises(UserError, match="'encoder/.*' matches the end of no"):
        train_and_evaluate(config, tmp_path / "run")
    assert "compiled" not in caplog.text
