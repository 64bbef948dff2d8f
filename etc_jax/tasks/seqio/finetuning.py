"""seqio Tasks of fine-tuning data sets, from their official files, with their metrics.

    register_files(
        "hotpotqa",
        {
            "train": "hotpot_train_v1.1.json",
            "validation": "hotpot_dev_distractor_v1.json",
        },
        open_tokenizer("bert_base_uncased"),
        task="hotpotqa",
    )
    dataset = seqio.get_mixture_or_task("hotpotqa").get_dataset(split="train")
    with contextlib.closing(ExampleIterator(dataset.batch(8))) as batches:
        ...
    evaluator = seqio.Evaluator("hotpotqa", UnchangedFeatures())
    metrics, _ = evaluator.evaluate(
        compute_metrics=True, model_fns=model_fns(outputs_fn, batch_size=8)
    )

What an example holds, and how a batch for a model is made of some, is in `windows.py`.
An iterator that is not closed (see `tensorflow.py`) can keep the process from ending.
Tasks of one data set, tokenizer and size can be mixed:
`seqio.MixtureRegistry.add(..., sample_fn=pretraining.apportion)`.

Our own training reads the cache of `etc-jax prepare` instead, which makes inputs once
and goes on from a step number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.arrays import NAME_CODEC
from etc_jax.data.windows.window import InputSizes
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import Problems
from etc_jax.tasks.seqio.documents import check_free
from etc_jax.tasks.seqio.tensorflow import ExampleIterator, seqio, tf
from etc_jax.tasks.seqio.vocabulary import TokenizerVocabulary
from etc_jax.tasks.seqio.windows import SPLIT, WindowFiles, model_batch, schema_of

Files = str | os.PathLike | Sequence[str | os.PathLike]

_OUTPUTS = seqio.metrics.ModelOutputType.SCORE_WITH_INTERMEDIATES


def register_files(
    name: str,
    files: Mapping[str, Files],
    tokenizer: Tokenizer,
    *,
    task: str,
    sizes: InputSizes | None = None,
    official_quirks: bool = False,
    setting: task_lib.Setting = None,
) -> seqio.Task:
    """Registers a Task of official files, in place of an earlier one of that name.

    Args:
      name: of the seqio Task.
      files: split -> JSON files of the official release, gzipped or not.
      tokenizer: with the special tokens of the data set.
      task: the data set, see `etc_jax.datasets.task`.
      sizes: lengths of an input; None: those of the paper.
      official_quirks: as for the features of the data set.
      setting: of decoding, such as a threshold; None: that of the data set.

    Raises:
      FileNotFoundError: if a file is not there.
      ValueError: if there is no such data set, no record can be used, the tokenizer
        lacks a special token, or the name is taken.
    """
    data = task_lib.find_task(task)
    if not files:
        raise ValueError(f"Task {name!r} needs files of at least one split, got none")
    check_free(name, seqio.MixtureRegistry)
    if name in seqio.TaskRegistry.names():
        source_of(name)
    source = WindowFiles(
        data,
        {k: [v] if isinstance(v, str | os.PathLike) else v for k, v in files.items()},
        tokenizer,
        sizes or data.sizes,
        official_quirks=official_quirks,
    )
    seqio.TaskRegistry.remove(name)
    return seqio.TaskRegistry.add(
        name,
        source=source,
        output_features=_features(source),
        metric_objs=[
            OfficialMetrics(source, data.setting if setting is None else setting)
        ],
    )


def _features(source: WindowFiles) -> dict[str, seqio.Feature]:
    text = TokenizerVocabulary(source.tokenizer)
    tables = schema_of(source.signature).tables
    # The others are no text: any size does.
    number = seqio.PassThroughVocabulary(2**31 - 1)
    return {
        name: seqio.Feature(
            text if tables.get(name) == "vocab_size" else number,
            add_eos=False,
            dtype=spec.dtype,
            rank=spec.shape.rank,
        )
        for name, spec in source.signature.items()
        if name != SPLIT
    }


def source_of(name: str) -> WindowFiles:
    """Where a Task has its examples from; its `problems` are what was wrong there.

    Raises:
      ValueError: if `register_files` registered no such Task.
    """
    if name not in seqio.TaskRegistry.names():
        raise ValueError(
            f"no seqio Task {name!r}, there are {sorted(seqio.TaskRegistry.names())}"
        )
    source = seqio.TaskRegistry.get(name).source
    if not isinstance(source, WindowFiles):
        raise ValueError(
            f"seqio Task {name!r} is not one of fine-tuning; use one that "
            "etc_jax.tasks.seqio.finetuning registered, or another name"
        )
    return source


# --- evaluation -----------------------------------------------------------------------


class UnchangedFeatures(seqio.PassThroughFeatureConverter):
    """Examples as the Task has them, for `seqio.Evaluator`."""

    # The Evaluator asks for these two, which seqio's own class lacks.
    TASK_FEATURES: Mapping[str, Any] = MappingProxyType({})
    pack = False


def model_fns(
    outputs_fn: Callable[[dict[str, Any]], Any], *, batch_size: int
) -> dict[Any, Callable[..., Any]]:
    """What `seqio.Evaluator.evaluate` takes as `model_fns`, of a model's outputs.

    Args:
      outputs_fn: batch (see `windows.model_batch`) -> the outputs of the model
        of this data set in `etc_jax.objectives.learners.finetuning`.
      batch_size: examples of a batch; the last one may have fewer.
    """

    def run(dataset: tf.data.Dataset, *unused: Any) -> tuple[list, Any]:
        indices: list[int] = []
        rows = []
        batches = ExampleIterator(dataset.batch(batch_size))
        with contextlib.closing(batches):
            for numbers, examples in batches:
                arrays = {name: x.numpy() for name, x in examples.items()}
                outputs = outputs_fn(model_batch(arrays))
                rows.append(jax.tree.map(lambda x: list(np.asarray(x)), outputs))
                indices += numbers.numpy().tolist()
        joined = jax.tree.map(
            lambda *parts: list(itertools.chain(*parts)),
            *rows,
            is_leaf=lambda x: isinstance(x, list),
        )
        # Outputs are what seqio calls intermediates; the score beside has no reader.
        return [(index, 0.0) for index in indices], joined

    return {_OUTPUTS: run}


@dataclasses.dataclass(frozen=True)
class OfficialMetrics:
    """A seqio metric: the official metrics of a model's outputs.

    The examples' inputs are made again from the files, since outputs are of use with
    the text of the tokens only. A record that fits into no input counts as wrong.
    Where the Evaluator takes some examples only, the metrics are of their records.

    Attributes:
      source: of the examples.
      setting: of decoding.
    """

    source: WindowFiles
    setting: task_lib.Setting
    model_output_type = _OUTPUTS

    def from_model_output(
        self,
        inputs: Iterable[Mapping[str, Any]],
        model_output: tuple[np.ndarray, Any],
        *unused: Any,
    ) -> SplitMetrics:
        """Metrics of one split.

        Args:
          inputs: its examples.
          model_output: (scores `[examples]`, outputs `[examples, ...]`).
          *unused: output features and the name of the target.

        Raises:
          ValueError: if a record has no gold answer, or outputs do not fit.
        """
        _, outputs = model_output
        rows: dict[str, list[int]] = {}
        for number, example in enumerate(inputs):
            name = example["id"][0].decode(*NAME_CODEC)
            rows.setdefault(name, []).append(number)
            split = example[SPLIT].decode()
        return SplitMetrics(self._metrics(split, rows, outputs))

    def _metrics(self, split: str, rows: Mapping[str, list[int]], outputs) -> dict:
        task, predictions = self.source.task, {}
        gold, unfit, is_whole = [], [], True
        for record, windows in self.source.read(split, Problems()):
            if not windows:
                unfit.append(record)
            elif len(of_record := rows.get(record.id, [])) < len(windows):
                is_whole = False
            else:
                chosen = jax.tree.map(
                    lambda x, of_record=of_record: np.asarray(x)[of_record], outputs
                )
                predictions |= task.answers(chosen, windows, self.setting)
                gold.append(self._gold(record))
        for record in unfit if is_whole else ():
            predictions[record.id] = task.no_answer
            gold.append(self._gold(record))
        return dict(task.score(gold, task.official(predictions)).metrics)

    def _gold(self, record: Any) -> Mapping[str, Any]:
        gold = self.source.task.gold(record)
        if gold is None:
            raise ValueError(
                f"{record.id!r} has no gold answer; official metrics are of a split "
                "that has them"
            )
        return gold


@dataclasses.dataclass(frozen=True)
class SplitMetrics:
    """What `OfficialMetrics` found.

    Attributes:
      metrics: each in 0..1, by its official name.
    """

    metrics: Mapping[str, float]

    def compute(self) -> Mapping[str, float]:
        """The metrics; seqio asks for them by this name."""
        return self.metrics
