"""A run that begins with another's parameters."""

import functools
import shutil

import jax
import numpy as np
import pytest
import toy_job
from checkpoint_states import data_file, flip_a_bit
from training_runs import MESH, state_at_start

from etc_jax import config as config_lib
from etc_jax.training import errors, run as run_lib
from etc_jax.training.checkpoints import manifest
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.run import train_and_evaluate

ALL = 6  # parameter arrays of the toy
short = functools.partial(toy_job.config, train__num_steps=8)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The folder of a finished run of 8 steps, and its parameters."""
    folder = tmp_path_factory.mktemp("source")
    result = train_and_evaluate(short(), folder)
    return folder, jax.device_get(result.state.params)


@pytest.fixture
def begin(tmp_path):
    """Starts a run and gives the state that it begins with."""

    def begin(folder, **changes):
        config = toy_job.config(checkpoint__init_from=str(folder), **changes)
        state = state_at_start(config, tmp_path / "new")
        shutil.rmtree(tmp_path / "new")
        return state

    return begin


def refused(tmp_path, folder, **changes):
    config = toy_job.config(checkpoint__init_from=str(folder), **changes)
    with pytest.raises(UserError) as caught:
        train_and_evaluate(config, tmp_path / "new")
    return str(caught.value)


def same(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return [np.array_equal(x, y) for x, y in pairs]


@pytest.mark.parametrize("below", ["", "checkpoints/8"])
@pytest.mark.parametrize("mesh", [{}, MESH])
@pytest.mark.full(but=["mesh0-", "mesh1-checkpoints*"])
def test_parameters_are_taken_and_the_rest_is_fresh(source, begin, below, mesh):
    folder, params = source
    state = begin(folder / below, train__seed=5, **mesh)
    assert same(state.params, params) == [True] * ALL
    assert int(state.step) == 0
    moments = jax.tree.leaves(state.opt_state)
    assert len(moments) > ALL and not any(np.any(x) for x in moments if x.ndim)


def test_the_checkpoint_that_is_named_is_taken(source, begin):
    folder, params = source
    state = begin(folder / "checkpoints" / "4")
    assert not all(same(state.params, params))


def test_a_subtree_is_taken_and_named_parts_start_fresh(source, begin):
    folder, params = source
    partial = ("mlp/wo", "final_norm/")
    state = begin(
        folder, checkpoint__init_from_partial=partial, model__mlp_dim=32, train__seed=5
    )
    taken = {
        name: all(same(state.params[name], params[name]))
        for name in ("token_embedder", "long_query", "final_norm")
    }
    assert taken == {"token_embedder": True, "long_query": True, "final_norm": False}
    assert same(state.params["mlp"]["wi"], params["mlp"]["wi"]) == [True]
    assert not any(same(state.params["mlp"]["wo"], params["mlp"]["wo"]))
    np.testing.assert_array_equal(state.params["mlp"]["wo"]["bias"], 0)


def test_other_shapes_name_each_array_and_the_field(source, tmp_path):
    text = refused(tmp_path, source[0], model__mlp_dim=64)
    assert "2 differences" in text
    assert "mlp/wi/kernel: float32[16, 32] in the checkpoint, float32[16, 64]" in text
    assert "mlp/wo/kernel: float32[32, 16] in the checkpoint, float32[64, 16]" in text
    assert "model.mlp_dim: 32 there, 64 here" in text


def test_another_dtype_names_the_field(source, tmp_path):
    text = refused(tmp_path, source[0], model__dtype="bfloat16")
    assert f"{ALL} differences" in text
    assert "model.dtype: 'float32' there, 'bfloat16' here" in text


def test_what_is_missing_and_what_is_left_over_is_listed(
    source, tmp_path, begin, monkeypatch
):
    folder, params = source
    make = toy_job.init_params

    def other(c, rng):
        made = make(c, rng)
        del made["long_query"]
        return {**made, **{f"mlm_{i}": {"bias": jax.numpy.ones(3)} for i in range(6)}}

    monkeypatch.setattr(toy_job, "init_params", other)
    text = refused(tmp_path, folder)
    assert "7 differences" in text and "code has changed" in text
    assert "long_query/kernel: only in the checkpoint" in text
    for i in range(6):
        assert f"mlm_{i}/bias: not in the checkpoint" in text
    some = ("long_query", "mlm_0", "mlm_1")
    text = refused(tmp_path, folder, checkpoint__init_from_partial=some)
    assert "4 differences" in text and "mlm_0" not in text

    def loss(c, params, *rest):
        query = {"kernel": np.zeros((16, 8, 2), np.float32)}
        return toy_loss(c, {**params, "long_query": query}, *rest)

    toy_loss = toy_job.loss_fn
    monkeypatch.setattr(toy_job, "loss_fn", loss)
    allowed = ("long_query", *(f"mlm_{i}" for i in range(6)))
    state = begin(folder, checkpoint__init_from_partial=allowed)
    assert same(state.params["mlp"], params["mlp"]) == [True] * 3
    np.testing.assert_array_equal(state.params["mlm_0"]["bias"], 1)


def test_a_name_that_stands_for_nothing_is_an_error(source, tmp_path):
    text = refused(tmp_path, source[0], checkpoint__init_from_partial=("mlp/w",))
    assert "has 'mlp/w', but no parameter is named so" in text
    assert "final_norm, long_query, mlp, token_embedder" in text


def test_a_folder_without_a_checkpoint_is_refused_before_anything_else(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(run_lib, "make_job", lambda *a: pytest.fail("too late"))
    text = refused(tmp_path, tmp_path / "nothing")
    assert "checkpoint.init_from: there is no folder" in text
    (tmp_path / "nothing").mkdir()
    text = refused(tmp_path, tmp_path / "nothing")
    assert "nor a finished checkpoint" in text and "checkpoints/STEP" in text
    (tmp_path / "nothing/checkpoints/8").mkdir(parents=True)
    assert "there is no finished checkpoint in it" in refused(
        tmp_path, tmp_path / "nothing"
    )


def test_a_damaged_source_is_named_and_left_alone(source, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(source[0], folder)
    bad = data_file(folder / "checkpoints" / "8")
    flip_a_bit(bad)
    config = short(checkpoint__init_from=str(folder))
    with pytest.raises(CorruptCheckpointError, match="differs from its checksum"):
        train_and_evaluate(config, tmp_path / "new")
    assert bad.exists() and not (folder / "bad_checkpoints").exists()
    (folder / "checkpoints" / "8" / manifest.NAME).unlink()  # it is unfinished then
    result = train_and_evaluate(config, tmp_path / "new")
    assert result.exit_code == errors.DONE


def test_a_run_that_has_begun_needs_its_source_no_more(source, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(source[0], folder)
    config = short(checkpoint__init_from=str(folder))
    first = train_and_evaluate(config, tmp_path / "new")
    shutil.rmtree(folder)
    again = train_and_evaluate(config, tmp_path / "new")
    assert toy_job.digest(again.state) == toy_job.digest(first.state)


def test_names_without_a_source_are_refused():
    with pytest.raises(config_lib.ConfigError, match="init_from is not; name the"):
        toy_job.config(checkpoint__init_from_partial=("mlp",))
