"""Fine-tuning: encoder, head and loss of a task; those of ETC (its paper, app. C)."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from etc_jax import registry
from etc_jax.config import Config
from etc_jax.config_fields import Problem
from etc_jax.config_sections import FinetuningConfig, ObjectiveConfig
from etc_jax.data.schema import LABELS, WEIGHTS, Schema, at
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.data.windows.label_names import NATURAL_QUESTIONS_PLACES
from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.options import InputOptions
from etc_jax.datasets.task import Task
from etc_jax.datasets.task import find as find_data_set
from etc_jax.formats import structured
from etc_jax.models.encoder_heads import SpanLogits
from etc_jax.models.etc_config import EtcConfig
from etc_jax.models.heads import (
    AnswerLogits,
    CandidateHead,
    EtcWithHead,
    HotpotqaHead,
    LabelsHead,
    NaturalQuestionsHead,
    SpanHead,
)
from etc_jax.objectives.batch_checks import wrong_structure
from etc_jax.objectives.losses import candidates, qa_span
from etc_jax.objectives.losses.alias_spans import alias_spans
from etc_jax.objectives.losses.labels import label_loss
from etc_jax.training.job import Sums
from etc_jax.types import Rows

# Class of the answer type that has a span.
_SPAN = 0
# For the metrics of a run; decoding searches the threshold (appendix C.2).
_SUPPORT_THRESHOLD = 0.4


@dataclasses.dataclass(frozen=True)
class Learner(abc.ABC):
    """Parameters, outputs and loss of one task.

    Outputs need no labels and no weights.

    Attributes:
      models: configs of the models that there may be.
      section: of the objective in a config.
      schema: what it reads of a batch besides labels and weights.
      learns_from: what a batch to learn from has besides the schema.
      model: config of the model, of one of `models`.
      objective: choices of the head and the loss, a `section`.
      classes: names of the classes, where one of them is chosen; see `Form`.
      options: how inputs are made.
    """

    models: ClassVar[tuple[type, ...]]
    section: ClassVar[type] = FinetuningConfig
    schema: ClassVar[Schema]
    learns_from: ClassVar[tuple[str, ...]] = (LABELS, WEIGHTS)

    model: Any
    objective: ObjectiveConfig
    classes: tuple[str, ...] = ()
    options: InputOptions = InputOptions()

    @abc.abstractmethod
    def init(self, rng: jax.Array) -> Any:
        """Parameters by part; their sizes do not depend on the input's lengths."""

    @abc.abstractmethod
    def outputs(self, params: Any, batch: Any) -> Any:
        """What the model makes of a batch, without dropout: arrays of `[b, ...]`."""

    @abc.abstractmethod
    def loss(self, params, batch, rng, deterministic: bool) -> tuple[jax.Array, Sums]:
        """(mean loss, metrics as (sum, weight)), in float32."""

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
    def inputs(self, batch: Any) -> tuple[Any, ...]:
        """What the module is called with, of a batch, and `named_inputs` by name."""

    def named_inputs(self, batch: Any) -> dict[str, Any]:
        """See `inputs`."""
        del batch
        return {}

    def init(self, rng: jax.Array) -> Any:
        batch = self.smallest_batch()
        inputs, named = self.inputs(batch), self.named_inputs(batch)
        return self.module(True).init(rng, *inputs, **named)["params"]

    def outputs(self, params: Any, batch: Any) -> Any:
        """The head's logits without dropout, in float32; see `models`."""
        return self._apply(params, batch, None)

    def loss(self, params, batch, rng, deterministic: bool) -> tuple[jax.Array, Sums]:
        """Mean loss over the examples of weight 1, and metrics as (sum, weight)."""
        outputs = self._apply(params, batch, None if deterministic else rng)
        total, sums = self.losses(outputs, batch)
        examples = jnp.sum(batch["weights"])
        return total / jnp.maximum(examples, 1), {"loss": (total, examples), **sums}

    def _apply(self, params, batch, rng):
        rngs = None if rng is None else {"dropout": rng}
        inputs, named = self.inputs(batch), self.named_inputs(batch)
        module = self.module(rng is None)
        return module.apply({"params": params}, *inputs, **named, rngs=rngs)


