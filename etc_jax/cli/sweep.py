"""Trains each setting of a grid, and ranks the runs by their best checkpoint.

    etc-jax sweep --config=NAME --workdir=FOLDER    the grid of the config, get_sweep()
    ... --sweep=LAMB_SWEEP                          another one of its file
    ... --grid.optimizer.learning_rate=1e-5,3e-5 --grid.train.batch_size=16,32
                                                    one's own: all combinations
    ... --seeds=0,1,2                               each setting with these seeds
    ... --plan                                      print the runs, train nothing
    ... --only=NAME,...                             these runs; * stands for anything

--grid.FIELD=A,B names a field of the config. A name without a dot is one that the
config's argument takes: --grid.epochs=2,3 or --grid.from=models/bert,models/roberta of
--config=classification:prepared=FOLDER. --config.FIELD=VALUE holds for all runs.

Each run is an `etc-jax train` in a subfolder that is named by its settings, one after
the other; log.txt there has what it printed. The same command goes on: a finished run
is not repeated, one that was cut short continues from its checkpoint, one that failed
is tried again. A folder with a run of another config is an error.

sweep.md and sweep.json, written after each run, have all runs, the best one first; with
several seeds, before that mean and standard deviation of each setting.

Exit codes: 0 all are done; 1 a run failed, and the others are done; 2 something given
is wrong, nothing was started; 17 interrupted and saved: the same command goes on.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import fnmatch
import hashlib
import itertools
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from etc_jax import config as config_lib
from etc_jax.base import child_process, registry
from etc_jax.base.local_paths import ADDED_TO
from etc_jax.base.suggestions import suggestion
from etc_jax.base.terminal import say
from etc_jax.cli import command_line, flag as config_flag, sweep_table, train
from etc_jax.cli.sweep_table import FINISHED, SEED, SweepRun
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.errors import DONE, PREEMPTED, UserError
from etc_jax.training.hosts.preemption import PreemptionGuard

_PROG = "etc-jax sweep"
RUN_FAILED = 1
LOG = "log.txt"
_GRID, _CHANGE, _SEED_FIELD = "--grid.", "--config.", "train.seed"
_POLL_SECS = 0.1
_TAIL_BYTES = 4096  # that the last line of a log is looked for in
_LONGEST = 32  # characters of a value in the name of a folder


def _values(text: str) -> list[Any]:
    """Of a text with commas: literals if all are, so that 1e-5 and 0.00001 are one."""
    try:
        return [*ast.literal_eval(f"({text},)")]
    except (ValueError, SyntaxError):
        return text.split(",")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The flags of the command, for `planned`."""
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_config_flag()
    add = parser.add_argument
    add("--workdir", type=ADDED_TO, help="folder of the sweep; a subfolder a run")
    add("--sweep", type=str, help="name of other settings in the config")
    add(
        "--seeds",
        type=command_line.seeds,
        default=[],
        metavar="0,1,2",
        help="of each setting",
    )
    add("--only", type=str, default="*", metavar="NAME,...", help="the runs to train")
    add("--plan", action="store_true", help="print the runs and their commands")
    override = "fields of the model may differ from checkpoint.init_from"
    add("--override_model", action="store_true", help=override)
    argv = sys.argv[1:] if argv is None else list(argv)
    grid = [argument for argument in argv if argument.startswith(_GRID)]
    args = parser.parse_args([argument for argument in argv if argument not in grid])
    args.grid = {}
    for argument in grid:
        name, _, text = argument.removeprefix(_GRID).partition("=")
        values = _values(text)
        if not name or "" in values or name in args.grid:
            parser.error(f"{argument}: write {_GRID}FIELD=VALUE,VALUE, once a field")
        args.grid[name] = values
    if not (args.config and args.workdir):
        parser.error("--config and --workdir are needed; see --help")
    if args.grid and args.sweep:
        parser.error(f"--sweep and {_GRID}FIELD both give settings; leave one out")
    return args


