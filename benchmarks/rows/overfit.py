"""Whether a small model memorises a few real records: the whole path, measured.

    python -m benchmarks overfit --task=hotpotqa --records=50 \\
        --tokenizer=bert_base_uncased/vocab.txt hotpot_dev_distractor_v1.json
    python -m benchmarks overfit --task=wikihop --records=20 \\
        --tokenizer=bert_base_uncased/vocab.txt wikihop/train.json

The first records of the files that can be trained on go the way of any data set:
`etc-jax prepare`, the training loop, `etc-jax evaluate` with the official metric, on
the records that were trained on. What gold labels score is the upper bound; a share
of it is asked for, and the exit code is 1 below that. A model that does not get there
has inputs, labels or decoding that contradict each other.

Inputs are made at the paper's lengths, and trained on at the longest there is among
the records, since padding follows. No dropout, no pre-trained model.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import ml_collections

from benchmarks.kit import finetuning_runs, rows
from etc_jax.cli import prepare as windows
from etc_jax.config import Config
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import BadRecordError, read_array
from etc_jax.datasets.task import Task

# Of the upper bound.
WANTED_SHARE = 0.95

MODEL = rows.MODEL | {"mlp_dim": 256}


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a task is memorised.

    Attributes:
      records: how many, by default.
      batch_size: records of a step.
      epochs: passes over them.
      learning_rate: the peak.
      metric: of the evaluation on the way.
    """

    records: int
    batch_size: int
    epochs: int
    learning_rate: float
    metric: str


SETTINGS = {
    "hotpotqa": Setting(50, 2, 20, 1e-3, "span_accuracy"),
    "wikihop": Setting(20, 2, 24, 1e-3, "accuracy"),
}


def usable(task: Task, files: Sequence[str], tokenizer: Tokenizer) -> Iterator[Any]:
    """The records that can be trained on, as the files have them, in their order.

    Raises:
      OSError, BadRecordError: if a file cannot be read to where it is needed.
    """
    for file in files:
        for _, value in read_array(file):
            try:
                record = task.parse(value, lambda kind, message: None)
                windows = task.features(record, tokenizer)
            except BadRecordError:
                continue
            if all(window.unusable is None for window in windows):
                yield value


def choose(
    task: Task, files: Sequence[str], tokenizer: Tokenizer, count: int
) -> list[Any]:
    """The first `count` records that can be trained on.

    Raises:
      ValueError: if there are fewer, or none is asked for.
      OSError: if a file cannot be read.
    """
    if count < 1:
        raise ValueError(f"--records is {count}; expected at least 1")
    chosen = list(itertools.islice(usable(task, files, tokenizer), count))
    if len(chosen) < count:
        raise ValueError(
            f"{', '.join(files)}: {len(chosen)} records can be trained on, but "
            f"--records is {count}; lower it or give more files"
        )
    return chosen


def make_config(
    cache: WindowCache, setting: Setting, seed: int
) -> ml_collections.ConfigDict:
    """The config of a run that is evaluated on what it is trained on."""
    config = finetuning_runs.small_config(cache, cache, MODEL)
    steps = setting.epochs * cache.num_windows // setting.batch_size
    config.optimizer.learning_rate = setting.learning_rate
    config.schedule.warmup_steps = steps // 10
    config.train.update(
        num_steps=steps,
        batch_size=setting.batch_size,
        seed=seed,
        log_every_steps=10,
        eval_every_steps=steps,
    )
    config.checkpoint.update(every_steps=max(1, steps // 4), keep=1)
    return config


def prepare(args: argparse.Namespace, changes: Sequence[str]) -> rows.Study:
    """Chooses the records and makes their inputs.

    Raises:
      ValueError, OSError: if something given does not fit.
    """
    task, setting = task_lib.find_task(args.task), SETTINGS[args.task]
    tokenizer = open_tokenizer(args.tokenizer)
    count = setting.records if args.records is None else args.records
    folder = args.workdir or pathlib.Path("runs") / f"overfit_{task.name}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "records.json"
    file.write_text(json.dumps(choose(task, args.files, tokenizer, count)))
    cache = windows.prepare(task, [file], tokenizer, folder / "cache")
    best = task.upper_bound([file], tokenizer).scores.metrics[task.metric]

    def scores(config: Config, run: pathlib.Path) -> dict[str, float]:
        found = rows.official(file)(config, run)
        return found | {"share": found[task.metric] / best if best else 0.0}

    return rows.Study(
        folder,
        lambda row, seed: finetuning_runs.changed(
            make_config(cache, setting, seed), changes
        ),
        scores,
        measure=task.metric,
        metric=setting.metric,
        beside=("share",),
        least={"share": 100 * WANTED_SHARE},
        about={"task": task.name, "records": count, "upper_bound": 100 * best},
    )


def _add(add) -> None:
    add("--task", required=True, choices=sorted(SETTINGS))
    add("--tokenizer", required=True, help="vocabulary file or folder")
    add("files", nargs="+", help="records, as the data set has them")


main = rows.Command(
    __name__,
    __doc__,
    prepare,
    ("memorised",),
    {"records": (None, "by default, see SETTINGS")},
    _add,
    seeds=(0,),
).main