class EtcFinetuning(Finetuning):
    """A task of structured inputs."""

    models: ClassVar[tuple[type, ...]] = (EtcConfig,)
    schema: ClassVar[Schema] = structured.SCHEMA

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (
            Rows(batch["long_tokens"], batch["global_tokens"]),
            batch["structure"],
            Rows(batch["long_types"], batch["global_types"]),
        )

    def flops_inputs(self, batch: Any) -> Any:
        return [batch["structure"]]

    def problems(self, batch: Any) -> list[str]:
        return super().problems(batch) or list(
            wrong_structure(batch, "structure", self.model)
        )


class HeadFinetuning(EtcFinetuning):
    """A task that is a head on the encoder: parameters `encoder`, `head`."""

    @abc.abstractmethod
    def head(self, config: EtcConfig, deterministic: bool) -> Any:
        """The Linen module on the encoder, named "head"; see `models.heads`."""

    def module(self, deterministic: bool) -> EtcWithHead:
        return EtcWithHead(self.model, self.head, deterministic)


@registry.register("learner", "hotpotqa/structured")
class Hotpotqa(HeadFinetuning):
    """Supporting sentences, answer type and span: outputs are `AnswerLogits`."""

    def head(self, config: EtcConfig, deterministic: bool) -> HotpotqaHead:
        return HotpotqaHead(config, name="head")

    def losses(self, outputs: AnswerLogits, batch: Any) -> tuple[jax.Array, Sums]:
        labels, weights = batch["labels"], batch["weights"]
        total, parts, examples = qa_span.hotpotqa(
            outputs.support,
            outputs.answer_type,
            outputs.span,
            weights=weights,
            **labels,
        )
        figures = {f"{name}_loss": (part, examples) for name, part in parts.items()}
        kind = labels["answer_type"]
        places = jnp.stack([labels["begin"], labels["end"]], axis=-1)
        spans = weights * (kind == _SPAN)
        return total, {
            **figures,
            "answer_type_accuracy": accuracy(outputs.answer_type, kind, weights),
            "span_accuracy": _span_accuracy(outputs.span, places, spans),
            "support_f1": support_f1(outputs.support, labels["support"], weights),
        }