# --- which runs there are -------------------------------------------------------------


def planned(args: argparse.Namespace) -> list[SweepRun]:
    """The runs of a command line, in the order of the grid; all of them checked.

    Raises:
      ValueError, RunError: if one of them could not be trained, or its folder has a run
        with another config.
    """
    combined = itertools.product(*args.grid.values())
    settings = [(dict(zip(args.grid, values, strict=True)),) * 2 for values in combined]
    settings = settings if args.grid else _of_config(args)
    typed = {x.removeprefix(_CHANGE).partition("=")[0] for x in args.changes}
    typed |= {_SEED_FIELD} if args.seeds else set()
    if twice := typed & {path for _, changes in settings for path in changes}:
        raise UserError(
            f"{min(twice)} is given, but the sweep sets it in each run; leave it out, "
            f"or give a grid of your own with {_GRID}FIELD=VALUE,VALUE"
        )
    if args.seeds:
        settings = [
            (shown | {SEED: seed}, changes | {_SEED_FIELD: seed})
            for (shown, changes), seed in itertools.product(settings, args.seeds)
        ]
    runs = [_run(args, *setting) for setting in settings]
    names = [run.name for run in runs]
    if again := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{again[0]} is in the sweep twice; name each setting once")
    return runs


def _of_config(args: argparse.Namespace) -> list[tuple[dict, dict]]:
    """(what names a run, {field: value} that it sets) of each setting of the config.

    A field that is the same in all of them and in the config is left to the config.
    """
    source, _, arg = args.config.partition(":")
    name = args.sweep or "get_sweep"
    is_record = source.endswith(".json")  # which has values alone
    listed = None if is_record else getattr(config_flag.module_of(source), name, None)
    if listed is None and args.seeds and not args.sweep:
        return [({}, {})]
    if listed is None:
        raise UserError(
            f"{source} has no {name}; give settings with {_GRID}FIELD=VALUE,VALUE"
        )
    listed = list(listed(arg) if callable(listed) else listed)
    every = [setting.fields() for setting in listed]
    shown = [dataclasses.asdict(setting) for setting in listed]
    usual = config_lib.flat_items(config_flag.read(args.config).to_dict())
    named, set_here = _varied(shown), _varied(every)
    return [
        (
            {name: x for name, x in names.items() if name in named},
            {p: x for p, x in fields.items() if p in set_here or usual.get(p) != x},
        )
        for names, fields in zip(shown, every, strict=True)
    ]


