"""Which test files a change needs: those that import, in any number of steps, what it
touches.

A data set or a config goes by a name: a test that has the name in a string without
spaces imports it too, as do those that go through all of them. A module may be started
by its path. A file that is no module is needed by those that name it.
"""

import ast
import pathlib
import re
import subprocess
from collections.abc import Container, Iterable, Set

from repository import ROOT

# Modules that are found by a name, and where the tests lie that go through them all.
_NAMED = {"etc_jax/configs": "tests/configs", "etc_jax/tasks": "tests/tasks"}
# These import when they are asked for something that another file names.
_LAZY = ("etc_jax/__init__.py", "etc_jax/base/registry.py")
# What all tests stand on.
_ALL = ("tests/conftest.py", "pyproject.toml", "setup.py", "Makefile")
# Where imports begin, besides the root.
_ROOTS = ("tests/", "examples/")


def since(base: str) -> set[str]:
    """The files that differ from a commit, or that git does not know yet.

    Raises:
      subprocess.CalledProcessError: if there is no such commit.
    """
    asked = (
        ("diff", "--name-only", "--no-renames", "--merge-base", base),
        ("ls-files", "--others", "--exclude-standard"),
    )
    return {name for command in asked for name in _git(*command)}


def needed(changed: Set[str], files: dict[str, str]) -> set[str]:
    """The test files that a change needs.

    Args:
      changed: paths from the root of the repository.
      files: path -> text of each Python file there is.
    """
    tests = {name for name in files if name.endswith("_test.py")}
    if not set(_ALL).isdisjoint(changed):
        return tests
    modules = {module: name for name in files for module in _modules(name, files)}
    by_name = {x: _by_name(x) for x in files if x.startswith(tuple(_NAMED))}
    users: dict[str, set[str]] = {}
    for name, text in files.items():
        imported, words = _uses(text) if name not in _LAZY else (set(), set())
        used = {modules[x] for x in imported & modules.keys()}
        if name.startswith("tests/"):
            folder = str(pathlib.Path(name).parent)
            used |= {
                x for x, (word, at) in by_name.items() if word in words or at == folder
            }
        for other in used:
            users.setdefault(other, set()).add(name)
    todo = set(changed)
    for path in changed - files.keys():
        name = pathlib.Path(path).name
        todo |= {x for x, text in files.items() if name in text}
    reached = set()
    while todo:
        reached.add(name := todo.pop())
        todo |= users.get(name, set()) - reached
    return tests & reached


def tests_since(base: str) -> set[str]:
    """The test files that what differs from a commit needs."""
    names = _git("ls-files", "--cached", "--others", "--exclude-standard", "*.py")
    paths = {name: ROOT / name for name in names}
    files = {k: x.read_text() for k, x in paths.items() if x.is_file()}
    return needed(since(base), files)


def _git(*command: str) -> list[str]:
    done = subprocess.run(
        ["git", *command], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


def _modules(name: str, files: Container[str]) -> Iterable[str]:
    """The names by which a file may be imported."""
    path = name.removesuffix(".py").removesuffix("/__init__")
    for root in ("", *_ROOTS):
        if path.startswith(root):
            yield path.removeprefix(root).replace("/", ".")
    folder, _, module = path.rpartition("/")
    if path.startswith("tests/") and f"{folder}/__init__.py" not in files:
        yield module  # pytest puts its folder on the path


def _by_name(name: str) -> tuple[str, str]:
    """(the word that names a module, the folder of tests that go through all)."""
    module = name.removesuffix(".py").removesuffix("/__init__")
    [tests] = [x for root, x in _NAMED.items() if name.startswith(root)]
    return module.rpartition("/")[2], tests


def _uses(text: str) -> tuple[set[str], set[str]]:
    """(modules that a file imports or names, with their packages; words it has)."""
    imported, words = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {x.name for x in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {f"{node.module}.{x.name}" for x in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not re.search(r"\s", node.value):
                imported.add(node.value)
                words |= set(re.findall(r"\w+", node.value))
    parts = [x.split(".") for x in imported]
    return {".".join(x[:n]) for x in parts for n in range(1, len(x) + 1)}, words
