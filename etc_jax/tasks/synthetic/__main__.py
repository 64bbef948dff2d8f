"""Writes invented items in the raw format of a real data set.

    etc-jax synthetic --task=hotpotqa --count=1000 --seed=0 --out=train.json
    etc-jax synthetic --task=wikihop --count=1000 --candidates=8 --out=w.json
    etc-jax synthetic --task=natural_questions --count=1000 --out=nq.jsonl.gz
    etc-jax synthetic --task=imdb --count=1000 --split=train --out=aclImdb

Records are written as they are made, so that any number fits in memory: in one array,
or one a line where the data set has them so; gzipped if --out ends in .gz. Where a
release is a folder of files, --out is that folder and --split a part of it. The same
arguments give the same file; --start goes on in the same series of records.

How large and hard records are, other flags say: --task=NAME --help lists them. Little
to learn but following names, with two relations, one wording each:

    etc-jax synthetic --task=wikihop --count=1000 --out=easy.json \\
      --through_candidates --kinds=person --facts=2 --contexts=9 \\
      --wordings=1 --pronouns=0

With --texts the file has the documents of the same records alone, a JSON line each, to
pre-train on with data.source=jsonl.
"""

from __future__ import annotations

import argparse
import inspect
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import tqdm

from etc_jax.base import registry
from etc_jax.base.local_paths import OUTPUT
from etc_jax.base.rules import at_least
from etc_jax.base.terminal import next_command
from etc_jax.base.whole_files import check_out
from etc_jax.cli import command_line
from etc_jax.datasets import options
from etc_jax.tasks.synthetic.maker import Maker

_PROG = "etc-jax synthetic"
_KIND = "invented_items"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, with the maker as `maker`.

    Raises:
      ValueError: if there is no such task.
    """
    task = command_line.first_given(argv, "task").task
    maker = None if task is None else _maker(task)
    text = __doc__ if maker is None else _text_of(maker)
    parser = command_line.ArgumentParser(_PROG, text)
    add = parser.add_argument
    names = ", ".join(registry.names(_KIND))
    add(
        "--task",
        required=True,
        type=str,
        help=f"one of {names}, or the path of a module",
    )
    add("--count", required=True, type=int, help="records")
    add(
        "--out",
        required=True,
        type=OUTPUT,
        help="file to write, or folder of a release",
    )
    add("--seed", type=int, default=0, help="of the series; default: 0")
    add("--start", type=int, default=0, help="number of the first; default: 0")
    if maker is None:
        parser.epilog = "More flags: --task=NAME --help"
    else:
        if maker.splits:
            add("--split", required=True, choices=maker.splits)
        else:
            add("--overwrite", action="store_true", help="if --out exists")
        if maker.documents is not None:
            add("--texts", action="store_true", help="documents alone, see above")
        group = parser.add_argument_group(f"items of {task}")
        options.add_flags(group, maker.sizes())
    args = parser.parse_args(argv)
    args.maker = maker
    return args


def _maker(task: str) -> Maker:
    registry.import_named(task)
    try:
        return registry.lookup(_KIND, task)
    except KeyError as error:
        raise ValueError(error.args[0]) from error


def _text_of(maker: Maker) -> str:
    """What the module of a maker says of its items."""
    return inspect.getdoc(inspect.getmodule(maker.records)) or ""


def _write(args: argparse.Namespace) -> str:
    at_least(1).check(**{"--count": args.count})
    at_least(0).check(**{"--start": args.start})
    maker, out = args.maker, pathlib.Path(args.out)
    texts = maker.documents is not None and args.texts
    if not maker.splits:
        check_out(out, overwrite=args.overwrite)
    sizes = maker.sizes(**options.from_flags(args, maker.sizes()))
    records = maker.records(args.count, seed=args.seed, sizes=sizes, start=args.start)
    records: Any = tqdm.tqdm(records, total=args.count, unit=" records", disable=None)
    if maker.splits:
        path = maker.write_split(out, records, split=args.split)
        size = ""
    else:
        write = maker.write_texts if texts else maker.write
        write(path := out, records)
        size = f", {path.stat().st_size / 2**20:.1f} MiB,"
    wrote = f"wrote {args.count} {'texts' if texts else 'records'}{size} to {path}"
    if texts:
        data = (f"--config.data.paths=('{path}',)", "--config.data.source=jsonl")
        config = "--config=quickstart"
        return f"{wrote}\n{next_command('train', '--workdir=FOLDER', config, *data)}"
    folder = f"--out=prepared/{out.name.partition('.')[0]}"
    task = f"--task={maker.data_set or args.task}"
    words = (task, "--tokenizer=VOCABULARY", folder, str(path))
    note = "VOCABULARY is its file, or the folder of a model"
    return f"{wrote}\n{next_command('prepare', *words, note=note)}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 2 for bad input."""
    return command_line.run(_PROG, lambda: _write(_parse(argv)))


if __name__ == "__main__":
    sys.exit(main())
