"""An evaluation equals a plain loop over its batches, and does not wait for each."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.sharding.batch import replicated
from etc_jax.training import evaluation
from etc_jax.training.errors import UserError
from etc_jax.training.job import Job
from etc_jax.training.step import make_eval_step

ROWS, COLUMNS = 8, 3
PARAMS = {"w": np.float32(1.7)}
HOT = {"hot": 1.0}


def loss_fn(params, batch, rng, deterministic):
    del rng
    assert deterministic
    values = jnp.tanh(params["w"] * batch["x"]) * batch["weights"]
    total, count = values.sum(), batch["weights"].sum()
    return {
        "hot": (total, count),
        "cold": (2 * total, jnp.float32(batch["x"].size)),
        "never": (0 * total, 0 * count),
    }


def batches_of(number, threads=None):
    rng = np.random.default_rng(0)
    for _ in range(number):
        if threads is not None:
            threads.append(threading.current_thread().name)
        x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
        yield {"x": x, "weights": (rng.random((ROWS, COLUMNS)) < 0.4).astype("f4")}


def make(batches, *, loss_weights=HOT, max_batches=None):
    """An evaluator on 8 devices; `batches` makes those of one evaluation."""
    mesh = make_mesh(MeshConfig())
    job = Job(
        init_params=lambda rng: PARAMS,
        loss_fn=loss_fn,
        train_batch=lambda step, rows: None,
        eval_batches=lambda rows: (
            {k: v[rows] for k, v in batch.items()} for batch in batches()
        ),
        tokens_per_step=1,
        check_batch=lambda batch: [],
        loss_weights=loss_weights,
    )
    step = jax.jit(make_eval_step(loss_fn), out_shardings=replicated(mesh))
    return evaluation.Evaluator(
        job, mesh, step, batch_size=ROWS, max_batches=max_batches, ahead=2
    )


def expected(number):
    """(sum, weight) of a plain loop in float64."""
    total = count = 0.0
    for batch in batches_of(number):
        weights = batch["weights"].astype(np.float64)
        values = np.tanh(np.float64(PARAMS["w"]) * batch["x"]) * weights
        total, count = total + values.sum(), count + weights.sum()
    return total, count


@pytest.mark.parametrize("kept", [3, 1024])
def test_means_are_those_of_a_plain_loop(monkeypatch, kept):
    monkeypatch.setattr(evaluation, "_KEPT", kept)
    total, count = expected(8)
    got = make(lambda: batches_of(8))(PARAMS)
    assert got["hot"] == pytest.approx(total / count, rel=1e-6)
    assert got["cold"] == pytest.approx(2 * total / (8 * ROWS * COLUMNS), rel=1e-6)
    assert got["loss"] == got["hot"]
    assert np.isnan(got["never"])


def test_sums_of_many_batches_lose_no_digits():
    totals = evaluation._Totals()
    for value in (2.0**25, *[1.0] * 99):  # in float32, 2**25 + 1 is 2**25
        totals.add({"a": (np.float32(value), np.float32(0.5))})
    assert totals.sums() == {"a": (2.0**25 + 99, 50.0)}


def test_a_loss_of_parts_weighs_each_by_its_targets():
    weights = {"hot": 0.8, "cold": 0.2, "never": 5.0, "in training alone": 3.0}
    got = make(lambda: batches_of(5), loss_weights=weights)(PARAMS)
    assert got["loss"] == pytest.approx(0.8 * got["hot"] + 0.2 * got["cold"])
    assert np.isnan(
        make(lambda: batches_of(1), loss_weights={"never": 1})(PARAMS)["loss"]
    )


def test_sums_are_fetched_once_and_batches_are_made_in_a_thread(monkeypatch):
    evaluate, threads, fetched = make(lambda: batches_of(6, threads)), [], []
    get = jax.device_get
    monkeypatch.setattr(jax, "device_get", lambda x: fetched.append(1) or get(x))
    evaluate(PARAMS)
    assert len(fetched) == 1
    assert threads == ["prefetch"] * 6


def test_no_more_batches_than_asked_for_and_the_same_ones_again():
    evaluate = make(lambda: batches_of(6), max_batches=4)
    total, count = expected(4)
    for _ in range(2):
        assert evaluate(PARAMS)["hot"] == pytest.approx(total / count, rel=1e-6)


def test_it_stops_between_two_batches_when_it_is_told_to():
    answers = iter([False, False, True])
    evaluate = make(lambda: batches_of(100))
    assert evaluate(PARAMS, should_stop=lambda: next(answers)) is None
    assert next(answers, "all asked") == "all asked"
    assert not [t for t in threading.enumerate() if t.name == "prefetch"]


def test_nothing_to_evaluate_on_is_an_error():
    with pytest.raises(UserError, match="nothing to evaluate on"):
        make(lambda: batches_of(0))(PARAMS)


def test_an_error_in_a_batch_reaches_the_caller():
    def broken():
        yield from batches_of(1)
        raise OSError("bad sector")

    with pytest.raises(OSError, match="bad sector"):
        make(broken)(PARAMS)
