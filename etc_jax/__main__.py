"""The command `etc-jax`: each subcommand is a module, imported when it is asked for."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import pathlib
import sys
from collections.abc import Sequence

from etc_jax.base.suggestions import suggestion
from etc_jax.cli import command_line

# Subcommand -> the module with its `main`, which `python -m` runs too. The first line
# of the module's docstring is what --help says.
COMMANDS = {
    "train": "etc_jax.cli.train",
    "sweep": "etc_jax.cli.sweep",
    "launch": "etc_jax.launch.__main__",
    "reproduce": "etc_jax.papers.__main__",
    "evaluate": "etc_jax.cli.evaluate",
    "predict": "etc_jax.cli.predict",
    "generate": "etc_jax.cli.generate",
    "embed": "etc_jax.cli.embed",
    "prepare": "etc_jax.cli.prepare",
    "stats": "etc_jax.tasks.stats",
    "upper_bound": "etc_jax.tasks.upper_bound",
    "synthetic": "etc_jax.tasks.synthetic.__main__",
    "corpora": "etc_jax.cli.corpora",
    "inspect": "etc_jax.cli.inspect",
    "convert": "etc_jax.cli.convert",
    "extend": "etc_jax.cli.extend",
    "grow": "etc_jax.cli.grow",
}
_USAGE = "etc-jax COMMAND [--FLAG=VALUE ...]"


def help_text() -> str:
    """All commands, a line each."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:{width}}{_first_line(COMMANDS[name])}" for name in COMMANDS]
    return "\n".join(
        [
            "Long-document transformers in JAX: pre-train, convert, fine-tune.",
            "",
            f"    {_USAGE}",
            "",
            *lines,
            "",
            "  etc-jax COMMAND --help   what a command does, and its flags",
            "  etc-jax --version        the version",
        ]
    )


def _first_line(module: str) -> str:
    """Of the docstring, read without an import, which may take seconds."""
    *package, name = module.split(".")
    folder = importlib.util.find_spec(".".join(package)).submodule_search_locations[0]
    source = pathlib.Path(folder, f"{name}.py").read_text(encoding="utf-8")
    text = ast.get_docstring(ast.parse(source))
    return " ".join(text.partition("\n\n")[0].split())


@command_line.ends_with_its_reader()
def main(argv: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns its exit code, 2 if there is no such one."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0] in ("--help", "-h", "help"):
        print(help_text())
        return 0 if argv else command_line.USER_ERROR
    if argv[0] == "--version":
        print(importlib.metadata.version("etc_jax"))
        return 0
    name = argv[0].replace("-", "_")
    if name not in COMMANDS:
        hint = suggestion(name, COMMANDS)
        print(f"etc-jax: there is no command {argv[0]}; {hint}", file=sys.stderr)
        return command_line.USER_ERROR
    # As `python -m` does, but last: modules in the current folder hide no others.
    sys.path.append("")
    return importlib.import_module(COMMANDS[name]).main(argv[1:])


if __name__ == "__main__":
    sys.exit(main())
