"""Words of the field: names that say what they hold, short functions, stated shapes.

`python tests/words_test.py` prints `LEFT` as the tree has it now.
"""

import ast
import functools
import pathlib
import re
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "etc_jax"
MAX_LINES = 35  # of the bodies of 95 of 100 functions of a room

# As names of locals and arguments these say nothing of what they hold.
EMPTY = frozenset(
    "found place places kept said known mine own given made there here beside".split()
)
# In public names, what the field has another word for.
REPLACED = {
    "held_back": "validation",
    "measure": "metric",
    "beside": "side keys, or the name of what stands there",
    "whole_length": "record_length, full_attention_length",
    "foretell": "predict",
    "foretold": "predicted",
    "form": "converter",
    "forms": "converters",
}
ARRAYS = {"Array", "ndarray"}
SHAPE = re.compile(r"\[[^\]]*\]|\bshapes?\b|\bscalar")


class Left(NamedTuple):
    """What is left of a room: only ever less.

    Attributes:
      names: empty names in functions, each once a function.
      terms: public names with a word that was replaced.
      shapes: public functions of arrays whose docstring states no shape.
    """

    names: int = 0
    terms: int = 0
    shapes: int = 0


LEFT = {
    "configs": Left(names=4),
    "generation": Left(names=4, shapes=4),
    "loading": Left(names=6, shapes=4),
    # `--measure` of one's own texts chooses a way to score, which has several metrics.
    "tasks": Left(terms=1),
}


class Findings(NamedTuple):
    """Places, `file:line name`, of each kind in `Left`; lines of all functions."""

    names: list[str]
    terms: list[str]
    shapes: list[str]
    lines: list[int]


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def walk(module: ast.Module):
    """(node, the innermost function or class that it is in) of a whole file."""
    todo = [(module, module)]
    while todo:
        node, scope = todo.pop()
        yield node, scope
        inner = node if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else scope
        todo += [(child, inner) for child in ast.iter_child_nodes(node)]


def bound(node: ast.AST) -> str | None:
    """The name that a node gives to a value."""
    if isinstance(node, ast.arg):
        return node.arg
    is_target = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    return node.id if is_target else None


def words(name: str) -> str:
    """`HeldBackScore`, `held_back_score` -> `_held_back_score_`."""
    return f"_{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower().strip('_')}_"


def states_shapes(function: ast.FunctionDef, docstring: str | None) -> bool:
    """Whether a function has no arrays as arguments, or says which shapes they have."""
    args = function.args
    annotations = [a.annotation for a in args.posonlyargs + args.args + args.kwonlyargs]
    of_arrays = any(
        getattr(node, "attr", getattr(node, "id", None)) in ARRAYS
        for a in annotations
        if a
        for node in ast.walk(a)
    )
    return not of_arrays or bool(SHAPE.search(docstring or ""))


def length(function: ast.FunctionDef) -> int:
    """Lines of the body, without the docstring."""
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return function.end_lineno - first.end_lineno
    return function.end_lineno - first.lineno + 1


def read(source: str, text: str) -> Findings:
    """What is to be said about the text of a file."""
    findings = Findings([], [], [], [])

    def say(kind: list[str], line: int, name: str) -> None:
        kind.append(f"{source}:{line} {name}")

    def public(node: ast.AST, docstring: str | None) -> None:
        """Of a module or a public class, whose docstring counts for `__call__`."""
        names = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                names.append((child.name, child.lineno))
            elif isinstance(child, (ast.Assign, ast.AnnAssign)):
                targets = getattr(child, "targets", None) or [child.target]
                names += [(t.id, t.lineno) for t in targets if isinstance(t, ast.Name)]
            if isinstance(child, ast.ClassDef) and child.name[0] != "_":
                public(child, ast.get_docstring(child))
            elif isinstance(child, FUNCTIONS):
                own_text = ast.get_docstring(child)
                if child.name == "__call__":
                    own_text = f"{docstring} {own_text}"
                elif child.name[0] == "_":
                    continue
                if not states_shapes(child, own_text):
                    say(findings.shapes, child.lineno, child.name)
        for name, line in names:
            if name[0] != "_" and any(f"_{x}_" in words(name) for x in REPLACED):
                say(findings.terms, line, name)

    module = ast.parse(text)
    public(module, None)
    empty = {}
    for node, scope in walk(module):
        if isinstance(node, FUNCTIONS):
            findings.lines.append(length(node))
        if isinstance(scope, FUNCTIONS) and (name := bound(node)) in EMPTY:
            empty.setdefault((scope, name), node.lineno)
    for (_, name), line in empty.items():
        say(findings.names, line, name)
    return findings


