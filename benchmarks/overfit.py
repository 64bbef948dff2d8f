"""Whether a small model memorises a few real records: the whole path, measured.

    python -m benchmarks.overfit --task=hotpotqa --records=50 \\
        --tokenizer=bert_base_uncased/vocab.txt hotpot_dev_distractor_v1.json
    python -m benchmarks.overfit --task=wikihop --records=20 \\
        --tokenizer=bert_base_uncased/vocab.txt wikihop/train.json

The first records of the files that can be trained on go the way of any data set:
`etc_jax.prepare`, the training loop, `etc_jax.evaluate` with the official measure, on
the records that were trained on. What gold labels score is the upper bound; a share
of it is asked for, and the exit code is 1 below that. A model that does not get there
has inputs, labels or decoding that contradict each other.

Inputs are made at the paper's lengths, and trained on at the longest there is among
the records, since padding follows. No dropout, no pre-trained model. A command
that was interrupted goes on where it was. Arguments of the form --config.A.B=VALUE
change the run.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import ml_collections

from benchmarks import finetuning_runs, rows
from benchmarks.finetuning_runs import Spent
from etc_jax import config as config_lib
from etc_jax import prepare
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import BadRecordError, read_array
from etc_jax.datasets.task import Task
from etc_jax.training.errors import RunError

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
    """

    records: int
    batch_size: int
    epochs: int
    learning_rate: float


SETTINGS = {
    "hotpotqa": Setting(50, batch_size=2, epochs=20, learning_rate=1e-3),
    "wikihop": Setting(20, batch_size=2, epochs=24, learning_rate=1e-3),
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
      task: name of the data set.
      records: learnt and scored.
      measure: the official metric that counts, in percent.
      score: of the model.
      upper_bound: of gold labels.
      steps: of training.
      spent: on them.
      config: of the run.
    """

    task: str
    records: int
    measure: str
    score: float
    upper_bound: float
    steps: int
    spent: Spent
    config: config_lib.Config

    @property
    def share(self) -> float:
        """Of the upper bound, that was reached."""
        return self.score / self.upper_bound if self.upper_bound else 0.0

    @property
    def is_enough(self) -> bool:
        return self.share >= WANTED_SHARE

    def report(self) -> str:
        """All of it in lines for people."""
        data = self.config.data
        return "\n".join(
            [
                f"{self.records} records of {self.task}, {data.long_length} long and "
                f"{data.global_length} global tokens",
                f"{self.steps} steps of {self.config.train.batch_size} records in "
                f"{self.spent.wall_secs / 60:.1f} min, "
                f"{self.spent.cpu_secs / 60:.1f} min of CPU time",
                f"{self.measure} {self.score:.2f}, upper bound {self.upper_bound:.2f}: "
                f"{self.share:.1%} of it, wanted {WANTED_SHARE:.0%}",
            ]
        )

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        values = {**dataclasses.asdict(self), "share": self.share}
        return {**values, "config": config_lib.to_dict(self.config)}


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
      ValueError: if there are fewer.
      OSError: if a file cannot be read.
    """
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


def measure(args: argparse.Namespace, changes: Sequence[str]) -> Outcome:
    """Chooses, prepares, trains and evaluates.

    Raises:
      ValueError, OSError, RunError: if something given does not fit.
    """
    task, setting = task_lib.find_task(args.task), SETTINGS[args.task]
    tokenizer = open_tokenizer(args.tokenizer)
    count = args.records or setting.records
    folder = args.workdir or pathlib.Path("runs") / f"overfit_{task.name}"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "records.json"
    file.write_text(json.dumps(choose(task, args.files, tokenizer, count)))
    cache = prepare.prepare(task, [file], tokenizer, folder / "cache")
    config = finetuning_runs.changed(make_config(cache, setting, args.seed), changes)
    spent = finetuning_runs.train(config, folder / "run")
    best = task.upper_bound([file], tokenizer).scores.metrics[task.measure]
    return Outcome(
        task=task.name,
        records=count,
        measure=task.measure,
        score=100 * _score(task, folder, file),
        upper_bound=100 * best,
        steps=config.train.num_steps,
        spent=spent,
        config=config,
    )


def _score(task: Task, folder: pathlib.Path, file: pathlib.Path) -> float:
    """The official metric, as the command line finds it."""
    scores = finetuning_runs.official_scores(
        folder / "run", folder / "evaluation", file
    )
    return scores[task.measure]


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overfit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--task", required=True, choices=sorted(SETTINGS))
    parser.add_argument("--tokenizer", required=True, help="vocabulary file or folder")
    parser.add_argument("--records", type=int, help="default: see SETTINGS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--workdir", type=pathlib.Path, help="default: runs/overfit_TASK"
    )
    parser.add_argument("--out", type=pathlib.Path, help="JSON file to write")
    parser.add_argument("files", nargs="+", help="records, as the data set has them")
    args, more = parser.parse_known_args(argv)
    if args.records is not None and args.records < 1:
        parser.error(f"--records is {args.records}; expected at least 1")
    return args, more


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 1 if the score is too low."""
    args, changes = _parse(argv)
    try:
        outcome = measure(args, changes)
    except (ValueError, OSError, RunError) as error:
        print(f"benchmarks.overfit: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    print(outcome.report())
    if args.out is not None:
        args.out.write_text(json.dumps(outcome.to_json(), indent=1) + "\n")
    return 0 if outcome.is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
