"""Fine-tuning: what a task learns with, and which learner a config asks for."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax.config import Config, kinds as config_kinds
from etc_jax.config.sections import FinetuningConfig, RegularisedConfig
from etc_jax.data.schema import LABELS, WEIGHTS, Schema, at
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.task import Task, find as find_data_set
from etc_jax.objectives import r3f
from etc_jax.objectives.r3f import Choice
from etc_jax.training.job import Sums


@dataclasses.dataclass(frozen=True)
class Learner(abc.ABC):
    """Parameters, outputs and loss of one task.

    Outputs need no labels and no weights.

    Attributes:
      models: configs of the models that there may be; see `takes`.
      section: of the objective in a config.
      hub_task: the Hub of Hugging Face's name of the task; None: the Hub has none.
      schema: what it reads of a batch besides labels and weights.
      learns_from: what a batch to learn from has besides the schema.
      model: config of the model, one of those that it takes.
      objective: choices of the head and the loss, a `section`.
      classes: names of the classes, where some are chosen; see `FeatureConverter`.
      options: how inputs are made.
    """

    models: ClassVar[tuple[type, ...]]
    section: ClassVar[type[RegularisedConfig]] = FinetuningConfig
    hub_task: ClassVar[str | None] = None
    schema: ClassVar[Schema]
    learns_from: ClassVar[tuple[str, ...]] = (LABELS, WEIGHTS)

    model: Any
    objective: RegularisedConfig
    classes: tuple[str, ...] = ()
    options: InputOptions = InputOptions()

    @classmethod
    def takes(cls) -> tuple[type, ...]:
        """Configs of the models that there may be."""
        return cls.models

    @property
    def problem(self) -> str | None:
        """Why objective, classes and options do not go together; None if they do."""
        return None

    @property
    def why_no_outputs(self) -> str | None:
        """Why the model can be trained, but gives no outputs yet; None if it does."""
        return None

    @abc.abstractmethod
    def init(self, rng: jax.Array) -> Any:
        """Parameters by part, from a scalar key; no size depends on a length."""

    @abc.abstractmethod
    def outputs(self, params: Any, batch: Any) -> Any:
        """The model's outputs for a batch, without dropout: arrays of `[b, ...]`."""

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """See `Job.loss_weights`."""
        return r3f.loss_weights(self.objective.r3f)

    @abc.abstractmethod
    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Loss and metrics as (sum, weight), in float32; see `Job.loss_fn`."""

    @abc.abstractmethod
    def flops_inputs(self, batch: Any) -> Any:
        """What the encoder reads of a batch, for `models.useful_flops`; None where that
        leaves out too much."""

    def readable(self, outputs: Any, tokenizer: Tokenizer) -> Any:
        """Outputs as numpy arrays, as the data set takes them.

        Args:
          outputs: of `outputs`, fetched.
          tokenizer: of the model.
        """
        del tokenizer
        return outputs

    def smallest_batch(self) -> dict[str, Any]:
        """One row, enough for `inputs`."""
        return self.schema.smallest()

    def is_token(self, batch: Any) -> jax.Array:
        """bool `[b, n]`, where a batch has a token of the text and no padding."""
        return at(batch, self.schema.marks[self.schema.text[0]]) > 0

    def problems(self, batch: Any) -> list[str]:
        """What is wrong with a batch of numpy arrays; see `Schema.problems`."""
        return self.schema.problems(batch, self.model)


class Finetuning(Learner):
    """A task of a module with a head, of whose outputs the loss is."""

    @abc.abstractmethod
    def module(self, deterministic: bool) -> Any:
        """The Linen module of encoder and head, whose output the loss is of."""

    @abc.abstractmethod
    def losses(self, outputs: Any, batch: Any) -> tuple[jax.Array, Sums]:
        """(sum of the examples' losses, metrics as (sum, weight)), in float32."""

    @abc.abstractmethod
    def distributions(self, outputs: Any, batch: Any) -> list[Choice]:
        """What the outputs say of each example, weighted as in its loss; for R3F."""

    def comparable(self, clean: Any, noisy: Any) -> tuple[Any, Any]:
        """Outputs of two passes, changed so that they are of the same choices."""
        return clean, noisy

    @abc.abstractmethod
    def inputs(self, batch: Any) -> tuple[Any, ...]:
        """What the module is called with, of a batch, and `named_inputs` by name."""

    def named_inputs(self, batch: Any) -> dict[str, Any]:
        """See `inputs`."""
        del batch
        return {}

    def init(self, rng: jax.Array) -> Any:
        """Parameters of the module, from a scalar key."""
        batch = self.smallest_batch()
        inputs, named = self.inputs(batch), self.named_inputs(batch)
        return self.module(True).init(rng, *inputs, **named)["params"]

    def outputs(self, params: Any, batch: Any) -> Any:
        """The head's logits without dropout, in float32; see `models`."""
        return self._apply(params, batch, None)

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Loss and metrics of the examples of weight 1, as (sum, weight).

        In training it may have the term of `objectives.r3f`; its metric is "r3f".
        """
        outputs = self._apply(params, batch, None if deterministic else rng)
        total, metrics = self.losses(outputs, batch)
        weights = batch["weights"]
        sums = {"loss": (total, jnp.sum(weights)), **metrics}
        options = self.objective.r3f
        if deterministic or not options.weight:
            return sums
        key, noise = r3f.second_pass(options, rng)
        with noise():
            noisy = self._apply(params, batch, key)
        both = self.comparable(outputs, noisy)
        apart = r3f.divergences(*(self.distributions(x, batch) for x in both))
        return sums | r3f.term(apart, weights)

    def _apply(self, params, batch, rng):
        rngs = None if rng is None else {"dropout": rng}
        inputs, named = self.inputs(batch), self.named_inputs(batch)
        module = self.module(rng is None)
        return module.apply({"params": params}, *inputs, **named, rngs=rngs)


def learner_of(task: Task, model: Any = None) -> type[Learner]:
    """What learns a data set in one format.

    Args:
      task: the data set.
      model: config of the model; None: see `config.kinds.learner_of`.

    Raises:
      ValueError: if nothing does.
    """
    try:
        return config_kinds.learner_of(task, None if model is None else type(model))
    except KeyError as error:
        raise ValueError(f"{task.name}: {error.args[0]}") from error


def find(
    model: Any,
    objective: RegularisedConfig,
    format: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Learner:
    """What learns the data set that the objective names.

    Args:
      model: config of the encoder.
      objective: its name is that of the data set.
      format: of the inputs; None: the first one that the model takes.
      options: of the inputs, those that are not as by default.

    Raises:
      ValueError: if there is no such data set or option, or it is not for such a model.
    """
    task = find_data_set(objective.name).in_format(format or model.formats[0])
    return _learner_for(model, objective, task.with_options(options or {}))


def _learner_for(model: Any, objective: RegularisedConfig, task: Task) -> Learner:
    family = _family(type(model))
    if task.format not in model.formats:
        raise ValueError(
            f"inputs of {task.name} are asked for in format {task.format!r}, but "
            f"{family} takes {', '.join(model.formats)}; set data.format or "
            "model.family"
        )
    learner_class = learner_of(task, model)
    if not isinstance(model, learner_class.takes()):
        names = ", ".join(map(_family, learner_class.takes()))
        raise ValueError(
            f"objective {objective.name} trains {names}, not {family}; set model.family"
        )
    learner = learner_class(model, objective, task.classes, task.options)
    if learner.problem is not None:
        raise ValueError(learner.problem)
    return learner


def _family(model: type) -> str:
    return model.__name__.removesuffix("Config")


def of_config(config: Config) -> Learner:
    """What learns the data set that the config of a run names.

    Raises:
      ValueError: as for `find`.
    """
    learner = _learner_for(config.model, config.objective, task_of(config))
    if config.data.flat and "structure" not in learner.schema.groups:
        raise ValueError(
            f"data.flat is True, but inputs in format {learner.schema.name!r} have no "
            "structure to leave out; set it to False"
        )
    return learner
