"""Whether a small model memorises a few real records: the whole path, measured.

    python -m benchmarks overfit --task=hotpotqa --records=50 \\
        --tokenizer=bert_base_uncased/vocab.txt hotpot_dev_distractor_v1.json
    python -m benchmarks overfit --task=wikihop --records=20 \\
        --tokenizer=bert_base_uncased/vocab.txt wikihop/train.json

The first records of the files that can be trained on go the way of any data set:
`etc-jax prepare`, the training loop, `etc-jax evaluate` with the official measure, on
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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_collections

from benchmarks.kit import finetuning_runs, report, rows
from etc_jax import config as config_lib
from etc_jax.cli import prepare
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
    """

    records: int
    batch_size: int
    epochs: int
    learning_rate: float


SETTINGS = {
    "hotpotqa": Setting(50, batch_size=2, epochs=20, learning_rate=1e-3),
    "wikihop": Setting(20, batch_size=2, epochs=24, learning_rate=1e-3),
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


def measure(args: argparse.Namespace, changes: Sequence[str]) -> dict[str, Any]:
    """Chooses, prepares, trains and evaluates; JSON values, scores in percent.

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
    best = task.upper_bound([file], tokenizer).scores.metrics
    most = 100 * best[task.measure]
    parts = folder / "run", folder / "evaluation"
    score = 100 * finetuning_runs.official_scores(*parts, file)[task.measure]
    return {
        "task": task.name,
        "records": count,
        "measure": task.measure,
        "score": score,
        "upper_bound": most,
        "steps": config.train.num_steps,
        "spent": dataclasses.asdict(spent),
        "config": config_lib.to_dict(config),
        "share": score / most if most else 0.0,
    }


def summary(found: Mapping[str, Any]) -> str:
    """What `measure` found, in lines for people."""
    data, train = (found["config"][name] for name in ("data", "train"))
    minutes = {name: secs / 60 for name, secs in found["spent"].items()}
    return (
        f"{found['records']} records of {found['task']}, {data['long_length']} long "
        f"and {data['global_length']} global tokens\n"
        f"{found['steps']} steps of {train['batch_size']} records in "
        f"{minutes['wall_secs']:.1f} min, {minutes['cpu_secs']:.1f} min of CPU time\n"
        f"{found['measure']} {found['score']:.2f}, upper bound "
        f"{found['upper_bound']:.2f}: {found['share']:.1%} of it, wanted "
        f"{WANTED_SHARE:.0%}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 1 if the score is too low."""
    options = report.parser("overfit", __doc__)
    add = options.add_argument
    add("--task", required=True, choices=sorted(SETTINGS))
    add("--tokenizer", required=True, help="vocabulary file or folder")
    add("--records", type=int, help="default: see SETTINGS")
    add("--seed", type=int, default=0)
    add("--workdir", type=pathlib.Path, help="default: runs/overfit_TASK")
    add("files", nargs="+", help="records, as the data set has them")
    args, changes = options.parse_known_args(argv)
    if args.records is not None and args.records < 1:
        options.error(f"--records is {args.records}; expected at least 1")

    def work() -> tuple[dict[str, Any], int]:
        found = measure(args, changes)
        print(summary(found))
        return found, 0 if found["share"] >= WANTED_SHARE else 1

    return report.run(options, args, work)
