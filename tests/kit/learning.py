"""What learns a data set, on a few windows: parameters, batches, gradients, descent."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from data_sets import tokenizer_of
from mean_loss import loss_of
from structured_batch import stacked_labels

from etc_jax.config.kinds import section_of
from etc_jax.data.schema import stacked
from etc_jax.objectives.learners import finetuning


def learner_of(task, model, **choices):
    """The learner of a data set in a format, for a model and choices of its section."""
    section = section_of(task.name, task.format)(task.name, **choices)
    return finetuning.find(model, section, task.format, options=task.changed_options)


def random_params(learner, *, scale=0.5, seed=0):
    """Normal numbers, and 1 for scales; compiling initialisers would take long."""
    rng = np.random.default_rng(seed)

    def fill(path, leaf):
        if path[-1].key == "scale":
            return np.ones(leaf.shape, leaf.dtype)
        return (scale * rng.normal(size=leaf.shape)).astype(leaf.dtype)

    abstract = jax.eval_shape(learner.init, jax.random.key(0))
    return jax.tree_util.tree_map_with_path(fill, abstract)


def batch_of(windows, weights=None):
    """Inputs, labels and weights of some windows."""
    weights = np.ones(len(windows)) if weights is None else weights
    labels = stacked_labels(windows)
    return {**stacked(windows), "labels": labels, "weights": np.float32(weights)}


def evaluated(learner):
    """(parameters, batch) -> (loss, metrics, gradients, outputs), compiled at once."""

    @jax.jit
    def run(params, batch):
        grad_fn = jax.value_and_grad(loss_of(learner), has_aux=True)
        (loss, sums), grads = grad_fn(params, batch, None, True)
        return loss, sums, grads, learner.outputs(params, batch)

    return run


@dataclasses.dataclass
class Trained:
    """A learner after some steps on all windows of some records at once."""

    task: Any
    learner: Any
    windows: list
    params: Any
    losses: list[float]

    def metrics(self) -> dict[str, float]:
        """The official metrics of the records that it was trained on."""
        outputs = jax.jit(self.learner.outputs)(self.params, stacked(self.windows))
        answers = self.task.answers(
            jax.tree.map(np.asarray, outputs), self.windows, self.task.setting
        )
        records = {w.record.id: w.record for w in self.windows}
        gold = [self.task.gold(record) for record in records.values()]
        return self.task.score(gold, self.task.official(answers)).metrics


def trained(task, values, sizes, model, *, steps, rate, **choices) -> Trained:
    """Descends on raw records; choices are those of `learner_of`."""
    tokenizer = tokenizer_of(task)
    records = [task.parse(value, lambda *note: None) for value in values]
    windows = [w for r in records for w in task.features(r, tokenizer, sizes)]
    learner, batch = learner_of(task, model, **choices), batch_of(windows)
    assert learner.problems(batch) == []
    params = jax.tree.map(jnp.asarray, random_params(learner, scale=0.2, seed=1))
    optimizer = optax.adam(rate)

    @jax.jit
    def step(params, state):
        loss_fn = lambda p: loss_of(learner)(p, batch, None, True)[0]  # noqa: E731
        value, grads = jax.value_and_grad(loss_fn)(params)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    losses, state = [], optimizer.init(params)
    for _ in range(steps):
        params, state, value = step(params, state)
        losses.append(float(value))
    return Trained(task, learner, windows, params, losses)
