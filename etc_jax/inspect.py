"""Shows what an input looks like to the model: who sees whom, under which label.

    python -m etc_jax.inspect --text="First sentence. Second one." --out=attention.png

Each sentence gets a global token. Prints tokens, sentences and counts of pairs, and
draws the picture if `--out` is given.
"""

import argparse
import dataclasses
import pathlib
import re
import sys
from collections.abc import Callable, Sequence

import jax
import numpy as np

from etc_jax import builders, drawing
from etc_jax.structure import Rules, Structure

Tokenize = Callable[[str], list[str]]
_WORDS = re.compile(r"\w+|[^\w\s]")
_BLANK_LINES = re.compile(r"\n\s*\n")


@dataclasses.dataclass(frozen=True)
class TextInput:
    """A text cut into sentences and tokens, and its structure.

    Attributes:
      sentences: tokens of each sentence.
      structure: one document; sentence i has global token i.
    """

    sentences: tuple[tuple[str, ...], ...]
    structure: Structure

    @property
    def tokens(self) -> list[str]:
        return [token for sentence in self.sentences for token in sentence]

    @property
    def globals(self) -> list[str]:
        return [f"g{i}" for i in range(len(self.sentences))]


def words(text: str) -> list[str]:
    """Words and punctuation marks, one token each."""
    return _WORDS.findall(text)


def load_tokenizer(path: str) -> Tokenize:
    """A function from text to tokens, from a file of the `tokenizers` package.

    Raises:
      ValueError: if there is no such file, or it is not a tokenizer.
    """
    import tokenizers

    if not pathlib.Path(path).is_file():
        raise ValueError(f"no tokenizer file at {path}")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(path)
    except Exception as e:  # the package raises bare Exception for a bad file
        raise ValueError(
            f"{path} is not a tokenizer of the tokenizers package (JSON): {e}"
        ) from e
    return lambda text: tokenizer.encode(text, add_special_tokens=False).tokens


def from_text(text: str, tokenize: Tokenize = words) -> TextInput:
    """Cuts a text into sentences, tokens and a structure.

    Raises:
      ImportError: if nupunkt is not installed.
      ValueError: if the text has no tokens.
    """
    from etc_jax.data.sentences import split_sentences

    cut = [tuple(tokenize(s)) for s in split_sentences(_BLANK_LINES.split(text))]
    sentences = tuple(s for s in cut if s)
    if not sentences:
        raise ValueError(f"the text has no tokens: {text[:40]!r}")
    lengths = [len(s) for s in sentences]
    return TextInput(sentences, builders.plain_text(lengths))


def count_pairs(matrix: np.ndarray, g: int) -> dict[str, tuple[int, int]]:
    """(pairs seen, all pairs) of each piece, of a `drawing.label_matrix`."""
    seen = matrix != drawing.UNSEEN
    pieces = {
        "g2g": seen[:g, :g],
        "g2l": seen[:g, g:],
        "l2g": seen[g:, :g],
        "l2l": seen[g:, g:],
        "all": seen,
    }
    return {name: (int(x.sum()), x.size) for name, x in pieces.items()}


def describe(given: TextInput, matrix: np.ndarray) -> str:
    """Sentences with their global tokens, and how many pairs are seen."""
    lines = [
        f"{len(given.tokens)} long tokens, {len(given.globals)} sentences, each with a "
        "global token",
        "",
        "global   long tokens  sentence",
    ]
    start = 0
    for name, sentence in zip(given.globals, given.sentences, strict=True):
        span = f"{start}-{start + len(sentence) - 1}"
        lines.append(f"{name:8s} {span:12s} {' '.join(sentence)}")
        start += len(sentence)
    lines += ["", "piece      pairs seen       all pairs    share"]
    for piece, (seen, total) in count_pairs(matrix, len(given.globals)).items():
        lines.append(f"{piece:5s} {seen:15,d} {total:15,d} {seen / total:8.1%}")
    return "\n".join(lines)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m etc_jax.inspect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="the text itself")
    source.add_argument("--file", help="a file with the text, UTF-8")
    parser.add_argument("--tokenizer", help="tokenizer JSON; default: words")
    parser.add_argument("--out", help="picture to write, for example attention.png")
    parser.add_argument("--radius", type=int, default=4)
    parser.add_argument("--max_distance", type=int, default=3)
    parser.add_argument("--hard_g2l", action="store_true")
    parser.add_argument("--hard_l2g", action="store_true")
    return parser.parse_args(argv)


def _read(args: argparse.Namespace) -> str:
    if args.file is None:
        return args.text
    try:
        return pathlib.Path(args.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ValueError(f"cannot read the text of {args.file}: {e}") from e


def _show(args: argparse.Namespace) -> None:
    tokenize = words if args.tokenizer is None else load_tokenizer(args.tokenizer)
    given = from_text(_read(args), tokenize)
    rules = Rules(
        radius=args.radius,
        max_distance=args.max_distance,
        hard_g2l=args.hard_g2l,
        hard_l2g=args.hard_l2g,
    )
    named = (given.tokens, given.globals)
    if args.out is None:
        matrix = drawing.label_matrix(given.structure, rules, *map(len, named))
    else:
        matrix = drawing.draw(given.structure, rules, *named, args.out)
    print(describe(given, matrix))
    if args.out is not None:
        print(f"\nwrote {args.out}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code, 2 for bad input."""
    args = _parse(argv)
    # A picture needs no accelerator, and looking must not take one from a running job.
    jax.config.update("jax_platforms", "cpu")
    try:
        _show(args)
    except (ValueError, ImportError, OSError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
