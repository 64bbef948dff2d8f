"""Which checkpoints stay: the newest, the milestones, the best."""

import math

import pytest
import toy_job
from checkpoint_states import kept, make_state, save_all, states_by_step
from etils import epath
from hypothesis import given, strategies as st

from etc_jax.training import evaluation
from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.checkpoints.retention import Retention
from etc_jax.training.errors import UserError
from etc_jax.training.run import train_and_evaluate


def stay(retention, metrics):
    return sorted(set(metrics) - set(retention.dispensable(metrics)))


def test_rules_by_hand():
    metrics = {10: 3.0, 20: 1.0, 30: 2.0, 40: None, 50: 2.5, 60: 9.0}
    assert stay(Retention(2), metrics) == [50, 60]
    assert stay(Retention(1, keep_every_steps=20), metrics) == [20, 40, 60]
    assert stay(Retention(1, keep_best=2), metrics) == [20, 30, 60]
    highest = Retention(1, keep_best=2, best_is="highest")
    assert stay(highest, metrics) == [10, 60]
    assert stay(Retention(1, 30, keep_best=1), metrics) == [20, 30, 60]


@given(
    st.dictionaries(st.integers(1, 50), st.none() | st.floats(-5, 5), min_size=1),
    st.integers(1, 5),
    st.none() | st.integers(1, 10),
    st.integers(0, 4),
)
def test_deleting_one_by_one_keeps_the_best_of_all(metrics, keep, every, best):
    """As checkpoints come one after the other, none that is best at the end is gone."""
    retention = Retention(keep, every, best)
    there = {}
    for step in sorted(metrics):
        there[step] = metrics[step]
        for old in retention.dispensable(there):
            assert old != max(there)  # never the newest
            del there[old]
    assert sorted(there) == stay(retention, metrics)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_what_was_not_measured_is_not_ranked(value):
    retention = Retention(1, keep_best=1)
    assert retention.metric_in({"loss": value}) is None
    assert retention.metric_in({}) is None
    assert retention.metric_in({"loss": 0.5}) == 0.5


def test_metrics_survive_a_restart(tmp_path):
    state = states_by_step(make_state())[2]
    for step, loss in ((1, 0.3), (2, 0.1), (3, 0.2), (4, 0.4), (5, 0.5)):
        with Checkpointer(tmp_path, keep=1, keep_best=2) as checkpointer:
            data = {"evaluation": {"loss": loss}}
            checkpointer.save(state, data, step=step)
    assert kept(tmp_path) == ["2", "3", "5"]


def test_milestones_stay_on_disk(tmp_path):
    save_all(tmp_path, states_by_step(make_state()), keep=1, keep_every_steps=4)
    assert kept(tmp_path) == ["4", "6"]


def test_a_run_keeps_its_best(tmp_path, monkeypatch):
    losses = iter([1.0, 4.0, 2.0, 3.0])  # of steps 3, 6, 9 and 12
    monkeypatch.setattr(
        evaluation.Evaluator,
        "__call__",
        lambda *args, **options: {"loss": next(losses), "tokens": 0.0},
    )
    config = toy_job.config(
        checkpoint__every_steps=3,
        checkpoint__keep=1,
        checkpoint__keep_best=2,
        train__eval_every_steps=3,
        checkpoint__best_metric="loss",
    )
    train_and_evaluate(config, tmp_path)
    assert kept(tmp_path) == ["12", "3", "9"]
    folder = CheckpointFolder(epath.Path(tmp_path))
    assert folder.evaluation(9) == {"loss": 2.0, "tokens": 0.0}
    assert manifest.verify(folder.path(9)) is None


def test_a_figure_that_no_evaluation_gives_is_refused(tmp_path):
    config = toy_job.config(
        checkpoint__keep_best=1,
        checkpoint__every_steps=6,
        checkpoint__best_metric="accuracy",
    )
    with pytest.raises(UserError, match="best_metric is 'accuracy', .* loss, tokens;"):
        train_and_evaluate(config, tmp_path)


def test_the_space_that_is_needed():
    c = toy_job.config(
        checkpoint__keep=2, checkpoint__keep_every_steps=400, checkpoint__keep_best=0
    ).checkpoint
    assert c.most_kept(1000) == 2 + 2
    assert c.most_kept(0) == 1
    assert toy_job.config(checkpoint__keep=2).checkpoint.most_kept(1000) == 2
