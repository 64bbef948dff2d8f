"""What structure is worth: WikiHop-like questions, answered with and without it.

    python -m benchmarks.structure_ablation --seeds=0,1,2 \\
        --rows=structured,flat,no_hard_g2l --out=structure.json

The ablations of the ETC paper (section 4.2 and table 3) on invented questions that a
small model learns from scratch in minutes: who is the teacher of somebody? Four
documents of one form tell teacher and rival of four persons. Candidates are Mask<k>
wherever they are named, with k drawn for each item, so that there is nothing to
remember; the one who is asked about is the only person with another name. What is to be
learnt is which mention in the documents is the answer, and which candidate it is a
mention of. The second is given by the links of the structure; without it, equal names
must be found to be equal.

All rows have the same items in the same order, and the same sizes, steps and seeds:
they differ in what `ROWS` says. Runs that are finished are not trained again, so that
the command can be interrupted, and rows or seeds added later. Arguments of the form
--config.A.B=VALUE go to every run: --config.checkpoint.init_from=RUN lets all of them
start from a model that was pre-trained, with the tokenizer of the items. The exit code
is 1 if structure is worth less than 10 points with some seed.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import json
import pathlib
import re
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks import finetuning_runs, report
from etc_jax import config as config_lib
from etc_jax.data.tokenizer import Tokenizer, WordPieceTokenizer
from etc_jax.data.windows import WindowCache
from etc_jax.data.wordpiece_training import SPECIAL_TOKENS
from etc_jax.training.errors import RunError
from tasks import prepare, wikihop
from tasks.multihop import Sizes
from tasks.synthetic import wikihop as invented
from tasks.synthetic.__main__ import write_records

# What each row changes in the config.
ROWS: dict[str, dict[str, Any]] = {
    "structured": {},
    "flat": {"data.flat": True},
    "no_hard_g2l": {"model.hard_g2l": False},
    "flat_no_hard_g2l": {"data.flat": True, "model.hard_g2l": False},
    "shared": {"model.share_qkv": True, "model.share_out": True},
}
# Points of accuracy that the first is asked to be ahead of the second.
COMPARED, WANTED_POINTS = ("structured", "flat"), 10.0

ITEMS = invented.WikiHopSizes(
    hops=(1, 1),
    contexts=4,
    candidates=4,
    facts=2,
    kinds=("person",),
    wordings=1,
    pronouns=0.0,
    through_candidates=True,
    masked=True,
)
# The one that is asked for. If it is either, the structured model takes rival and
# teacher for equally likely for longer than these runs last.
RELATION = "teacher"
SIZES = Sizes(long_length=128, global_length=32)
TRAIN_SERIES, HELD_BACK_SERIES = 1, 2
# Words that come up less often in the training items become [UNK].
LEAST_COUNT = 20

MODEL = {
    "num_types": 16,
    "embed_dim": 64,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 128,
    "radius": 16,
    "max_distance": 12,
    "num_labels": 32,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    # That of BERT is for widths of 768: narrow layers would hardly begin to learn.
    "initializer_range": 0.1,
    "attention": "dense",  # the quickest for inputs as short as these
}

_MASK = re.compile(r"___MASK(\d+)___")
_WORD = re.compile(r"\w+|[^\w\s]")


# --- items ----------------------------------------------------------------------------


def items(count: int, series: int) -> Iterator[dict[str, Any]]:
    """Records in the official form, in which each mask is one word."""
    every = invented.records(sys.maxsize, seed=series, sizes=ITEMS)
    asked = (record for record in every if record["query"].split()[0] == RELATION)
    for record in itertools.islice(asked, count):
        yield {name: _one_word(value) for name, value in record.items()}


def _one_word(value: str | list[str]) -> str | list[str]:
    if isinstance(value, list):
        return [_MASK.sub(r"Mask\1", text) for text in value]
    return _MASK.sub(r"Mask\1", value)


def word_tokenizer(records: Iterable[Mapping[str, Any]]) -> Tokenizer:
    """A vocabulary of the frequent words: a name that is no mask becomes [UNK]."""
    counts: collections.Counter[str] = collections.Counter()
    for record in records:
        for text in (record["query"], *record["supports"]):
            counts.update(_WORD.findall(text.lower()))
    words = sorted(word for word, n in counts.items() if n >= LEAST_COUNT)
    return WordPieceTokenizer([*SPECIAL_TOKENS, *words])


def make_caches(
    folder: pathlib.Path, count: int, held_back: int
) -> tuple[WindowCache, WindowCache]:
    """Inputs to learn from and to be evaluated on, made once."""
    folder.mkdir(parents=True, exist_ok=True)
    train = list(items(count, TRAIN_SERIES))
    tokenizer = word_tokenizer(train)
    caches = []
    for name, records in (
        ("train", train),
        ("held_back", items(held_back, HELD_BACK_SERIES)),
    ):
        file = folder / f"{name}.json"
        write_records(file, records)
        cache = prepare.prepare(
            wikihop.TASK, [file], tokenizer, folder / name, sizes=SIZES
        )
        caches.append(cache)
    return caches[0], caches[1]


# --- runs -----------------------------------------------------------------------------


def make_config(
    caches: tuple[WindowCache, WindowCache],
    row: str,
    seed: int,
    steps: int,
    changes: Sequence[str] = (),
) -> config_lib.Config:
    """The config of one run."""
    config = finetuning_runs.small_config(*caches, MODEL)
    config.optimizer.update(learning_rate=1e-3, b2=0.98)
    config.schedule.warmup_steps = steps // 10
    config.train.update(
        num_steps=steps,
        batch_size=32,
        seed=seed,
        log_every_steps=50,
        eval_every_steps=max(1, steps // 4),
        # Compiled once for all seeds.
        compile_cache_dir=str(caches[0].path.parent / "compile_cache"),
    )
    config.checkpoint.update(every_steps=max(1, steps // 2), keep=1)
    of_row = [f"--config.{path}={value!r}" for path, value in ROWS[row].items()]
    return finetuning_runs.changed(config, [*changes, *of_row])


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes:
      row: of `ROWS`.
      seed: of parameters and order.
      curve: (step, held-back accuracy in percent), to the end.
      spent: on it.
    """

    row: str
    seed: int
    curve: tuple[tuple[int, float], ...]
    spent: finetuning_runs.Spent

    @property
    def accuracy(self) -> float:
        return self.curve[-1][1]