@functools.cache
def rooms() -> dict[str, Findings]:
    """Findings by the first name below etc_jax."""
    all_of = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.relative_to(PACKAGE).as_posix()
        room = all_of.setdefault(
            source.partition("/")[0].removesuffix(".py"), Findings([], [], [], [])
        )
        for kind, more in zip(room, read(source, path.read_text()), strict=True):
            kind += more
    return all_of


def left() -> dict[str, Left]:
    counts = {
        room: Left(*(len(getattr(x, kind)) for kind in Left._fields))
        for room, x in rooms().items()
    }
    return {room: count for room, count in counts.items() if any(count)}


@pytest.mark.parametrize("kind", Left._fields)
def test_no_more_is_left_than_before(kind):
    want = {room: getattr(count, kind) for room, count in LEFT.items()}
    more = [
        line
        for room, x in rooms().items()
        if len(getattr(x, kind)) > want.get(room, 0)
        for line in getattr(x, kind)
    ]
    assert not more, f"{kind}, one of these is new:\n" + "\n".join(more)


def test_what_is_gone_is_no_longer_listed():
    assert left() == LEFT, "python tests/words_test.py prints the table as it is now"


def test_functions_are_short():
    long = {}
    for room, x in rooms().items():
        lines = sorted(x.lines)
        if lines and (p95 := lines[int(0.95 * (len(lines) - 1))]) > MAX_LINES:
            long[room] = p95
    assert not long


@pytest.mark.parametrize(
    "text, kind, want",
    [
        ("def f(found): pass", "names", "found"),
        ("def f():\n  for place in []: pass", "names", "place"),
        ("def f():\n  return [x for x, kept in []]", "names", "kept"),
        ("def f():\n  return lambda said: 0", "names", "said"),
        ("def f():\n  if known := 1: pass", "names", "known"),
        ("def held_back_files(): pass", "terms", "held_back_files"),
        ("class HeldBackScore: pass", "terms", "HeldBackScore"),
        ("class Score:\n  measure: str", "terms", "measure"),
        ("FORMS = 1", "terms", "FORMS"),
        ("def f(x: jax.Array):\n  'Of x.'", "shapes", "f"),
        ("class A:\n  def __call__(self, x: Array): pass", "shapes", "__call__"),
    ],
)
def test_a_wrong_word_is_found(text, kind, want):
    [finding] = getattr(read("new.py", text), kind)
    assert finding.split()[-1] == want


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n  founded = x.found = 1\n  return founded",
        "_measure = measured = platform = 1",
        "class _Form:\n  measure: int",
        "def f(x: jax.Array):\n  'Of x, `[b, n]`.'",
        "class A:\n  'Of `[b, n]`.'\n  def __call__(self, x: Array): pass",
        "def _f(x: jax.Array): pass",
    ],
)
def test_a_right_word_is_not(text):
    assert read("new.py", text)[:3] == ([], [], [])


def test_lines_are_those_of_the_body():
    text = "def f(\n  x\n):\n  '''One\n\n  more.\n  '''\n  y = x\n  return y"
    assert read("new.py", text).lines == [2]


def test_files_that_docs_name_are_there():
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    named = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"`([\w/]+/|[\w/]*[a-z]\.py)`", page.read_text())
    }
    folders = ("etc_jax", "tests", "launch", "benchmarks", "examples", "docs")
    paths = [p for folder in folders for p in ROOT.glob(f"{folder}/**/*")]
    paths += ROOT.iterdir()
    existing = {
        "/".join(parts[i:])
        for parts in (path.relative_to(ROOT).parts for path in paths)
        for i in range(len(parts))
    }
    # What an evaluation writes, and a config of a user.
    existing |= {"predicted", "my/config.py"}
    assert not {x for x in named if x[1].rstrip("/") not in existing}


if __name__ == "__main__":
    print("LEFT = {")
    for room, count in left().items():
        few = ", ".join(f"{k}={n}" for k, n in count._asdict().items() if n)
        print(f'    "{room}": Left({few}),')
    print("}")
