"""What all commands share: their flags, errors in one line, exit codes."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import tqdm

from etc_jax.base import copies, local_paths, registry, stores, user_cache
from etc_jax.base.local_paths import PathArgument
from etc_jax.base.suggestions import did_you_mean
from etc_jax.base.terminal import say
from etc_jax.base.user_cache import as_given

USER_ERROR = 2
INTERRUPTED = 130
UNREAD = 141  # as of a program that SIGPIPE has ended

_CHANGE = "--config."


class ArgumentParser(argparse.ArgumentParser):
    """The flags of a command, --NAME=VALUE; names are written in full.

    What is wrong is said in one line, with exit code 2; a flag that does not exist with
    the name of the nearest one. Every argument with a value has choices or a type: that
    of a path is one of `local_paths`, so that no output destroys an input; that of a
    text is `str`. What was given stands in `args.command_line`, as a shell takes it.

    Args:
      prog: the command, which stands before its errors.
      description: of the command: the docstring of its module.
      **options: of `argparse.ArgumentParser`.
    """

    def __init__(
        self,
        prog: str | None = None,
        description: str | None = None,
        **options: Any,
    ):
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,
        )
        self._has_config = False
        self.add_argument(
            "--plugin",
            action=_ImportPlugin,
            type=str,
            default=argparse.SUPPRESS,
            metavar="MODULE",
            help="a module of your own, which runs, and registers what data, a config "
            "or a model names; may come several times",
        )

    def add_config_flag(self, to: argparse._ActionsContainer | None = None) -> None:
        """Adds --config=NAME and --config.FIELD=VALUE; the latter are `args.changes`.

        Args:
          to: the group whose flag it is; None: none.
        """
        self._has_config = True
        (to or self).add_argument(
            "--config",
            type=PathArgument(local_paths.Use.READ, _config_files),
            metavar="NAME",
            help="what is trained or made; --config.FIELD=VALUE changes a field",
        )

    def parse_args(self, args=None, namespace=None):
        """Like that of argparse."""
        argv = sys.argv[1:] if args is None else list(args)
        _OUTPUTS.clear()  # of a command before, in this process, that failed
        self._refuse_unknown(argv)
        args = super().parse_args(argv, namespace)
        args.command_line = shlex.join([*self.prog.split(), *argv])
        return args

    def parse_known_args(self, args=None, namespace=None):
        """Like that of argparse."""
        self._check_declared()
        argv = sys.argv[1:] if args is None else list(args)
        changes = [a for a in argv if self._has_config and a.startswith(_CHANGE)]
        for change in changes:
            if "=" not in change:
                self.error(f"write {change}=VALUE, with an equals sign")
        argv = [a for a in argv if a not in changes]
        namespace, rest = super().parse_known_args(argv, namespace)
        if self._has_config:
            namespace.changes = changes
        try:
            self._copy(namespace)
        except (OSError, ValueError) as error:
            self.error(str(error))
        if wrong := local_paths.collision(self._paths(namespace)):
            self.error(wrong)
        return namespace, rest

    def error(self, message: str) -> NoReturn:
        """Says what is wrong, and ends the program."""
        say(f"{self.prog}: {message}", sys.stderr)
        raise SystemExit(USER_ERROR)

    def _copy(self, args: argparse.Namespace) -> None:
        """Puts the paths of copies in the place of addresses in an object store."""
        for action in self._actions:
            value = getattr(args, action.dest, None)
            if isinstance(action.type, PathArgument) and action.type.is_copied:
                is_many = isinstance(value, list)
                paths = [_copied(action.type, x) for x in local_paths.paths_in(value)]
                if paths:
                    setattr(args, action.dest, paths if is_many else paths[0])

    def _paths(self, args: argparse.Namespace) -> Iterator[local_paths.Given]:
        """The paths among the values of the arguments."""
        for action in self._actions:
            if isinstance(action.type, PathArgument):
                flag = (*action.option_strings, "")[0]
                for value in local_paths.paths_in(getattr(args, action.dest)):
                    yield local_paths.Given(flag, action.type, value)

    def _check_declared(self) -> None:
        """Refuses a parser with an argument of which nobody knows what it is."""
        for action in self._actions:
            has_value = action.nargs != 0 and action.choices is None
            if has_value and action.type is None:
                raise TypeError(
                    f"{self.prog}: {action.dest} has no type; expected one of "
                    "local_paths for a path, or str for text"
                )

    def _refuse_unknown(self, argv: Sequence[str]) -> None:
        """Before argparse says what is missing, which a misspelt flag may be."""
        flags = self._flags()
        for argument in argv:
            if argument == "--":
                return
            flag = argument.partition("=")[0]
            if not flag.startswith("--") or flag in flags:
                continue
            if self._has_config and flag.startswith(_CHANGE):
                continue
            hint = did_you_mean(flag, flags) or f"see {self.prog} --help"
            self.error(f"there is no flag {flag}; {hint}")

    def _flags(self) -> set[str]:
        """Those of subcommands too."""
        flags = {flag for action in self._actions for flag in action.option_strings}
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    flags |= command._flags()
        return flags


# What this command makes for an object store, and has not put there yet.
_OUTPUTS: list[copies.Output] = []


def _copied(argument: PathArgument, path: str) -> str:
    if not stores.is_address(path):
        return path
    if argument.use is not local_paths.Use.WRITE:
        is_of_model = argument.use is local_paths.Use.READ_MODEL
        return copies.here(path, with_siblings=is_of_model)
    value = str(copies.place(path, user_cache.OUTPUTS))
    _OUTPUTS.extend(copies.Output(as_given(each)) for each in argument.paths(value))
    return value


def _put_back() -> None:
    """Puts in the store what the command has made."""
    while _OUTPUTS:
        _OUTPUTS[0].put_back()
        _OUTPUTS.pop(0).forget()


class _ImportPlugin(argparse.Action):
    """Imports the module that the user names, before anything looks for its names."""

    def __call__(self, parser, namespace, values, option_string=None):
        try:
            registry.import_plugin(values)
        except registry.PluginError as error:
            parser.error(f"{option_string}: {error}")


def _config_files(name: str) -> Iterable[str]:
    """The file of --config=NAME:VARIANT, if it is one."""
    path = name.partition(":")[0]
    return (path,) if path.endswith((".py", ".json")) else ()


def first_given(argv: Sequence[str] | None, *names: str) -> argparse.Namespace:
    """The values of some flags, which decide what other flags there are.

    Modules of --plugin are imported.

    Args:
      argv: arguments; None: those of the process.
      *names: of the flags; one that is not given is None.

    Raises:
      registry.PluginError: if a module cannot be imported.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--plugin", action="append", default=[])
    for name in names:
        parser.add_argument(f"--{name}")
    args = parser.parse_known_args(argv)[0]
    registry.import_plugins(args.plugin)
    return args


