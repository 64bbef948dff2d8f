"""What can be measured: time, memory, and bits a byte.

    python -m benchmarks NAME [--OPTION=VALUE ...]

A benchmark is a module with a `main`, which `COMMANDS` names.
"""

import ast
import importlib
import pathlib
import sys
from collections.abc import Sequence

# Folder -> its benchmarks.
COMMANDS = {
    "speed": (
        *("attention", "layer", "layer_picture", "reformer_speed", "seq2seq_step"),
        *("generation", "pooled_block", "sled_encoder", "encode", "input_pipeline"),
        *("prepare", "step_lengths"),
    ),
    "memory": ("file_memory", "reformer_memory", "tpu_compile"),
    "quality": ("overlapping_bits",),
    "data": ("long_files", "pod_reading"),
}
MODULES = {
    name: f"benchmarks.{folder}.{name}"
    for folder, names in COMMANDS.items()
    for name in names
}
_USER_ERROR = 2


def help_text() -> str:
    """All benchmarks, a line each."""
    lines = ["python -m benchmarks NAME [--OPTION=VALUE ...]"]
    for folder, names in COMMANDS.items():
        lines += ["", f"{folder}:", *(f"  {name:20}{_title(name)}" for name in names)]
    return "\n".join(lines)


def _title(name: str) -> str:
    """First line of the docstring, read without an import, which takes seconds."""
    _, folder, _ = MODULES[name].split(".")
    source = pathlib.Path(__file__).parent / folder / f"{name}.py"
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    return text.partition("\n")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a benchmark; returns its exit code, 2 if there is no such one."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0] in ("--help", "-h"):
        print(help_text())
        return 0 if argv else _USER_ERROR
    name, *rest = argv
    if name not in MODULES:
        print(
            f"python -m benchmarks: there is no {name!r}; there are: "
            f"{', '.join(MODULES)}",
            file=sys.stderr,
        )
        return _USER_ERROR
    return importlib.import_module(MODULES[name]).main(rest)


if __name__ == "__main__":
    sys.exit(main())
