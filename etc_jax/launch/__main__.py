"""Runs a command on TPUs or GPUs elsewhere: makes, watches, and ends what it needs.

    etc-jax launch BACKEND --name=NAME --hardware=v5e:4x4 ... -- COMMAND
                                     print the commands and files; nothing is started
    etc-jax launch BACKEND preflight ... what it would take: memory, hours, money, disk
    etc-jax launch BACKEND run ...       start it, and leave
    etc-jax launch BACKEND babysit ...   start it where it is not, watch it, and start
                                         it again when its machines were taken away
    etc-jax launch BACKEND status ...    how far it is
    etc-jax launch BACKEND logs ...      what it has printed of late
    etc-jax launch BACKEND rerun ...     the command anew, on machines that are there
    etc-jax launch BACKEND stop ...      end it, and give its machines back
    etc-jax launch BACKEND --help        its flags

COMMAND is what stands after etc-jax elsewhere, such as train --config=etc_base_pretrain
--workdir=gs://BUCKET/run; all hosts run it together. Of sweep each run that is not
finished is a job of its own, and babysit writes the table. The same flags are given to
each action: nothing but --name is remembered. Files that commands name are in --folder.

Whatever runs it starts the job again after a crash, a preemption (17), and the loss of
a machine, up to --restarts times, and not after 0, 2, 3 and 4: then the same command
would end in the same way. Exit codes of babysit are those of the job; 1: it could not
be started, or was lost too often; 2: something given is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence

from etc_jax.base import local_paths
from etc_jax.base.suggestions import suggestion
from etc_jax.base.terminal import say
from etc_jax.base.whole_files import write_whole
from etc_jax.cli import command_line
from etc_jax.launch import babysit, backend, local, preflight, slices, sweep
from etc_jax.launch.backend import Backend, Recipe
from etc_jax.launch.job import Argv, Job, Step
from etc_jax.training.errors import CRASHED, DONE, USER_ERROR, UserError

_PROG = "etc-jax launch"
_PLAN, _PREFLIGHT, _BABYSIT = "plan", "preflight", "babysit"
_LOCAL = "local"


def _parser(name: str, recipe: type[Recipe]) -> argparse.ArgumentParser:
    parser = command_line.ArgumentParser(f"{_PROG} {name}", f"{recipe.__doc__}")
    add = parser.add_argument
    actions = [_PLAN, _PREFLIGHT]
    actions += [_BABYSIT, *_ACTIONS] if issubclass(recipe, Backend) else []
    add("action", nargs="?", choices=actions, default=_PLAN, help="default: plan")
    add("--name", type=str, default="", help="of the job and its machines")
    add(
        "--hardware",
        type=str,
        default="",
        help="kind and size in chips, such as v5e:4x4, v5p:2x2x2, or h100:8 of a host",
    )
    add("--slices", type=int, default=1, help="so many of them; of GPUs: hosts")
    add("--restarts", type=int, default=Job.restarts, help="at most; default: 100")
    add(
        "--env",
        type=str,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a variable of the processes; several times",
    )
    add(
        "--folder",
        type=local_paths.ADDED_TO,
        help="for files that commands name; default: launched/NAME",
    )
    add("--price", type=float, help="of preflight: an hour of a chip costs so much")
    add(
        "--efficiency",
        type=float,
        default=preflight.Rates.efficiency,
        help="of preflight: share of the peak that is reached; default: 0.4",
    )
    if issubclass(recipe, Backend):
        add(
            "--poll_secs",
            type=float,
            default=babysit.POLL_SECS,
            help="of babysit, between two looks; default: 60",
        )
    recipe.add_flags(parser)
    return parser


def recipe_of(name: str, argv: Sequence[str]) -> tuple[Recipe, argparse.Namespace]:
    """A back end with the job of a command line.

    Args:
      name: of the back end.
      argv: its arguments; what stands after -- is the command.

    Raises:
      UserError: with all that is wrong.
    """
    recipe = backend.backends()[name]
    flags, command = command_line.at_dashes(argv)
    args = _parser(name, recipe).parse_args(flags)
    if not args.hardware:
        raise UserError("--hardware is needed, such as --hardware=v5e:4x4")
    if wrong := [x for x in args.env if "=" not in x]:
        raise UserError(f"--env is {wrong[0]!r}; expected NAME=VALUE")
    job = Job(
        name=args.name,
        command=tuple(command),
        slice=slices.parse(args.hardware),
        slices=args.slices,
        restarts=args.restarts,
        environ=dict(x.split("=", 1) for x in args.env),
    )
    # What only looks, or ends, needs no command.
    runs = args.action not in ("status", "logs", "stop")
    problems = list(job.problems())
    if runs and not command:
        problems.append(
            "nothing to run: put a command after --, such as -- train "
            "--config=quickstart --workdir=gs://BUCKET/run"
        )
    folder = pathlib.Path(args.folder or pathlib.Path("launched", args.name))
    planned = recipe(job, args, folder)
    if problems := problems + planned.problems():
        raise UserError("\n".join(problems))
    return planned, args


def _recipes(recipe: Recipe) -> tuple[list[Recipe], sweep.Sweep | None]:
    """That of the job, or of each run of a sweep that is not finished."""
    if recipe.job.command[:1] != (sweep.COMMAND,):
        return [recipe], None
    runs = sweep.Sweep(recipe.job)
    recipes = [
        type(recipe)(job, recipe.args, recipe.folder / job.name) for job in runs.jobs
    ]
    # Names are longer than that which was checked.
    if wrong := [problem for job in runs.jobs for problem in job.problems()]:
        raise UserError(wrong[0])
    return recipes, runs


def _plan(recipes: Sequence[Recipe]) -> int:
    for recipe in recipes:
        for name, text in recipe.files().items():
            say(f"# {recipe.path(name)}\n{textwrap.indent(text, '    ')}")
        for step in recipe.start():
            say(f"{step}\n")
    if any(isinstance(recipe, Backend) for recipe in recipes):
        say("# nothing was started; the same with the word run does it")
    return DONE


def _write_files(recipes: Sequence[Recipe]) -> None:
    for recipe in recipes:
        for name, text in recipe.files().items():
            path = pathlib.Path(recipe.path(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)


def _give(steps: Iterable[Step]) -> int:
    babysit.give(steps)
    return DONE


def _shown(commands: Iterable[Argv]) -> int:
    """Gives commands, and shows what they print."""
    for argv in commands:
        answer = babysit.run(argv)
        for text, file in ((answer.out, sys.stdout), (answer.error, sys.stderr)):
            if text.strip():
                say(text.rstrip(), file)
        if answer.code:
            return CRASHED
    return DONE


_chain = itertools.chain.from_iterable
_ACTIONS: dict[str, Callable[[Sequence[Backend]], int]] = {
    "run": lambda jobs: _give(_chain(job.start() for job in jobs)),
    "status": lambda jobs: _shown(_chain(job.status() for job in jobs)),
    "logs": lambda jobs: _shown(_chain(job.logs() for job in jobs)),
    "rerun": lambda jobs: _give(_chain(job.rerun() for job in jobs)),
    "stop": lambda jobs: _shown(_chain(job.stop() for job in jobs)),
}


def _babysit(jobs: Sequence[Backend], runs: sweep.Sweep | None, secs: float) -> int:
    if runs is None:
        return babysit.babysit(jobs, poll_secs=secs)[0]
    codes = babysit.babysit(jobs, poll_secs=secs, ended_fn=runs.ended) if jobs else []
    say(runs.write())
    return CRASHED if any(codes) else DONE


def _launch(name: str, argv: Sequence[str]) -> int:
    recipe, args = recipe_of(name, argv)
    if args.action == _PREFLIGHT:
        rates = preflight.Rates(args.efficiency, args.price)
        if problems := list(rates.problems()):
            raise UserError("\n".join(problems))
        say(preflight.report(recipe.job, rates))
        return DONE
    recipes, runs = _recipes(recipe)
    if args.action == _PLAN:
        return _plan(recipes)
    if args.action in (_BABYSIT, "run", "rerun"):
        _write_files(recipes)
    if args.action == _BABYSIT:
        return _babysit(recipes, runs, args.poll_secs)
    return _ACTIONS[args.action](recipes)


def help_text() -> str:
    """What the command is, and its back ends, a line each."""
    lines = [f"  {name:12}{x.__doc__}" for name, x in backend.backends().items()]
    lines.append(f"  {_LOCAL:12}{local.__doc__.splitlines()[0]}")
    return "\n".join([__doc__.rstrip(), "", "Back ends:", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0] in ("--help", "-h"):
        say(help_text())
        return DONE if argv else USER_ERROR
    name = argv[0]
    if name == _LOCAL:
        return local.main(argv[1:])
    if name not in backend.backends():
        hint = suggestion(name, [*backend.backends(), _LOCAL])
        say(f"{_PROG}: there is no back end {name}; {hint}", sys.stderr)
        return USER_ERROR
    return command_line.run(_PROG, lambda: _launch(name, argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