def seeds(text: str) -> list[int]:
    """The value of a flag such as --seeds=0,1,2."""
    if not all(map(str.isdecimal, text.split(","))):
        raise argparse.ArgumentTypeError(f"must be like 0,1,2, got {text!r}")
    return [*map(int, text.split(","))]


class _Lines(logging.Handler):
    """Log records as lines on standard error, above a bar that may be there."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            with tqdm.tqdm.external_write_mode(file=sys.stderr):
                say(self.format(record), sys.stderr)
        except Exception:  # noqa: BLE001 - as all handlers do
            self.handleError(record)


def show_log() -> None:
    """Shows what the package logs, unless the program has its own way to do so."""
    root = logging.getLogger()
    # Orbax leaves a plain one where it is imported.
    if any(type(handler) is not logging.StreamHandler for handler in root.handlers):
        return
    lines = _Lines()
    lines.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    root.handlers[:] = [lines]
    logging.getLogger("etc_jax").setLevel(logging.INFO)


@contextlib.contextmanager
def warnings_as_lines(prog: str) -> Iterator[None]:
    """Shows each warning to a user as a line on standard error, without its source."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: say(f"{prog}: {message}", sys.stderr)
        yield


@contextlib.contextmanager
def ends_with_its_reader() -> Iterator[None]:
    """Ends the program quietly once nobody, such as `head`, reads what it prints.

    And in one line, with exit code 2, if that cannot be written, as to a full disk.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread(sys.stdout.fileno()):
            raise
        # What is left in the buffer would raise again when the program ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(UNREAD) from None
    except OSError as error:
        if not _is_full(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        say(f"standard output cannot be written: {error}", sys.stderr)
        raise SystemExit(USER_ERROR) from None


def _is_full(error: OSError) -> bool:
    """Whether a disk is full, and no file is named: those of commands are."""
    return error.errno in local_paths.FULL and error.filename is None


def _is_unread(file: int) -> bool:
    """Whether a pipe has lost its reader; other pipes break too, as of a worker."""
    poll = select.poll()
    poll.register(file, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def at_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the first --, and what after it: a command of its own."""
    argv = list(argv)
    middle = argv.index("--") if "--" in argv else len(argv)
    return argv[:middle], argv[middle + 1 :]


@ends_with_its_reader()
def run(
    prog: str,
    work: Callable[[], str | int | None],
    *,
    errors: tuple[type[Exception], ...] = (ValueError, OSError),
    interrupted: str = "interrupted",
) -> int:
    """Does the work of a command; what was given wrongly is told in one line.

    Args:
      prog: the command, which stands before its errors.
      work: returns what is printed at the end, if anything, or an exit code.
      errors: that mean that something given is wrong, beside those with an `exit_code`;
        all others are faults of the program.
      interrupted: what Ctrl-C means.

    Returns:
      The exit code: 0 done; 2 something given is wrong; 130 interrupted; another one if
      the error has it as `exit_code`.
    """
    show_log()
    try:
        told = work()
        if not isinstance(told, int) or told == 0:
            _put_back()
    except KeyboardInterrupt:
        say(f"{prog}: {interrupted}", sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, BrokenPipeError) and _is_unread(sys.stdout.fileno()):
            raise
        if isinstance(error, OSError) and _is_full(error):
            sys.stdout.flush()  # says it again where that is full, and has a buffer
            error.filename = f"standard output or {tempfile.gettempdir()}"
        code = getattr(error, "exit_code", None)
        if code is None and not isinstance(error, errors):
            raise
        say(f"{prog}: {error}", sys.stderr)
        return USER_ERROR if code is None else code
    if isinstance(told, int):
        return told
    if told:
        say(told)
    return 0