def run(config: config_lib.Config, row: str, folder: pathlib.Path) -> Run:
    """Trains, unless that was done before.

    Raises:
      RunError: see `finetuning_runs.train`.
    """
    spent = finetuning_runs.train(config, folder)
    curve = tuple(
        (line["step"], 100 * line["accuracy"])
        for line in finetuning_runs.evaluations(folder)
    )
    return Run(row, config.train.seed, curve, spent)


# --- table ----------------------------------------------------------------------------


def table(runs: Sequence[Run]) -> str:
    """Accuracy of each row: mean and standard deviation over seeds, and each seed."""
    seeds = sorted({run.seed for run in runs})
    head = ["row", "accuracy", *(f"seed {seed}" for seed in seeds), "CPU min a run"]
    lines = []
    for row in dict.fromkeys(run.row for run in runs):
        mine = {run.seed: run for run in runs if run.row == row}
        cpu = statistics.mean(run.spent.cpu_secs for run in mine.values()) / 60
        values = [run.accuracy for run in mine.values()]
        each = [f"{mine[s].accuracy:.1f}" if s in mine else "-" for s in seeds]
        lines.append([row, _spread(values), *each, f"{cpu:.1f}"])
    if ahead := lead(runs):
        each = [f"{ahead[s]:+.1f}" if s in ahead else "-" for s in seeds]
        lines.append([" - ".join(COMPARED), _spread(ahead.values()), *each, ""])
    return report.table(head, lines)


def lead(runs: Sequence[Run]) -> dict[int, float]:
    """Points between the rows that are compared, by seeds that both have."""
    first, second = (
        {run.seed: run.accuracy for run in runs if run.row == row} for row in COMPARED
    )
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def _spread(values: Iterable[float]) -> str:
    values = list(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.1f} ± {spread:.1f}"


# --- command line ---------------------------------------------------------------------


def compare(args: argparse.Namespace, changes: Sequence[str]) -> list[Run]:
    """Trains what is missing, seed by seed.

    Raises:
      ValueError, OSError, RunError: if something given does not fit.
    """
    caches = make_caches(args.workdir / "items", args.items, args.held_back)
    wanted = [
        (row, make_config(caches, row, seed, args.steps, changes))
        for seed in args.seeds
        for row in args.rows
    ]
    runs = []
    for row, config in wanted:
        folder = args.workdir / f"{row}_seed{config.train.seed}"
        runs.append(run(config, row, folder))
        print(f"{row}, seed {config.train.seed}: {runs[-1].accuracy:.1f}", flush=True)
    return runs


def _rows(text: str) -> tuple[str, ...]:
    rows = tuple(text.split(","))
    if unknown := [row for row in rows if row not in ROWS]:
        raise argparse.ArgumentTypeError(
            f"no row {unknown[0]!r}; there are: {', '.join(ROWS)}"
        )
    return rows


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.structure_ablation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--rows", type=_rows, default=tuple(ROWS), help=f"of {','.join(ROWS)}")
    add("--seeds", type=report.integers, default=(0, 1, 2))
    add("--items", type=int, default=10_000, help="to learn from")
    add("--held_back", type=int, default=512, help="items to be evaluated on")
    add("--steps", type=int, default=300, help="of a run")
    add("--workdir", type=pathlib.Path, default="runs/structure_ablation")
    add("--out", type=pathlib.Path, help="JSON file to write")
    return parser.parse_known_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; returns the exit code."""
    args, changes = _parse(argv)
    try:
        runs = compare(args, changes)
    except (ValueError, OSError, RunError) as error:
        print(f"benchmarks.structure_ablation: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 2)
    print(table(runs))
    if args.out is not None:
        values = {"options": list(changes), "runs": [*map(dataclasses.asdict, runs)]}
        args.out.write_text(json.dumps(values, indent=1) + "\n")
    return 1 if any(x < WANTED_POINTS for x in lead(runs).values()) else 0


if __name__ == "__main__":
    sys.exit(main())