def _varied(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """The names whose values are not the same in all rows."""
    return {name for row in rows for name in row if row[name] != rows[0].get(name)}


def _run(args: argparse.Namespace, shown: dict, changes: dict) -> SweepRun:
    """One run, whose config and folder are checked.

    Args:
      args: of the command.
      shown: what names it.
      changes: path of a field, or name in the config's argument -> its value.
    """
    ends = [path.rpartition(".")[2] for path in shown]
    settings = {
        path if ends.count(end) > 1 else end: shown[path]
        for path, end in zip(shown, ends, strict=True)
    }
    folder = pathlib.Path(args.workdir, _name(settings))
    source, _, arg = args.config.partition(":")
    more = [f"{name}={x}" for name, x in changes.items() if "." not in name]
    arg = ",".join(filter(None, [arg, *more]))
    argv = [f"--config={source}:{arg}" if arg else f"--config={source}", *args.changes]
    argv += [f"{_CHANGE}{path}={x}" for path, x in changes.items() if "." in path]
    argv += ["--override_model"] * args.override_model
    argv += [f"--plugin={module}" for module in registry.named_modules()]
    argv.append(f"--workdir={folder}")
    try:
        run = SweepRun(settings, argv, folder, train.config_of(argv))
    except ValueError as error:
        raise UserError(f"{folder.name}: {error}") from error
    workdir_lib.check(run.config, folder)
    return run


def _name(settings: Mapping[str, Any]) -> str:
    """Of a folder; no comma, which would end a value in the argument of a config."""
    return "_".join(f"{k}={_short(str(x))}" for k, x in settings.items()) or "run"


def _short(text: str) -> str:
    plain = re.sub(r"[^\w.+-]", "-", text)
    if plain == text and len(text) <= _LONGEST:
        return text
    return f"{plain[-_LONGEST + 7 :]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def chosen(runs: Sequence[SweepRun], only: str) -> list[SweepRun]:
    """The runs that --only names.

    Raises:
      UserError: if one of its names is of none.
    """
    names, wanted = [run.name for run in runs], set()
    for pattern in only.split(","):
        if not (matching := fnmatch.filter(names, pattern)):
            raise UserError(f"--only: no run {pattern!r}; {suggestion(pattern, names)}")
        wanted.update(matching)
    return [run for run in runs if run.name in wanted]


# --- to train them --------------------------------------------------------------------


def sweep(args: argparse.Namespace) -> int:
    """Does what the flags ask for; returns the exit code.

    Raises:
      ValueError, RunError, OSError: if something given is wrong.
    """
    # This process reads configs and folders: the devices are those of the runs.
    jax.config.update("jax_platforms", "cpu")
    runs = planned(args)
    trained = chosen(runs, args.only)
    if args.plan:
        for run in trained:
            say(f"{run.name}: {run.row()['state']}\n  {run.command}")
        return DONE
    failures: dict[str, str] = {}
    for number, run in enumerate(trained, 1):
        which = f"{_PROG}: run {number} of {len(trained)}, {run.name}"
        if run.row()["state"] == FINISHED:
            say(f"{which}: finished already", sys.stderr)
            continue
        say(f"{which}: starts", sys.stderr)
        code, last_line = _trained(run)
        if code not in (DONE, PREEMPTED):
            ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
            failures[run.name] = f"{ended}: {last_line}"
        sweep_table.write(args.workdir, args.config, runs, failures)
        if code == PREEMPTED:
            say(f"{_PROG}: interrupted; the same command goes on", sys.stderr)
            return PREEMPTED
        say(f"{which}: {failures.get(run.name, 'done')}", sys.stderr)
    say(sweep_table.write(args.workdir, args.config, runs, failures))
    return RUN_FAILED if failures else DONE


def _trained(run: SweepRun) -> tuple[int, str]:
    """Trains in a process of its own; returns its exit code and the last line it said.

    Memory of a device is freed only with the process, and what kills one run (a full
    memory, a fault in a library) leaves the others alone. It dies with this process, so
    that the same command can go on at once. What it prints goes through a file, which
    then has all of it.
    """
    run.folder.mkdir(parents=True, exist_ok=True)
    path = run.folder / LOG
    command = [sys.executable, "-m", "etc_jax", "train", *run.argv]
    with PreemptionGuard() as guard, path.open("ab") as out, path.open("rb") as log:
        begin = log.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            child_process.tied(command),
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl-C reaches it once, through the guard
        )
        try:
            code, is_told = None, False
            while code is None:
                time.sleep(_POLL_SECS)
                code = child.poll()  # before reading, so that nothing is left unread
                if guard.requested and not is_told:
                    child.terminate()  # it saves and ends
                    is_told = True
                for line in log.read().decode(errors="replace").splitlines():
                    say(line, sys.stderr)
        finally:
            child.kill()
            child.wait()
        log.seek(max(begin, log.tell() - _TAIL_BYTES))
        lines = log.read().decode(errors="replace").splitlines()
    last_line = next(filter(None, map(str.strip, reversed(lines))), "no message")
    return PREEMPTED if guard.requested else code, last_line


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = parse(argv)
    return command_line.run(_PROG, lambda: sweep(args))


if __name__ == "__main__":
    sys.exit(main())
