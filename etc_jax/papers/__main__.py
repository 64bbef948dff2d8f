"""Reproduces the tables of the papers: lists them, plans a row, runs it, reports it.

    etc-jax reproduce                               all tables, and how far each is
    etc-jax reproduce etc.table3                    a table: paper | ours
    etc-jax reproduce etc.table3 --plan             the commands at the paper's size,
                                                    hours of devices, and disk
    etc-jax reproduce etc.table3 --run              run them
    etc-jax reproduce etc.table3 --scale=tiny --run --seeds=0,1,2
                                                    the same rows by small models on
                                                    invented records, on a CPU
    etc-jax reproduce etc.table3 --row='ETC: -' --from=runs/mine/dev
                                                    what you evaluated is this row

Rows are made of commands that you can give yourself, which --plan prints. What is done
is not done again: the same command goes on where it was stopped, and rows and seeds can
be added. Beside what the commands make, the folder --workdir has TABLE.md, TABLE.json
and TABLE.png: the paper's figures and ours, seeds, mean and standard deviation.

At the paper's size the files of data sets are below --data, under the names of their
releases, and --texts are those for pre-training; so they are of the few small studies
that are not of invented records (own.long_texts, for instance). Hours are FLOPs of full
inputs on --devices of --device, at --efficiency of their peak.

Exit codes: 0 done; 2 something given is wrong; 17 interrupted: the same command goes
on; otherwise that of the command that failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import jax

from etc_jax.base import local_paths
from etc_jax.base.terminal import say
from etc_jax.cli import command_line
from etc_jax.papers import cost, plan, report, study
from etc_jax.papers.study import PAPER, SCALES
from etc_jax.papers.table import find, tables
from etc_jax.training.errors import DONE, UserError
from etc_jax.training.preflight import hardware

_PROG = "etc-jax reproduce"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(prog=_PROG, description=__doc__)
    add = parser.add_argument
    add("table", nargs="?", type=str, default="", help="such as etc.table3")
    add("--row", type=str, default="", help="one row, or several: 'A;B'; all")
    add("--scale", choices=SCALES, default=PAPER)
    add("--seeds", type=command_line.seeds, default=[0], help="such as 0,1,2")
    add("--plan", action="store_true", help="print the commands, and what they take")
    add("--run", action="store_true", help="run what is not done")
    out, read = local_paths.ADDED_TO, local_paths.INPUT
    add("--workdir", type=out, default="reproduced", help="default: reproduced")
    add("--from", type=read, dest="own", help="of etc-jax evaluate, or a run")
    add("--data", type=read, default="data", help="folder of data sets")
    add("--texts", type=read, default="texts/*.jsonl.gz", help="for pre-training")
    add("--device", choices=hardware.kinds(), default="TPU v5e", help="TPU v5e")
    add("--devices", type=int, default=8)
    add("--efficiency", type=float, default=cost.EFFICIENCY)
    return parser.parse_args(argv)


def reproduce(args: argparse.Namespace) -> int:
    """Does what the flags ask for; returns the exit code.

    Raises:
      ValueError, RunError, OSError: if something given is wrong, or a command fails.
    """
    if not args.run:
        # Shapes are worked out, and nothing is computed: an accelerator stays free.
        jax.config.update("jax_platforms", "cpu")
    if not args.table:
        say(report.listing(tables().values(), args.workdir))
        return DONE
    table = find(args.table)
    rows = table.chosen(args.row)
    runs = study.Runs(table, args.scale, args.workdir, data=args.data, texts=args.texts)
    if args.own:
        if len(rows) != 1:
            raise UserError("--from is of one row: give --row=NAME")
        runs.take(rows[0], args.own)
    if args.plan:
        hardware = plan.Hardware(args.device, args.devices, args.efficiency)
        say(plan.text(runs, rows, args.seeds, hardware))
        return DONE
    if args.run:
        for seed in args.seeds:
            for row in rows if args.row else runs.here():
                runs.carry_out(row, seed)
                report.write(runs)
    say(report.write(runs))
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: reproduce(args))


if __name__ == "__main__":
    sys.exit(main())