def accuracy(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """(right, all) of classes: `[b, c]`, `[b]`, `[b]`."""
    right = jnp.argmax(logits, axis=-1) == targets
    return jnp.sum(right * weights), jnp.sum(weights)


def _span_accuracy(logits: jax.Array, places: jax.Array, weights: jax.Array):
    """(right, all) of spans, both ends of them: `[b, n, 2]`, `[b, 2]`, `[b]`."""
    right = jnp.all(jnp.argmax(logits, axis=1) == places, axis=-1)
    return jnp.sum(right * weights), jnp.sum(weights)


def support_f1(logits: jax.Array, targets: jax.Array, weights: jax.Array):
    """(numerator, denominator) of F1 over the global tokens of a batch."""
    given = jax.nn.sigmoid(logits) >= _SUPPORT_THRESHOLD
    targets = targets > 0
    weights = weights[:, None]
    both = 2.0 * jnp.sum((given & targets) * weights)
    return both, jnp.sum((given * 1.0 + targets) * weights)


def answer_losses(outputs: AnswerLogits, batch: Any) -> tuple[jax.Array, Sums]:
    """The losses of Natural Questions; see `Finetuning.losses`.

    Accuracies of spans are over the windows that hold the whole answer.
    """
    labels, weights = batch["labels"], batch["weights"]
    kind = labels["answer_type"]
    places = jnp.stack([labels[name] for name in NATURAL_QUESTIONS_PLACES], axis=-1)
    total, parts, examples = qa_span.natural_questions(
        outputs.answer_type,
        outputs.span,
        answer_type=kind,
        places=places,
        weights=weights,
    )
    figures = {f"{name}_loss": (part, examples) for name, part in parts.items()}
    figures["answer_type_accuracy"] = accuracy(outputs.answer_type, kind, weights)
    for name, ends in (("short", slice(0, 2)), ("long", slice(2, 4))):
        whole = weights * jnp.all(places[:, ends] > 0, axis=-1)
        figures[f"{name}_accuracy"] = _span_accuracy(
            outputs.span[..., ends], places[:, ends], whole
        )
    return total, figures


@registry.register("learner", "natural_questions/structured")
class NaturalQuestions(HeadFinetuning):
    """Answer type, short and long answer: outputs are `AnswerLogits`."""

    def head(self, config: EtcConfig, deterministic: bool) -> NaturalQuestionsHead:
        return NaturalQuestionsHead(config, name="head")

    def losses(self, outputs: AnswerLogits, batch: Any) -> tuple[jax.Array, Sums]:
        return answer_losses(outputs, batch)


@registry.register("learner", "labels/structured")
class Labels(HeadFinetuning):
    """A class of the whole text: outputs are float32 `[b, classes]`."""

    def head(self, config: EtcConfig, deterministic: bool) -> LabelsHead:
        return LabelsHead(config, len(self.classes), name="head")

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        targets, weights = batch["labels"]["label"], batch["weights"]
        total, hits, examples = label_loss(outputs, targets, weights)
        return total, {"accuracy": (hits, examples)}


@registry.register("learner", "triviaqa/structured")
class Triviaqa(HeadFinetuning):
    """Any place that names the answer: outputs are `SpanLogits` of the long tokens."""

    def head(self, config: EtcConfig, deterministic: bool) -> SpanHead:
        return SpanHead(config, name="head")

    def losses(self, outputs: SpanLogits, batch: Any) -> tuple[jax.Array, Sums]:
        return span_losses(outputs, batch, self.is_token(batch))


def span_losses(
    outputs: Any, batch: Any, is_token: jax.Array
) -> tuple[jax.Array, Sums]:
    """See `Finetuning.losses`; of answers that several places may give.

    Args:
      outputs: with `start` and `end`, logits of the tokens of the text, `[b, n]`.
      batch: with the labels `starts` and `ends`; see `alias_spans`.
      is_token: see `Finetuning.is_token`.
    """
    labels, weights = batch["labels"], batch["weights"]
    total, parts, hits, examples = alias_spans(
        outputs.start,
        outputs.end,
        starts=labels["starts"],
        ends=labels["ends"],
        is_token=is_token,
        weights=weights,
    )
    figures = {f"{name}_loss": (part, examples) for name, part in parts.items()}
    return total, {**figures, "span_accuracy": (hits, examples)}


@dataclasses.dataclass(frozen=True)
class WikihopConfig(FinetuningConfig):
    """Options of WikiHop.

    Attributes:
      final_layer: one more feed-forward block before the logits.
      label_smoothing: share of the target spread over all candidates.
    """

    final_layer: bool = True
    label_smoothing: float = 0.0

    def problems(self) -> Iterator[Problem]:
        if not 0 <= self.label_smoothing < 1:
            yield (
                "label_smoothing",
                f"is {self.label_smoothing}; expected 0 <= label_smoothing < 1",
            )


@registry.register("learner", "wikihop/structured")
class Wikihop(HeadFinetuning):
    """One of the candidates: outputs are float32 `[b, g]`, a logit a global token."""

    section = WikihopConfig

    def head(self, config: EtcConfig, deterministic: bool) -> CandidateHead:
        final = self.objective.final_layer
        return CandidateHead(config, final, deterministic, name="head")

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        total, hits, examples = candidates.choice(
            outputs,
            batch["global_types"] == GLOBAL_CANDIDATE_TYPE,
            batch["labels"]["candidate"],
            batch["weights"],
            label_smoothing=self.objective.label_smoothing,
        )
        return total, {"accuracy": (hits, examples)}


def learner_of(task: Task) -> type[Learner]:
    """What learns a data set in one format.

    Raises:
      ValueError: if nothing does.
    """
    try:
        return registry.lookup("learner", f"{task.learner}/{task.format}")
    except KeyError as error:
        raise ValueError(f"{task.name}: {error.args[0]}") from error


def find(
    model: Any,
    objective: ObjectiveConfig,
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


def _learner_for(model: Any, objective: ObjectiveConfig, task: Task) -> Learner:
    given = _family(type(model))
    if task.format not in model.formats:
        raise ValueError(
            f"inputs of {task.name} are asked for in format {task.format!r}, but "
            f"{given} takes {', '.join(model.formats)}; set data.format or model.family"
        )
    learner = learner_of(task)
    if not isinstance(model, learner.models):
        names = ", ".join(map(_family, learner.models))
        raise ValueError(
            f"objective {objective.name} trains {names}, not {given}; set model.family"
        )
    return learner(model, objective, task.classes, task.options)


def _family(model: type) -> str:
    return model.__name__.removesuffix("Config")


def of_config(config: Config) -> Learner:
    """What learns the data set that the config of a run names.

    Raises:
      ValueError: as for `find`.
    """
    found = _learner_for(config.model, config.objective, task_of(config))
    if config.data.flat and "structure" not in found.schema.groups:
        raise ValueError(
            f"data.flat is True, but inputs in format {found.schema.name!r} have no "
            "structure to leave out; set it to False"
        )
    return found
