"""English text that is on every machine: the documentation of installed Python.

The built-in corpus is `pydoc_data.topics` (the language reference) and the docstrings
of the standard library, numpy, scipy and jax, about 10 MB. It needs no download, and
two runs with the same package versions read the same bytes in the same order.
Modules are parsed, never imported.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import pathlib
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence

PACKAGES = ("numpy", "scipy", "jax")
READER_VERSION = "1"  # raise it with every change to how this file reads a source
SKIPPED_FOLDERS = frozenset(
    ("test", "tests", "idle_test", "site-packages", "dist-packages", "_bundled")
    + ("pydoc_data",)
)
# Shorter paragraphs are headings and one-word entries, whose text is all alike.
MIN_PARAGRAPH_WORDS = 3
# Shorter paragraphs repeat by nature ("Returns the result."), longer ones are copies.
MIN_DUPLICATE_CHARS = 80

_HAS_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_TABLE_ROW = re.compile(r"\s*\|.*\|\s*")
# The mark-up of reStructuredText directives; the prose inside them stays.
_DIRECTIVE = re.compile(r"^(\s*)\.\. [\w-]+::")
_DIRECTIVE_OPTION = re.compile(r"\s*:[\w-]+:\s*\S*\s*")


@dataclasses.dataclass(frozen=True)
class Document:
    """A named text.

    Attributes:
      name: unlike that of other documents; the part before the first "/" is its source.
      paragraphs: running text, one line each.
      replaced_chars: how many of its characters stand for what was illegible.
    """

    name: str
    paragraphs: tuple[str, ...]
    replaced_chars: int = 0

    @property
    def source(self) -> str:
        return self.name.split("/", 1)[0]

    @property
    def num_chars(self) -> int:
        return sum(map(len, self.paragraphs))


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Documents in a fixed order, and the files that could not be parsed."""

    documents: tuple[Document, ...]
    unreadable: tuple[str, ...] = ()

    def report(self) -> str:
        """Documents and characters by source, a line each, and unreadable files."""
        documents: collections.Counter[str] = collections.Counter()
        chars: collections.Counter[str] = collections.Counter()
        for document in self.documents:
            documents[document.source] += 1
            chars[document.source] += document.num_chars
        lines = [f"{s}: {documents[s]} documents, {chars[s]} chars" for s in documents]
        lines.append(f"total: {documents.total()} documents, {chars.total()} chars")
        return "\n".join(lines + [f"not parsed: {u}" for u in self.unreadable])


def built_in_corpus(packages: Sequence[str] = PACKAGES) -> Corpus:
    """Reads the documentation of the running Python and of `packages`.

    Raises:
      ValueError: if a package is not installed.
    """
    stdlib = pathlib.Path(sysconfig.get_paths()["stdlib"])
    folders = [("stdlib", stdlib), *((p, package_folder(p)) for p in packages)]
    return read_corpus(folders, topics=stdlib / "pydoc_data" / "topics.py")


class BuiltInSource:
    """The built-in corpus as a source of `prepare`; read once and held in memory."""

    name = "built_in"

    def __init__(self, packages: Sequence[str] = PACKAGES):
        self.packages = tuple(packages)

    def __iter__(self) -> Iterator[Document]:
        return iter(self._corpus.documents)

    def describe(self) -> dict[str, str]:
        """All that the documents depend on, for fingerprints."""
        return describe_built_in(self.packages)

    def report(self) -> str:
        """See `Corpus.report`."""
        return self._corpus.report()

    @functools.cached_property
    def _corpus(self) -> Corpus:
        return built_in_corpus(self.packages)


def describe_built_in(packages: Sequence[str] = PACKAGES) -> dict[str, str]:
    """What the bytes of the built-in corpus depend on: versions, by name."""
    versions = {p: importlib.metadata.version(p) for p in packages}
    return {"reader": READER_VERSION, "python": platform.python_version(), **versions}


def package_folder(package: str) -> pathlib.Path:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(
            f"package {package!r} of the built-in corpus is not installed as a folder; "
            "install it, or leave it out of `packages`"
        )
    return pathlib.Path(list(spec.submodule_search_locations)[0])


def read_corpus(
    folders: Sequence[tuple[str, pathlib.Path]], topics: pathlib.Path | None = None
) -> Corpus:
    """Reads folders of Python modules, one document a module.

    Docstrings and long paragraphs that were seen before, in any document, are left
    out; a document with nothing left is left out too.

    Args:
      folders: (source name, folder), read in this order; files in the order of names.
      topics: a module holding `topics = {name: text}`, one document a topic.
    """
    raw: list[tuple[str, list[str]]] = []
    unreadable = []
    if topics is not None:
        raw += [(f"topics/{k}", [v]) for k, v in sorted(_read_topics(topics).items())]
    for source, folder in folders:
        for path in _python_files(folder):
            name = f"{source}/{path.relative_to(folder).as_posix()}"
            try:
                tree = _parse(path)
            except (SyntaxError, ValueError) as e:  # reported, see `Corpus.report`
                unreadable.append(f"{name}: {e}")
                continue
            raw.append((name, list(docstrings(tree))))
    return Corpus(tuple(_without_duplicates(raw)), tuple(unreadable))


