"""Makes a window cache: inputs with labels, from the raw files of a data set.

    etc-jax prepare --task=hotpotqa --tokenizer=vocab.txt \\
        --out=caches/hotpotqa_train hotpot_train_v1.1.json
    etc-jax prepare --task=natural_questions --tokenizer=vocab.txt \\
        --out=caches/nq_train nq-train-*.jsonl.gz
    etc-jax prepare --task=hotpotqa --vocab_size=8192 --out=caches/mine mine.json

The files are those of the official release, gzipped or not. Each record becomes inputs
with labels, once; training reads them by number. A run that was stopped or killed goes
on where it stood when the same command is given again. Records that cannot be trained
on are left out, counted and named.

Without a vocabulary, --vocab_size learns one from the files, which are read once more
for it; the folder that is made has it, and is --tokenizer of what is prepared next.
"""

# One file: the function, and the command that only parses for it.

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from etc_jax.base import cores, registry
from etc_jax.base.local_paths import INPUT, OF_MODEL, OUTPUT
from etc_jax.base.terminal import in_shell, next_command, say
from etc_jax.cli import command_line, flag as config_flag
from etc_jax.data import parts
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.data.windows.cache import FORMAT, WindowCache
from etc_jax.data.windows.window import InputSizes
from etc_jax.data.windows.writing import (
    LeftOut,
    ProgressFn,
    WindowSource,
    build_windows,
    files_and_packages,
    part_of,
)
from etc_jax.datasets import options as input_options, task as task_lib, vocabulary
from etc_jax.datasets.records import FILE_KINDS, BadRecordError, Problems
from etc_jax.datasets.task import Task

_PROG = "etc-jax prepare"

_MOST_WORKERS = 32
_PROGRESS_SECS = 10.0


def prepare(
    task: Task,
    files: Sequence[str | os.PathLike],
    tokenizer: Tokenizer,
    out: str | os.PathLike,
    *,
    sizes: InputSizes | None = None,
    official_quirks: bool = False,
    workers: int | str = 0,
    part_bytes: int = parts.PART_BYTES,
    progress_fn: ProgressFn | None = None,
) -> WindowCache:
    """Makes the window cache of some files, or opens the one that is already there.

    Memory does not grow with the files, but for the ids of the records. Neither
    `workers` nor an interruption changes a byte of the cache.

    Args:
      task: the data set, with the options of its inputs.
      files: of its official release.
      tokenizer: with the special tokens of the task.
      out: the folder to make.
      sizes: lengths of an input; None: those of the paper.
      official_quirks: as for the features of the task.
      workers: processes beside this one; 0: this one does all; or the address of a
        cluster, see `data.cluster`.
      part_bytes: of a part, the least that a killed run leaves.
      progress_fn: called now and then with (records, windows) so far.

    Raises:
      ValueError: if `out` holds something else, no record can be used, or the
        tokenizer or a size does not fit.
      OSError: if a file cannot be read.
      parts.WorkerDiedError: if a process is killed.
    """
    task = task.completed(files)
    sizes = sizes or task.sizes
    problems = Problems()
    source = _source(task, files, sizes, official_quirks)

    def make(tokenizer_file: pathlib.Path, folder: pathlib.Path) -> Iterator[Any]:
        recipe = parts.Recipe(
            _featurizer(task, tokenizer, sizes, official_quirks),
            _open_featurizer,
            (task.name, task.format, task.option_values, tokenizer_file)
            + (sizes, official_quirks),
        )
        cut = parts.cut_records(task.read(files, problems), part_bytes)
        return parts.make_parts(cut, recipe, folder, workers=workers)

    return build_windows(
        make,
        tokenizer,
        out,
        source,
        found_fn=lambda: _oddities(problems),
        progress_fn=progress_fn,
    )


def _source(
    task: Task,
    files: Sequence[str | os.PathLike],
    sizes: InputSizes,
    official_quirks: bool,
) -> WindowSource:
    """What the windows are made of and how; what only chooses them shapes none."""
    shaping = task.changed_options
    drawn = {name: shaping.pop(name) for name in task.drawn_by if name in shaping}
    return WindowSource(
        task.name,
        task.format,
        dataclasses.asdict(sizes),
        options={"official_quirks": official_quirks, **shaping},
        made_by=files_and_packages(task.all_read(files))
        | ({"drawn": drawn} if drawn else {})
        | (
            {}
            if task.format == next(iter(task.converters))
            else {"format": task.format}
        ),
    )


def _featurizer(
    task: Task, tokenizer: Tokenizer, sizes: InputSizes, official_quirks: bool
) -> parts.MakeFn:
    def make(records: list[Any]) -> parts.Part:
        usable, left_out = [], LeftOut()
        for record in records:
            try:
                windows = task.features(
                    record, tokenizer, sizes, official_quirks=official_quirks
                )
            except BadRecordError as e:
                left_out.add(e.kind, record.id)
                continue
            usable += [window for window in windows if window.unusable is None]
            # A record is named once, however many of its windows are left out.
            reasons = collections.Counter(w.unusable for w in windows if w.unusable)
            for reason, count in reasons.items():
                left_out.update({reason: {"count": count, "first": [record.id]}})
        return part_of(usable, tokenizer.vocab_size, len(records), left_out)

    return make


def _open_featurizer(
    name: str,
    format: str,
    options: dict[str, Any],
    tokenizer_file: pathlib.Path,
    sizes: InputSizes,
    official_quirks: bool,
) -> parts.MakeFn:
    tokenizer = Tokenizer.load(tokenizer_file)
    # The name of a data set that the parent process has imported.
    task = task_lib.named_task(name, format).with_options(options)
    return _featurizer(task, tokenizer, sizes, official_quirks)


def _oddities(problems: Problems) -> dict[str, Any]:
    """What was wrong with the files, as JSON values."""
    return {
        kind: {"count": count, "first": problems.messages[kind]}
        for kind, count in problems.counts.items()
    }


# --- command line ---------------------------------------------------------------------


def report(cache: WindowCache) -> str:
    """What became of the records, in lines for people."""
    counts, longest, sizes = cache.header["counts"], cache.longest, cache.sizes
    oddities = cache.header["found"]
    parts = [f"{longest[x]} of {sizes[x]} {x} tokens" for x in sizes]
    lines = [
        f"{cache.path}: {cache.num_windows} windows of {counts['records']} records of "
        f"{cache.task}",
        f"longest: {', '.join(parts)}",
    ]
    if left_out := cache.header["left_out"]:
        total = sum(x["count"] for x in left_out.values())
        lines.append(f"left out, {total}:")
        lines += [f"  {line}" for line in LeftOut(left_out).lines()]
    else:
        lines.append("nothing left out")
    if cache.input_options:
        options = in_shell(str(cache.input_options))
        lines.append(f"train with --config.data.input_options={options}")
    if oddities:
        lines.append("odd or wrong in the files (a wrong record is not read):")
    for kind, problem in oddities.items():
        lines.append(f"  {problem['count']} x {kind}")
        lines += [f"      {message}" for message in problem["first"]]
    if unread := _unread(cache):
        lines.append(
            f"WARNING: {unread} of the files could not be read to the end (see above): "
            "the records after the break are missing"
        )
    return "\n".join(lines)


def _unread(cache: WindowCache) -> int:
    """How many files could not be read to the end."""
    oddities = cache.header["found"]
    return sum(oddities[kind]["count"] for kind in FILE_KINDS if kind in oddities)


def progress_printer(
    clock: Callable[[], float] = time.monotonic,
    every_secs: float = _PROGRESS_SECS,
) -> ProgressFn:
    """Prints how far the work is, but not too often."""
    last = [clock(), 0]

    def show(records: int, windows: int) -> None:
        now = clock()
        if now - last[0] < every_secs:
            return
        rate = (records - last[1]) / (now - last[0])
        say(f"{records} records, {windows} windows, {rate:.0f} records/s")
        last[:] = now, records

    return show


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument(
        "--task",
        required=True,
        type=str,
        help=f"the data set: one of {', '.join(task_lib.names())}, or the path of a "
        "module that registers one",
    )
    parser.add_argument(
        "--format",
        type=str,
        help="of the inputs: structured for ETC, sequence for encoders of one sequence "
        "(default: the first that the data set has)",
    )
    one_of = parser.add_mutually_exclusive_group(required=True)
    one_of.add_argument(
        "--tokenizer", type=OF_MODEL, help="vocabulary file, or a folder with one"
    )
    one_of.add_argument(
        "--vocab_size", type=int, help="ids of a WordPiece vocabulary to learn"
    )
    parser.add_argument(
        "--whole_words",
        action="store_true",
        help="with --vocab_size: the most frequent words, whole; others are unknown",
    )
    parser.add_argument(
        "--cased",
        action="store_true",
        help="with --vocab_size: words keep their capitals and accents",
    )
    parser.add_argument("--out", required=True, type=OUTPUT, help="folder to make")
    add_lengths(parser)
    parser.add_argument(
        "--official_quirks",
        action="store_true",
        help="repeat errors of the official code, to compare with it",
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=min(cores.available(), _MOST_WORKERS),
        help="worker processes; 0: this process alone (default: %(default)s)",
    )
    parser.add_argument(
        "--cluster",
        type=str,
        metavar="ADDRESS",
        help="in their place the workers of a dask scheduler: tcp://HOST:8786",
    )
    parser.add_argument(
        "files", nargs="+", type=INPUT, help="files of the official release"
    )
    # What a data set leaves to choose are flags beside the others.
    named = command_line.first_given(arguments, "task", "format")
    if named.task is None:
        parser.epilog = "More flags: --task=NAME --help"
    else:
        task = task_lib.named_task(named.task, named.format)
        group = parser.add_argument_group(f"inputs of {task.name}")
        input_options.add_flags(group, task.options)
    return parser.parse_args(arguments)