def check_share(validation: float) -> None:
    """Raises ValueError unless `validation` is a share."""
    if not 0.0 <= validation <= 1.0:
        raise ValueError(f"validation must be a share from 0 to 1, got {validation}")


def is_validation(name: str, validation: float) -> bool:
    """Whether a document is kept for validation: its name alone decides.

    Args:
      name: of the document.
      validation: expected share of such documents, 0 to 1.
    """
    return name_draw(name) < validation * 2**64


def name_draw(name: str) -> int:
    """A number from 0 to 2**64 - 1 that is as good as drawn, but fixed by the name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Docstrings of a module in source order, the module's own first.

    The text of `add_newdoc(..., "text")` calls counts as one: numpy and scipy document
    their compiled functions so.
    """
    yield from _own_docstring(tree)
    yield from _nested_docstrings(tree.body)


def clean_paragraphs(text: str) -> tuple[str, ...]:
    """Paragraphs of a docstring as running text, one line each.

    Doctests with their outputs, underlines, table rows and the mark-up of directives
    are dropped, and a step back in indentation opens a new paragraph (numpydoc lists
    of parameters).
    """
    paragraphs = []
    # Lone surrogates are legal in a Python string, but in no encoding of text.
    text = text.encode("utf-8", "replace").decode("utf-8")
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        paragraphs += _block_paragraphs(block.splitlines())
    return tuple(p for p in paragraphs if len(p.split()) >= MIN_PARAGRAPH_WORDS)


def _block_paragraphs(lines: list[str]) -> Iterator[str]:
    paragraph: list[str] = []
    last_indent = 0
    for line in lines:
        if line.lstrip().startswith(">>>"):
            break  # the rest up to the blank line is code and its output
        line = _DIRECTIVE.sub(r"\1", line)
        if not _HAS_LETTER_OR_DIGIT.search(line) or _TABLE_ROW.fullmatch(line):
            continue
        if _DIRECTIVE_OPTION.fullmatch(line):
            continue
        indent = len(line) - len(line.lstrip())
        # As in lists of parameters: the name is outdented, its text is not.
        if indent < last_indent:
            yield " ".join(paragraph)
            paragraph = []
        paragraph += line.split()
        last_indent = indent
    yield " ".join(paragraph)


def _read_topics(path: pathlib.Path) -> dict[str, str]:
    for statement in _parse(path).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "topics":
            return ast.literal_eval(statement.value)
    raise ValueError(f"{path} has no `topics = {{...}}`, which pydoc_data has")


def _python_files(folder: pathlib.Path) -> list[pathlib.Path]:
    files = []
    for path in folder.rglob("*.py"):
        parents = path.relative_to(folder).parts[:-1]
        if not SKIPPED_FOLDERS.intersection(parents):
            files.append(path)
    return sorted(files, key=lambda p: p.relative_to(folder).as_posix())


def _parse(path: pathlib.Path) -> ast.Module:
    with warnings.catch_warnings():
        # Escapes that are invalid in other people's sources are not our business.
        warnings.simplefilter("ignore")
        return ast.parse(path.read_bytes(), filename=str(path))


def _own_docstring(node) -> Iterator[str]:
    text = ast.get_docstring(node)
    if text:
        yield text


def _nested_docstrings(statements) -> Iterator[str]:
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in statements:
        if isinstance(node, definitions):
            yield from _own_docstring(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield from _added_docstring(node.value)
        for field in ("body", "handlers", "orelse", "finalbody"):
            yield from _nested_docstrings(getattr(node, field, ()))


def _added_docstring(call: ast.Call) -> Iterator[str]:
    name = getattr(call.func, "id", getattr(call.func, "attr", None))
    if name != "add_newdoc" or not call.args:
        return
    text = call.args[-1]
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        yield text.value


def _without_duplicates(raw: Iterable[tuple[str, list[str]]]) -> Iterator[Document]:
    seen: set[str] = set()

    def is_new(text: str) -> bool:
        new = text not in seen
        seen.add(text)
        return new

    for name, texts in raw:
        paragraphs = [
            paragraph
            for text in texts
            if is_new(text)
            for paragraph in clean_paragraphs(text)
            if len(paragraph) < MIN_DUPLICATE_CHARS or is_new(paragraph)
        ]
        if paragraphs:
            yield Document(name, tuple(paragraphs))