def run(args: argparse.Namespace) -> None:
    """Does what a command line says, with a report.

    Raises:
      ValueError, OSError, parts.WorkerDiedError: as for `prepare`.
    """
    task = task_lib.named_task(args.task, args.format)
    task = task.with_options(input_options.from_flags(args, task.options))
    sizes = given_lengths(args, task)
    is_finished = FORMAT.is_at(pathlib.Path(args.out))
    cache = prepare(
        task,
        args.files,
        _tokenizer(args, task, sizes),
        args.out,
        sizes=sizes,
        official_quirks=args.official_quirks,
        workers=args.cluster or args.workers,
        progress_fn=progress_printer(),
    )
    if is_finished:
        say(f"{args.out} is finished already: nothing to do")
    say(report(cache))
    if not _unread(cache):
        say(_next(cache, args.out))


def _tokenizer(args: argparse.Namespace, task: Task, sizes: InputSizes) -> Tokenizer:
    """The one that is given, or learned."""
    if args.tokenizer is None:
        return vocabulary.learn(
            task,
            args.files,
            vocab_size=args.vocab_size,
            sizes=sizes,
            whole_words=args.whole_words,
            lower_case=not args.cased,
        )
    for name in ("whole_words", "cased"):
        if getattr(args, name):
            raise ValueError(
                f"--{name} is of a vocabulary to learn; give --vocab_size in place of "
                "--tokenizer"
            )
    return open_tokenizer(args.tokenizer)


def _next(cache: WindowCache, out: str) -> str:
    """What to do with inputs: learn them, if a config of their data set's name does."""
    name = cache.task.rpartition(".")[2]
    if name not in config_flag.names() or set(out) & set(",="):
        return next_command("stats", out)
    variant = ",etc" if cache.format == "structured" else ""
    config = f"--config={name}:prepared={out}{variant}"
    workdir = f"--workdir=runs/{pathlib.Path(out).name}"
    note = "add ,from=FOLDER to begin with a model"
    return next_command("train", workdir, config, note=note)


def add_lengths(parser: argparse.ArgumentParser) -> None:
    """A flag for each length that inputs of some format have."""
    for name in _length_names():
        about = f"{name.removesuffix('_length')} tokens of an input at most"
        parser.add_argument(
            f"--{name}", type=int, help=f"{about} (default: the paper's)"
        )


def _length_names() -> list[str]:
    formats = (registry.lookup("format", name) for name in registry.names("format"))
    return list(dict.fromkeys(x for schema in formats for x in schema.lengths.values()))


def given_lengths(args: argparse.Namespace, task: Task) -> InputSizes:
    """The lengths that these flags say, or those of the task.

    Raises:
      ValueError: if one is out of range, or inputs of the task have none of the name.
    """
    names = [field.name for field in dataclasses.fields(task.sizes)]
    flags = {name: getattr(args, name) for name in _length_names()}
    lengths = {name: length for name, length in flags.items() if length is not None}
    if foreign := sorted(lengths.keys() - set(names)):
        raise ValueError(
            f"inputs of {task.name} in format {task.format!r} have no "
            f"--{', --'.join(foreign)}; they have --{', --'.join(names)}"
        )
    return dataclasses.replace(task.sizes, **lengths)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    again = "stopped; the same command goes on from here"
    return command_line.run(_PROG, lambda: run(parse(arguments)), interrupted=again)


if __name__ == "__main__":
    sys.exit(main())
